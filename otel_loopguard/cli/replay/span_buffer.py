"""Hold spans, which arrive late and out of order, until their turn is complete, and judge the turn in order.

The number of spans is bounded, however long the file is: a turn without new spans for a long time is judged, and so is
the older half of a turn that grows without end.
"""

from __future__ import annotations

from collections import OrderedDict
from itertools import repeat, zip_longest
from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple

from otel_loopguard.cli.replay.judge import TripOfRun, reached, trips_of
from otel_loopguard.cli.replay.recorded_turn import Folded, RecordedTurn
from otel_loopguard.cli.replay.spent import requests_of, spent
from otel_loopguard.spans.ancestry import Ancestry, TurnName

if TYPE_CHECKING:
    from collections.abc import Iterator

    from otel_loopguard.cli.replay.judge import PolicyJudge, Reached
    from otel_loopguard.cli.replay.spent import TokensSpent
    from otel_loopguard.spans.otlp import ModelSpan, RecordedCall, ToolSpan

MOST_HELD = 100_000
MOST_OF_A_TURN = 5_000
LONGEST_QUIET = 200_000
"""A turn is complete after this many spans of others. ``Ancestry`` remembers more."""
MOST_REMEMBERED = 100_000
MOST_BYTES = 64 << 20
"""Of the lines that the held spans came from."""


class JudgedTurn(NamedTuple):
    """A turn that was judged, or a part of one."""

    run_id: str
    calls: int
    """0 if spans of the guard, in the same trace, have all of its calls. Then it is no run."""
    trips: tuple[list[TripOfRun], ...]
    """One list for each judge."""
    own: bool
    without_arguments: int
    without_result: int
    first: int
    """The position of its first call in the turn, not 0 if this is a later part."""
    recorded: list[RecordedCall]
    spent: tuple[TokensSpent, ...]
    """The tokens of its model requests, one for each judge."""
    earlier: tuple[Reached, ...] | None
    """The modes and actions that its earlier parts reached, for each judge; None for the first part."""


class _OpenTurn:
    """A turn, as each judge has it."""

    __slots__ = ("calls", "folded", "reached", "turns")

    def __init__(self, judges: list[PolicyJudge]) -> None:
        self.calls = 0
        self.folded: list[list[Folded]] = [[] for _ in judges]
        """The calls of the latest part that are over, for each judge."""
        self.turns = [
            RecordedTurn(judge.state(), of_judge.append) for judge, of_judge in zip(judges, self.folded, strict=True)
        ]
        self.reached: tuple[Reached, ...] | None = None
        """The modes and actions that the judged parts reached, for each judge."""


class _Held:
    """The held spans of a trace, which may be of several turns, or of one conversation or one turn of our own spans."""

    __slots__ = ("requests", "size", "spans", "touched", "turns", "until")

    def __init__(self) -> None:
        self.spans: list[ToolSpan] = []
        self.requests: list[ModelSpan] = []
        """Of a conversation."""
        self.size = 0
        self.touched = 0
        self.until: tuple[int, int] = (-1, -1)
        self.turns: dict[TurnName, _OpenTurn] = {}


