"""Hold the spans of a file, which are out of order, until their turn is complete, and judge the turn in order.

The number of held spans is bounded: a turn without new spans for a long time is judged, and so is the older half of a
turn that grows without end.
"""

from __future__ import annotations

from collections import OrderedDict
from itertools import repeat, zip_longest
from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple

from otel_loopguard import semconv
from otel_loopguard.cli.replay.judge import TripOfRun, reached, trip_of_request, trips_of
from otel_loopguard.cli.replay.loop_rows import GuardedTurn, guarded, is_refusable
from otel_loopguard.cli.replay.recorded_texts import AskedTrip, text_rows
from otel_loopguard.cli.replay.recorded_turn import JudgedCall, NestedStep, RecordedTurn
from otel_loopguard.cli.replay.token_sums import ModelRequest, before_calls, requests_of, rest_of, spent
from otel_loopguard.engine.events import Paid
from otel_loopguard.engine.fold import fold
from otel_loopguard.engine.ledger import Ledger
from otel_loopguard.engine.vocabulary import Action
from otel_loopguard.spans.ancestry import Ancestry, TurnName
from otel_loopguard.spans.otlp import ModelSpan

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from otel_loopguard.cli.replay.judge import PolicyJudge, Reached
    from otel_loopguard.cli.replay.token_sums import TokensSpent
    from otel_loopguard.engine.conversation_memory import PlaceInConversation
    from otel_loopguard.spans.ancestry import InTrace
    from otel_loopguard.spans.otlp import RecordedCall, ToolSpan

_OBSERVE = str(Action.OBSERVE)
MOST_HELD = 100_000
"""Spans, of all turns."""
_MESSAGES_OF_A_SPAN = 16
"""So many messages take as much memory as a span."""
MOST_OF_A_TURN = 5_000
"""Spans of one turn. If there are more, the older half is judged."""
LONGEST_QUIET = 200_000
"""Spans. A turn is complete after so many spans of others. ``Ancestry`` remembers more."""
MOST_REQUESTS = 100_000
"""Model requests of a conversation that are kept until its calls are judged."""
MOST_NESTED = 10_000
"""Turns of which the steps of nested turns are kept."""
MOST_REMEMBERED = 100_000
"""Names of turns that were judged."""
MOST_BYTES = 64 << 20
"""Bytes of the lines that the held spans came from."""


class JudgedTurn(NamedTuple):
    """A turn that was judged, or a part of it."""

    run_id: str
    calls: int
    """The number of calls. 0 if the guard's own spans in the same trace have them all: then it is no run."""
    trips: tuple[list[TripOfRun], ...]
    """One list for each judge."""
    own: bool
    """True if the spans are those of the guard."""
    without_arguments: int
    """The number of calls without arguments."""
    without_result: int
    """The number of calls with arguments, and without a result."""
    first: int
    """The position of its first call in the turn, from 0; more than 0 in a later part."""
    recorded: list[RecordedCall]
    spent: tuple[TokensSpent, ...]
    """The tokens of its model requests, one for each judge."""
    earlier: tuple[Reached, ...] | None
    """The state after its earlier parts, for each judge; None for a whole turn, or its first part."""
    guarded: tuple[GuardedTurn, ...] = ()
    """The turn as the guard would have had it, one for each judge."""
    ledger: Ledger | None = None
    """The sums of the turn, with the turns nested in it; None for a part that is not its last one."""
    is_nested: bool = False
    """True if it is in a call of another turn, which counts it, too."""


