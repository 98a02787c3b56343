"""Find the message list that a request to a model continues, and the part of the request that is new.

A program sends the whole message list with each request. A request of this process continues the list that has its
calls, else the list that it begins with. A request over the network may be of any of many equal agents: it continues a
list only if it begins with all known messages of the list, or answers a call of the list's last reply.

Messages are remembered as hashes, which are of use in this process only. The only texts that are kept are the calls of
a reply, until their results come.
"""

from __future__ import annotations

import itertools
import re
import threading
from array import array
from collections import Counter, OrderedDict
from contextlib import nullcontext
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from otel_loopguard.engine.history.conversation_texts import ConversationTexts
from otel_loopguard.engine.ledger import NOTHING_SPENT
from otel_loopguard.guard.ending import CANCELLED
from otel_loopguard.turns.messages import WrittenResult, heard_in, mark_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence

    from opentelemetry.trace import SpanContext

    from otel_loopguard.errors import RunStopped
    from otel_loopguard.guard.ending import End
    from otel_loopguard.guard.turn import Turn
    from otel_loopguard.turns.messages import Message, Reply, WrittenCall
    from otel_loopguard.turns.thinking import Thinking

MOST_LISTS: Final = 2_000
"""Message lists in memory. The next request of one that was dropped is read from its beginning."""
IDLE_SECONDS: Final = 3600.0
_MOST_OPEN: Final = 1_024
_MOST_RESULTS: Final = 4_096
_MOST_NAMES: Final = 64
_MOST_OF_A_NAME: Final = 256

_PART: Final = re.compile(r"[0-9A-Za-z]+")
_DRAWN: Final = 8
"""Letters and digits in a row that make an id a drawn one. A server that counts writes fewer: ``call_0``."""
_LONGEST_ID: Final = 256

_numbers: Final = itertools.count(1)

latest: ContextVar[MessageList | None] = ContextVar("loopguard_message_list", default=None)
"""The message list of the running code's last request. Of several equal lists it tells which one goes on."""


def is_drawn(call_id: str | None) -> bool:
    """Return True if the model server drew this id of a call at random, so that no other call has it."""
    parts = _PART.findall(call_id[-_LONGEST_ID:]) if call_id else []
    if not parts or (parts[-1].isdigit() and len(parts[-1]) < _DRAWN):
        return False
    return len(parts[-1]) >= _DRAWN or any(len(one) >= _DRAWN and not one.isalpha() for one in parts)


class Caller(NamedTuple):
    """The sender of a request to a gateway. Two senders never share a message list."""

    tenant: Hashable
    """The sender's identity, which the gateway has checked."""
    conversation_id: str | None = None
    """The id of the conversation that the request names, or None. Each conversation counts as a sender of its own."""


class Request:
    """The message list of a request. An entry is read when it is needed, and once."""

    __slots__ = ("_messages", "_prefixes", "_read", "caller", "entries", "marks", "previous", "tools")

    def __init__(  # noqa: PLR0917 - the parts of a request
        self,
        entries: Sequence[Any],
        marks: list[int],
        read: Callable[[Any], Message],
        tools: frozenset[str] | None,
        previous: str | None = None,
        caller: Caller | None = None,
    ) -> None:
        self.entries = entries
        self.marks = marks
        self.tools = tools
        """The names of the tools that the request declares; None if one of them cannot be read."""
        self.previous = previous
        """The id of the reply that the request continues, if the provider keeps the earlier entries; else None."""
        self.caller = caller
        """None for a request of this process."""
        self._read = read
        self._messages: dict[int, Message] = {}
        self._prefixes: list[int] = []

    def message(self, place: int) -> Message:
        """Return the entry at this place as a ``Message``."""
        message = self._messages.get(place)
        if message is None:
            message = self._messages[place] = self._read(self.entries[place])
        return message

    def written(self, first: int = 0) -> Iterator[tuple[WrittenCall, ...]]:
        """Yield the calls of each message of the model that has any, the last message first, back to this place."""
        for place in range(len(self.entries) - 1, first - 1, -1):
            calls = self.message(place).calls
            if calls:
                yield calls

    def prefix(self, place: int) -> int:
        """Return a hash of all entries up to this place, without the silent ones."""
        if not self._prefixes:
            silent = (0 if self.is_silent(each) else mark for each, mark in enumerate(self.marks))
            self._prefixes = list(itertools.accumulate(silent, lambda before, mark: hash((before, mark))))
        return self._prefixes[place]

    def is_silent(self, place: int) -> bool:
        """Return True for an instruction, and for a text of the model without a call."""
        message = self.message(place)
        return not (message.calls or message.results or message.by_user)

    def first_drawn(self) -> str | None:
        """Return the first drawn id of a call, which only branches of this list share; None without one."""
        ids = (call.id for place in range(len(self.entries)) for call in self.message(place).calls)
        return next(filter(is_drawn, ids), None)

    def ends_with_user(self) -> bool:
        """Return True if the last entry is in the user's role."""
        return bool(self.entries) and self.message(len(self.entries) - 1).by_user


