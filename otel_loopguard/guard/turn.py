"""One turn: begin and end each of its tool calls, and say what to do.

The lock is held while the history is read and written, never while user code runs: fingerprints are made before it is
taken, ``on_trip`` and custom detectors are called outside of it. Two things may still happen under it, at any
instruction. A signal handler or a finaliser may make a call of the same turn: the lock lets its own thread in, and a
call that comes while the history is being changed is not judged. An exception of a signal handler may cut a change
short: the history begins empty then, because half a change could prove anything.
"""

from __future__ import annotations

from dataclasses import dataclass
from threading import RLock
from typing import TYPE_CHECKING, Any
from weakref import ref

from otel_loopguard.engine import decide, sentences
from otel_loopguard.engine.batch import Batch
from otel_loopguard.engine.history import update
from otel_loopguard.engine.judge import TurnJudge
from otel_loopguard.engine.tools.contracts import LONGEST_TOOL_NAME
from otel_loopguard.engine.values.introspect import name_text
from otel_loopguard.engine.values.results import outcome_facts
from otel_loopguard.engine.words import USER_STOP, Action, Decision, Record, ToolCall, Trip, nothing_seen
from otel_loopguard.guard import callbacks, first_call
from otel_loopguard.guard.in_flight import CallsInFlight, ReusableResults
from otel_loopguard.guard.nesting import ParentCall, TurnTree
from otel_loopguard.messages import NO_MESSAGES, UserMessages, note_texts

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

    from typing_extensions import Self

    from otel_loopguard.engine.compiled import CompiledPolicy
    from otel_loopguard.engine.conversation import ConversationTurn
    from otel_loopguard.engine.policy.policy import Policy
    from otel_loopguard.engine.tools.contracts import ResolvedCall
    from otel_loopguard.engine.values.results import OutcomeFacts
    from otel_loopguard.engine.words import First, Outcome
    from otel_loopguard.messages import Notes, UserMessage

_NUDGE, _CONCLUDE, _ABORT, _OBSERVE = Action.NUDGE, Action.CONCLUDE, Action.ABORT, Action.OBSERVE


@dataclass(frozen=True, slots=True)  # its fields are read faster than those of a tuple
class TurnHost:
    """The guard's part in its turns."""

    clock: Callable[[], float]
    faults: callbacks.HookFaults
    forget: Callable[[str], None]
    """Called with the id of a turn that is over."""
    use_again: Callable[[Turn], None]
    """Called when a call begins in a turn whose state is in the store."""
    made: Callable[[ref[Turn]], None]
    """Called with a reference to each new turn."""
    gone: Callable[[ref[Turn]], None]
    """Called with the same reference when the turn is gone."""