class _TurnOfJudge:
    """A turn, as far as one judge has judged it."""

    __slots__ = ("_asked", "_folded", "_guarded", "_is_over", "_made", "judge", "recorded")

    def __init__(self, judge: PolicyJudge, *, heeds: bool) -> None:
        """``heeds``: the refusals were made."""
        self.judge = judge
        self._folded: list[JudgedCall] = []
        """The calls that are over and not handed out yet."""
        self.recorded = RecordedTurn(judge.state(), self._folded.append)
        self.recorded.state.heeds = heeds
        self._made: list[JudgedCall] = []
        """The same calls as a guarded turn makes them."""
        self._guarded = RecordedTurn(judge.state(refuses=True), self._made.append)
        self._is_over = False
        """True if a guarded turn has ended in a part that was judged."""
        self._asked = judge.state()
        """The state of the turn for the texts of its requests."""

    def ask(self, name: TurnName, heard: list[ModelSpan], first: int) -> list[AskedTrip]:
        """Judge the texts of requests, in order, and return their trips. ``first``: the number of the first one."""
        return list(self.judge.texts.asked(name, heard, self._asked, first))

    def place(self, place: PlaceInConversation | None, level: int, nested: list[NestedStep]) -> None:
        """Take its place in its conversation, the number of turns around it, and steps of turns nested in it."""
        self.recorded.state.place = place
        for turn in (self.recorded, self._guarded):
            turn.level = level
            turn.expect(nested)

    def add(
        self,
        in_order: list[RecordedCall | ModelSpan],
        requests: list[ModelRequest],
        *,
        is_whole: bool,
        is_last: bool,
        was_guarded: bool,
    ) -> tuple[list[JudgedCall], GuardedTurn]:
        """Judge calls, and the model requests between them. Return the calls that are over, and the guarded turn.

        ``requests`` are counted before the calls that they wrote. ``is_whole``: all of these are all of the turn.
        ``is_last``: they are its last ones.
        """
        _feed(self.recorded, in_order, requests, is_last=is_last)
        folded, made = [*self._folded], self._folded
        # Without a refusal a whole turn is the same.
        if not was_guarded and (not is_whole or any(map(is_refusable, folded))):
            _feed(self._guarded, in_order, requests, is_last=is_last)
            made = self._made
        turn = guarded(
            folded, made, withdraws=self.recorded.requests_are_read, is_over=self._is_over, was_guarded=was_guarded
        )
        self._is_over = turn.figures.end is not None
        self._folded.clear()
        self._made.clear()
        return folded, turn


class _OpenTurn:
    """A turn of which a part may have been judged."""

    __slots__ = ("by_judge", "calls", "reached", "requests")

    def __init__(self, judges: list[PolicyJudge], *, heeds: bool) -> None:
        """``heeds`` is as of ``_TurnOfJudge``."""
        self.calls = self.requests = 0
        self.by_judge = [_TurnOfJudge(judge, heeds=heeds) for judge in judges]
        self.reached: tuple[Reached, ...] | None = None
        """The state after the judged parts, for each judge; None before the first one."""


class _HeldSpans:
    """The held spans of a trace, of a conversation, or of a turn of the guard's own spans."""

    __slots__ = ("requests", "size", "spans", "touched", "turns", "until")

    def __init__(self) -> None:
        self.spans: list[ToolSpan] = []
        self.requests: list[ModelSpan] = []
        """The model requests of a conversation."""
        self.size = 0
        """Bytes of the lines that the spans came from."""
        self.touched = 0
        """The number of spans seen when the last one was added; 0 if only requests are held."""
        self.until: tuple[int, int] = (-1, -1)
        """The order of the last span that was judged."""
        self.turns: dict[TurnName, _OpenTurn] = {}


