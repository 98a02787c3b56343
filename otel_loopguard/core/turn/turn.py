"""One turn: what is asked before and after each of its tool calls.

The lock is held while the history is read and written, never while foreign code runs: fingerprints are made
before it is taken, ``on_trip`` and one's own detectors are asked outside of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from otel_loopguard.core.model import Action, Decision, Kind, Record, ToolCall, Trip, nothing_seen
from otel_loopguard.core.turn import decide, hooks, model_text
from otel_loopguard.core.turn.batch import Batch
from otel_loopguard.core.turn.in_flight import ReusableResults
from otel_loopguard.core.turn.kin import Kin
from otel_loopguard.core.turn.user_messages import texts
from otel_loopguard.core.values.introspect import name_text
from otel_loopguard.core.values.results import outcome_facts

if TYPE_CHECKING:
    from otel_loopguard.core.guard import Guard
    from otel_loopguard.core.model import Outcome
    from otel_loopguard.core.policy.policy import Policy
    from otel_loopguard.core.tools.contracts import ResolvedCall
    from otel_loopguard.core.turn.nesting import ParentCall
    from otel_loopguard.core.turn.user_messages import Notes, UserMessages

USER_STOP = "user_stop"
"""The mode of the trips of a run whose user said stop. ``on_trip`` is not asked: the user has decided."""

_MOST_OPEN_TRIPS = 32
_WRITE, _NUDGE, _ABORT, _OBSERVE = Kind.WRITE, Action.NUDGE, Action.ABORT, Action.OBSERVE


class Turn(Kin):
    """One user message and all that the agent does until it answers. Made by ``Guard.turn``; thread-safe."""

    __slots__ = ("_ceiling", "_clock", "_kept", "_message", "last_used")

    def __init__(
        self, guard: Guard, turn_id: str, source: str, *, enforced: bool, nest: ParentCall | None = None
    ) -> None:
        super().__init__(guard, turn_id, source, enforced=enforced, nest=nest)
        self._ceiling = _ABORT if enforced else _OBSERVE
        self._clock = guard.clock
        self.last_used = guard.clock()
        self._kept: ReusableResults | None = None
        self._message: Batch | None = None

    def __repr__(self) -> str:
        return f"Turn(id={self.id!r}, source={self.source!r}, calls={self.calls})"

    @property
    def calls(self) -> int:
        """How many calls have been started, those of child turns included."""
        return self._history.calls

    @property
    def tick(self) -> int:
        """The turn's own time: it goes on with each start and end of a call."""
        return self._history.tick

    @property
    def policy(self) -> Policy:
        """The policy that this turn began with."""
        return self._compiled.policy

    # --- before a call -------------------------------------------------------------------------------------------

    def begin(self, call: ToolCall) -> Decision:
        """What is to be done with a call that is about to be made; ``decision.runs`` says whether it runs."""
        record, trip, decision = self._judged(call)
        if decision is None:
            trip = hooks.asked(self._guard, self._compiled.policy.on_trip, trip)
            decision = self._settled(call, record, trip)
        return decision

    async def abegin(self, call: ToolCall) -> Decision:
        """The same as ``begin``, for async code: an async ``on_trip`` is awaited."""
        record, trip, decision = self._judged(call)
        if decision is None:
            trip = await hooks.awaited(self._guard, self._compiled.policy.on_trip, trip)
            decision = self._settled(call, record, trip)
        return decision

    def _judged(self, call: ToolCall) -> tuple[Record, Any, Decision | None]:
        """The decision, taken and recorded in one step; none if ``on_trip`` is to be asked about the trip first."""
        compiled = self._compiled
        resolved = compiled.contracts.resolve(call)
        arguments = compiled.fingerprinter.arguments(resolved.arguments, fold_blanks=resolved.kind is not _WRITE)
        registered = None if call.known_tools is None else _registered(call, resolved)
        now = self.last_used = self._clock()
        self._history.open_ended |= call.may_exist
        message = None if call.written is None else self._message_of(call, call.written)
        written = None if message is None else message.written
        own: tuple[Trip, ...] = ()
        if compiled.own_detectors:
            with self._lock:
                record = self._history.opened(resolved, arguments, registered=registered, now=now, written=written)
            own = hooks.own_trips(self._guard, compiled, self._history, record)
        with self._lock:
            record = self._history.opened(resolved, arguments, registered=registered, now=now, written=written)
            index, trip = None if message is None else message.index(call), None
            if index is not None:  # it was judged when it was started, and is that very call
                record.index, record.resumed = index, True
            elif compiled.judges:
                trip = decide.before(self._history, record, compiled, self._ceiling, own)
            if trip is not None and compiled.policy.on_trip is not None:
                return record, trip, None
            decision = self._settle(call, record, trip)
        if self._nest is not None and decision.runs and not record.resumed:
            self._nest.has_run()
        return record, trip, decision

    def _message_of(self, call: ToolCall, written: int) -> Batch:
        """The message that the call is from."""
        with self._lock:
            self._message = message = Batch(written) if self._message is None else self._message.of(call, written)
            return message

    def _settled(self, call: ToolCall, record: Record, trip: Trip) -> Decision:
        with self._lock:
            decision = self._settle(call, record, trip)
        if self._nest is not None and decision.runs:
            self._nest.has_run()
        return decision

    def _settle(self, call: ToolCall, record: Record, trip: Trip | None) -> Decision:
        """The decision takes effect: the call is pending from now on, or it is refused."""
        if self._said is not None and self._said.stops:
            return self._stopped(record, self._said)
        history = self._history
        if trip is not None:
            trip = self._possible(record, trip)
            history.open_trips = (*history.open_trips[-_MOST_OPEN_TRIPS:], trip)
            if trip.action > _NUDGE:
                return self._refused(call, record, trip)
            record.trip = trip
        history.started(record)
        self._pending.put(call, record)
        if self._message is not None:
            self._message.started(call, record.index)
        return nothing_seen(record) if trip is None else Decision(trip.action, trip, record=record)

    def _possible(self, record: Record, trip: Trip) -> Trip:
        """Where there is no result to give again, the next thing that the ceiling allows."""
        if trip.action is not Action.REUSE or (self._kept is not None and record.key in self._kept):
            return trip
        ceiling = min(record.resolved.tool.ceiling(trip.mode, self._compiled.policy), self._ceiling)
        return trip._replace(action=Action.BLOCK if ceiling >= Action.BLOCK else Action.NUDGE)

    def _refused(self, call: ToolCall, record: Record, trip: Trip) -> Decision:
        history, said, policy = self._history, self._said, self._compiled.policy
        record.trip = trip
        history.refused(record, insistable=trip.insistable)
        words = () if said is None or trip.action is _ABORT else said.take()  # the error that aborts has no place
        if trip.action is Action.REUSE:
            kept = self._kept.get(record.key) if self._kept is not None else None
            message = "\n".join([*texts(words), model_text.reused(trip)])
            return Decision(trip.action, trip, message, kept, record, said=words)
        message = model_text.refusal(trip, policy, history.refusals, call.known_tools, texts(words))
        return Decision(trip.action, trip, message, record=record, mark=policy.mark, said=words)

    def _stopped(self, record: Record, said: UserMessages) -> Decision:
        """The user said stop: the words again, until the run itself is ended."""
        history, limit = self._history, self._compiled.policy.abort_after
        history.refusals += 1
        action = _ABORT if 0 < limit < history.refusals and said.stop_is_heard else Action.BLOCK
        record.trip = trip = Trip(USER_STOP, record.tool, history.refusals, limit, action, action, kind=record.kind)
        new = () if action is _ABORT else said.take()
        again = [word for word in said.stops if word not in new]
        return Decision(action, trip, "\n".join(texts([*again, *new])), record=record, said=new)

    # --- after a call --------------------------------------------------------------------------------------------

    def end(self, call: ToolCall, outcome: Outcome) -> Decision:
        """What came back of a call that ran; a nudge in the answer is for the model, beside the result."""
        record, trip, recovered, decision = self._ended(call, outcome)
        if decision is None:
            trip = hooks.asked(self._guard, self._compiled.policy.on_trip, trip)
            decision = self._told(call, record, trip, recovered, fresh=True)
        return decision

    async def aend(self, call: ToolCall, outcome: Outcome) -> Decision:
        """The same as ``end``, for async code: an async ``on_trip`` is awaited."""
        record, trip, recovered, decision = self._ended(call, outcome)
        if decision is None:
            trip = await hooks.awaited(self._guard, self._compiled.policy.on_trip, trip)
            decision = self._told(call, record, trip, recovered, fresh=True)
        return decision

    def _ended(self, call: ToolCall, outcome: Outcome) -> tuple[Any, Any, tuple[Trip, ...], Decision | None]:
        """What follows from the outcome; no decision yet if ``on_trip`` is to be asked about the trip first."""
        with self._lock:
            record = self._pending.take(call)
            if outcome.cancelled and self._message is not None:
                self._message.cut(call)
        if record is None or outcome.cancelled:
            record = record or self._equal(call)
            if record is None or outcome.cancelled:
                return record, None, (), nothing_seen(record)
        record.registered = outcome.exists or record.registered
        compiled, history = self._compiled, self._history
        seen = outcome_facts(outcome, record.resolved.arguments, compiled.fingerprinter)
        recovered: tuple[Trip, ...] = ()
        with self._lock:
            history.ended(record, seen, compiled.fingerprinter)
            if record.news and history.open_trips:
                recovered, history.open_trips = history.open_trips, ()
            trip = record.trip or (decide.after(history, record, compiled, self._ceiling) if compiled.judges else None)
            if record.resolved.tool.contract.reuse and not record.error:
                self._kept = self._kept or ReusableResults()
                self._kept.put(record.key, outcome, len(seen.data))
        nest = self._nest
        if nest is not None and record.news and nest.family.is_news(record, seen, compiled.fingerprinter):
            nest.has_news()
        if trip is None and self._said is None and not recovered:
            return record, None, (), nothing_seen(record)
        fresh = trip is not None and trip is not record.trip
        if fresh and compiled.policy.on_trip is not None:
            return record, trip, recovered, None
        return record, trip, recovered, self._told(call, record, trip, recovered, fresh=fresh)

    def _told(
        self, call: ToolCall, record: Record, trip: Trip | None, recovered: tuple[Trip, ...], *, fresh: bool
    ) -> Decision:
        """What the model shall read beside the result. The user's words are taken now, when nothing is awaited more."""
        action = None if trip is None else trip.action
        if fresh and trip is not None:
            record.trip = trip
            with self._lock:
                self._history.open_trips = (*self._history.open_trips[-_MOST_OPEN_TRIPS:], trip)
        said: Notes = () if self._said is None else self._said.take()
        if trip is not None and action is _NUDGE:
            said = (*said, model_text.nudge(trip, self._compiled.policy, call.known_tools))
        message = "\n".join(texts(said)) or None
        return Decision(action, trip if fresh else None, message, record=record, recovered=recovered, said=said)

    def _equal(self, call: ToolCall) -> Record | None:
        """The record of a call that the caller has made anew."""
        compiled = self._compiled
        resolved = compiled.contracts.resolve(call)
        arguments = compiled.fingerprinter.arguments(resolved.arguments, fold_blanks=resolved.kind is not _WRITE)
        with self._lock:
            return self._pending.take_equal(call, lambda record: bool(record.arguments == arguments))


def _registered(call: ToolCall, resolved: ResolvedCall) -> bool | None:
    """Whether the tool exists. What stands behind a gateway is registered there, which cannot be seen from here."""
    name, known = resolved.tool.name, call.known_tools
    return None if known is None or name != name_text(call.tool) else name in known