class Turn:
    """One user message and all that the agent does until it answers. Made by ``Guard.turn``; thread-safe."""

    __slots__ = (
        "__weakref__", "_made_messages", "_results", "_tree", "batch", "changing", "conversation", "enforced", "host",
        "id", "in_flight", "judge", "known_as", "last_used", "lock", "messages", "parent", "source", "stored",
    )  # fmt: skip

    def __init__(
        self,
        host: TurnHost,
        compiled: CompiledPolicy,
        turn_id: str,
        source: str,
        *,
        enforced: bool,
        parent: ParentCall | None = None,
        conversation: ConversationTurn | None = None,
    ) -> None:
        self.id = turn_id
        self.known_as = turn_id
        """The id by which this process finds it: that of a shared turn may become another one."""
        self.source = source
        self.enforced = enforced
        """More than observing is allowed."""
        self.last_used = host.clock()
        self.stored = False
        """The state is in the store, though this object is still held."""
        self.host = host
        self.judge = TurnJudge(compiled, ceiling=_ABORT if enforced else _OBSERVE)
        self.lock = RLock()
        self.changing = False
        """The history is being changed, or an exception has cut a change short."""
        self.in_flight = CallsInFlight()
        self._results: ReusableResults | None = None
        self.batch: Batch | None = None
        self.parent = parent
        self.conversation = conversation
        """The memory beyond this turn, if the policy wants one and the conversation is known."""
        self._tree: TurnTree | None = None if parent is None else parent.tree
        self.messages: UserMessages | None = None if parent is None else parent.tree.user_messages
        self._made_messages: dict[str, UserMessages] = {}
        """Makes ``messages`` exactly once without a lock, because a signal handler may call ``say``."""
        host.made(ref(self, host.gone))

    def __repr__(self) -> str:
        return f"Turn(id={self.id!r}, source={self.source!r}, calls={self.calls})"

    is_shared = False
    """True if the decisions about its calls have to be waited for."""

    @property
    def calls(self) -> int:
        """The number of calls that were started, those of nested turns included."""
        return self.judge.history.calls

    @property
    def tick(self) -> int:
        """The turn's own time: it moves with each start and end of a call."""
        return self.judge.history.tick

    @property
    def refusals(self) -> int:
        """The number of refusals since the last news, as ``abort_after`` counts them."""
        return self.judge.history.refusals

    @property
    def policy(self) -> Policy:
        """The policy that this turn began with."""
        return self.judge.compiled.policy

    # --- the turn itself -----------------------------------------------------------------------------------------

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> list[str]:
        """End the turn. Return the user's messages that were not delivered; a nested turn leaves them to the outer."""
        with self.lock:
            self.in_flight.clear()
        if self.parent is not None:
            return []
        self.host.forget(self.known_as)
        messages = self.messages or self._made_messages.setdefault("", NO_MESSAGES)
        return [] if messages is NO_MESSAGES else messages.close()

    @property
    def is_storable(self) -> bool:
        """True if ``state`` is all that the turn needs: no running or interrupted calls, messages or kept results."""
        batch = self.batch
        return not (
            len(self.in_flight)
            or self.changing
            or self.messages is not None
            or self._tree is not None
            or self._results is not None
            or (batch is not None and batch.interrupted)
        )

    def state(self) -> bytes:
        """Return the history as bytes. ``restore`` reads them, in this process or in another with the same hash key."""
        with self.lock:
            return self.judge.history.to_bytes()

    def restore(self, state: bytes) -> None:
        """Continue from the history that ``state`` returned."""
        with self.lock:
            self.judge.history.restore(state)

    def after_fork(self, turn_id: str) -> None:
        """Begin with an empty history in a child process, under this id. A user's request to stop still holds."""
        self.id = self.known_as = turn_id
        self.lock = RLock()
        self.changing = self.stored = False
        self.judge.start_over()
        self.judge.history.reached = {}
        self.in_flight = CallsInFlight()
        self._results = self.batch = None
        if self._tree is not None:
            self._tree.after_fork()
        if self.messages is not None:
            self.messages.after_fork()

    def child(self, call: ToolCall) -> Turn:
        """Return the turn of a run inside a running call: a history of its own; its news is news of that call."""
        messages = self._user_messages()
        with self.lock:
            tree = self._tree = self._tree or TurnTree(messages)
        parent = ParentCall(tree, self._count_nested, self.in_flight.get(call), self.parent)
        child_id = f"{self.id}/{tree.next_number()}"
        return Turn(
            self.host, self.judge.compiled, child_id, self.source, enforced=self.enforced, parent=parent,
            conversation=self.conversation,
        )  # fmt: skip

    def _count_nested(self) -> None:
        """Count a call of a nested turn."""
        with self.lock:
            self.judge.history.calls += 1

    # --- messages of the user ------------------------------------------------------------------------------------

    def say(self, text: str, *, stop: bool = False) -> UserMessage:
        """Send the model a message with its next result. With ``stop``, further calls are refused with it.

        Nested turns deliver it, too. It is not accepted if the turn is over.
        """
        return self._user_messages().add(text, stop=stop)

    def redeliver(self, decision: Decision) -> None:
        """Deliver the notes of a decision with the next result: there was no place for them in this one."""
        notes = self.undelivered_notes(decision)
        if notes:
            self._user_messages().put_back(notes)

    @staticmethod
    def undelivered_notes(decision: Decision) -> Notes:
        """Return the notes of a decision as they are worded with a later result."""
        notes: Notes = decision.notes
        if decision.action is _NUDGE and notes and isinstance(notes[-1], str):
            notes = (*notes[:-1], sentences.about_earlier_call(decision.record.tool, notes[-1]))
        return notes

    def _user_messages(self) -> UserMessages:
        if self.messages is None:
            self.messages = self._made_messages.setdefault("", UserMessages())
        return self.messages

    # --- before a call -------------------------------------------------------------------------------------------

    def begin(self, call: ToolCall) -> Decision:
        """Decide about a call that is about to be made. It may run if ``decision.runs``."""
        resolved, arguments = self.judge.compiled.contracts.identify(call)
        decision = first_call.begin(self, call, resolved, arguments)
        if decision is None:
            record, decision = self._decide(call, resolved, arguments)
            if decision is None:
                record.trip = callbacks.ask_on_trip(self.host.faults, self.policy.on_trip, record.trip)
                decision = self._settle_locked(call, record)
        return decision

    async def abegin(self, call: ToolCall) -> Decision:
        """Do the same as ``begin`` in async code, where an async ``on_trip`` is awaited."""
        resolved, arguments = self.judge.compiled.contracts.identify(call)
        decision = first_call.begin(self, call, resolved, arguments)
        if decision is None:
            record, decision = self._decide(call, resolved, arguments)
            if decision is None:
                record.trip = await callbacks.await_on_trip(self.host.faults, self.policy.on_trip, record.trip)
                decision = self._settle_locked(call, record)
        return decision

    def _decide(
        self, call: ToolCall, resolved: ResolvedCall, arguments: int, ran: float | None = None
    ) -> tuple[Any, Decision | None]:
        """Judge a call and record the decision in one step. There is no decision yet if ``on_trip`` must be asked.

        ``ran`` is for a call that has run already, for so many seconds: it is only judged.
        """
        if self.changing and self._is_interrupted():
            return None, nothing_seen(None)
        judge = self.judge
        compiled = judge.compiled
        known = call.known_tools
        registered = None if known is None else is_registered(call.tool, resolved.tool.name, known)
        self.last_used = self.host.clock()
        now = self.last_used if ran is None else self.last_used - ran
        if self.stored:
            self.host.use_again(self)
        history = judge.history
        batch = None if call.written is None else self.batch_of(call, call.written)
        written = None if batch is None else batch.written
        custom: tuple[Trip, ...] = ()
        if compiled.policy.detectors:
            with self.lock:
                record = update.open_record(
                    history, resolved, arguments, registered=registered, now=now, written=written
                )
            custom = callbacks.custom_trips(self.host.faults, compiled, history, record)
        with self.lock:
            if call.may_exist:
                history.open_registry = True
            record = update.open_record(history, resolved, arguments, registered=registered, now=now, written=written)
            index = None if batch is None else batch.resumed_index(call)
            if index is not None:  # the call was judged when it was started, before an interrupt
                record.index, record.resumed = index, True
            else:
                judge.judge(record, custom)
            if ran is not None or (record.trip is not None and compiled.policy.on_trip is not None):
                return record, None
            decision = self._settle(call, record)
        if self.parent is not None and decision.runs and not record.resumed:
            self.parent.count_call()
        return record, decision

    def _is_interrupted(self) -> bool:
        """Return True in code that interrupts this thread's change of the history; start over after a change cut short.

        Called only while a change goes on, in whatever thread.
        """
        if self.lock._is_owned():  # type: ignore[attr-defined]  # noqa: SLF001 - threading.Condition asks it, too
            return True
        with self.lock:
            if self.changing:
                self.judge.start_over()
                self.changing = False
        return False

    def batch_of(self, call: ToolCall, written: int) -> Batch:
        """Return the batch of a call that the model wrote at this tick."""
        with self.lock:
            batch = self.batch
            if batch is None or written != batch.latest:
                self.batch = batch = Batch(written) if batch is None else batch.following(call)
            return batch

    def _settle_locked(self, call: ToolCall, record: Record) -> Decision:
        with self.lock:
            decision = self._settle(call, record)
        if self.parent is not None and decision.runs:
            self.parent.count_call()
        return decision

    def _settle(self, call: ToolCall, record: Record) -> Decision:
        """Make the decision take effect: the call is in flight from now on, or it is refused."""
        if self.messages is not None and self.messages.stops:
            return self._stop(record, self.messages)
        self.changing = True
        self.judge.settle(record)
        self.changing = False
        trip = record.trip
        if trip is not None and trip.action > _NUDGE:
            return self._refusal(call, record, trip)
        decision = nothing_seen(record) if trip is None else Decision(trip.action, trip, record=record)
        self.in_flight.put(call, decision)
        if self.batch is not None:
            self.batch.add(call, record.index)
        return decision

    def _refusal(self, call: ToolCall, record: Record, trip: Trip) -> Decision:
        messages, policy = self.messages, self.policy
        # The error that aborts a run has no place for messages.
        notes = () if messages is None or trip.action is _ABORT else messages.take()
        if trip.action is Action.REUSE:
            result = None if self._results is None else self._results.get(record.key)
            text = "\n".join([*note_texts(notes), sentences.reused(trip)])
            return Decision(trip.action, trip, text, result, record, notes=notes)
        text = sentences.refusal(trip, policy, self.judge.history.refusals, call.known_tools, notes)
        return Decision(trip.action, trip, text, record=record, mark=policy.mark, notes=notes)

    def _stop(self, record: Record, messages: UserMessages) -> Decision:
        """Refuse a call with the user's message to stop, until the run itself is ended."""
        history, policy = self.judge.history, self.policy
        action = decide.next_step(history, record, policy)
        if action is _ABORT and not messages.stop_is_delivered:
            action = Action.BLOCK
        history.refusals += 1
        if action is _CONCLUDE:
            history.conclude_at = history.news
        limit = policy.abort_after
        record.trip = trip = Trip(USER_STOP, record.tool, history.refusals, limit, action, action, kind=record.kind)
        return self._stopped(record, trip, messages)

    def _stopped(self, record: Record, trip: Trip, messages: UserMessages) -> Decision:
        """Word the decision of a call that the user's message to stop came before."""
        new = () if trip.action is _ABORT else messages.take()
        repeated = [message for message in messages.stops if message not in new]
        return Decision(trip.action, trip, "\n".join(note_texts([*repeated, *new])), record=record, notes=new)

    # --- after a call --------------------------------------------------------------------------------------------

    def end(self, call: ToolCall, outcome: Outcome) -> Decision:
        """Count the outcome of a call that ran. The decision's message, a nudge, is for the model, with the result."""
        first = first_call.end(self, call, outcome)
        if first is not None:
            return first
        record, trip, recovered, decision = self._count_outcome(call, outcome)
        if decision is None:
            trip = callbacks.ask_on_trip(self.host.faults, self.policy.on_trip, trip)
            decision = self._nudge(call, record, trip, recovered)
        return decision

    async def aend(self, call: ToolCall, outcome: Outcome) -> Decision:
        """Do the same as ``end`` in async code, where an async ``on_trip`` is awaited."""
        first = first_call.end(self, call, outcome)
        if first is not None:
            return first
        record, trip, recovered, decision = self._count_outcome(call, outcome)
        if decision is None:
            trip = await callbacks.await_on_trip(self.host.faults, self.policy.on_trip, trip)
            decision = self._nudge(call, record, trip, recovered)
        return decision

    def observe(self, call: ToolCall, outcome: Outcome, *, ran: float = 0.0) -> Decision:
        """Count a call that has run already, for ``ran`` seconds, with its outcome. Nothing is refused.

        A call that would have been refused counts as a refusal, unless its outcome is news. Then the message, which is
        for the model with the result, says so. The action is OBSERVE, NUDGE, CONCLUDE (a conclusion is due) or ABORT
        (the run is to be ended).
        """
        record, trip, recovered, decision = self._count_observed(call, outcome, ran)
        if decision is None:
            if trip is not None and self.policy.on_trip is not None:
                trip = callbacks.ask_on_trip(self.host.faults, self.policy.on_trip, trip)
            decision = self._observed(call, record, trip, recovered)
        return decision

    async def aobserve(self, call: ToolCall, outcome: Outcome, *, ran: float = 0.0) -> Decision:
        """Do the same as ``observe`` in async code, where an async ``on_trip`` is awaited."""
        record, trip, recovered, decision = self._count_observed(call, outcome, ran)
        if decision is None:
            if trip is not None and self.policy.on_trip is not None:
                trip = await callbacks.await_on_trip(self.host.faults, self.policy.on_trip, trip)
            decision = self._observed(call, record, trip, recovered)
        return decision

    def _count_observed(
        self, call: ToolCall, outcome: Outcome, ran: float
    ) -> tuple[Any, Any, tuple[Trip, ...], Decision | None]:
        record, decision = self._decide(call, *self.judge.compiled.contracts.identify(call), ran)
        if decision is not None:
            return record, None, (), decision
        if self.parent is not None:
            self.parent.count_call()
        return self._count_outcome(call, outcome, record)

    def _count_outcome(
        self, call: ToolCall, outcome: Outcome, observed: Record | None = None
    ) -> tuple[Any, Any, tuple[Trip, ...], Decision | None]:
        """Count the outcome. There is no decision yet if ``on_trip`` must be asked about the trip.

        ``observed`` is the record of a call that has run already, and was only judged.
        """
        if self.changing and self._is_interrupted():
            return None, None, (), nothing_seen(None)
        judge, now = self.judge, self.host.clock()
        with self.lock:
            record = observed or self.in_flight.take(call)
        if record is None or outcome.cancelled:
            record = record or self._take_equal(call)
            if outcome.cancelled:
                self._cancel(call, now)
            if record is None or outcome.cancelled:
                return record, None, (), nothing_seen(record)
        record.registered = outcome.exists or record.registered
        compiled, history = judge.compiled, judge.history
        facts = outcome_facts(
            outcome, record.resolved.arguments, compiled.fingerprinter, judge.pending_words_for(record)
        )
        recovered: tuple[Trip, ...] = ()
        with self.lock:
            self.changing = True
            trip = judge.end(record, facts, now) if observed is None else judge.observe(record, facts, now)
            self.changing = False
            if record.news and history.open_trips:
                recovered, history.open_trips = history.open_trips, ()
            if record.resolved.tool.contract.reuse and not record.error and observed is None:
                judge.reusable = self._results = self._results or ReusableResults()
                self._results.put(record.key, outcome, len(facts.data))
        if self.parent is not None or self.conversation is not None:
            trip = self._pass_on(record, facts, now, trip)
        if observed is not None:
            return record, trip, recovered, None
        if trip is None:
            if record.trip is None and self.messages is None and not recovered:
                return record, None, (), nothing_seen(record)
            return record, None, recovered, self._with_messages(call, record, record.trip, recovered)
        if compiled.policy.on_trip is not None:
            return record, trip, recovered, None
        return record, trip, recovered, self._nudge(call, record, trip, recovered)

    def _pass_on(self, record: Record, facts: OutcomeFacts, now: float, trip: Trip | None) -> Trip | None:
        """Count an outcome in the turns around this one and in the conversation. Return the trip, if there is one."""
        parent, compiled = self.parent, self.judge.compiled
        if parent is not None and record.news and parent.tree.is_news(record, facts, compiled.fingerprinter):
            parent.mark_news()
        if self.conversation is None:
            return trip
        reports = trip is None and record.trip is None
        return self.conversation.end(record, facts, compiled, now, reports=reports) or trip

    def _cancel(self, call: ToolCall, now: float) -> None:
        with self.lock:
            self.judge.cancelled(now)
            if self.batch is not None:
                self.batch.interrupt(call)

    def _nudge(self, call: ToolCall, record: Record, trip: Trip, recovered: tuple[Trip, ...]) -> Decision:
        """Record the trip of an outcome, and word it for the model."""
        record.trip = trip
        with self.lock:
            self.judge.remember(trip)
        return self._with_messages(call, record, trip, recovered)._replace(trip=trip)

    def _with_messages(
        self, call: ToolCall, record: Record, trip: Trip | None, recovered: tuple[Trip, ...]
    ) -> Decision:
        """Make the text for the model. The user's messages are taken last, when nothing is awaited any more."""
        notes: Notes = () if self.messages is None else self.messages.take()
        action = None if trip is None else trip.action
        if trip is not None and action is _NUDGE:
            notes = (*notes, sentences.nudge(trip, self.policy, call.known_tools))
        text = "\n".join(note_texts(notes)) or None
        return Decision(action, None, text, record=record, recovered=recovered, notes=notes)

    def _observed(self, call: ToolCall, record: Record, trip: Trip | None, recovered: tuple[Trip, ...]) -> Decision:
        """Make the decision about a call that has run take effect, and word it for the model."""
        messages, policy = self.messages, self.policy
        if messages is not None and messages.stops and self.enforced:
            return self._observed_after_stop(record, messages)._replace(recovered=recovered)
        if trip is None:
            return self._with_messages(call, record, None, recovered)
        with self.lock:
            trip = self.judge.count_trip(record, trip)
            refusals = self.judge.history.refusals
        if trip.action < _NUDGE or (trip.action is _NUDGE and trip.verdict is _NUDGE):
            return self._with_messages(call, record, trip, recovered)._replace(trip=trip)
        notes: Notes = () if messages is None or trip.action is _ABORT else messages.take()
        notes = (*notes, sentences.told(record, trip, policy, refusals, call.known_tools))
        return Decision(trip.action, trip, "\n".join(note_texts(notes)), None, record, recovered, None, notes)

    def _observed_after_stop(self, record: Record, messages: UserMessages) -> Decision:
        """Conclude the turn with the user's message to stop. End the run if the model has read it and makes calls."""
        history, policy = self.judge.history, self.policy
        with self.lock:
            counts = update.is_new_refusal(history, record)
            if policy.conclude_after and history.concluded_at < 0:
                action = _CONCLUDE
            else:
                action = _ABORT if policy.abort_after and counts and messages.stop_is_delivered else _NUDGE
            limit, verdict = policy.abort_after, max(action, Action.BLOCK)
            trip = Trip(USER_STOP, record.tool, history.refusals + counts, limit, verdict, action, kind=record.kind)
            update.count_refusal(history, record, trip)
        record.trip = trip
        return self._stopped(record, trip, messages)

    # --- the model's side ----------------------------------------------------------------------------------------

    @property
    def conclusion_due(self) -> bool:
        """The next model request is to be made without tools, so that the model answers."""
        return self.judge.history.conclusion_due

    def conclude(self) -> str | None:
        """Return the sentence for a model request without tools, if a conclusion is due. There is one a turn."""
        with self.lock:
            history = self.judge.history
            if not history.conclusion_due:
                return None
            history.concluded_at = history.news
            trip = next((one for one in reversed(history.open_trips) if one.action is _CONCLUDE), None)
            stopped = self.messages is not None and bool(self.messages.stops)
            return sentences.conclusion(trip, self.policy, history.refusals, stopped=stopped)

    def lose(self, keys: Iterable[int]) -> None:
        """Note that the model cannot see the latest result of these calls any more: it is no evidence from now on.

        The next equal call is judged as if it had not run. It counts as any repeat from the 20th loss of one call on.
        """
        with self.lock:
            for key in keys:
                update.lose(self.judge.history, key)

    def key_of(self, call: ToolCall) -> int:
        """Return the number that identifies a call in the history: equal for the same tool with equal arguments."""
        resolved, arguments = self.judge.compiled.contracts.identify(call)
        return arguments ^ resolved.tool.digest

    # --- reports -------------------------------------------------------------------------------------------------

    def reach(self, trip: Trip) -> First:
        """Note that a trip is reported. Return whether it is the turn's first with its action, or with its mode."""
        with self.lock:
            return self.judge.reach(trip)

    def _take_equal(self, call: ToolCall) -> Record | None:
        """Return the record of a call for which the caller made a new object."""
        key = self.key_of(call)
        with self.lock:
            return self.in_flight.take_equal(call, lambda record: bool(record.key == key))


def is_registered(called: Any, name: str, known: Collection[str]) -> bool | None:
    """Return True if the tool of this name exists. A tool behind a gateway is registered there, out of sight: None."""
    if type(called) is not str:
        called = name_text(called)
    if len(called) > LONGEST_TOOL_NAME:  # it was cut, and is no gateway
        return called in known
    return name in known if name == called else None
