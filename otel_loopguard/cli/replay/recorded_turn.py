"""Judge the calls of a recorded turn, each begun and ended at its time. They come from a run, or from spans."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from otel_loopguard.cli.replay.timeline import Timeline
from otel_loopguard.engine.detectors.run_budget import PlaceInTree
from otel_loopguard.engine.events import Concluded, Ended, Found, Nested, Paid, Ran, Thought
from otel_loopguard.engine.fold import fold, opened
from otel_loopguard.engine.ledger import LOOPED, REQUEST_SENT, Ledger, of_reply
from otel_loopguard.engine.vocabulary import Action, Kind, Sameness, is_loop_step
from otel_loopguard.guard.callbacks import CallbackFaults, custom_nudges, custom_trips

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from otel_loopguard.cli.replay.token_sums import ModelRequest
    from otel_loopguard.engine.events import Began
    from otel_loopguard.engine.state import State
    from otel_loopguard.engine.values.fingerprint import Fingerprinter
    from otel_loopguard.engine.values.pending import PendingWords
    from otel_loopguard.engine.values.results import OutcomeFacts
    from otel_loopguard.engine.verdict import Verdict
    from otel_loopguard.engine.vocabulary import Record, Trip, Usage
    from otel_loopguard.spans.otlp import ModelSpan


_FAULTS = CallbackFaults()
"""Logs each fault of a user's own detector once."""


class JudgeableCall(Protocol):
    """A call as it was recorded."""

    @property
    def at(self) -> float | None:
        """The time of the begin, in seconds; None if it is not recorded."""

    @property
    def ended(self) -> float | None:
        """The time of the end, in seconds; None if it is not recorded."""

    @property
    def step(self) -> object:
        """Identifies the response of the model: equal for all calls of one. None if that is not recorded."""

    @property
    def thought(self) -> float:
        """The seconds in which the model thought before the call, since a call of the turn last began or ended."""

    @property
    def span_id(self) -> str:
        """The id of its span; empty if it has none."""

    @property
    def has_run(self) -> bool:
        """True if a model request had the call with its result: it had run before the guard learned of it."""

    @property
    def request_was_read(self) -> bool:
        """True if the guard read the model request that wrote the call, or that brought its result."""

    @property
    def refused_in_no_loop(self) -> bool:
        """True if the call was refused because the user asked the run to stop, or because a budget was spent."""

    def began(self, op: int, state: State, written: int | None) -> Began:
        """Return the event of its begin, as the call number ``op``, from 0.

        ``written`` is the turn's tick when the model asked for the call; None if it is not known.
        """

    def facts(self, arguments: Any, fingerprinter: Fingerprinter, words: PendingWords | None) -> OutcomeFacts | None:
        """Return the facts about its outcome; None if it was cancelled. The parameters are as of ``outcome_facts``."""


class JudgedCall(NamedTuple):
    """A call that was judged and is over."""

    position: int
    """Its position in the turn, from 0."""
    call: Any
    """The ``JudgeableCall``."""
    record: Record
    trip: Trip | None = None
    """None if the call is in no loop."""
    recovered: tuple[Trip, ...] = ()
    """Earlier trips of loops that ended with this call, because it brought news."""
    in_vain: bool = False
    """True if it is a step of a loop: it was refused, would have been, or was a repeat without news."""


class NestedStep(NamedTuple):
    """A step of a turn that is nested in a call of this one: a tool call, unless one of the last three is given."""

    at: float
    """Its time in seconds; 0 if it is not recorded."""
    call: str
    """The span id of the call of this turn that it was made in."""
    usage: Usage | None = None
    """The tokens of a model request."""
    begins: int = 0
    """The levels from this turn to the nested one, if that begins."""
    loops: Ledger | None = None
    """The calls and tokens that a part of the nested turn spent in loops."""


class _Running(NamedTuple):
    position: int
    call: Any
    event: Began
    record: Record | None
    """None if the call is judged when it ends, because its result was read with it."""
    begun: float | None


