"""Judge tool spans as they come: each waits a while for those that began earlier, then its turn is judged up to it.

Spans arrive out of order: a span is sent when it ends, in batches, by several processes. So each is held for a window
of time. Then all spans of its turn that began before its end are judged, in the order in which they began, as
``replay`` does with the spans of a file. A span that arrives later than that is judged after the others, and counted.

No thread and no clock: the caller passes the time, in seconds that never go back.
"""

from __future__ import annotations

import heapq
import math
from collections import OrderedDict, deque
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from otel_loopguard.cli.replay.judge import is_listed
from otel_loopguard.cli.replay.recorded_turn import RecordedTurn
from otel_loopguard.cli.watch.seen import SeenSpans
from otel_loopguard.engine.events import Reached
from otel_loopguard.engine.fold import fold
from otel_loopguard.engine.words import Action, First
from otel_loopguard.spans.ancestry import TurnName

if TYPE_CHECKING:
    from collections.abc import Iterable

    from otel_loopguard.cli.replay.judge import PolicyJudge
    from otel_loopguard.cli.replay.recorded_turn import Folded
    from otel_loopguard.engine.words import Record, Trip
    from otel_loopguard.shield import Shield
    from otel_loopguard.spans.ancestry import Ancestry
    from otel_loopguard.spans.otlp import RecordedCall, ToolSpan

MOST_TURNS = 10_000
_MOST_MISSING = 1_000
"""Spans around the calls of one turn."""
MOST_WAITING = 100_000
"""Spans. The oldest is judged before its time then."""


class Reported(NamedTuple):
    """A call of a turn, as a report gets it."""

    turn: TurnName
    position: int
    """In its turn."""
    call: RecordedCall
    record: Record


class JudgementSink(Protocol):
    """Gets the findings about the spans, on the thread that judges."""

    def call(self, reported: Reported) -> None:
        """Count a call that is over."""

    def trip(self, reported: Reported, trip: Trip, first: First) -> None:
        """Report a trip. ``first`` is its place in the turn."""

    def recovery(self, reported: Reported, trip: Trip) -> None:
        """Count a trip after which the turn brought news again."""

    def turn(self, turn: TurnName, calls: int) -> None:
        """Count a turn that is over."""

    def spans(self, fate: str, number: int) -> None:
        """Count tool spans by their fate."""

    def arrived(self, span: ToolSpan) -> None:
        """Note a span that will be judged."""


class _Waiting:
    """A span that waits for those before it."""

    __slots__ = ("begun", "due", "span", "turn")

    def __init__(self, span: ToolSpan, due: float) -> None:
        self.span = span
        self.due = due
        self.turn: TurnName | None = None
        self.begun = False


class _LiveTurn:
    """One turn: its calls that are judged, and the spans that wait."""

    def __init__(self, name: TurnName, judge: PolicyJudge, report: JudgementSink) -> None:
        self.recorded = RecordedTurn(judge.state(), self._report_call)
        self.name = name
        """Its name in the report, which stays."""
        self.key = name
        """Its name among the turns."""
        self.missing: set[str] = set()
        """The spans around its calls that had not arrived, if it is that of a trace. One may be that of an agent."""
        self.waiting: list[tuple[tuple[Any, ...], int, _Waiting]] = []
        """A heap, in the order in which they began. Those that were found to be of another turn are left in it."""
        self.until: tuple[Any, ...] = ()
        """The last one that was judged."""
        self._report = report

    @property
    def waits(self) -> bool:
        """True if spans wait that were not found to be of another turn."""
        return any(one.turn == self.key and not one.begun for _, _, one in self.waiting)

    def is_late(self, span: ToolSpan) -> bool:
        """Return True if a later span was judged, or if the time of the turn is beyond the begin of this one."""
        now = self.recorded.timeline.now
        return span.in_order < self.until or (now is not None and bool(span.start) and span.start < now * 1e9 - 1e3)

    def _report_call(self, over: Folded) -> None:
        reported = Reported(self.name, over.position, over.call, over.record)
        if over.trip is not None and is_listed(over.trip):
            trip = over.trip._replace(action=Action.OBSERVE)
            first = fold(self.recorded.state, Reached(0, trip), None).first or First.NO
            self._report.trip(reported, trip, first)
        for trip in over.recovered:
            self._report.recovery(reported, trip)
        if not over.call.refused:
            self._report.call(reported)


class _Trace:
    """The spans of one trace that wait."""

    __slots__ = ("known", "waiting")

    def __init__(self) -> None:
        self.known = -1
        """The spans of the trace that had arrived when the turns of these were found."""
        self.waiting: list[_Waiting] = []


