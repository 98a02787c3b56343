"""Find the conversation of a request by its messages, and the part of the request that is new.

A request carries the whole conversation each time. That of this process is known by the calls in it, else by all of its
messages. One that came over the network may be of any of many equal agents, so it is judged by its own calls: it uses
the memory of earlier requests only if it begins with all of these, or answers a call of the last reply. All others are
read from their beginning.

Messages are remembered as hashes, which are of use in this process only. No text is kept, but the calls of a reply
until their results come.
"""

from __future__ import annotations

import itertools
import re
import threading
from array import array
from collections import Counter, OrderedDict
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from otel_loopguard.turns.messages import WrittenResult, mark_of

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence

    from opentelemetry.trace import SpanContext

    from otel_loopguard.errors import ToolLoopError
    from otel_loopguard.guard.turn import Turn
    from otel_loopguard.turns.messages import Message, Reply, WrittenCall

MOST_LISTS: Final = 2_000
"""A list that was dropped is read again from its next request."""
IDLE_SECONDS: Final = 3600.0
_MOST_OPEN: Final = 1_024
_MOST_RESULTS: Final = 4_096
_MOST_NAMES: Final = 64
_MOST_OF_A_NAME: Final = 256

_PART: Final = re.compile(r"[0-9A-Za-z]+")
_DRAWN: Final = 8
"""The letters and digits in a row that a server draws. One that counts ends with a shorter number: ``call_0``."""
_LONGEST_ID: Final = 256

_numbers: Final = itertools.count(1)

latest: ContextVar[MessageList | None] = ContextVar("loopguard_message_list", default=None)
"""The list of the last request of the running code. Of several equal conversations it tells which one goes on."""


def is_drawn(call_id: str | None) -> bool:
    """Return True if the model server has drawn this id, so that no other call has it."""
    parts = _PART.findall(call_id[-_LONGEST_ID:]) if call_id else []
    if not parts or (parts[-1].isdigit() and len(parts[-1]) < _DRAWN):
        return False
    return len(parts[-1]) >= _DRAWN or any(len(one) >= _DRAWN and not one.isalpha() for one in parts)


class Caller(NamedTuple):
    """The sender of a request that came over the network, as a gateway knows it. Its conversations are its own."""

    tenant: Hashable
    """The identity that the gateway has checked."""
    conversation_id: str | None = None
    """The conversation that the request names; the conversations of one tenant are apart, too."""


class Request:
    """The entries of a request. They are read only where that is needed, each once."""

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
        """The declared tools; None if a name cannot be read."""
        self.previous = previous
        """The id of the reply that the request continues, if the provider keeps the entries before."""
        self.caller = caller
        """None for a request of this process."""
        self._read = read
        self._messages: dict[int, Message] = {}
        self._prefixes: list[int] = []

    def message(self, place: int) -> Message:
        """Read the entry at this place."""
        message = self._messages.get(place)
        if message is None:
            message = self._messages[place] = self._read(self.entries[place])
        return message

    def written(self, first: int = 0) -> Iterator[tuple[WrittenCall, ...]]:
        """Yield the calls of each of the model's messages, from the last one back to the entry at this place."""
        for place in range(len(self.entries) - 1, first - 1, -1):
            calls = self.message(place).calls
            if calls:
                yield calls

    def prefix(self, place: int) -> int:
        """Return a hash of all entries up to this one, but for instructions and texts of the model."""
        if not self._prefixes:
            silent = (0 if self._is_silent(each) else mark for each, mark in enumerate(self.marks))
            self._prefixes = list(itertools.accumulate(silent, lambda before, mark: hash((before, mark))))
        return self._prefixes[place]

    def _is_silent(self, place: int) -> bool:
        message = self.message(place)
        return not (message.calls or message.results or message.by_user)

    def first_drawn(self) -> str | None:
        """Return the first id of a call that no other conversation has, unless this one was branched off from it."""
        ids = (call.id for place in range(len(self.entries)) for call in self.message(place).calls)
        return next(filter(is_drawn, ids), None)

    def is_answer(self, place: int) -> bool:
        """Return True if the model has written the entry at this place, and makes no call in it."""
        return self._is_silent(place)

    def ends_with_user(self) -> bool:
        """Return True if a user has written the last entry."""
        return bool(self.entries) and self.message(len(self.entries) - 1).by_user