class RecordedTurn:
    """A turn of recorded calls, judged by one policy."""

    def __init__(self, state: State, over: Callable[[JudgedCall], None]) -> None:
        """``over`` gets each call when it is over. ``state`` is that of a new turn.

        If its calls are recorded ones, each has run, also if it trips; else it is a guarded turn, whose model makes the
        recorded calls and whose refused calls do not run.
        """
        self.state = state
        self.timeline = Timeline(state.history)
        self.calls = 0
        """The number of calls that have begun."""
        self.requests_are_read = False
        """True if the guard reads the model's requests: then it can withdraw the tools."""
        self.level = 0
        """The number of turns around this one."""
        self._nested: list[NestedStep] = []
        """Those that are not counted yet, the last one first."""
        self._tools: dict[str, int] = {}
        """The tools of the running calls, as the digests of their names, by the ids of their spans."""
        self._delegating: set[int] = set()
        """The tools inside of whose calls a nested turn has begun."""
        self._starting: dict[str, None] = {}
        """The running calls that may start an agent, and have started none yet."""
        self._over = over
        self._has_own = bool(state.compiled.custom)

    def expect(self, steps: Iterable[NestedStep]) -> None:
        """Note steps of nested turns, which are counted when their time comes."""
        self._nested = sorted([*self._nested, *steps], key=lambda step: -step.at)

    def pay(self, usage: Usage, at: float | None, *, is_nested: bool = False) -> None:
        """Add a model request to the ledger, with what its reply took. ``at``: its time in seconds; None for now."""
        more = REQUEST_SENT.plus(of_reply(usage, self.state.compiled.prices.cost(usage)))
        fold(self.state, Paid(self.calls, more, is_nested), self.timeline.now if at is None else at)

    def finish(self, requests: Iterable[ModelRequest]) -> None:
        """End all running calls, and count what is left: these requests, and all steps of nested turns.

        What the turn spent is noted in its conversation, if the policy counts that.
        """
        self.end_until(None)
        for usage, _, at in requests:
            self.pay(usage, at)
        self._count_nested(inf)
        place, compiled = self.state.place, self.state.compiled
        if place is not None and compiled.counts_conversations and not self.level:
            place.conversation(compiled, self.timeline.now).settle(place.turn, self.state.history.ledger)

    def _count_nested(self, until: float | None = None) -> None:
        """Count the steps of nested turns until a time; None: until now."""
        now = self.timeline.now
        until = until or now or 0.0
        while self._nested and self._nested[-1].at <= until:
            step = self._nested.pop()
            if step.usage is not None:
                self.pay(step.usage, None, is_nested=True)
            elif step.loops is not None:
                fold(self.state, Paid(self.calls, step.loops, is_nested=True), now)
            elif step.begins:
                fold(self.state, Paid(self.calls, Ledger(children=1, depth=step.begins), is_nested=True), now)
                if step.begins == 1 and step.call in self._tools:
                    self._delegating.add(self._tools[step.call])
                    self._starting.pop(step.call, None)
            else:
                fold(self.state, Nested(self.calls), now)

    def begin(self, call: JudgeableCall, requests: Iterable[ModelRequest] = ()) -> None:
        """Begin a call. First the running calls are ended that were over before it.

        ``requests``: the model requests since the call before it, with the one that wrote it.
        """
        timeline, position = self.timeline, self.calls
        self.calls += 1
        for one in timeline.begin(call.at, call.step):
            self._end(one)
        self._count_nested()
        for usage, _, at in requests:
            self.pay(usage, at)
        if call.thought:  # a call that was refused has ended no thought: that counts for the next call, too
            self._think(call.thought - self.state.history.thinking)
        self.requests_are_read = self.requests_are_read or call.request_was_read
        if self.requests_are_read and self.state.history.concluded_before(timeline.written):
            fold(self.state, Concluded(position), timeline.now)  # the request that wrote the call had no tools
        event, now = call.began(position, self.state, timeline.written), timeline.now
        digest = event.resolved.tool.digest
        if self.state.compiled.budgets:
            starts = event.resolved.kind is Kind.AGENT or digest in self._delegating
            event = event._replace(place=PlaceInTree(None, None, self.level, len(self._starting), starts))
        if call.has_run:  # it is judged at once, with the result that the request has
            timeline.add(_Running(position, call, event, None, now), call.ended)
            self.end_until(None)
            return
        if self._has_own and event.judged:
            own = custom_trips(_FAULTS, self.state.compiled, self.state.history, opened(self.state, event, now))
            event = event._replace(custom=own)
        verdict = fold(self.state, event, now)
        record: Any = verdict.record
        is_refused = not self.state.is_recorded and verdict.action is not None and verdict.action > Action.NUDGE
        if event.ran is False or is_refused:
            in_vain = is_loop_step(verdict.trip, None)
            if event.ran is False and not in_vain and not call.refused_in_no_loop:
                in_vain = True  # so the guard of the program decided
                fold(self.state, Paid(position, LOOPED), now)
            self._over(JudgedCall(position, call, record, verdict.trip, (), in_vain))
        else:
            if call.span_id:
                self._tools[call.span_id] = digest
                if event.place is not None and event.place.starts:
                    self._starting[call.span_id] = None
            timeline.add(_Running(position, call, event, record, now), call.ended)

    def think(self, request: ModelSpan) -> None:
        """Note that the model thought until the end of a request. Call it in order: one that is late does not count."""
        if request.seconds:
            ended = request.end / 1e9
            self.end_until(ended)
            self.timeline.move(ended)
            self._think(request.seconds)

    def _think(self, seconds: float) -> None:
        fold(self.state, Thought(self.calls, seconds), self.timeline.now)

    def end_until(self, time: float | None) -> None:
        """End the running calls that are over at this time, in seconds; all of them if it is None."""
        for one in self.timeline.until(time):
            self._end(one)
        if time is not None:
            self._count_nested()

    def _end(self, one: _Running) -> None:
        position, call, event, record, _ = one
        if self._nested:
            self._count_nested()
        self._tools.pop(call.span_id, None)
        self._starting.pop(call.span_id, None)
        if record is None:
            self._ran(one)
            return
        state, trip = self.state, record.trip
        facts = call.facts(event.resolved.arguments, state.fingerprinter, state.pending_words_for(record))
        found = None if facts is None else facts.found
        # The same result, and yet news: an agent inside the call brought it.
        child_news = found is not None and found.news and found.sameness is Sameness.SAME
        verdict = self._fold_end(
            Ended(position, event, record, facts, child_news=child_news, finds=self._has_own and event.judged)
        )
        self._keep(record)
        shown, in_vain = trip or _shown(verdict.trip, event), is_loop_step(trip, record)
        self._over(JudgedCall(position, call, record, shown, verdict.recovered, in_vain))

    def _fold_end(self, event: Any) -> Verdict:
        """Judge an outcome, with what a user's own detectors find in it, as a live turn does."""
        verdict = fold(self.state, event, self.timeline.now)
        if not verdict.finds:
            return verdict
        found = custom_nudges(_FAULTS, self.state.compiled, self.state.history, verdict.record)  # type: ignore[arg-type]  # of a call
        return fold(self.state, Found(event.op, event, verdict, found), self.timeline.now)

    def _ran(self, one: _Running) -> None:
        position, call, event, _, begun = one
        state, now = self.state, self.timeline.now
        if self._has_own and event.judged:
            own = custom_trips(_FAULTS, state.compiled, state.history, opened(state, event, begun))
            event = event._replace(custom=own)
        facts = call.facts(event.resolved.arguments, state.fingerprinter, None)
        ended = Ended(position, event, None, facts, finds=self._has_own and event.judged)
        ran = 0.0 if now is None or begun is None else now - begun
        verdict = self._fold_end(Ran(position, event, ended, ran))
        record: Any = verdict.record
        self._keep(record)
        shown, in_vain = _shown(verdict.trip, event), is_loop_step(verdict.trip, record)
        self._over(JudgedCall(position, call, record, shown, verdict.recovered, in_vain))

    def _keep(self, record: Record) -> None:
        """Note that the result of a call could be given again, if its tool allows that."""
        if record.resolved.tool.contract.reuse and not record.error:
            self.state.reusable = {*self.state.reusable, record.key}


def _shown(trip: Trip | None, event: Began) -> Trip | None:
    """Return the trip of a result; None if the call is not judged in its turn, but only remembered."""
    return trip if event.judged else None