class UnansweredCall(NamedTuple):
    """A call that the model wrote, and whose result is not known yet."""

    call: WrittenCall
    at: float
    """The time at which it was written, in seconds of the guard's clock."""
    message: int
    """The number of the model's message that has the call."""
    name: str
    """Its id; a name that is unique in the message list if it has none."""


class NewResult(NamedTuple):
    """A result that is in a request for the first time, with its call."""

    number: int
    """Identifies the result in its message list."""
    opened: UnansweredCall
    result: WrittenResult


class Delta(NamedTuple):
    """What a request has that the requests before it did not have."""

    new: list[NewResult]
    lost: dict[int, int]
    """The results that the model no longer sees: the keys of their calls, by the results' numbers."""
    begins_turn: bool
    """True if a user has written after all calls were answered: a turn begins."""
    written: list[tuple[str, str]]
    """The ids and names of the calls that are new."""
    is_compacted: bool = False
    """True if something shorter takes the place of the history's beginning."""


_KEPT: Final = -1


class _Visible(NamedTuple):
    """The place of a result that the model sees in its last request."""

    place: int
    """The index of its entry in the message list; ``_KEPT`` if the provider keeps the entry."""
    part: int
    """Its index among the results of that entry."""
    mark: int
    """The hash of its content."""
    key: int
    """The key of its call in the turn; 0 if the call is of another turn, or its result is lost already."""


