"""Hold spans, which arrive late and out of order, until their turn is complete, and judge the turn in order.

The number of spans is bounded, however long the file is: a turn without new spans for a long time is judged, and so is
the older half of a turn that grows without end.
"""

from __future__ import annotations

from collections import OrderedDict
from itertools import repeat, zip_longest
from typing import TYPE_CHECKING, NamedTuple

from otel_loopguard.cli.replay.judge import TripOfRun, reached, result_was_new, shown_tool
from otel_loopguard.cli.replay.spent import requests_of, spent
from otel_loopguard.cli.replay.timeline import Timeline
from otel_loopguard.core.model import Action, Sameness
from otel_loopguard.spans.dialects import same_tool

if TYPE_CHECKING:
    from collections.abc import Iterator

    from otel_loopguard.cli.replay.judge import PolicyJudge, Reached
    from otel_loopguard.cli.replay.spent import Spent
    from otel_loopguard.cli.replay.timeline import Running
    from otel_loopguard.core.model import Record, Trip
    from otel_loopguard.core.turn.judge import TurnJudge
    from otel_loopguard.spans.otlp import ModelSpan, RecordedCall, ToolSpan

MOST_HELD = 100_000
MOST_OF_A_TURN = 5_000
LONGEST_QUIET = 50_000
"""A turn is complete after this many spans of other turns."""
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
    spent: tuple[Spent, ...]
    """The tokens of its model requests, one for each judge."""
    earlier: tuple[Reached, ...] | None
    """The modes and actions that its earlier parts reached, for each judge; None for the first part."""


class _OpenTurn:
    """The held spans of one turn, and the state of its judges."""

    __slots__ = ("calls", "judges", "reached", "size", "spans", "timelines", "touched", "until")

    def __init__(self) -> None:
        self.spans: list[ToolSpan] = []
        self.size = 0
        self.touched = 0
        self.judges: list[TurnJudge] | None = None
        self.calls = 0
        self.until: tuple[int, int] = (-1, -1)
        self.timelines: list[Timeline] = []
        self.reached: tuple[Reached, ...] | None = None
        """The modes and actions that the judged parts reached, for each judge."""