class UnansweredCall(NamedTuple):
    """A call that the model wrote, without its result yet."""

    call: WrittenCall
    at: float
    """The time at which it was written, by the guard's clock."""
    message: int
    """The number of the model's message with it."""
    name: str
    """Its id, or a name that is unique in the list."""


class NewResult(NamedTuple):
    """A result that was in no earlier request, with its call."""

    number: int
    """Identifies the result in its list."""
    opened: UnansweredCall
    result: WrittenResult


class Delta(NamedTuple):
    """The part of a request that is new."""

    new: list[NewResult]
    lost: list[int]
    """The keys of calls whose results the model can no longer see."""
    begins_turn: bool
    """A user has written, after all calls were answered."""
    written: list[tuple[str, str]]
    """The ids and names of the calls in it."""


_KEPT: Final = -1


class _Visible(NamedTuple):
    """A result that the model can see."""

    place: int
    """The position of its entry in the request; ``_KEPT`` if the provider has it."""
    part: int
    """Its position in that entry."""
    mark: int
    key: int
    """The key of its call in the turn; 0 if it is of another turn, or is lost already."""


class MessageList:
    """One conversation as its model sees it.

    The lock is held while a request is compared with the last one, never while code of the program runs.
    """

    __slots__ = (
        "_last_number", "_message", "_numbers", "_replied", "_visible", "account", "call_ids", "caller", "chain",
        "concluded", "error", "kept_chain", "kept_turn", "lock", "marks", "names", "on_probation", "open_calls",
        "owns_turn", "replies", "root", "sentences", "ticks", "trace", "turn", "used", "verdicts", "was_cut", "whole",
        "withdrawn",
    )  # fmt: skip

    def __init__(self, caller: Caller | None = None) -> None:  # noqa: PLR0915 - what is known about a conversation
        self.caller = caller
        """Only requests of this caller find the list."""
        self.was_cut = False
        """The turn has calls that are not in the last request."""
        self.root: str | None = None
        """The first id of a call in the requests that no other conversation has."""
        self.replies: list[str] = []
        """The ids of the latest replies."""
        self.lock = threading.RLock()
        self.turn: Turn | None = None
        """The turn of the calls that the model writes now."""
        self.owns_turn = False
        """True if the turn ends with this list. A turn of an agent's run ends with the run."""
        self.account = f"list-{next(_numbers)}"
        """The name under which the tokens of replies are kept until their calls are judged; the turn's id in a run."""
        self.used = 0.0
        self.marks = array("q")
        """The entries of the last request, as hashes."""
        self.whole = hash(())
        """All of them in one hash."""
        self.chain = 0
        """Their sum, by which a request that begins with all of them is found."""
        self.names: dict[Hashable, None] = {}
        """The names under which the list is found, the latest last."""
        self.kept_chain: int | None = None
        """The one of them that was its chain."""
        self.open_calls: dict[str, UnansweredCall] = {}
        """By their names."""
        self.sentences: dict[int, str] = {}
        """The sentences that were added to results, by their numbers. They are in each later request, too."""
        self.error: ToolLoopError | None = None
        """The turn was ended with this error."""
        self.concluded = False
        """A request of this turn was sent without tools."""
        self.withdrawn: int | None = None
        """All entries of that request in one hash: it is sent without tools again, if it is sent again."""
        self.on_probation = False
        """The turn before this one was concluded or ended. Programs write the next message themselves."""
        self.trace: SpanContext | None = None
        """The span of the turn's first call."""
        self.ticks: dict[int, int] = {}
        """The turn's tick before the first call of a model's message was counted."""
        self.call_ids: Counter[str | None] = Counter()
        """The ids of the calls of the turn that were given by ``call_id``."""
        self.kept_turn: str | None = None
        """The id of the turn for other replicas of a gateway, where the provider keeps the conversation."""
        self.verdicts: dict[str, bool] = {}
        """Of the latest calls that were judged, by their names: True for a step of a loop."""
        self._visible: dict[int, _Visible] = {}
        """The results of the last request, by their numbers."""
        self._numbers: dict[str, int] = {}
        """The number of the latest result for each call id."""
        self._last_number = 0
        self._message = 0
        self._replied = False
        """``open_calls`` are those of the last reply, and the request that repeats the reply has not come yet."""

    # --- requests ------------------------------------------------------------------------------------------------

    def common(self, marks: list[int]) -> int:
        """Return the number of leading entries that are equal to those of the last request."""
        known = self.marks
        if hash(tuple(marks[: len(known)])) == self.whole:
            return len(known)
        pairs = enumerate(zip(known, marks, strict=False))
        return next((place for place, (one, other) in pairs if one != other), min(len(known), len(marks)))

    def read(self, request: Request, now: float) -> Delta:
        """Take a request in, and return the part of it that is new."""
        is_cold = self.turn is None and not self.marks
        common = 0 if request.previous is not None else self.common(request.marks)
        goes_on = request.previous is not None or common == len(self.marks)
        before = () if goes_on else frozenset(self.marks[common:])
        new: list[NewResult] = []
        texts: list[tuple[int, Any]] = []
        found: dict[int, _Visible] = {}
        begins = passed = continues = False
        written: list[tuple[str, str]] = []
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
                if is_cold or (place > common and request.is_answer(place - 1)):
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
        return Delta(new, lost if request.tools != frozenset() else [], passed or (begins and not new), written)

    def _close_calls(self, *, is_equal: bool) -> None:
        """Forget the calls of the last reply; not if the request was sent again, or is that of an equal agent."""
        if not is_equal:
            self.open_calls.clear()
            self._replied = False

    def follow(self, marks: list[int], common: int = 0) -> None:
        """Take over the marks of a request, whose first ``common`` entries are all that were known before."""
        new, whole = array("q", marks[common:] if common else marks), hash(tuple(marks))
        chain = self.chain + sum(new) if common else sum(new)
        # No function is called between the assignments: a signal handler that raises there would leave them unequal.
        if common:
            self.marks += new
        else:
            self.marks = new
        self.chain, self.whole = chain, whole

    def _write(self, calls: Sequence[WrittenCall], now: float, *, continues: bool = False) -> None:
        """Note the calls of a model's message. Those of the last reply are known.

        ``continues``: they belong to the message of the calls before, as each may be an entry of its own.
        """
        if self._replied and any(call.id is None or self._is_open(call) for call in calls):
            return
        self._message += not continues
        for call in calls:
            if len(self.open_calls) < _MOST_OPEN:
                name = call.id if call.id is not None else f"{id(self)}-{self._message}-{len(self.open_calls)}"
                self.open_calls[name] = UnansweredCall(call, now, self._message, name)

    def _is_open(self, call: WrittenCall) -> bool:
        """Return True if the last reply has this call. In a gateway an equal id may be that of another agent's call."""
        opened = self.open_calls.get(call.id or "")
        return opened is not None and (self.caller is None or opened.call == call)

    def _take(self, result: WrittenResult) -> UnansweredCall | None:
        """Remove and return the call of a result: by its id, else the first of that name."""
        if result.id is not None:
            return self.open_calls.pop(result.id, None)
        for name, opened in self.open_calls.items():
            if opened.call.id is None and result.name in (None, opened.call.name):
                return self.open_calls.pop(name)
        return None

    def _answered_by(self, place: int, text: Any) -> list[NewResult]:
        """Return the open calls with a user's text as their result: some programs write results that way."""
        new = [
            NewResult(self._next_number(None), opened, WrittenResult(opened.call.id, text))
            for opened in self.open_calls.values()
        ]
        self._visible[new[-1].number] = _Visible(place, 0, mark_of(text), 0)
        return new

    def answer_late(self, call: WrittenCall, result: WrittenResult, now: float) -> NewResult | None:
        """Return the result of the last request for a call that was found elsewhere; None if it is not in it."""
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
        """Return an id for the next call of the turn that any other process derives, too. A server may repeat ids."""
        self.call_ids[written.id] += 1
        times = self.call_ids[written.id]
        return f"{written.id or ''}#{times}" if times > 1 or not written.id else written.id

    def _see(self, found: dict[int, _Visible], common: int, *, goes_on: bool, is_kept: bool) -> list[int]:
        """Replace the results that the model can see. Return the keys of the calls whose results it has lost.

        ``is_kept``: the provider has the results of earlier requests, so that they cannot be changed.
        """
        if is_kept:
            self._visible = {number: one._replace(place=_KEPT) for number, one in self._visible.items()}
        if goes_on:
            self._visible |= found
            return []
        self.was_cut, self.root = True, None
        lost = []
        for number, before in list(self._visible.items()):
            if before.place < common:
                continue
            now = found.get(number)
            if now is not None and now.mark == before.mark:
                found[number] = now._replace(key=before.key)
            else:
                lost.append(before.key)
                del self._visible[number]
                self.sentences.pop(number, None)
        self._visible |= found
        return [key for key in lost if key]

    def judged(self, number: int, key: int) -> None:
        """Note the key of the call of a result."""
        visible = self._visible.get(number)
        if visible is not None:
            self._visible[number] = visible._replace(key=key)

    def begin_turn(self) -> None:
        """Forget the evidence of the turn before: its results belong to it."""
        self._visible = {number: one._replace(key=0) for number, one in self._visible.items()}
        self.on_probation = self.concluded or self.error is not None
        self.concluded, self.withdrawn, self.error, self.trace = False, None, None, None
        self.ticks.clear()
        self.call_ids.clear()
        self.kept_turn = None
        self.was_cut = False

    def annotations(self) -> dict[int, dict[int, str]]:
        """Return the sentences by entry, and by the position of the result in the entry."""
        places: dict[int, dict[int, str]] = {}
        for number, sentence in self.sentences.items():
            visible = self._visible.get(number)
            if visible is not None and _KEPT < visible.place < len(self.marks):
                places.setdefault(visible.place, {})[visible.part] = sentence
        return places

    def place_of(self, number: int) -> tuple[int, int] | None:
        """Return the position of a result: of its entry, and in that entry. None if it is not in the request."""
        visible = self._visible.get(number)
        return None if visible is None or visible.place == _KEPT else visible[:2]

    def last_result(self) -> int | None:
        """Return the number of the last result in the request."""
        return max(self._visible, key=lambda number: self._visible[number][:2], default=None)

    # --- replies -------------------------------------------------------------------------------------------------

    def reply(self, reply: Reply, now: float) -> None:
        """Note the calls of a reply."""
        self.open_calls.clear()
        self._replied = False
        if reply.calls:
            self._write(reply.calls, now)
            self._replied = True
        if reply.id is not None:
            self.replies = [*self.replies[-_MOST_NAMES:], reply.id]

    @property
    def waits(self) -> bool:
        """True if no request has answered the calls of the last reply."""
        return self._replied

    def gave(self, request: Request) -> bool:
        """Return True if the request has a call of the last reply, with an id that no other call has."""
        return self._replied and any(
            is_drawn(call.id) and self._is_open(call) for calls in request.written() for call in calls
        )

    def has_read(self, calls: Sequence[WrittenCall]) -> bool:
        """Return True if a request had the result of one of these calls."""
        return any(call.id in self._numbers for call in calls if call.id is not None)

    def is_evidence_in(self, request: Request) -> bool:
        """Return True if the request begins with all that is known here, and may be the next one."""
        if self.was_cut or not self.marks or self.common(request.marks) < len(self.marks):
            return False
        is_equal = len(request.marks) == len(self.marks)
        return is_equal or not (self._replied and any(map(is_drawn, self.open_calls)))

    def was_left(self, request: Request) -> bool:
        """Return True if the request continues an earlier reply than the last one: it is another branch."""
        is_again = self.whole == hash(tuple(request.marks))
        return request.previous in self.replies[:-1] and not is_again

    def is_answered_by(self, request: Request) -> bool:
        """Return True if the request repeats the last one and its reply, and goes on."""
        place = len(self.marks)
        return place < len(request.marks) and self.common(request.marks) == place and self.is_next(request, place)

    def is_next(self, request: Request, place: int = 0) -> bool:
        """Return True if the request has a call of the last reply, at this place or later."""
        if not self._replied:
            return False
        calls = next(request.written(place), ())
        written = [(call, self.open_calls.get(call.id)) for call in calls if call.id is not None]
        return any(opened is not None and opened.call == call for call, opened in written)

    def has_open(self, name: str, call_id: str | None) -> bool:
        """Return True if the model has just written this call."""
        calls = list(self.open_calls.values())
        return any(one.call.name == name and call_id in (None, one.call.id) for one in calls)