class MessageList:
    """A message list as its model sees it: the entries of the last request, the results in them, the open calls.

    The lock is held while a request is compared with the last one, never while code of the program runs.
    """

    __slots__ = (
        "_last_number", "_message", "_numbers", "_ran", "_replied", "_visible", "blocks_are_judged", "call_ids",
        "caller", "chain", "concluded", "error", "has_failed", "has_run", "is_counted", "is_sent", "kept_chain",
        "kept_turn", "left_as", "lock", "marks", "names",
        "on_probation", "open_calls", "opening", "owns_turn", "replies", "root", "sentences", "texts", "thinking",
        "ticks", "trace", "turn", "unpaid", "usage_key", "used", "verdicts", "was_cut", "whole", "withdrawn",
    )  # fmt: skip

    def __init__(self, caller: Caller | None = None) -> None:  # noqa: PLR0915 - what is known about a message list
        self.caller = caller
        """The sender whose requests find this list; None for requests of this process."""
        self.was_cut = False
        """True if the turn has calls that the last request no longer has."""
        self.has_failed = False
        """True if the last request has failed, so that no reply will come. It may be sent again."""
        self.is_sent = False
        """True from a request to its reply, if that is read; after that until the next request it is False."""
        self.has_run = False
        """True if an executor has run a call of it."""
        self.is_counted = False
        """True if it counts in ``UnansweredReplies``."""
        self.root: str | None = None
        """The first drawn id of a call in the requests; None if there is none."""
        self.replies: list[str] = []
        """The ids of the latest replies, the newest last."""
        self.lock = threading.RLock()
        self.turn: Turn | None = None
        """The turn of the calls that the model writes now; None before the first request."""
        self.left_as: End = CANCELLED
        """The end of the turn if no request comes any more."""
        self.owns_turn = False
        """True if the turn ends with this list; False if it ends with an agent's run."""
        self.usage_key = f"list-{next(_numbers)}"
        """The key of the replies' tokens in the ``UsageLedger``. In an agent's run it is the id of the turn."""
        self.used = 0.0
        """The time of the last request, in seconds of the guard's clock."""
        self.marks = array("q")
        """The hashes of the last request's entries."""
        self.whole = hash(())
        """The hash of all of these together."""
        self.chain = 0
        """Their sum. A request that begins with all of them has it as the sum of its first entries."""
        self.names: dict[Hashable, None] = {}
        """The keys under which ``MessageLists`` finds this list, the latest last."""
        self.kept_chain: int | None = None
        """The ``chain`` that is among these keys."""
        self.open_calls: dict[str, UnansweredCall] = {}
        """The calls without a result, by their names."""
        self.sentences: dict[int, str] = {}
        """The sentence that was added to a result, by the result's number. Each later request gets it again."""
        self.blocks_are_judged = False
        """True if the equal blocks at the end of the last answer were judged while it was written."""
        self.error: RunStopped | None = None
        """The error that has ended the turn, or None."""
        self.concluded = False
        """True if a request of this turn was sent without tools."""
        self.withdrawn: int | None = None
        """The hash of all entries of that request: sent again, it is sent without tools again. None without one."""
        self.on_probation = False
        """True if the turn before was concluded or ended: then the program may have begun this one by itself."""
        self.opening = 0
        """The hash of the turn's first request."""
        self.unpaid = NOTHING_SPENT
        """What the requests of the turn have spent that is in no turn's ledger yet."""
        self.texts = ConversationTexts()
        """The texts of all its requests, whichever turn they were in."""
        self.trace: SpanContext | None = None
        """The span of the turn's first call, or None."""
        self.thinking: Thinking | None = None
        """The time of the last request; None if it was in no turn."""
        self.ticks: dict[int, int] = {}
        """The turn's tick before the first call of a message of the model, by the message's number."""
        self.call_ids: Counter[str | None] = Counter()
        """How often ``call_id`` was asked for each id in this turn."""
        self.kept_turn: str | None = None
        """The id by which other replicas of a gateway know the turn; None if no provider keeps the conversation."""
        self.verdicts: dict[str, bool] = {}
        """True for each call that was a step of a loop, by the name of the call. The latest ones only."""
        self._visible: dict[int, _Visible] = {}
        """The results that the model sees, by their numbers."""
        self._numbers: dict[str, int] = {}
        """The number of the latest result for each call id."""
        self._last_number = 0
        self._ran: tuple[str, int] = ("", 0)
        """The turn of the last request, and the calls that had run in it."""
        self._message = 0
        self._replied = False
        """True if ``open_calls`` are the calls of the last reply, which no request has repeated yet."""

    # --- requests ------------------------------------------------------------------------------------------------

    def common(self, marks: list[int]) -> int:
        """Return how many of the first entries are equal to the first ones of the last request."""
        known = self.marks
        if hash(tuple(marks[: len(known)])) == self.whole:
            return len(known)
        pairs = enumerate(zip(known, marks, strict=False))
        return next((place for place, (one, other) in pairs if one != other), min(len(known), len(marks)))

    def read(self, request: Request, now: float, shield: Callable[[str], Any] = nullcontext) -> Delta:
        """Take over a request as the last one, and return what is new in it.

        ``shield("model.texts")`` takes the faults in what is said, after which the calls are read all the same.
        """
        is_cold = self.turn is None and not self.marks
        common = 0 if request.previous is not None else self.common(request.marks)
        goes_on = request.previous is not None or common == len(self.marks)
        before = () if goes_on else frozenset(self.marks[common:])
        new: list[NewResult] = []
        texts: list[tuple[int, Any]] = []
        found: dict[int, _Visible] = {}
        begins = passed = continues = False
        written: list[tuple[str, str]] = []
        is_compacted = False
        with shield("model.texts"):
            is_compacted = self._hear(request, common, before, goes_on=goes_on)
        self.is_sent, self.has_failed = True, False
        for place in range(common, len(request.marks)):
            message = request.message(place)
            if message.calls:
                self._write(message.calls, now, continues=continues)
                continues = True
                written += [(call.id, call.name) for call in message.calls if call.id is not None]
            for part, result in enumerate(message.results):
                # In a request that only goes on, an id that comes again is the id of another call.
                number = None if goes_on or result.id is None else self._numbers.get(result.id)
                if number is None:
                    number = self._next_number(result.id)
                    opened = self._take(result)
                    if opened is not None:
                        new.append(NewResult(number, opened, result))
                found[number] = _Visible(place, part, mark_of(result.content), 0)
                begins = False
            if message.results or message.by_user:
                continues = self._replied = False
            if message.by_user and request.marks[place] not in before:
                begins = True
                texts.append((place, message.text))
                # An answer in the new part ended a turn whose last requests went to another replica of a gateway.
                if is_cold or (place > common and request.is_silent(place - 1)):
                    passed = passed or bool(new and not is_cold)
                    new.clear()  # the results before are of an earlier turn
        if not goes_on and 0 < common == len(request.marks):  # the list was cut: a question may be asked again
            begins = request.ends_with_user()
        lost = self._see(found, common, goes_on=goes_on, is_kept=request.previous is not None)
        self.follow(request.marks, common if goes_on and request.previous is None else 0)
        if begins and not new and self.open_calls and not is_cold:
            if goes_on:
                new = self._answered_by(*texts[-1])
            begins = False  # else the history was replaced by a summary of it
        self._close_calls(is_equal=goes_on and common == len(request.marks))
        seen_lost = lost if request.tools != frozenset() else {}
        return Delta(new, seen_lost, passed or (begins and not new), written, is_compacted)

    def _hear(self, request: Request, common: int, before: Collection[int], *, goes_on: bool) -> bool:
        """Tell the conversation's texts of the messages that are new in a request. Return ``Delta.is_compacted``."""
        is_other = not goes_on and self._is_left_for(request)
        if is_other and self.is_sent:
            return False  # what is said to an agent beside this one is no answer to it
        is_compacted = not (goes_on or is_other) and self._is_compacted_by(request, common)
        places, marks = range(common, len(request.marks)), request.marks
        heard = (heard_in(request.message(place)) for place in places if marks[place] not in before)
        turn, (before_id, before_calls) = self.turn, self._ran
        replaced = (None, 0) if turn is None else (turn.id, turn.changes)
        self._ran = turn_id, calls = ("", 0) if turn is None else (turn.id, turn.calls)
        has_run = calls > (before_calls if turn_id == before_id else 0)
        self.texts.hear(heard, replaced if is_compacted else None, has_run=has_run)
        if self.blocks_are_judged:
            self.blocks_are_judged, self.texts.blocks = False, self.texts.blocks._replace(is_judged=True)
        return is_compacted

    def _is_left_for(self, request: Request) -> bool:
        """Return True if a request has nothing of the last one, which has no calls to go on from.

        It is one of another agent of the turn, which begins beside this one or after its answer.
        """
        return not (self._replied or self.has_failed) and _telling(request).isdisjoint(self.marks)

    def _is_compacted_by(self, request: Request, common: int) -> bool:
        """Return True if a shorter request begins with other messages than the last one did, after the question."""
        if not common < len(request.marks) < len(self.marks):
            return False
        return sum(not request.is_silent(place) for place in range(common)) <= 1

    def of_user(self, place: int) -> int:
        """Return a number for the user's message at this place, as results have one: it may get a sentence."""
        number = self._next_number(None)
        self._visible[number] = _Visible(place, 0, self.marks[place], 0)
        return number

    def _close_calls(self, *, is_equal: bool) -> None:
        """Forget the open calls, unless the request equals the last one: it was sent again, or by an equal agent."""
        if not is_equal:
            self.open_calls.clear()
            self._replied = False

    def follow(self, marks: list[int], common: int = 0) -> None:
        """Take over the hashes of a request that has all ``common`` entries of the last one; 0: it replaces them."""
        new, whole = array("q", marks[common:] if common else marks), hash(tuple(marks))
        chain = self.chain + sum(new) if common else sum(new)
        # No function is called between the assignments: a signal handler that raises there would leave them unequal.
        if common:
            self.marks += new
        else:
            self.marks = new
        self.chain, self.whole = chain, whole

    def _write(self, calls: Sequence[WrittenCall], now: float, *, continues: bool = False) -> None:
        """Note the calls of a message of the model, unless its reply was noted.

        ``continues``: they belong to the message of the calls before. Some APIs make each call an entry of its own.
        """
        if self._replied and any(call.id is None or self._is_open(call) for call in calls):
            return
        self._message += not continues
        for call in calls:
            opened = self.open_calls.get(call.id or "")
            # A program may write each call of the reply with its result after it: they are of one message all the same.
            if len(self.open_calls) < _MOST_OPEN and (opened is None or opened.call != call):
                name = call.id if call.id is not None else f"{id(self)}-{self._message}-{len(self.open_calls)}"
                self.open_calls[name] = UnansweredCall(call, now, self._message, name)

    def _is_open(self, call: WrittenCall) -> bool:
        """Return True if this call is open. In a gateway an equal id may be that of another agent's call."""
        opened = self.open_calls.get(call.id or "")
        return opened is not None and (self.caller is None or opened.call == call)

    def _take(self, result: WrittenResult) -> UnansweredCall | None:
        """Remove and return the open call of a result: by its id, else the first one of its tool. None: it has none."""
        if result.id is not None:
            return self.open_calls.pop(result.id, None)
        for name, opened in self.open_calls.items():
            if opened.call.id is None and result.name in (None, opened.call.name):
                return self.open_calls.pop(name)
        return None

    def _answered_by(self, place: int, text: Any) -> list[NewResult]:
        """Return all open calls, each with this user's text as its result: some programs write results that way."""
        new = [
            NewResult(self._next_number(None), opened, WrittenResult(opened.call.id, text))
            for opened in self.open_calls.values()
        ]
        self._visible[new[-1].number] = _Visible(place, 0, mark_of(text), 0)
        return new

    def answer_late(self, call: WrittenCall, result: WrittenResult, now: float) -> NewResult | None:
        """Return a call that was found elsewhere with its result; None if the last request does not have the result."""
        number = self._numbers.get(result.id) if result.id is not None else None
        if number is None or call.id is None:
            return None
        return NewResult(number, UnansweredCall(call, now, self._message, call.id), result)

    def _next_number(self, call_id: str | None) -> int:
        self._last_number += 1
        if call_id is not None:
            self._numbers[call_id] = self._last_number
            if len(self._numbers) > _MOST_RESULTS:
                self._numbers.pop(next(iter(self._numbers)))
        return self._last_number

    def call_id(self, written: WrittenCall) -> str:
        """Return an id of the turn's next call, equal in all processes: ``x``, or ``x#2`` if a server repeats ``x``."""
        self.call_ids[written.id] += 1
        times = self.call_ids[written.id]
        return f"{written.id or ''}#{times}" if times > 1 or not written.id else written.id

    def _see(self, found: dict[int, _Visible], common: int, *, goes_on: bool, is_kept: bool) -> dict[int, int]:
        """Take over the results that the model sees now. Return those that it no longer sees, as ``Delta.lost``.

        ``is_kept``: the provider keeps the results of earlier requests, so none of them can be changed.
        """
        if is_kept:
            self._visible = {number: one._replace(place=_KEPT) for number, one in self._visible.items()}
        if goes_on:
            self._visible |= found
            return {}
        self.was_cut, self.root = True, None
        lost: dict[int, int] = {}
        for number, before in list(self._visible.items()):
            if before.place < common:
                continue
            now = found.get(number)
            if now is not None and now.mark == before.mark:
                found[number] = now._replace(key=before.key)
            else:
                if before.key:
                    lost[number] = before.key
                del self._visible[number]
                self.sentences.pop(number, None)
        self._visible |= found
        return lost

    def without_result(self, lost: Mapping[int, int]) -> list[int]:
        """Return the keys of the calls of these results, without a call that has a later result in the request.

        Ask when the new calls of the request are judged: their results are in it, too.
        """
        seen: dict[int, int] = {}
        for number, visible in self._visible.items():
            seen[visible.key] = max(number, seen.get(visible.key, 0))
        return [key for number, key in lost.items() if number > seen.get(key, 0)]

    def judged(self, number: int, key: int) -> None:
        """Note the key of the call whose result has this number."""
        visible = self._visible.get(number)
        if visible is not None:
            self._visible[number] = visible._replace(key=key)

    def begin_turn(self) -> None:
        """Begin a turn: the results and sentences so far are of the turn before, and are no evidence."""
        self._visible = {number: one._replace(key=0) for number, one in self._visible.items()}
        self.on_probation = self.concluded or self.error is not None
        self.concluded, self.withdrawn, self.error, self.trace = False, None, None, None
        self.unpaid = NOTHING_SPENT
        self.left_as = CANCELLED
        self.ticks.clear()
        self.call_ids.clear()
        self.kept_turn = None
        self.was_cut = False

    def annotations(self) -> dict[int, dict[int, str]]:
        """Return the sentences, by the index of the entry and the index of the result in it."""
        places: dict[int, dict[int, str]] = {}
        for number, sentence in self.sentences.items():
            visible = self._visible.get(number)
            if visible is not None and _KEPT < visible.place < len(self.marks):
                places.setdefault(visible.place, {})[visible.part] = sentence
        return places

    def place_of(self, number: int) -> tuple[int, int] | None:
        """Return the index of a result's entry, and its index in the entry; None if the last request has it not."""
        visible = self._visible.get(number)
        return None if visible is None or visible.place == _KEPT else visible[:2]

    def last_result(self) -> int | None:
        """Return the number of the last result in the last request; None if it has none."""
        return max(self._visible, key=lambda number: self._visible[number][:2], default=None)

    # --- replies -------------------------------------------------------------------------------------------------

    def reply(self, reply: Reply, now: float) -> None:
        """Note a reply of the model, with its calls."""
        self.open_calls.clear()
        self._replied = self.is_sent = False
        if reply.calls:
            self._write(reply.calls, now)
            self._replied = True
        if reply.id is not None:
            self.replies = [*self.replies[-_MOST_NAMES:], reply.id]

    @property
    def waits(self) -> bool:
        """True if the last reply has calls, and no request has repeated them yet."""
        return self._replied

    @property
    def is_unanswered(self) -> bool:
        """True if the last reply has calls, and no call of this list has had a result, or was run by an executor."""
        return self._replied and not self._last_number and not self.has_run

    def repeats_reply(self, request: Request) -> bool:
        """Return True if the request repeats a call of the last reply that has a drawn id."""
        return self._replied and any(
            is_drawn(call.id) and self._is_open(call) for calls in request.written() for call in calls
        )

    def has_read(self, calls: Sequence[WrittenCall]) -> bool:
        """Return True if a request has had the result of one of these calls."""
        return any(call.id in self._numbers for call in calls if call.id is not None)

    def may_precede(self, request: Request) -> bool:
        """Return True if the request begins with all entries of the last one, and may be the next one."""
        place = len(self.marks)
        if self.was_cut or not place or self.common(request.marks) < place:
            return False
        if not self._replied or place == len(request.marks):
            return True
        return not any(map(is_drawn, self.open_calls)) and self._may_repeat_reply(request, place)

    def _may_repeat_reply(self, request: Request, place: int) -> bool:
        """Return False if the first message with calls, from this entry on, has none of the last reply's calls.

        Ids may differ, because some clients give calls ids of their own.
        """
        written = (request.message(each).calls for each in range(place, len(request.entries)))
        first = next(filter(None, written), ())
        known = [opened.call._replace(id=None) for opened in self.open_calls.values()]
        return not first or any(call._replace(id=None) in known for call in first)

    def was_left(self, request: Request) -> bool:
        """Return True if the request continues an earlier reply than the last one, as another branch does."""
        is_again = self.whole == hash(tuple(request.marks))
        return request.previous in self.replies[:-1] and not is_again

    def is_answered_by(self, request: Request) -> bool:
        """Return True if the request has all entries of the last one, then its reply."""
        place = len(self.marks)
        return place < len(request.marks) and self.common(request.marks) == place and self.is_next(request, place)

    def is_next(self, request: Request, place: int = 0) -> bool:
        """Return True if the last message with calls, at this place or later, has a call of the last reply."""
        if not self._replied:
            return False
        calls = next(request.written(place), ())
        written = [(call, self.open_calls.get(call.id)) for call in calls if call.id is not None]
        return any(opened is not None and opened.call == call for call, opened in written)

    def has_open(self, name: str, call_id: str | None) -> bool:
        """Return True if a call of this tool is open; with ``call_id``, if this call is."""
        calls = list(self.open_calls.values())
        return any(one.call.name == name and call_id in (None, one.call.id) for one in calls)


