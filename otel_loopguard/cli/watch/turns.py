"""Judge tool spans as they come, although they come out of order, and count the thought between them.

Each span waits for a window of time. Then the spans of its turn that began before its end are judged, in the order in
which they began. A span that comes later is judged after the others, and counted as late. Before a call begins, its
turn is told of the model requests that have ended. There is no thread and no clock here: the caller passes the time, in
seconds that never go back.
"""

from __future__ import annotations

import heapq
import math
from collections import OrderedDict, deque
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from otel_loopguard.cli.replay.judge import is_listed
from otel_loopguard.cli.replay.recorded_turn import RecordedTurn
from otel_loopguard.cli.replay.token_sums import ModelRequest
from otel_loopguard.engine.events import Reached
from otel_loopguard.engine.fold import fold
from otel_loopguard.engine.vocabulary import Action, First
from otel_loopguard.spans.ancestry import TurnName
from otel_loopguard.spans.otlp import ModelSpan, ToolSpan

if TYPE_CHECKING:
    from collections.abc import Iterable

    from otel_loopguard.cli.replay.judge import PolicyJudge
    from otel_loopguard.cli.replay.recorded_turn import JudgedCall
    from otel_loopguard.engine.ledger import Ledger
    from otel_loopguard.engine.state import State
    from otel_loopguard.engine.vocabulary import Record, Trip
    from otel_loopguard.shield import Shield
    from otel_loopguard.spans.ancestry import Ancestry
    from otel_loopguard.spans.otlp import RecordedCall

MOST_TURNS = 10_000
"""Turns that are remembered."""
_MOST_MISSING = 1_000
"""Spans around the calls of one turn that may be awaited."""
MOST_REQUESTS = 256
"""Model requests of one turn that are kept for its next call."""
MOST_WAITING = 100_000
"""Spans that may wait. If there are more, the oldest is judged before its time."""
MOST_SEEN = 1_000_000
"""Tool spans whose ids are remembered."""


class Reported(NamedTuple):
    """A judged call, as a report gets it."""

    turn: TurnName
    position: int
    """Its position in the turn, from 0."""
    call: RecordedCall
    record: Record


class WatchListener(Protocol):
    """Gets what is found about the spans, on the thread that judges."""

    def call(self, reported: Reported) -> None:
        """Count a call that is over."""

    def trip(self, reported: Reported, trip: Trip, first: First) -> None:
        """Report a trip. ``first``: whether it is the first of its action or mode in the turn."""

    def asked(self, turn: TurnName, request: ModelSpan, trip: Trip, first: First) -> None:
        """Report a trip of a model request, by its texts. ``first``: as in ``trip``."""

    def recovery(self, reported: Reported, trip: Trip) -> None:
        """Count an earlier trip whose loop has ended: this call brought news."""

    def turn(self, turn: TurnName, calls: int, ledger: Ledger) -> None:
        """Count a turn that is over, with the number of its calls, and what it spent."""

    def spans(self, fate: str, number: int) -> None:
        """Count so many tool spans with this fate, such as ``judged`` or ``late``."""

    def arrived(self, span: ToolSpan) -> None:
        """Note a tool span that will be judged."""


class _Waiting:
    """A span that waits for spans that began before it. ``span`` is that of a call, or of a model request."""

    __slots__ = ("begun", "due", "span", "turn")

    def __init__(self, span: Any, due: float) -> None:
        self.span = span
        self.due = due
        """The time, in seconds, until which it waits."""
        self.turn: TurnName | None = None
        """Its turn, as far as is known; None before that was asked."""
        self.begun = False
        """True if its call was begun, and so judged; of a request, if its turn was told, or it is dropped."""


class _LiveTurn:
    """One turn: the calls that were judged, and the spans that wait."""

    def __init__(self, name: TurnName, judge: PolicyJudge, report: WatchListener) -> None:
        self.recorded = RecordedTurn(judge.state(), self._report_call)
        self.name = name
        """Its name in the report, which never changes."""
        self.key = name
        """Its present name among the turns: that of an agent's run may be known later."""
        self.missing: set[str] = set()
        """Ids of spans around its calls that have not arrived, if it is a trace's turn. One may be an agent's."""
        self.waiting: list[tuple[tuple[Any, ...], int, _Waiting]] = []
        """A heap, in the order in which the spans began. Some may turn out to be of another turn, and stay in it."""
        self.until: tuple[Any, ...] = ()
        """The order of the last span that was judged in time."""
        self._report = report

    @property
    def waits(self) -> bool:
        """True if a span of this turn waits."""
        return any(one.turn == self.key and not one.begun for _, _, one in self.waiting)

    def is_late(self, span: ToolSpan) -> bool:
        """Return True if a later span was judged already, or if this one began before the time of the turn."""
        now = self.recorded.timeline.now
        return span.in_order < self.until or (now is not None and bool(span.start) and span.start < now * 1e9 - 1e3)

    def _report_call(self, over: JudgedCall) -> None:
        reported = Reported(self.name, over.position, over.call, over.record)
        if over.trip is not None and is_listed(over.trip):
            trip = over.trip._replace(action=Action.OBSERVE)
            first = fold(self.recorded.state, Reached(0, trip), None).first or First.NO
            self._report.trip(reported, trip, first)
        for trip in over.recovered:
            self._report.recovery(reported, trip)
        if not over.call.refused:
            self._report.call(reported)