class WatchedTurns:
    """The turns of the last time, and the spans that wait. Both are bounded."""

    def __init__(
        self,
        judge: PolicyJudge,
        ancestry: Ancestry,
        report: JudgementSink,
        shield: Shield,
        *,
        window: float,
        most_turns: int = MOST_TURNS,
        most_waiting: int = MOST_WAITING,
    ) -> None:
        self._judge = judge
        self._ancestry = ancestry
        self._report = report
        self._shield = shield
        self._window = window
        self._seen = SeenSpans()
        self._most_turns, self._most_waiting = most_turns, most_waiting
        self._turns: OrderedDict[TurnName, _LiveTurn] = OrderedDict()
        self._by_arrival: deque[_Waiting] = deque()
        self._by_trace: dict[str, _Trace] = {}
        self._arrived = 0

    def __len__(self) -> int:
        return len(self._turns)

    @property
    def waiting(self) -> int:
        """The number of spans that wait."""
        return len(self._by_arrival)

    def add(self, spans: Iterable[ToolSpan], now: float) -> None:
        """Add the tool spans of a message."""
        for span in spans:
            if span.own or self._ancestry.is_guarded(span.trace):
                self._report.spans("guarded", 1)
            elif not self._seen.add(span):
                self._report.spans("duplicate", 1)
            else:
                self._report.arrived(span)
                waiting = _Waiting(span, now + self._window)
                self._by_arrival.append(waiting)
                of_trace = self._by_trace.get(span.trace) or self._by_trace.setdefault(span.trace, _Trace())
                of_trace.waiting.append(waiting)
                of_trace.known = -1

    def advance(self, now: float) -> None:
        """Judge the spans that have waited long enough, and the oldest if too many wait."""
        self._settle()
        waiting = self._by_arrival
        while waiting and (waiting[0].due <= now or len(waiting) > self._most_waiting):
            self._release(waiting.popleft())
        for name in list(islice(self._turns, max(len(self._turns) - self._most_turns, 0))):
            if not self._turns[name].waits:  # spans that wait have a bound of their own
                self._close(name)

    def close_all(self) -> None:
        """Judge all spans that wait, and end all turns."""
        self.advance(math.inf)
        while self._turns:
            self._close(next(iter(self._turns)))

    def _settle(self) -> None:
        """Find the turns of the spans that wait, as far as the spans around them have arrived."""
        for name, trace in self._by_trace.items():
            known = self._ancestry.spans_in(name)
            if known == trace.known:
                continue
            trace.known = known
            for waiting in trace.waiting:
                if not waiting.begun:
                    self._settle_one(waiting)

    def _settle_one(self, waiting: _Waiting) -> None:
        name = self._ancestry.turn_of(waiting.span)
        if name != waiting.turn:
            waiting.turn = name
            self._arrived += 1
            heapq.heappush(self._turn(name, waiting.span).waiting, (waiting.span.in_order, self._arrived, waiting))

    def _turn(self, name: TurnName, span: ToolSpan) -> _LiveTurn:
        turn = self._turns.get(name)
        if turn is not None:
            self._turns.move_to_end(name)
            return turn
        turn = self._turns[name] = self._provisional(name, span) or _LiveTurn(name, self._judge, self._report)
        return turn

    def _provisional(self, name: TurnName, span: ToolSpan) -> _LiveTurn | None:
        """Return the turn of the trace if it has the earlier calls of this one. It goes on under the new name.

        These were judged before the span of their agent arrived. Calls of other agents begin another turn.
        """
        turn = self._turns.get(TurnName("trace", span.trace))
        if name.source == "trace" or turn is None or turn.missing.isdisjoint(self._ancestry.above(span)):
            return None
        del self._turns[turn.key]
        turn.key, turn.missing, waiting, turn.waiting = name, set(), turn.waiting, []
        self._turns[name] = turn
        for _, _, one in waiting:
            if not one.begun:
                one.turn = None
                self._settle_one(one)
        return turn

    def _release(self, waiting: _Waiting) -> None:
        """Judge the turn of a span up to its end: its time is over."""
        span = waiting.span
        of_trace = self._by_trace[span.trace]
        of_trace.waiting.remove(waiting)
        if not of_trace.waiting:
            del self._by_trace[span.trace]
        try:
            turn = self._turns.get(waiting.turn)  # type: ignore[arg-type]  # it is settled
            if turn is not None:  # else it began, and its turn was closed
                self._judge_until(turn, waiting)
        except Exception as error:  # noqa: BLE001 - one span must not keep others from being judged
            self._shield.take("watch.judge", error)
            self._report.spans("dropped", 1)

    def _judge_until(self, turn: _LiveTurn, waiting: _Waiting) -> None:
        """Begin this span and those of the turn that began before its end, and end the calls that are over then."""
        heap, end = turn.waiting, waiting.span.end
        while heap and (not waiting.begun or heap[0][2].span.start < end):
            _, _, next_one = heapq.heappop(heap)
            if next_one.turn == turn.key and not next_one.begun:
                self._begin(turn, next_one)
        turn.recorded.end_until(end / 1e9 if end else None)

    def _begin(self, turn: _LiveTurn, waiting: _Waiting) -> None:
        waiting.begun = True
        span = waiting.span
        if self._ancestry.is_guarded(span.trace):
            self._report.spans("guarded", 1)
        elif self._ancestry.is_inner(span, span.tool):
            self._report.spans("inner", 1)
        else:
            if turn.is_late(span):
                self._report.spans("late", 1)
            else:
                turn.until = span.in_order
            state = turn.recorded.state
            state.place = state.place or self._judge.place_of(turn.name, span, self._ancestry)
            if turn.key.source == "trace" and len(turn.missing) < _MOST_MISSING:
                turn.missing.update(filter(None, self._ancestry.above(span)[-1:]))
            turn.recorded.begin(span.read())
            self._report.spans("judged", 1)

    def _close(self, name: TurnName) -> None:
        turn = self._turns.pop(name)
        try:
            turn.recorded.end_until(None)
        except Exception as error:  # noqa: BLE001 - as above
            self._shield.take("watch.judge", error)
        if turn.recorded.calls:
            self._report.turn(turn.name, turn.recorded.calls)