class SpanBuffer:
    """Holds the spans of turns until they are complete, as far as can be known, and judges them.

    The spans around a call tell its turn, so calls are held by trace. A conversation may have many traces: its calls
    are held again, until all of it is complete.
    """

    def __init__(self, judges: list[PolicyJudge], *, most_held: int = MOST_HELD, quiet: int = LONGEST_QUIET) -> None:
        self.ancestry = Ancestry(min((judge.turns_by for judge in judges), default="conversation"))
        self._judges = judges
        self._most_held, self._quiet = most_held, quiet
        self._held_by: OrderedDict[TurnName, _Held] = OrderedDict()
        self._held = self._size = 0
        self._over: OrderedDict[TurnName, None] = OrderedDict()
        self._requests: OrderedDict[str, list[ModelSpan]] = OrderedDict()
        """By trace."""
        self._requests_held = 0
        self.late = 0
        """Spans that came after their turn, or their part of it, was judged."""

    def add(self, span: ToolSpan, size: int = 0) -> Iterator[JudgedTurn]:
        """Add a span, which took ``size`` bytes of its line; yield the turns that are complete now."""
        name = TurnName("own" if span.own else "trace", span.turn)
        held = self._hold(name, span, size)
        if held is None:
            return
        if len(held.spans) >= MOST_OF_A_TURN or held.size > MOST_BYTES // 2:
            yield from self._judge(name, held, keep=len(held.spans) // 2)
        while self._held_by:
            oldest, held = next(iter(self._held_by.items()))
            is_full = self._held > self._most_held or self._size > MOST_BYTES
            if not is_full and self.ancestry.seen - held.touched < self._quiet:
                return
            yield from self._close(oldest)

    def _hold(self, name: TurnName, span: ToolSpan, size: int) -> _Held | None:
        """Hold a span; None if it is late."""
        held = self._held_by.get(name)
        if held is None:
            held = self._held_by[name] = _Held()
            self.late += name in self._over
        if span.order < held.until:
            self.late += 1
            return None
        held.spans.append(span)
        held.touched = self.ancestry.seen
        self._held_by.move_to_end(name)
        self._held += 1
        self._size += size
        held.size += size
        return held

    def add_request(self, span: ModelSpan) -> None:
        """Add the span of a model request of another instrumentation."""
        self._requests.setdefault(span.trace, []).append(span)
        self._requests.move_to_end(span.trace)
        self._requests_held += 1
        while self._requests_held > self._most_held:
            _, forgotten = self._requests.popitem(last=False)
            self._requests_held -= len(forgotten)

    def _take_requests(self, trace: str, until: int | None) -> list[ModelSpan]:
        """Take the requests of a trace that ended before a time, or all of them."""
        held = self._requests.pop(trace, [])
        left = [] if until is None else [span for span in held if span.end > until]
        if left:
            self._requests[trace] = left
        self._requests_held -= len(held) - len(left)
        return held if not left else [span for span in held if span.end <= until]  # type: ignore[operator]  # not None, as some are left

    def rest(self) -> Iterator[JudgedTurn]:
        """Yield all turns that are left at the end of the input. Traces first: they may be of a conversation."""
        names = [name for name in self._held_by if name.source != "conversation"]
        if any(judge.compiled.remembers for judge in self._judges):  # a conversation has its turns in order
            names.sort(key=lambda name: min((span.start for span in self._held_by[name].spans), default=0))
        for name in names:
            yield from self._close(name)
        while self._held_by:
            yield from self._close(next(iter(self._held_by)))

    def _close(self, name: TurnName) -> Iterator[JudgedTurn]:
        yield from self._judge(name, self._held_by[name], keep=0)
        del self._held_by[name]
        _remember(self._over, name)

    def _judge(self, name: TurnName, held: _Held, keep: int) -> Iterator[JudgedTurn]:
        """Judge the held spans, all but the last ones to keep. Those of a conversation go there, until it is judged."""
        held.spans.sort(key=_in_order)
        ready = held.spans[: len(held.spans) - keep] if keep else held.spans
        size = held.size * len(ready) // max(len(held.spans), 1)
        held.spans = held.spans[len(ready) :]
        held.size -= size
        self._size -= size
        self._held -= len(ready)
        if ready:
            held.until = ready[-1].order
        if name.source == "conversation":
            requests, held.requests = held.requests, []
            yield self._judge_turn(name, held, ready, requests, is_last=not keep)
            return
        requests = self._take_requests(name.id, ready[-1].start if keep else None)
        if name.source == "own":
            yield self._judge_turn(name, held, ready, requests, is_last=not keep)
            return
        turns: dict[TurnName, tuple[list[ToolSpan], list[ModelSpan]]] = {}
        for span in ready:
            turns.setdefault(self.ancestry.turn_of(span), ([], []))[0].append(span)
        for request in requests:
            turns.setdefault(self.ancestry.turn_of(request), ([], []))[1].append(request)
        for turn, (spans, of_turn) in turns.items():
            if turn.source != "conversation":
                yield self._judge_turn(turn, held, spans, of_turn, is_last=not keep)
                continue
            for span in spans:
                self._hold(turn, span, size // len(ready))
            if turn in self._held_by:
                self._held_by[turn].requests += of_turn

    def _judge_turn(
        self, name: TurnName, held: _Held, ready: list[ToolSpan], requests: list[ModelSpan], *, is_last: bool
    ) -> JudgedTurn:
        own = any(span.own for span in ready)
        calls = [span.read() for span in _once(ready, self.ancestry)]
        turn = held.turns.get(name)
        if turn is None:
            turn = held.turns[name] = _OpenTurn(self._judges)
            for recorded in turn.turns:
                recorded.state.heeds = own  # the refusals were made
        written = requests_of(calls, requests, turn.calls)
        trips: tuple[list[TripOfRun], ...] = ()
        sums: tuple[TokensSpent, ...] = ()
        for judge, recorded, folded in zip(self._judges, turn.turns, turn.folded, strict=True):
            recorded.state.place = judge.place_of(name, ready[0], self.ancestry) if ready else None
            for call in calls:
                recorded.begin(call)
            if is_last:
                recorded.end_until(None)
            found = trips_of(folded)
            in_vain = {one.position for one in folded if one.in_vain}
            trips = (*trips, found)
            sums = (*sums, spent(written, in_vain, found, judge.compiled.prices))
            folded.clear()
        begin, earlier = turn.calls, turn.reached
        turn.calls += len(calls)
        if turn.calls:
            turn.reached = tuple(map(reached, trips, earlier or repeat(frozenset())))
        arguments = sum(not call.has_arguments for call in calls)
        results = sum(call.has_arguments and not call.has_result for call in calls)
        return JudgedTurn(
            name.id, len(calls), tuple(trips), own, arguments, results, begin, calls, tuple(sums), earlier
        )


_in_order = attrgetter("in_order")


def _once(spans: list[ToolSpan], ancestry: Ancestry) -> Iterator[ToolSpan]:
    """Yield one span for each call.

    Left out are those of others if ours are in the trace, those inside a span of their tool, and those of calls that
    were interrupted and then resumed, under the same index.
    """
    for span, following in zip_longest(spans, spans[1:]):
        if span.own:
            resumed = span.was_cancelled and following is not None and following.order[0] == span.order[0]
            if not resumed:
                yield span
        elif not (ancestry.is_guarded(span.trace) or ancestry.is_inner(span, span.tool)):
            yield span


def _remember(names: OrderedDict[TurnName, None], name: TurnName) -> None:
    names[name] = None
    if len(names) > MOST_REMEMBERED:
        names.popitem(last=False)
