"""Judge the texts of recorded model requests, as the guard judges those that it reads: by the same checks.

A request continues the message list that it begins with, else the last one of its turn that has its first message.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Final, NamedTuple

from otel_loopguard.engine.events import Asking
from otel_loopguard.engine.fold import fold
from otel_loopguard.engine.history.conversation_texts import ConversationTexts
from otel_loopguard.engine.vocabulary import Action

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Iterator, Sequence

    from otel_loopguard.engine.compiled import CompiledPolicy
    from otel_loopguard.engine.state import State
    from otel_loopguard.engine.vocabulary import Trip
    from otel_loopguard.spans.ancestry import TurnName
    from otel_loopguard.spans.otlp import ModelSpan
    from otel_loopguard.spans.request_messages import RecordedMessage

_MOST_LISTS: Final = 2_000
_MOST_CALLS: Final = 10_000


class AskedTrip(NamedTuple):
    """A trip at a model request."""

    number: int
    """The number of the request in the turn, from 1."""
    request: ModelSpan
    trip: Trip


class _List:
    """The message list of the last request of an agent."""

    def __init__(self) -> None:
        self.marks: list[int] = []
        self.texts = ConversationTexts()
        self.names: tuple[Hashable, Hashable] = (None, None)
        """The keys under which it is found."""
        self._calls: set[Hashable] = set()

    def read(self, messages: Sequence[RecordedMessage]) -> None:
        """Take over the messages of a request, and note the texts that are new in it."""
        marks, known = [one.mark for one in messages], self.marks
        pairs = enumerate(zip(known, marks, strict=False))
        common = next((place for place, (one, other) in pairs if one != other), min(len(known), len(marks)))
        before = frozenset(known[common:])
        is_compacted = (
            common < len(marks) < len(known)
            and sum(not one.is_silent for one in messages[:common]) <= 1
            and bool(before)
        )
        new = [one.heard for one in messages[common:] if one.mark not in before]
        if len(self._calls) < _MOST_CALLS:
            self._calls.update(call for one in new for call in one.calls)
        # No span tells which call has an effect: each one that was not made before is taken to have one.
        self.texts.hear(new, (None, len(self._calls)) if is_compacted else None)
        self.marks = marks


class RecordedTexts:
    """The message lists of recorded requests, judged by one policy."""

    def __init__(self, compiled: CompiledPolicy) -> None:
        self._compiled = compiled
        self._lists: OrderedDict[Hashable, _List] = OrderedDict()
        """By the turn and the first message; also by the service and all messages."""

    def asked(self, turn: TurnName, requests: Iterable[ModelSpan], state: State, first: int) -> Iterator[AskedTrip]:
        """Judge requests of a turn, in order, and yield their trips. ``first``: the number of the first one."""
        for number, request in enumerate(requests, first):
            texts = self._texts(turn, request)
            found = self._compiled.trip_of_texts(texts)
            if found is not None:
                trip = fold(state, Asking(number, None, found), request.start / 1e9).trip
                texts.judged()
                if trip is not None and trip.action >= Action.NUDGE:
                    yield AskedTrip(number, request, trip)

    def _texts(self, turn: TurnName, request: ModelSpan) -> ConversationTexts:
        """Return the texts of the list that a request continues, with its own."""
        chain, chains = 0, []
        for message in request.messages:
            chain = hash((chain, message.mark))
            chains.append((request.service, chain))
        by_turn = turn, request.messages[0].mark
        one = next((self._lists[name] for name in reversed(chains) if name in self._lists), None)
        one = one or self._lists.get(by_turn) or _List()
        one.read(request.messages)
        for name in one.names:
            self._lists.pop(name, None)
        one.names = by_turn, chains[-1]
        for name in one.names:
            self._lists[name] = one
        while len(self._lists) > 2 * _MOST_LISTS:
            self._lists.popitem(last=False)
        return one.texts


def text_rows(asked: Sequence[AskedTrip], requests: int) -> Iterator[str]:
    """Yield a row for each mode of these trips. ``requests``: the number of them in the turn."""
    for mode in dict.fromkeys(str(one.trip.mode) for one in asked):
        parts = []
        for action, words in _WORDS:
            of_mode = (one.number for one in asked if str(one.trip.mode) == mode and one.trip.action is action)
            parts += [f"{words} at request {number:,}" for number in of_mode][:1]
        yield f"{mode}: {', '.join(parts)} of {requests:,}"


_WORDS: Final = ((Action.NUDGE, "told"), (Action.CONCLUDE, "tools withdrawn"), (Action.ABORT, "run ended"))