class SeenSpans:
    """Remembers the last tool spans, to find those that come twice: an exporter without an answer sends again.

    It keeps hashes of ids in two sets. When the younger one is half of ``most``, the older one is forgotten.
    """

    def __init__(self, most: int = MOST_SEEN) -> None:
        self._half = max(most // 2, 1)
        self._young: set[int] = set()
        self._old: set[int] = set()

    def __len__(self) -> int:
        return len(self._young) + len(self._old)

    def add(self, span: ToolSpan) -> bool:
        """Add a span. Return False if it is known already."""
        key = hash((span.trace, span.span))
        if key in self._young or key in self._old:
            return False
        if len(self._young) >= self._half:
            self._old, self._young = self._young, set()
        self._young.add(key)
        return True


class _Trace:
    """The waiting spans of one trace."""

    __slots__ = ("known", "waiting")

    def __init__(self) -> None:
        self.known = -1
        """The number of spans of the trace that had arrived when the turns of the waiting ones were last looked for."""
        self.waiting: list[_Waiting] = []


class WatchedTurns:
    """The turns with the newest calls, and the spans that wait. The number of both is bounded."""

    def __init__(
        self,
        judge: PolicyJudge,
        ancestry: Ancestry,
        report: WatchListener,
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
        self._requests: dict[TurnName, list[_Waiting]] = {}
        """The model requests of a turn that its next call may follow. After the window the turn has to exist."""
        self._asked: OrderedDict[TurnName, State] = OrderedDict()
        """The states of the turns for the texts of their requests."""
        self._arrived = 0

    def __len__(self) -> int:
        return len(self._turns)

    @property
    def waiting(self) -> int:
        """The number of spans that wait."""
        return len(self._by_arrival)

    def add(self, spans: Iterable[ToolSpan | ModelSpan], now: float) -> None:
        """Add the calls and the model requests of a message, which arrived at ``now``, in seconds."""
        for span in spans:
            if isinstance(span, ModelSpan):
                if span.seconds:
                    self._wait(span, now)
            elif span.own or self._ancestry.is_guarded(span.trace):
                self._report.spans("guarded", 1)
            elif not self._seen.add(span):
                self._report.spans("duplicate", 1)
            else:
                self._report.arrived(span)
                self._wait(span, now)

    def _wait(self, span: ToolSpan | ModelSpan, now: float) -> None:
        waiting = _Waiting(span, now + self._window)
        self._by_arrival.append(waiting)
        of_trace = self._by_trace.get(span.trace) or self._by_trace.setdefault(span.trace, _Trace())
        of_trace.waiting.append(waiting)
        of_trace.known = -1

    def advance(self, now: float) -> None:
        """Judge the spans that have waited long enough at ``now``, in seconds, and the oldest ones if too many wait."""
        self._settle()
        waiting = self._by_arrival
        while waiting and (waiting[0].due <= now or len(waiting) > self._most_waiting):
            self._release(waiting.popleft())
        for name in list(islice(self._turns, max(len(self._turns) - self._most_turns, 0))):
            if not self._turns[name].waits:  # spans that wait have a bound of their own
                self._close(name)

    def close_all(self) -> None:
        """Judge all spans that wait, and report all turns as over."""
        self.advance(math.inf)
        while self._turns:
            self._close(next(iter(self._turns)))

    def _settle(self) -> None:
        """Find the turns of the waiting spans again, in traces of which more spans have arrived."""
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
        if name == waiting.turn:
            return
        if isinstance(waiting.span, ModelSpan):
            self._take_request(waiting)
            held = self._requests.setdefault(name, [])
            held.append(waiting)
            if len(held) > MOST_REQUESTS:
                held.pop(0).begun = True
            waiting.turn = name
        else:
            waiting.turn = name
            self._arrived += 1
            heapq.heappush(self._turn(name, waiting.span).waiting, (waiting.span.in_order, self._arrived, waiting))

    def _take_request(self, waiting: _Waiting) -> None:
        """Take a model request out of those of its turn, if it is there."""
        held = self._requests.get(waiting.turn, [])  # type: ignore[arg-type]  # None is no name, and not there
        if waiting in held:
            held.remove(waiting)
            if not held:
                del self._requests[waiting.turn]  # type: ignore[arg-type]  # as above

    def _turn(self, name: TurnName, span: ToolSpan) -> _LiveTurn:
        turn = self._turns.get(name)
        if turn is not None:
            self._turns.move_to_end(name)
            return turn
        turn = self._turns[name] = self._provisional(name, span) or _LiveTurn(name, self._judge, self._report)
        return turn

    def _provisional(self, name: TurnName, span: ToolSpan) -> _LiveTurn | None:
        """Return the turn of the trace, under its new name, if it has earlier calls of the same agent; else None.

        Those were judged before the span of their agent arrived, so that their turn was taken to be the trace.
        """
        turn = self._turns.get(TurnName("trace", span.trace))
        if name.source == "trace" or turn is None or turn.missing.isdisjoint(self._ancestry.above(span)):
            return None
        del self._turns[turn.key]
        requests = self._requests.pop(turn.key, [])
        turn.key, turn.missing, waiting, turn.waiting = name, set(), turn.waiting, []
        self._turns[name] = turn
        for one in (*(one for _, _, one in waiting), *requests):
            if not one.begun:
                one.turn = None
                self._settle_one(one)
        for one in requests:
            self._keep_request(one)
        return turn

    def _keep_request(self, waiting: _Waiting) -> None:
        """Keep a model request for the next call of its turn. If the turn does not exist, drop it."""
        if waiting.turn not in self._turns:
            waiting.begun = True
            self._take_request(waiting)

    def _release(self, waiting: _Waiting) -> None:
        """Judge the turn of a span that has waited long enough, up to the end of the span."""
        span = waiting.span
        of_trace = self._by_trace[span.trace]
        of_trace.waiting.remove(waiting)
        if not of_trace.waiting:
            del self._by_trace[span.trace]
        if isinstance(span, ModelSpan):
            with self._shield("watch.texts"):
                self._ask(waiting.turn, span)
            self._keep_request(waiting)
            return
        try:
            turn = self._turns.get(waiting.turn)  # type: ignore[arg-type]  # it is settled
            if turn is not None:  # else it began, and its turn was closed
                self._judge_until(turn, waiting)
        except Exception as error:  # noqa: BLE001 - one span must not keep others from being judged
            self._shield.take("watch.judge", error)
            self._report.spans("dropped", 1)

    def _judge_until(self, turn: _LiveTurn, waiting: _Waiting) -> None:
        """Begin this call and those of the turn that began before its end; end the calls that are over by then."""
        heap, end = turn.waiting, waiting.span.end
        while heap and (not waiting.begun or heap[0][2].span.start < end):
            _, _, next_one = heapq.heappop(heap)
            if next_one.turn == turn.key and not next_one.begun:
                self._begin(turn, next_one)
        turn.recorded.end_until(end / 1e9 if end else None)

    def _ask(self, name: TurnName | None, request: ModelSpan) -> None:
        """Judge the texts of a request, after those that ended before it arrived; none inside of another request."""
        if name is None or not request.messages or self._ancestry.is_guarded(request.trace):
            return
        if self._ancestry.is_in_request(request):
            return
        state = self._asked.pop(name) if name in self._asked else self._judge.state()
        self._asked[name] = state
        if len(self._asked) > self._most_turns:
            self._asked.popitem(last=False)
        for one in self._judge.texts.asked(name, [request], state, 1):
            trip = one.trip._replace(action=Action.OBSERVE)
            first = fold(state, Reached(0, trip), None).first or First.NO
            self._report.asked(name, request, trip, first)

    def _think(self, turn: _LiveTurn, before: ToolSpan) -> list[ModelRequest]:
        """Tell the turn of its model requests that ended before this call began, and return them."""
        ready = [one for one in self._requests.get(turn.key, ()) if one.span.in_order < before.in_order]
        for one in sorted(ready, key=lambda one: one.span.in_order):
            one.begun = True
            self._take_request(one)
            if not self._ancestry.is_in_tool(one.span):
                turn.recorded.think(one.span)
        return self._paid(ready)

    def _paid(self, requests: Iterable[_Waiting]) -> list[ModelRequest]:
        """Return model requests without those inside of another one."""
        spans = (one.span for one in requests if not self._ancestry.is_in_request(one.span))
        return [ModelRequest(span.usage, (), span.start / 1e9) for span in spans]

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
            turn.recorded.begin(span.read(), self._think(turn, span))
            self._report.spans("judged", 1)

    def _close(self, name: TurnName) -> None:
        turn = self._turns.pop(name)
        left = self._requests.pop(name, ())
        try:
            turn.recorded.finish(self._paid(left))
        except Exception as error:  # noqa: BLE001 - as above
            self._shield.take("watch.judge", error)
        if turn.recorded.calls:
            self._report.turn(turn.name, turn.recorded.calls, turn.recorded.state.history.ledger)