_EQUAL: Final = 2
_LONGER: Final = 3
_AGAIN: Final = 4
"""The last request of the list has failed, and this is the same one."""
_ANSWERED: Final = 5


def _how(one: MessageList, *, is_longer: bool, is_next: bool) -> int:
    """Return how a request goes on that begins with all entries of the last one. The best proof is the largest."""
    if is_longer:
        return _ANSWERED if is_next else _LONGER
    return _AGAIN if one.has_failed else _EQUAL


def _telling(request: Request) -> set[int]:
    """Return the hashes of the user's messages and of results, which differ from conversation to conversation."""
    pairs = ((mark, request.message(place)) for place, mark in enumerate(request.marks))
    return {mark for mark, message in pairs if message.by_user or message.results}


class MessageLists:
    """The message lists that this process knows. The least recently used one is forgotten first."""

    def __init__(self, dropped: Callable[[MessageList], None]) -> None:
        self._dropped = dropped
        self._lock = threading.RLock()
        self._lists: OrderedDict[int, MessageList] = OrderedDict()
        self._of_caller: dict[Caller | None, dict[Hashable, list[MessageList]]] = {}
        """The lists by their names, for each caller: no look-up finds a list of another caller."""

    def __len__(self) -> int:
        return len(self._lists)

    def __iter__(self) -> Iterator[MessageList]:
        return iter(list(self._lists.values()))

    def find(self, request: Request, turn: Turn | None) -> MessageList | None:
        """Return the list that the request continues; None for a new one. ``turn``: of the agent's run around it."""
        if request.caller is not None:
            return self._find_of_caller(request)
        recent = latest.get()
        if recent is not None and recent.caller is not None:
            recent = None
        if recent is not None and (turn is None or recent.turn is turn) and recent.is_answered_by(request):
            return recent
        with self._lock:
            candidates = dict.fromkeys(self._candidates(request, turn))
        best: MessageList | None = None
        best_rank = (False, 0, 0, False, False)
        telling: set[int] | None = None
        for one in candidates:
            of_turn, known = turn is not None and one.turn is turn, one.common(request.marks)
            is_next = one.is_next(request)
            goes_on = 0 if known < len(one.marks) else _how(one, is_longer=known < len(request.marks), is_next=is_next)
            if not goes_on:
                # Equal instructions and equal call ids are no proof: servers may number the calls of each conversation.
                telling = _telling(request) if telling is None else telling
                known = len(telling.intersection(one.marks))
            rank = (of_turn, goes_on, known, is_next, one is recent)
            proved = of_turn or known or is_next or request.previous is not None
            if proved and (best is None or rank > best_rank):
                best, best_rank = one, rank
        if best is not None and best_rank[1] == _EQUAL and request.ends_with_user():
            return None  # the same question again, in another conversation
        return best

    def _find_of_caller(self, request: Request) -> MessageList | None:
        """Return the list whose last reply the request answers, else the longest list that it begins with, or None."""
        with self._lock:
            candidates = dict.fromkeys(self._candidates(request, None))
        if request.previous is not None:
            return next((one for one in candidates if not one.was_left(request)), None)
        answered = next((one for one in candidates if one.repeats_reply(request)), None)
        if answered is not None:
            return answered
        known = [one for one in candidates if one.may_precede(request)]
        return max(known, key=lambda one: len(one.marks), default=None)

    def answered(self, caller: Caller, calls: Sequence[WrittenCall]) -> MessageList | None:
        """Return the caller's list that has had the result of one of these calls, or None."""
        with self._lock:
            by_name = self._names(caller)
            lists = [one for call in calls for one in by_name.get((call.id, call.name), ())]
        return next((one for one in lists if one.has_read(calls)), None)

    def find_open(self, name: str, call_id: str) -> MessageList | None:
        """Return the list in which this call is open; None if there is none, or more than one."""
        with self._lock:
            found = [one for one in self._names(None).get((call_id, name), ()) if one.has_open(name, call_id)]
        return found[0] if len(found) == 1 else None

    def _names(self, caller: Caller | None) -> dict[Hashable, list[MessageList]]:
        return self._of_caller.get(caller, {})

    def _candidates(self, request: Request, turn: Turn | None) -> list[MessageList]:
        by_name = self._names(request.caller)
        if request.previous is not None:
            return by_name.get(("reply", request.previous)) or self._with_calls_of(request, by_name)
        found: list[MessageList] = []
        for calls in request.written():
            for call in calls:
                if call.id is not None:
                    found += by_name.get((call.id, call.name), ())
            if found:
                break
        # In C for each entry. Entries in another order have the same sum, so the lists are compared.
        for chain in filter(by_name.__contains__, itertools.accumulate(request.marks)):
            found += [one for one in by_name[chain] if one.common(request.marks) == len(one.marks)]
        if turn is not None:
            found += by_name.get(("turn", turn.id, request.tools), ())
        return found

    @staticmethod
    def _with_calls_of(request: Request, by_name: Mapping[Hashable, list[MessageList]]) -> list[MessageList]:
        """Return the lists that wait for a result of the request: a proxy may rewrite the ids of replies."""
        for place in range(len(request.entries)):
            for result in request.message(place).results:
                found = by_name.get(("call", result.id), [])
                if result.id is not None and len(found) == 1:
                    return found
        return []

    def keep(self, one: MessageList, names: Sequence[tuple[Hashable, ...]], now: float) -> None:
        """Keep a list, to be found by its entries and under these names."""
        gone = []
        with self._lock:
            if one.chain != one.kept_chain:
                self._unname(one, one.kept_chain)
                one.kept_chain = one.chain
            by_name = self._of_caller.setdefault(one.caller, {})
            for name in (*names, one.chain):
                known = by_name.setdefault(name, [])
                if one not in known:
                    known.append(one)
                    one.names[name] = None
                    if len(known) > _MOST_OF_A_NAME:
                        self._unname(known[0], name)
            while len(one.names) > _MOST_NAMES:
                self._unname(one, next(iter(one.names)))
            one.used = now
            self._lists[id(one)] = one
            self._lists.move_to_end(id(one))
            for oldest in list(itertools.islice(self._lists.values(), 2)):  # two, so that no request waits long
                if len(self._lists) > MOST_LISTS or now - oldest.used > IDLE_SECONDS:
                    self._drop(oldest)
                    gone.append(oldest)
        for dropped in gone:
            self._dropped(dropped)

    def _unname(self, one: MessageList, name: Hashable) -> None:
        one.names.pop(name, None)
        by_name = self._names(one.caller)
        known = by_name.get(name, [])
        if one in known:
            known.remove(one)
        if not known:
            by_name.pop(name, None)

    def _drop(self, one: MessageList) -> None:
        for name in list(one.names):
            self._unname(one, name)
        if not self._names(one.caller):
            self._of_caller.pop(one.caller, None)
        self._lists.pop(id(one), None)

    def clear(self) -> None:
        """Forget all, with a new lock: after a fork the thread that held the old one is gone."""
        self._lock = threading.RLock()
        self._lists.clear()
        self._of_caller.clear()