_EQUAL: Final = 2
_LONGER: Final = 3


def _telling(request: Request) -> set[int]:
    """Return the marks of a user's messages and of results: those that differ from conversation to conversation."""
    pairs = ((mark, request.message(place)) for place, mark in enumerate(request.marks))
    return {mark for mark, message in pairs if message.by_user or message.results}


class MessageLists:
    """The conversations of this process. The least recently used one is forgotten first."""

    def __init__(self, dropped: Callable[[MessageList], None]) -> None:
        self._dropped = dropped
        self._lock = threading.RLock()
        self._lists: OrderedDict[int, MessageList] = OrderedDict()
        self._of_caller: dict[Caller | None, dict[Hashable, list[MessageList]]] = {}
        """By caller, the lists by their names: no look-up leads to a list of another caller."""

    def __len__(self) -> int:
        return len(self._lists)

    def find(self, request: Request, turn: Turn | None) -> MessageList | None:
        """Return the list that the request continues. ``turn`` is that of the agent's run around it."""
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
            goes_on = 0 if known < len(one.marks) else _LONGER if known < len(request.marks) else _EQUAL
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
        """Return the list whose last reply the request answers, else the longest one that the request begins with."""
        with self._lock:
            candidates = dict.fromkeys(self._candidates(request, None))
        if request.previous is not None:
            return next((one for one in candidates if not one.was_left(request)), None)
        answered = next((one for one in candidates if one.gave(request)), None)
        if answered is not None:
            return answered
        known = [one for one in candidates if one.is_evidence_in(request)]
        return max(known, key=lambda one: len(one.marks), default=None)

    def answered(self, caller: Caller, calls: Sequence[WrittenCall]) -> MessageList | None:
        """Return the list of a request that had the results of these calls already."""
        with self._lock:
            by_name = self._names(caller)
            lists = [one for call in calls for one in by_name.get((call.id, call.name), ())]
        return next((one for one in lists if one.has_read(calls)), None)

    def find_open(self, name: str, call_id: str) -> MessageList | None:
        """Return the list whose model has just written this call, if it is the only one."""
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
        """Return the list that waits for a result of the request: a proxy may rewrite the ids of replies."""
        for place in range(len(request.entries)):
            for result in request.message(place).results:
                found = by_name.get(("call", result.id), [])
                if result.id is not None and len(found) == 1:
                    return found
        return []

    def keep(self, one: MessageList, names: Sequence[tuple[Hashable, ...]], now: float) -> None:
        """Keep a list, to be found by its entries, and under these names, too."""
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