class SpanBuffer:
    """Holds the spans of turns until they are complete, as far as can be known, and judges them."""

    def __init__(self, judges: list[PolicyJudge], *, most_held: int = MOST_HELD, quiet: int = LONGEST_QUIET) -> None:
        self._judges = judges
        self._most_held, self._quiet = most_held, quiet
        self._turns: OrderedDict[str, _OpenTurn] = OrderedDict()
        self._held = self._seen = self._size = 0
        self._guarded: OrderedDict[str, None] = OrderedDict()
        self._over: OrderedDict[str, None] = OrderedDict()
        self._requests: OrderedDict[str, list[ModelSpan]] = OrderedDict()
        """By trace."""
        self._requests_held = 0
        self.late = 0
        """Spans that came after their turn, or their part of it, was judged."""

    def add(self, span: ToolSpan, size: int = 0) -> Iterator[JudgedTurn]:
        """Add a span, which took ``size`` bytes of its line; yield the turns that are complete now."""
        self._seen += 1
        held = self._turns.get(span.turn)
        if held is None:
            held = self._turns[span.turn] = _OpenTurn()
            self.late += span.turn in self._over
        if span.own:
            _remember(self._guarded, span.trace)
        if span.order < held.until:
            self.late += 1
            return
        held.spans.append(span)
        held.touched = self._seen
        self._turns.move_to_end(span.turn)
        self._held += 1
        self._size += size
        held.size += size
        if len(held.spans) >= MOST_OF_A_TURN or held.size > MOST_BYTES // 2:
            yield self._judge(span.turn, held, keep=len(held.spans) // 2)
        while self._turns:
            name, oldest = next(iter(self._turns.items()))
            is_full = self._held > self._most_held or self._size > MOST_BYTES
            if not is_full and self._seen - oldest.touched < self._quiet:
                return
            yield self._close(name)

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
        """Yield all turns that are left at the end of the input."""
        while self._turns:
            yield self._close(next(iter(self._turns)))

    def _close(self, name: str) -> JudgedTurn:
        judged = self._judge(name, self._turns[name], keep=0)
        del self._turns[name]
        _remember(self._over, name)
        return judged

    def _judge(self, name: str, held: _OpenTurn, keep: int) -> JudgedTurn:
        held.spans.sort(key=_order)
        ready = held.spans[: len(held.spans) - keep] if keep else held.spans
        size = held.size * len(ready) // max(len(held.spans), 1)
        held.spans = held.spans[len(ready) :]
        held.size -= size
        self._size -= size
        self._held -= len(ready)
        if ready:
            held.until = ready[-1].order
        own = any(span.own for span in ready)
        guarded = not own and any(span.trace in self._guarded for span in ready)
        calls = [span.read() for span in _once(ready, guarded=guarded)]
        if held.judges is None:
            held.judges = [judge.turn() for judge in self._judges]
            for turn in held.judges:
                turn.heeds = own  # the refusals were made
            held.timelines = [Timeline(turn.history) for turn in held.judges]
        replays = [
            _TurnReplay(judge, turn, timeline, held.calls)
            for judge, turn, timeline in zip(self._judges, held.judges, held.timelines, strict=True)
        ]
        trips = tuple(replay.run(calls, last=not keep) for replay in replays)
        requests = requests_of(calls, self._take_requests(name, ready[-1].start if keep else None), held.calls)
        sums = tuple(
            spent(requests, replay.in_vain, found, judge.compiled.prices)
            for replay, found, judge in zip(replays, trips, self._judges, strict=True)
        )
        begin, earlier = held.calls, held.reached
        held.calls += len(calls)
        if held.calls:
            held.reached = tuple(map(reached, trips, earlier or repeat(frozenset())))
        arguments = sum(not call.has_arguments for call in calls)
        results = sum(call.has_arguments and not call.has_result for call in calls)
        return JudgedTurn(name, len(calls), trips, own, arguments, results, begin, calls, sums, earlier)


class _TurnReplay:
    """The replay of the calls of a turn under one policy, each begun and ended at its time."""

    def __init__(self, judge: PolicyJudge, turn: TurnJudge, timeline: Timeline, calls: int) -> None:
        self._compiled = judge.compiled
        self._turn = turn
        self._asks = turn.asks
        self._timeline = timeline
        self._calls = calls
        self._trips: list[TripOfRun] = []
        self.in_vain: set[int] = set()
        """The calls that were refused, or would have been, or were repeats without news."""

    def run(self, calls: list[RecordedCall], *, last: bool) -> list[TripOfRun]:
        timeline = self._timeline
        for position, call in enumerate(calls, self._calls):
            for one in timeline.begin(call.at, call.step):
                self._end(one)
            record = self._begin(call)
            if call.refused:
                if not call.stopped_by_user:
                    self.in_vain.add(position)
                if record.trip is not None:
                    self._add(position, record.trip, record)
            else:
                timeline.add(position, call, record, call.ended)
                if call.has_run:  # a request has its result: the next result is read after it
                    for one in timeline.rest():
                        self._end(one)
        if last:
            for one in timeline.rest():
                self._end(one)
        return sorted(self._trips, key=lambda trip: trip.call)

    def _begin(self, call: RecordedCall) -> Record:
        resolved, arguments = call.resolve(self._compiled)
        # A call without arguments is part of the history, because it may have changed something.
        self._turn.asks = self._asks and call.has_arguments
        time = self._timeline
        record = self._turn.begin(
            resolved,
            arguments,
            registered=call.registered,
            now=time.now,
            written=time.written,
            refused=call.refused,
            has_run=call.has_run,
        )
        self._turn.asks = self._asks
        return record

    def _end(self, ended: Running) -> None:
        _, position, call, record = ended
        if call.has_run:
            self._end_observed(position, call, record)
            return
        if record.trip is not None and record.trip.verdict >= Action.REUSE:
            self.in_vain.add(position)
        if call.cancelled:
            self._turn.cancelled(self._timeline.now)
            if record.trip is not None:
                self._add(position, record.trip, record)
            return
        self._turn.asks = self._asks and call.has_arguments
        facts = call.facts(record, self._turn)
        found = facts.found
        # The same result, and news: a run inside the call brought it.
        record.child_news = found is not None and found.news and found.sameness is Sameness.SAME
        trip, nudge = record.trip, self._turn.end(record, facts, self._timeline.now)
        if record.ran_in_vain:
            self.in_vain.add(position)
        self._turn.asks = self._asks
        if trip is not None or nudge is not None:
            self._add(position, trip or nudge, record)  # type: ignore[arg-type]  # one of them is there

    def _end_observed(self, position: int, call: RecordedCall, record: Record) -> None:
        trip = self._turn.end_observed(record, call.facts(record, self._turn), self._timeline.now or 0.0)
        if record.ran_in_vain or (trip is not None and trip.verdict >= Action.REUSE):
            self.in_vain.add(position)
        if trip is not None:
            self._add(position, trip, record, has_run=True)

    def _add(self, position: int, trip: Trip, record: Record, *, has_run: bool = False) -> None:
        if trip.action >= Action.NUDGE:
            lost = trip.action >= Action.REUSE and record.sameness is not None and result_was_new(record)
            tool = shown_tool(record.resolved.tool, record.registered)
            mode, action, limit = str(trip.mode), trip.action, trip.limit
            self._trips.append(TripOfRun(0, position, tool, mode, action, trip.count, lost, limit, has_run))


def _order(span: ToolSpan) -> tuple[int, int]:
    return span.order


def _once(spans: list[ToolSpan], *, guarded: bool) -> Iterator[ToolSpan]:
    """Yield one span for each call.

    Left out are those of others if ours are in the trace, those inside a span of their tool, and those of calls that
    were interrupted and then resumed, under the same index.
    """
    tools = {span.span: span.tool for span in spans if not span.own}
    for span, following in zip_longest(spans, spans[1:]):
        if span.own:
            resumed = span.was_cancelled and following is not None and following.order[0] == span.order[0]
            if not resumed:
                yield span
        elif not (guarded or same_tool(span.tool, tools.get(span.parent))):
            yield span


def _remember(names: OrderedDict[str, None], name: str) -> None:
    names[name] = None
    if len(names) > MOST_REMEMBERED:
        names.popitem(last=False)