class SpanBuffer:
    """Holds spans until their turn is complete, as far as can be known, and judges the turn.

    The spans around a call tell its turn, so calls are held by trace first. A conversation may have many traces: its
    calls are then held by conversation, until that is complete.
    """

    def __init__(self, judges: list[PolicyJudge], *, most_held: int = MOST_HELD, quiet: int = LONGEST_QUIET) -> None:
        self.ancestry = Ancestry(min((judge.turns_by for judge in judges), default="conversation"))
        self._judges = judges
        self._most_held, self._quiet = most_held, quiet
        self._held_by: OrderedDict[TurnName, _HeldSpans] = OrderedDict()
        self._held = self._size = 0
        self._over: OrderedDict[TurnName, None] = OrderedDict()
        self._requests: OrderedDict[str, list[ModelSpan]] = OrderedDict()
        """Model requests, by trace."""
        self._nested: OrderedDict[TurnName, list[NestedStep]] = OrderedDict()
        """The steps of nested turns that were judged, by the turn around them."""
        self._requests_held = 0
        self.late = 0
        """The number of spans that came after their turn, or their part of it, was judged."""

    def add(self, span: ToolSpan, size: int = 0) -> Iterator[JudgedTurn]:
        """Add a tool span, which took ``size`` bytes of its line. Yield the turns that are complete now."""
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

    def _hold(self, name: TurnName, span: ToolSpan, size: int) -> _HeldSpans | None:
        """Hold a span; None if it is late."""
        held = self._held_by.get(name)
        if held is None:
            held = self._held_by[name] = _HeldSpans()
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
        """Add a span of a model request, of another instrumentation."""
        self._requests.setdefault(span.trace, []).append(span)
        self._requests.move_to_end(span.trace)
        self._requests_held += _weight([span])
        while self._requests_held > self._most_held:
            _, forgotten = self._requests.popitem(last=False)
            self._requests_held -= _weight(forgotten)

    def _take_requests(self, trace: str, until: int | None) -> list[ModelSpan]:
        """Take out the requests of a trace that ended by this time, in nanoseconds; all of them if it is None."""
        held = self._requests.pop(trace, [])
        left = [] if until is None else [span for span in held if span.end > until]
        if left:
            self._requests[trace] = left
        self._requests_held -= _weight(held) - _weight(left)
        return held if not left else [span for span in held if span.end <= until]  # type: ignore[operator]  # not None, as some are left

    def rest(self) -> Iterator[JudgedTurn]:
        """Judge and yield all turns that are left. Traces come first: their calls may be of a conversation."""
        self._drop_copies()
        with_texts = [trace for trace, held in self._requests.items() if any(one.messages for one in held)]
        for trace in with_texts:
            if not self.ancestry.is_guarded(trace):
                self._held_by.setdefault(TurnName("trace", trace), _HeldSpans())
        names = [name for name in self._held_by if name.source != "conversation"]
        if with_texts or any(judge.compiled.remembers for judge in self._judges):  # a conversation has them in order
            names.sort(key=self._start_of)
        for name in self._nested_first({name: self._held_by[name].spans for name in names}):
            yield from self._close(name)
        while self._held_by:
            yield from self._close(next(iter(self._held_by)))

    def _drop_copies(self) -> None:
        """Drop the second span of a request: inside of a framework's span some clients begin a trace of their own."""
        inside: dict[object, list[ModelSpan]] = {}
        for one in (one for held in self._requests.values() for one in held if one.parent and one.usage.has_tokens):
            inside.setdefault((one.service, one.usage[1:3]), []).append(one)
        for held in self._requests.values():
            held[:] = [
                one
                for one in held
                if one.parent
                or not any(
                    other.trace != one.trace and other.start <= one.start and one.end <= other.end
                    for other in inside.get((one.service, one.usage[1:3]), ())
                )
            ]

    def _start_of(self, name: TurnName) -> int:
        spans = (*self._held_by[name].spans, *self._requests.get(name.id, ()))
        return min((span.start for span in spans), default=0)

    def _close(self, name: TurnName) -> Iterator[JudgedTurn]:
        held = self._held_by[name]
        for turn in self._judge(name, held, keep=0):
            if held.touched or any(turn.trips):  # without a call only a turn that has trips is one
                yield turn
        del self._held_by[name]
        _remember(self._over, name)

    def _judge(self, name: TurnName, held: _HeldSpans, keep: int) -> Iterator[JudgedTurn]:
        """Judge the held spans, all but the last ``keep``. Spans of a conversation are held for that instead."""
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
        for turn in self._nested_first({name: [*both[0], *both[1]] for name, both in turns.items()}):
            spans, of_turn = turns[turn]
            if turn.source != "conversation":
                yield self._judge_turn(turn, held, spans, of_turn, is_last=not keep)
                continue
            for span in spans:
                self._hold(turn, span, size // len(ready))
            if of_turn:  # the calls of the conversation may be in later traces
                conversation = self._held_by.setdefault(turn, _HeldSpans())
                conversation.requests += of_turn
                del conversation.requests[:-MOST_REQUESTS]

    def _judge_turn(
        self, name: TurnName, held: _HeldSpans, ready: list[ToolSpan], requests: list[ModelSpan], *, is_last: bool
    ) -> JudgedTurn:
        own = any(span.own for span in ready)
        calls = [span.read() for span in _once(ready, self.ancestry)]
        turn = held.turns.get(name)
        if turn is None:
            turn = held.turns[name] = _OpenTurn(self._judges, heeds=own)
        # Our own spans have the thought themselves, and are in the order of their calls.
        thought = [] if own else [request for request in requests if not self.ancestry.is_in_tool(request)]
        in_order: list[RecordedCall | ModelSpan] = sorted([*calls, *thought], key=_in_order)
        outermost = [request for request in requests if not self.ancestry.is_in_request(request)]
        written = requests_of(calls, outermost, turn.calls)
        heard = [] if own else self._heard(thought)
        nested, around = self._nested.pop(name, []), []
        if ready or requests:
            around = self.ancestry.turns_around(name, (ready or requests)[0])
        trips: tuple[list[TripOfRun], ...] = ()
        sums: tuple[TokensSpent, ...] = ()
        guarded_turns: tuple[GuardedTurn, ...] = ()
        loops: Ledger | None = None
        is_whole, was_guarded = is_last and not turn.calls, any(map(_was_guarded, ready))
        for one in turn.by_judge:
            place = one.judge.place_of(name, ready[0], self.ancestry) if ready else None
            one.place(place, len(around), nested)
            folded, guarded_turn = one.add(
                in_order, written, is_whole=is_whole, is_last=is_last, was_guarded=was_guarded
            )
            end, in_vain = guarded_turn.figures.end, {call.position for call in folded if call.in_vain}
            guarded_turns = (*guarded_turns, guarded_turn)
            asked = one.ask(name, heard, turn.requests + 1)
            if asked:
                rows = [*guarded_turn.rows, *text_rows(asked, turn.requests + len(heard))]
                guarded_turns = (*guarded_turns[:-1], guarded_turn._replace(rows=rows))
            at = [(sum(call.span.start < one.request.start for call in calls), one) for one in asked]
            of_requests = [trip_of_request(one, turn.calls + place, end) for place, one in at]
            trips = (*trips, sorted([*trips_of(folded, end=end), *of_requests], key=attrgetter("call")))
            tokens = spent(written, in_vain, end, one.judge.compiled.prices)
            sums, in_loops = (*sums, tokens), Ledger(loop_tokens=tokens.in_loops.input + tokens.in_loops.output)
            fold(one.recorded.state, Paid(0, in_loops), None)
            loops = loops or in_loops._replace(loop_calls=len(in_vain))
        if around:
            steps = _steps(calls, written, nested, around[0][1].span, begins=not turn.calls)
            self._nest(around[0][0], [*steps, steps[-1]._replace(loops=loops, usage=None, begins=0)] if steps else [])
        begin, earlier = turn.calls, turn.reached
        turn.calls += len(calls)
        turn.requests += len(heard)
        if turn.calls or trips[0]:
            turn.reached = tuple(map(reached, trips, earlier or repeat(frozenset())))
        arguments = sum(not call.has_arguments for call in calls)
        results = sum(call.has_arguments and not call.has_result for call in calls)
        missing = arguments, results
        judged = turn.by_judge[0].recorded.state.history.ledger
        ledger = self._ledger(name, judged) if is_last else None
        if ledger is not None and not around:  # what the turn's span alone tells
            for tokens in sums:
                tokens.all.add(rest_of(ledger, judged))
        return JudgedTurn(
            name.id, len(calls), trips, own, *missing, begin, calls, sums, earlier, guarded_turns, ledger, bool(around)
        )  # fmt: skip

    def _heard(self, requests: list[ModelSpan]) -> list[ModelSpan]:
        """Return the requests whose texts are known, in order, without those inside of another one."""
        known = {one.span: one for one in requests if one.messages}
        found = [one for one in known.values() if known.keys().isdisjoint(self.ancestry.above(one))]
        return sorted(found, key=attrgetter("start", "end"))

    def _ledger(self, name: TurnName, judged: Ledger) -> Ledger:
        """Return the ledger of a turn: that of its span, if it has one, with what the judged calls add to it."""
        known = self.ancestry.ledgers.get(name.id) if name.source == "own" else None
        if known is None:
            return judged
        if known.cost:  # by the prices of the program
            return known._replace(calls=judged.calls)
        unpriced = judged.unpriced + max(0, known.requests - judged.requests)
        return known._replace(calls=judged.calls, cost=judged.cost, unpriced=unpriced)

    def _nest(self, turn: TurnName, steps: list[NestedStep]) -> None:
        """Keep the steps of a nested turn for the turn around it."""
        self._nested.setdefault(turn, []).extend(steps)
        self._nested.move_to_end(turn)
        if len(self._nested) > MOST_NESTED:
            self._nested.popitem(last=False)

    def _nested_first(self, spans: Mapping[TurnName, Sequence[InTrace]]) -> list[TurnName]:
        """Return turns, each after those that are nested in it."""
        places = {name: place for place, name in enumerate(spans)}

        def key(name: TurnName) -> tuple[int, int]:
            around = self.ancestry.turns_around(name, spans[name][0]) if spans[name] else []
            outermost = next((turn for turn, _ in reversed(around) if turn in places), name)
            return places[outermost], -len(around)

        return sorted(spans, key=key)


def _steps(
    calls: list[RecordedCall], requests: list[ModelRequest], nested: list[NestedStep], around: str, *, begins: bool
) -> list[NestedStep]:
    """Return the steps of a nested turn as the turn around it has them, which made the call with the span ``around``.

    ``nested``: the steps of the turns that are nested in the nested one. ``begins``: these are its first ones.
    """
    steps = [NestedStep(call.at or 0.0, around) for call in calls if not call.refused]
    steps += [NestedStep(one.at or 0.0, around, one.usage) for one in requests]
    steps += [step._replace(call=around, begins=step.begins + bool(step.begins)) for step in nested]
    if begins:
        steps.append(NestedStep(min((step.at for step in steps), default=0.0), around, begins=1))
    return steps


def _feed(
    turn: RecordedTurn, in_order: list[RecordedCall | ModelSpan], requests: list[ModelRequest], *, is_last: bool
) -> None:
    """Judge these calls, and the model requests between them."""
    paid, rest = before_calls(requests)
    for one in in_order:
        if isinstance(one, ModelSpan):
            turn.think(one)
        else:
            turn.begin(one, paid.get(turn.calls, ()))
    if is_last:
        turn.finish(rest)


def _was_guarded(span: ToolSpan) -> bool:
    """Return True if the guard did something about the call when it was made."""
    return span.own and span.view.attributes.get(semconv.ACTION, _OBSERVE) != _OBSERVE


_in_order = attrgetter("in_order")


def _once(spans: list[ToolSpan], ancestry: Ancestry) -> Iterator[ToolSpan]:
    """Yield one span for each call.

    Left out are spans of other instrumentations in a trace with ours, a span inside one of the same tool, and the first
    span of a call that was interrupted and then resumed.
    """
    for span, following in zip_longest(spans, spans[1:]):
        if span.own:
            resumed = span.was_cancelled and following is not None and following.order[0] == span.order[0]
            if not resumed:
                yield span
        elif not (ancestry.is_guarded(span.trace) or ancestry.is_inner(span, span.tool)):
            yield span


def _weight(requests: list[ModelSpan]) -> int:
    """Return as how many spans these count: messages are held, too."""
    return sum(1 + len(one.messages) // _MESSAGES_OF_A_SPAN for one in requests)


def _remember(names: OrderedDict[TurnName, None], name: TurnName) -> None:
    names[name] = None
    if len(names) > MOST_REMEMBERED:
        names.popitem(last=False)
