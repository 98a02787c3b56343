"""A turn that several processes share: each has a copy of it, and all fold the same events in the same order.

``Turn`` is the specification: an event is folded by doing to the copy what ``Turn`` does at such a call. The decision
about a call is the one at the place of its event in the log, so it is equal in each process. Functions of the policy
are asked by the process that makes the call, and change only what that process does.

An append is one round trip. The lock is held while events are folded, never while the log is waited for. If the log
cannot be used, the event is folded as if it were appended, so the turn goes on in this process. It is sent with the
next append; the log takes each event once, so it does not matter which of them had arrived. Then the copy is made
again from the log.
"""

from __future__ import annotations

import asyncio
import os
import time
from base64 import b85decode, b85encode
from collections import OrderedDict
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple
from weakref import ref

from otel_loopguard.engine import sentences
from otel_loopguard.engine.conversation import Conversation, ConversationTurn
from otel_loopguard.engine.history import update
from otel_loopguard.engine.history.tool_stats import ToolStats
from otel_loopguard.engine.judge import TurnJudge
from otel_loopguard.engine.values import introspect
from otel_loopguard.engine.values.compare import DetailedFingerprints, compare, detailed_fingerprints
from otel_loopguard.engine.values.normalise import utf8
from otel_loopguard.engine.values.results import Prints, outcome_facts
from otel_loopguard.engine.words import USER_STOP, Action, Decision, Record, ToolCall, Trip, nothing_seen
from otel_loopguard.guard import callbacks, log_events
from otel_loopguard.guard.in_flight import CallsInFlight, ReusableResults
from otel_loopguard.guard.shared_state import OpenCall, SharedState
from otel_loopguard.guard.turn import Turn, is_registered
from otel_loopguard.messages import UserMessage, note_texts

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Sequence
    from typing import TypeAlias

    from otel_loopguard.engine.compiled import CompiledPolicy
    from otel_loopguard.engine.tools.contracts import ResolvedCall
    from otel_loopguard.engine.values.results import OutcomeFacts
    from otel_loopguard.engine.words import First, Outcome
    from otel_loopguard.guard.event_log import EventLog, LogReply, Op
    from otel_loopguard.guard.log_events import CallBegan, CallEnded, CallObserved
    from otel_loopguard.guard.turn import TurnHost

_NUDGE, _ABORT, _OBSERVE = Action.NUDGE, Action.ABORT, Action.OBSERVE
_SNAPSHOT_EVERY = 64
_MOST_UNSENT = 1_024
_MOST_AT_ONCE = 32
"""The first event, of the beginning of the turn, and the last ones are sent again by code that does not wait."""
_MOST_DETAILS = 256
_OF_CALLS = frozenset({log_events.CallBegan, log_events.CallEnded, log_events.CallObserved})
_MOST_FIRSTS = 64
_MOST_SAID = 256


class _Step:
    """One operation of this process: its event, and the objects that only this process has."""

    __slots__ = ("began", "call", "data", "decision", "is_repeatable", "op", "outcome", "resolved")

    def __init__(self, op: int, call: ToolCall, resolved: ResolvedCall) -> None:
        self.op = op
        self.call = call
        self.resolved = resolved
        self.data = b""
        self.is_repeatable = False
        """Another process may have appended the same event."""
        self.outcome: Outcome | None = None
        self.began: _Step | None = None
        """The beginning of the call that ends."""
        self.decision: Decision | None = None
        """None until the event is folded."""


class _Request(NamedTuple):
    """An append to the log."""

    ops: Sequence[Op]
    epoch: bytes
    seen: int
    snapshot: tuple[int, bytes] | None = None


_READ = _Request((), b"", 0)
"""Reads the whole log."""


class _Unsent:
    """An event that the log may not have."""

    __slots__ = ("data", "is_folded")

    def __init__(self, data: bytes, *, folded_at: float | None = None) -> None:
        self.data = data if folded_at is None else log_events.timed(data, folded_at)
        self.is_folded = folded_at is not None


if TYPE_CHECKING:
    _Exchange: TypeAlias = Generator[_Request, LogReply | None, Decision | None]


class SharedTurn(Turn):
    """A turn whose events are in a log. Made by ``Guard.turn``."""

    __slots__ = (
        "_adopts", "_alone", "_details", "_diverged", "_firsts", "_folding", "_given", "_has_read", "_key", "_log",
        "_mine", "_names_turn", "_nested", "_nonce", "_number", "_own_calls", "_running", "_said", "_state",
        "_synced", "_unsent",
    )  # fmt: skip

    def __init__(  # noqa: PLR0917 - as for ``Turn``
        self,
        host: TurnHost,
        compiled: CompiledPolicy,
        turn_id: str,
        source: str,
        log: EventLog,
        key: str,
        *,
        enforced: bool = True,
        begins: bool = True,
        is_named: bool = True,
    ) -> None:
        super().__init__(host, compiled, turn_id, source, enforced=enforced)
        self._log = log
        self._key = key
        self._adopts = not begins
        """Go on with the turn that the log is in, whatever its id."""
        self._names_turn = is_named
        """The program has chosen the id, and may use it again: the turn does not end with a block of the program."""
        self._number = compiled.fingerprinter.of(utf8(turn_id)) if begins else 0
        self._nonce = os.urandom(8)
        """Tells the model messages of this object from those of others."""
        self._state = SharedState()
        self._alone = False
        """Another turn has replaced this one in the log: it goes on in this process, as a turn that is not shared."""
        self._diverged = False
        """The copy has events that the log may not have."""
        self._has_read = False
        """The log is known to exist, or to have been lost."""
        self._folding = False
        """Events are being folded, or an exception has cut that short."""
        self._synced = (time.time(), host.clock())
        """The time of the log, and that of this process then."""
        self._unsent: OrderedDict[int, _Unsent] = OrderedDict()
        if begins:
            self._keep_unsent(
                self._number, log_events.to_bytes(self._number, log_events.TurnBegan(self._seal(turn_id)))
            )
        self._mine: dict[int, _Step] = {}
        """The operations that are not folded yet."""
        self._running: dict[int, _Step] = {}
        """The beginnings of this process's calls that run, by the identity of the call."""
        self._details: OrderedDict[int, tuple[int, DetailedFingerprints]] = OrderedDict()
        """The index and the fingerprints, with numbers, of the last run of calls that this process repeated."""
        self._firsts: OrderedDict[Trip, First] = OrderedDict()
        self._said: OrderedDict[int, UserMessage] = OrderedDict()
        self._given: OrderedDict[int, set[str]] = OrderedDict()
        """The texts of the notes that were given with each operation that was decided without the log."""
        self._own_calls = 0
        self._nested = 0
        """Calls of nested turns since the last event that counts them."""

    is_shared = True

    # --- the turn itself -----------------------------------------------------------------------------------------

    @property
    def calls(self) -> int:
        """The number of calls that this process started, those of nested turns included."""
        return self._own_calls

    @property
    def is_storable(self) -> bool:
        """True if this object can be dropped: the log has all of the turn, but the calls that run here."""
        return not (self._running or self._mine or self._unsent)

    def state(self) -> bytes:
        """Return nothing: the state is in the log."""
        return b""

    def restore(self, state: bytes) -> None:
        """Read nothing: the next event brings the state."""

    def remember(self, name: str) -> None:
        """Remember the conversation of this name beyond its turns, in the log."""
        self.conversation = ConversationTurn(_LoggedMemory(self), name, self._number)

    def runs_elsewhere(self) -> bool:
        """Read the log, and return True if a turn goes on in it. On an event loop the log cannot be waited for."""
        if _on_event_loop():
            return True
        reply = self._log.append(self._key, (), epoch=b"", seen=0)
        if reply is None or not reply.epoch:
            return False
        with self.lock:
            self._fold_reply(reply, _READ)
        return not self._state.is_over

    def close(self) -> list[str]:
        """End the turn. One that the program has named goes on: its next step may be in any process, or here."""
        if self._names_turn and not self._alone:
            return []
        if self._state.position and not self._alone:
            op, data = self._new_op(), log_events.to_bytes(self._number, log_events.TurnEnded())
            self._send_later([(_op_bytes(op), data)])
        self._queue_unsent_messages()
        return super().close()

    def after_fork(self, turn_id: str) -> None:
        """Go on in a child process as any other process of the turn. Its running calls are the parent's."""
        super().after_fork(turn_id)
        self._nonce = os.urandom(8)
        self._running.clear()
        self._mine.clear()
        self._said.clear()
        self._given.clear()
        began = self._unsent.get(self._number)
        self._unsent.clear()
        if began is not None:  # the parent may not have sent it
            self._keep_unsent(self._number, began.data)
        self._folding, self._diverged = False, False
        self._reset()

    def _count_nested(self) -> None:
        with self.lock:
            self._nested += 1
            self._own_calls += 1

    # --- messages of the user ------------------------------------------------------------------------------------

    def say(self, text: str, *, stop: bool = False) -> UserMessage:
        """Send the model a message with the next result in any process. It takes no lock, and waits for nothing."""
        queue = self._user_messages()
        if self._alone or queue.closed:
            return super().say(text, stop=stop)
        message = UserMessage(text, queue, stop=stop)
        self._send_message(message)
        return message

    def redeliver(self, decision: Decision) -> None:
        """Deliver the notes of a decision with the next result, in whichever process it is."""
        if self._alone:
            super().redeliver(decision)
            return
        for note in self.undelivered_notes(decision):
            message = note if isinstance(note, UserMessage) else UserMessage(note, self._user_messages())
            message.delivered = False
            self._send_message(message)

    def _send_message(self, message: UserMessage) -> None:
        op = self._new_op()
        self._said[op] = message
        if len(self._said) > _MOST_SAID:
            self._said.popitem(last=False)
        sealed = self._seal(message.text)
        self._keep_unsent(op, log_events.to_bytes(self._number, log_events.UserSpoke(sealed, message.stop)))
        self._send_later()

    def _queue_unsent_messages(self) -> None:
        """Take back the messages that the log has not brought."""
        for op, unsent in list(self._unsent.items()):
            message = self._said.get(op)
            if message is not None and not unsent.is_folded:
                self._user_messages().put(message)

    # --- calls ---------------------------------------------------------------------------------------------------

    def begin(self, call: ToolCall) -> Decision:
        """Do as ``Turn.begin`` does, at the place of the call in the log."""
        step = self._beginning(call)
        decision = self._run(step)
        if decision is None:
            return super().begin(call)
        if decision.trip is not None and self._asks_on_trip(decision.trip):
            trip = callbacks.ask_on_trip(self.host.faults, self.policy.on_trip, decision.trip)
            decision = self._overruled(call, decision, trip)
        return self._started(step, decision)

    async def abegin(self, call: ToolCall) -> Decision:
        """Do the same without blocking the event loop."""
        step = self._beginning(call)
        decision = await self._arun(step)
        if decision is None:
            return await super().abegin(call)
        if decision.trip is not None and self._asks_on_trip(decision.trip):
            trip = await callbacks.await_on_trip(self.host.faults, self.policy.on_trip, decision.trip)
            decision = self._overruled(call, decision, trip)
        return self._started(step, decision)

    def end(self, call: ToolCall, outcome: Outcome) -> Decision:
        """Do as ``Turn.end`` does, at the place of the end in the log."""
        step = self._ending(call, outcome)
        decision = None if step is None else self._run(step)
        if decision is None:
            return super().end(call, outcome)
        if decision.trip is not None and self._asks_on_trip(decision.trip):
            decision = self._reworded(
                call, decision, callbacks.ask_on_trip(self.host.faults, self.policy.on_trip, decision.trip)
            )
        return decision

    async def aend(self, call: ToolCall, outcome: Outcome) -> Decision:
        """Do the same without blocking the event loop."""
        step = self._ending(call, outcome)
        decision = None if step is None else await self._arun(step)
        if decision is None:
            return await super().aend(call, outcome)
        if decision.trip is not None and self._asks_on_trip(decision.trip):
            trip = await callbacks.await_on_trip(self.host.faults, self.policy.on_trip, decision.trip)
            decision = self._reworded(call, decision, trip)
        return decision

    def observe(self, call: ToolCall, outcome: Outcome, *, ran: float = 0.0) -> Decision:
        """Do as ``Turn.observe`` does. A call with an id is counted once, whichever processes observe it."""
        decision = self._run(self._observing(call, outcome, ran))
        if decision is None:
            return super().observe(call, outcome, ran=ran)
        if decision.trip is not None and self._asks_on_trip(decision.trip):
            decision = self._reworded(
                call, decision, callbacks.ask_on_trip(self.host.faults, self.policy.on_trip, decision.trip)
            )
        return decision

    async def aobserve(self, call: ToolCall, outcome: Outcome, *, ran: float = 0.0) -> Decision:
        """Do the same without blocking the event loop."""
        decision = await self._arun(self._observing(call, outcome, ran))
        if decision is None:
            return await super().aobserve(call, outcome, ran=ran)
        if decision.trip is not None and self._asks_on_trip(decision.trip):
            trip = await callbacks.await_on_trip(self.host.faults, self.policy.on_trip, decision.trip)
            decision = self._reworded(call, decision, trip)
        return decision

    def conclude(self) -> str | None:
        """Do as ``Turn.conclude`` does. The other processes learn it later."""
        sentence = super().conclude()
        if sentence is not None and not self._alone:
            op, data = self._new_op(), log_events.to_bytes(self._number, log_events.Concluded())
            self._keep_unsent(op, data, folded_at=self._now())
            self._send_later()
        return sentence

    def lose(self, keys: Iterable[int]) -> None:
        """Do as ``Turn.lose`` does, before the next call."""
        if self._alone:
            super().lose(keys)
            return
        self._keep_unsent(self._new_op(), log_events.to_bytes(self._number, log_events.ResultsLost(list(keys))))

    def reach(self, trip: Trip) -> First:
        """Return the place of a trip among those of the turn in all processes."""
        first = self._firsts.pop(trip, None)
        return super().reach(trip) if first is None else first

    # --- steps of this process -----------------------------------------------------------------------------------

    def _beginning(self, call: ToolCall) -> _Step:
        step, began = self._described(call, self._new_op())
        step.data = log_events.to_bytes(self._number, began)
        return step

    def _described(self, call: ToolCall, op: int) -> tuple[_Step, CallBegan]:
        compiled, known = self.judge.compiled, call.known_tools
        resolved, arguments = compiled.contracts.identify(call)
        registered = None if known is None else is_registered(call.tool, resolved.tool.name, known)
        self.last_used = self.host.clock()
        if self.stored:
            self.host.use_again(self)
        batch = call_id = 0
        fingerprint = compiled.fingerprinter.of
        if call.written is not None:
            batch = fingerprint(self._nonce + b"%d" % call.written)
        if call.call_id is not None:
            call_id = fingerprint(utf8(introspect.name_text(call.call_id)))
        custom: tuple[Trip, ...] = ()
        if compiled.policy.detectors:
            with self.lock:
                record = update.open_record(
                    self.judge.history, resolved, arguments, registered=registered, now=self._now()
                )
            custom = callbacks.custom_trips(self.host.faults, compiled, self.judge.history, record)
        began = log_events.call_began(
            resolved,
            arguments,
            registered=registered,
            call_id=call_id,
            batch=batch,
            may_exist=call.may_exist,
            custom=custom,
            seal=self._seal,
        )
        return _Step(op, call, resolved), began

    def _ending(self, call: ToolCall, outcome: Outcome) -> _Step | None:
        with self.lock:
            began = self._running.pop(id(call), None) or self._take_running(call)
        if began is None or began.decision is None:
            return None
        if self._alone:
            return None
        step = _Step(self._new_op(), began.call, began.resolved)
        step.outcome, step.began = outcome, began
        record = began.decision.record
        if outcome.cancelled:
            ended = log_events.CallEnded(began.op, cancelled=True)
        else:
            with self.lock:
                nested, self._nested = self._nested, 0
            ended = log_events.call_ended(
                began.op,
                self._facts(record, outcome, began.resolved),
                exists=outcome.exists,
                child_news=record.child_news,
                nested_calls=nested,
            )
        step.data = log_events.to_bytes(self._number, ended)
        return step

    def _take_running(self, call: ToolCall) -> _Step | None:
        """Remove and return the beginning of a call for which the caller made a new object."""
        key, name = self.key_of(call), introspect.name_text(call.tool)
        for identity, step in self._running.items():
            same = step.call.call_id == call.call_id and introspect.name_text(step.call.tool) == name
            if same and step.decision is not None and step.decision.record.key == key:
                return self._running.pop(identity)
        return None

    def _observing(self, call: ToolCall, outcome: Outcome, ran: float) -> _Step:
        op = self._new_op()
        if call.call_id is not None:
            fingerprint = self.judge.compiled.fingerprinter.of
            op = fingerprint(b"%d %s" % (self._number, utf8(introspect.name_text(call.call_id))))
        step, began = self._described(call, op)
        step.outcome, step.is_repeatable = outcome, call.call_id is not None
        with self.lock:
            record = update.open_record(
                self.judge.history, step.resolved, began.arguments, registered=began.registered, now=self._now() - ran
            )
        ended = log_events.CallEnded(op, cancelled=True)
        if not outcome.cancelled:
            ended = log_events.call_ended(op, self._facts(record, outcome, step.resolved), exists=outcome.exists)
        step.data = log_events.to_bytes(self._number, log_events.CallObserved(list(began), list(ended), ran))
        return step

    def _facts(self, record: Record, outcome: Outcome, resolved: ResolvedCall) -> OutcomeFacts:
        """Return the facts about an outcome, with fingerprints in place of its bytes."""
        compiled, tool, key = self.judge.compiled, resolved.tool, record.key
        facts = outcome_facts(outcome, resolved.arguments, compiled.fingerprinter, self.judge.pending_words_for(record))
        with self.lock:
            stats = self.judge.history.find(key)
            before = self._details.get(key)
            changed = stats is not None and self.judge.history.changed_since(stats)
            result = None if stats is None else stats.result
        answer, details, sameness = None, None, None
        if stats is None and not facts.is_error:
            row = self.judge.history.tools.get(tool.digest) or ToolStats()
            answer = row.answer_prints(facts.data, resolved.arguments, compiled.fingerprinter)
        if facts.digest != result and (stats is not None or self.conversation is not None):
            whole = detailed_fingerprints(
                facts.data,
                compiled.fingerprinter,
                volatile_keys=tool.contract.volatile,
                mask=not tool.takes_next,
                is_error=facts.is_error,
            )
            if stats is not None and before is not None and before[0] == stats.last_index:  # the last run was here
                sameness = compare(before[1], whole, record.kind, moves_cursor=tool.moves_cursor, changed=changed)
            if stats is not None:
                with self.lock:
                    self._details[key] = (record.index, whole)
                    if len(self._details) > _MOST_DETAILS:
                        self._details.popitem(last=False)
            details = DetailedFingerprints.from_list(whole.to_list())
        return facts._replace(prints=Prints(answer, details, sameness))

    def _started(self, step: _Step, decision: Decision) -> Decision:
        step.decision = decision
        if decision.runs and decision.record is not None:
            with self.lock:
                self._running[id(step.call)] = step
                self._own_calls += 1
        return decision

    # --- functions of the policy ---------------------------------------------------------------------------------

    def _asks_on_trip(self, trip: Trip) -> bool:
        return self.policy.on_trip is not None and trip.mode != USER_STOP

    def _overruled(self, call: ToolCall, decision: Decision, trip: Trip) -> Decision:
        """Return the decision before a call with the action that ``on_trip`` chose."""
        record = decision.record
        record.trip = trip
        if trip.action > _NUDGE:
            with self.lock:
                self.in_flight.take(call)
                return self._refusal(call, record, trip)
        changed = Decision(trip.action, trip, record=record)
        if not decision.runs:
            with self.lock:
                self.in_flight.put(call, changed)
        return changed

    def _reworded(self, call: ToolCall, decision: Decision, trip: Trip) -> Decision:
        """Return the decision after a call with the action that ``on_trip`` chose."""
        before = decision.trip
        if before is None or trip.action is before.action:
            return decision._replace(trip=trip)
        notes = decision.notes[:-1] if before.action >= _NUDGE else decision.notes
        if trip.action is _NUDGE:
            notes = (*notes, sentences.nudge(trip, self.policy, call.known_tools))
        message = "\n".join(note_texts(notes)) or None
        return decision._replace(action=trip.action, trip=trip, message=message, notes=notes)

    # --- the log -------------------------------------------------------------------------------------------------

    def _run(self, step: _Step) -> Decision | None:
        """Append the event of a step, fold the log up to it, and return the decision; None if this turn is alone.

        On an event loop the log is not waited for.
        """
        if self._alone:
            return None
        if self._is_interrupting():
            return nothing_seen(None)
        if _on_event_loop():
            with self.lock:
                self._fold_here(step)
                self._send_later()
            return step.decision
        exchange, reply = self._exchange(step), None
        while True:
            try:
                request = exchange.send(reply)
            except StopIteration as finished:
                decision: Decision | None = finished.value
                return decision
            reply = self._log.append(
                self._key, request.ops, epoch=request.epoch, seen=request.seen, snapshot=request.snapshot
            )

    async def _arun(self, step: _Step) -> Decision | None:
        if self._alone:
            return None
        if self._is_interrupting():
            return nothing_seen(None)
        exchange, reply = self._exchange(step), None
        while True:
            try:
                request = exchange.send(reply)
            except StopIteration as finished:
                decision: Decision | None = finished.value
                return decision
            reply = await self._log.aappend(
                self._key, request.ops, epoch=request.epoch, seen=request.seen, snapshot=request.snapshot
            )

    def _is_interrupting(self) -> bool:
        """Return True in code that interrupts this thread's folding. Begin again after one that was cut short."""
        if not self._folding:
            return False
        if self.lock._is_owned():  # type: ignore[attr-defined]  # noqa: SLF001 - as in ``Turn``
            return True
        with self.lock:
            if self._folding:
                self._folding = False
                self._reset()
        return False

    def _exchange(self, step: _Step) -> _Exchange:
        """Yield the appends for a step, take their replies, and return the decision."""
        self._mine[step.op] = step
        try:
            reply: LogReply | None = None
            if self._diverged:
                reply = yield _READ
                with self.lock:
                    if reply is not None and self._diverged:
                        self._rejoin(reply)
            with self.lock:
                request = self._request(step)
            if not self._diverged:
                reply = yield request
                if reply is not None and not reply.epoch:  # the server has lost the log: begin it with this copy
                    with self.lock:
                        request = self._first_request(step)
                    reply = yield request
            with self.lock:
                self._settle_step(step, request, reply)
        finally:
            self._mine.pop(step.op, None)
        return step.decision

    def _request(self, step: _Step) -> _Request:
        state, snapshot = self._state, None
        if state.position and not state.epoch:
            return self._first_request(step)
        if state.position - state.snapshot_at >= _SNAPSHOT_EVERY and not self._diverged:
            snapshot = (state.position, self._snapshot())
            state.snapshot_at = state.position
        return _Request([*self._ops(), (_op_bytes(step.op), step.data)], state.epoch, state.position, snapshot)

    def _first_request(self, step: _Step) -> _Request:
        """Return the request that begins the log with this copy. The events that are folded are in the snapshot."""
        position = max(self._state.position, 1)
        self._state.taken |= {op for op, unsent in list(self._unsent.items()) if unsent.is_folded}
        later = [(_op_bytes(op), unsent.data) for op, unsent in list(self._unsent.items()) if not unsent.is_folded]
        return _Request([*later, (_op_bytes(step.op), step.data)], b"", position, (position, self._snapshot()))

    def _rejoin(self, reply: LogReply) -> None:
        """Make the copy again from the log, unless the server has none: then the log will be made from the copy."""
        self._diverged = False
        if reply.epoch:
            self._reset()
            self._fold_reply(reply, _READ)

    def _settle_step(self, step: _Step, request: _Request, reply: LogReply | None) -> None:
        """Fold the reply, so that the step has its decision."""
        if reply is not None and reply.epoch and not self._diverged:
            if step.is_repeatable and (_op_bytes(step.op), step.data) not in [entry[1:] for entry in reply.entries]:
                self._mine.pop(step.op, None)  # an observed call is that of the process which observed it first
            if self._has_begun(request, reply) and self._fold_reply(reply, request):
                for op, _ in request.ops:
                    self._unsent.pop(int.from_bytes(op, "big"), None)
                if step.decision is None and step.is_repeatable and not self._alone:  # it was in the log before
                    answered = self._state.answered.get(step.op) or nothing_seen(None)
                    step.decision = answered._replace(repeated=True)
            else:
                self._diverged = True  # the next call reads the whole log
        if step.decision is None and not self._alone:
            self._fold_here(step)

    def _has_begun(self, request: _Request, reply: LogReply) -> bool:
        """Note that the log was begun with this copy, if it was to be. Return False if another process was faster."""
        if request.snapshot is None or request.epoch:
            return True
        if reply.snapshot not in (None, request.snapshot[1]) or reply.base != request.seen:
            return False
        self._state.epoch = reply.epoch
        self._state.position = self._state.snapshot_at = reply.base
        for op, unsent in list(self._unsent.items()):
            if unsent.is_folded:  # it is in the snapshot
                self._unsent.pop(op, None)
        return True

    def _fold_reply(self, reply: LogReply, request: _Request) -> bool:
        """Fold the entries that the copy does not have. Return False if the reply does not go on from the copy.

        Replies to requests that were made at the same time may come in another order.
        """
        self._has_read = True
        state = self._state
        is_whole = request.epoch != reply.epoch or request.seen < reply.base
        start = reply.base if is_whole else request.seen
        if reply.epoch != state.epoch or start > state.position:
            if not is_whole:
                return False
            if state.epoch:
                self._reset()
                state = self._state
            state.epoch = reply.epoch
            if reply.snapshot is not None:
                self._restore(reply.snapshot)
            state.position = state.snapshot_at = reply.base
        for position, entry in enumerate(reply.entries, start + 1):
            if position > state.position and not self._alone:
                op = int.from_bytes(entry.op, "big")
                self._fold(entry.time, op, entry.data)
                self._unsent.pop(op, None)
                state.position = position
        if reply.entries:
            self._synced = (reply.entries[-1].time, self.host.clock())
        return True

    def _fold_here(self, step: _Step) -> None:
        """Fold a step that the log may not have."""
        self._diverged = True
        now = self._now()
        for op, unsent in list(self._unsent.items()):
            if not unsent.is_folded:
                unsent.is_folded = True
                self._fold(now, op, unsent.data)
                self._state.position += 1
        self._mine[step.op] = step
        self._fold(now, step.op, step.data)
        self._state.position += 1
        self._mine.pop(step.op, None)
        self._keep_unsent(step.op, step.data, folded_at=now)
        self._given[step.op] = set() if step.decision is None else set(note_texts(step.decision.notes))
        if len(self._given) > _MOST_SAID:
            self._given.popitem(last=False)

    def _now(self) -> float:
        """Return the time of the log."""
        at, clock = self._synced
        return at + self.host.clock() - clock

    def _keep_unsent(self, op: int, data: bytes, *, folded_at: float | None = None) -> None:
        self._unsent[op] = _Unsent(data, folded_at=folded_at)
        if len(self._unsent) > _MOST_UNSENT:
            self._unsent.popitem(last=False)

    def _ops(self) -> list[Op]:
        return [(_op_bytes(op), unsent.data) for op, unsent in list(self._unsent.items())]

    def _send_later(self, more: Sequence[Op] = ()) -> None:
        """Send the events that the log may not have. A log that was lost begins with a snapshot, not with them."""
        ops = self._ops()
        if len(ops) > _MOST_AT_ONCE:  # each was sent before; without an awaited call no reply says that it arrived
            ops = [*ops[:1], *ops[1 - _MOST_AT_ONCE :]]
        self._log.send_later(self._key, [*ops, *more], begins=not self._has_read)

    def _seal(self, text: str) -> str:
        return b85encode(self._log.seal(text)).decode()

    def _unseal(self, sealed: str) -> str | None:
        return self._log.unseal(b85decode(sealed))

    @staticmethod
    def _new_op() -> int:
        return int.from_bytes(os.urandom(8), "big")

    # --- the copy ------------------------------------------------------------------------------------------------

    def _reset(self) -> None:
        """Begin an empty copy."""
        self._state = SharedState()
        self._new_judge()
        for unsent in list(self._unsent.values()):
            unsent.is_folded = False

    def _new_judge(self) -> None:
        judge = self.judge
        self.judge = TurnJudge(judge.compiled, ceiling=judge.ceiling)
        self.judge.reusable = judge.reusable
        self.in_flight = CallsInFlight()
        if self.messages is not None:
            self.messages.forget()

    def _snapshot(self) -> bytes:
        messages = [] if self.messages is None else self.messages.to_list(self._seal)
        return self._state.to_bytes(self.judge.history, messages, self._seal)

    def _restore(self, data: bytes) -> None:
        history, contracts = self.judge.history, self.judge.compiled.contracts
        messages = self._state.restore(data, history, contracts, self._unseal)
        if messages:
            self._user_messages().restore(messages, self._unseal)
        self._adopt()
        for op, one in list(self._state.open.items()):
            step = self._own(op)
            if step is not None:
                self._state.open[op] = one._replace(call=step.call)
                self.in_flight.put(step.call, nothing_seen(one.record))

    def conversation_at(self, now: float | None, longest_idle: float) -> Conversation:
        """Return the conversation of the copy: a new one if it was idle for too long."""
        found = self._state.conversation
        if now is not None and now - found.used > longest_idle:
            found = self._state.conversation = Conversation()
        if now is not None:
            found.used = now
        return found

    def _adopt(self) -> None:
        """Take over the id of the turn that the log is in."""
        if self.conversation is not None:
            self.conversation = self.conversation._replace(turn=self._state.turn)
        if self._adopts and self._state.turn:
            self.id, self._number = self._unseal(self._state.sealed_id) or self.id, self._state.turn

    def _fold(self, now: float, op: int, data: bytes) -> None:
        """Fold one event."""
        read = log_events.from_bytes(data)
        if read is None or op in self._state.taken:
            return
        at, turn, event = read
        now = now if at is None else min(at, now)
        state = self._state
        if turn and state.turn and turn != state.turn and type(event) is not log_events.TurnBegan:
            self._ignore(op)
            return
        self._folding = True
        kind = type(event)
        state.is_over = state.is_over and kind not in _OF_CALLS
        if kind is log_events.CallBegan:
            self._fold_begin(now, op, event)
        elif kind is log_events.CallEnded:
            self._fold_end(now, op, event)
        elif kind is log_events.CallObserved:
            self._fold_observed(now, op, event)
        elif kind is log_events.TurnBegan:
            self._fold_turn(turn, event)
        elif kind is log_events.TurnEnded:
            state.is_over = True
        elif kind is log_events.ResultsLost:
            for key in event.keys:
                update.lose(self.judge.history, key)
        elif kind is log_events.Concluded:
            history = self.judge.history
            history.concluded_at = history.news if history.concluded_at < 0 else history.concluded_at
        elif kind is log_events.UserSpoke:
            self._fold_message(op, event)
        self._folding = False

    def _ignore(self, op: int) -> None:
        """Pass over an event of a turn that another one has replaced in the log."""
        step = self._mine.get(op)
        if step is None:
            return
        if self._adopts:
            step.decision = nothing_seen(None)
        else:  # the copy is that of the other turn
            self._new_judge()
            self._leave()

    def _leave(self) -> None:
        """Go on alone, with the user's messages that no process can deliver from the log any more.

        The history has times of the log, so that its clock goes on.
        """
        self._alone = True
        own, ahead = self.host.clock, self._now() - self.host.clock()
        self.host = replace(self.host, clock=lambda: own() + ahead)
        self._queue_unsent_messages()

    def _fold_turn(self, number: int, began: log_events.TurnBegan) -> None:
        if number == self._state.turn:
            self._state.is_over = False
            return
        if self._state.turn == self._number and not self._adopts:
            self._leave()
            return
        if self._state.turn:
            self._new_judge()
        self._state.begin_turn(number, began.sealed_id)
        self._adopt()

    def _fold_message(self, op: int, event: log_events.UserSpoke) -> None:
        queue = self._user_messages()
        message = self._said.get(op)
        if message is None:
            text = self._unseal(event.sealed)
            message = None if text is None else UserMessage(text, queue, stop=event.stop)
        if message is not None:
            queue.put(message)

    def _opened(self, now: float, op: int, began: CallBegan) -> tuple[ToolCall, Record]:
        """Open the record of a call: of this process with its arguments, or of another one."""
        step = self._own(op)
        compiled, history = self.judge.compiled, self.judge.history
        history.open_registry = history.open_registry or began.may_exist
        resolved = log_events.resolved_call(began, compiled.contracts, self._unseal)
        call = ToolCall(resolved.tool.name)
        if step is not None:
            call, resolved = step.call, resolved._replace(arguments=step.resolved.arguments)
        record = update.open_record(
            history,
            resolved,
            began.arguments,
            registered=began.registered,
            now=now,
            written=self._state.written(began.batch, history.tick),
        )
        if step is not None:
            record.tool = step.resolved.tool.name
        return call, record

    def _own(self, op: int) -> _Step | None:
        """Return the beginning of a call of this process, if this is its event."""
        known = self._mine.get(op)
        if known is not None:
            return known
        ends = [step.began for step in list(self._mine.values()) if step.began is not None]
        return next((step for step in (*self._running.values(), *ends) if step.op == op), None)

    def _fold_begin(self, now: float, op: int, began: CallBegan) -> None:
        call, record = self._opened(now, op, began)
        resumed = self._state.take_resumed(began, record.key)
        if resumed is not None:
            record.index, record.resumed = resumed.record.index, True
        else:
            self.judge.judge(record, log_events.custom_trips(began, record.tool))
        decision = self._settle(call, record)
        step = self._mine.get(op)
        self._state.keep(op, OpenCall(call, began, record, not decision.runs))
        if self._own(op) is None:
            self.in_flight.take(call)
        self._reached(decision, is_mine=step is not None)
        if step is not None:
            step.decision = decision
        else:
            self._send_missed(op, decision)

    def _fold_end(self, now: float, op: int, ended: CallEnded) -> None:
        step, open_call = self._mine.get(op), self._state.open.pop(ended.began, None)
        began = None if step is None else step.began
        if open_call is None:
            if step is not None:
                step.decision = nothing_seen(None if began is None or began.decision is None else began.decision.record)
            return
        call, record = open_call.call, open_call.record
        self.in_flight.take(call)
        if ended.cancelled:
            self.judge.cancelled(now)
            if step is not None:
                step.decision = nothing_seen(record)
            return
        if open_call.refused:  # a function of the policy let it run
            update.start(self.judge.history, record)
        record.registered = ended.exists or record.registered
        record.child_news = ended.child_news
        self.judge.history.calls += ended.nested_calls
        facts = log_events.facts_of(ended)
        self.changing = True
        trip = self.judge.end(record, facts, now)
        self.changing = False
        if self.conversation is not None:
            trip = self._pass_on(record, facts, now, trip)
        recovered = self._recovered(record)
        if trip is not None:
            decision = self._nudge(call, record, trip, recovered)
        else:
            decision = self._with_messages(call, record, record.trip, recovered)
        if decision.trip is not None:
            self._reached(decision, is_mine=step is not None)
        if step is None:
            self._send_missed(op, decision)
            return
        step.decision = decision
        if began is not None and began.decision is not None and began.decision.record is not record:
            began.decision.record.__dict__.update(vars(record))  # the copy was made again in between
        if record.resolved.tool.contract.reuse and not record.error and step.outcome is not None:
            self._results = self._results or ReusableResults()
            self.judge.reusable = self._results
            self._results.put(record.key, step.outcome, len(utf8(str(step.outcome.result))))

    def _fold_observed(self, now: float, op: int, observed: CallObserved) -> None:
        began, ended = log_events.CallBegan(*observed.began), log_events.CallEnded(*observed.ended)
        call, record = self._opened(now - observed.ran, op, began)
        self.judge.judge(record, log_events.custom_trips(began, record.tool))
        step = self._mine.get(op)
        if ended.cancelled:
            self.judge.cancelled(now)
            decision = nothing_seen(record)
        else:
            record.registered = ended.exists or record.registered
            self.changing = True
            facts = log_events.facts_of(ended)
            trip = self.judge.observe(record, facts, now)
            self.changing = False
            if self.conversation is not None:
                trip = self._pass_on(record, facts, now, trip)
            decision = self._observed(call, record, trip, self._recovered(record))
        self._state.answer(op, decision)
        self._reached(decision, is_mine=step is not None)
        if step is not None:
            step.decision = decision
            self._own_calls += 1
        else:
            self._send_missed(op, decision)

    def _send_missed(self, op: int, decision: Decision) -> None:
        """Send the messages again that the log delivers with an operation, if it was decided without the log."""
        given = self._given.get(op)
        if given is None:
            return
        texts = set().union(*self._given.values())
        for note in decision.notes:
            if isinstance(note, UserMessage) and not note.stop and note.text not in texts:
                given.add(note.text)
                note.delivered = False
                self._send_message(note)

    def _recovered(self, record: Record) -> tuple[Trip, ...]:
        history = self.judge.history
        if not record.news or not history.open_trips:
            return ()
        recovered, history.open_trips = history.open_trips, ()
        return recovered

    def _reached(self, decision: Decision, *, is_mine: bool) -> None:
        """Note the trip of a decision as reported; whose it is, that process reports it."""
        trip = decision.trip
        if trip is None:
            return
        first = self.judge.reach(trip)
        if is_mine:
            self._firsts[trip] = first
            if len(self._firsts) > _MOST_FIRSTS:
                self._firsts.popitem(last=False)


class _LoggedMemory:
    """The memory of a conversation in the copy of its log."""

    def __init__(self, turn: SharedTurn) -> None:
        self.lock = turn.lock
        self._turn = ref(turn)

    def use(self, _: str, now: float | None, longest_idle: float) -> Conversation:
        """Return the conversation, under the lock: a new one if it was idle for too long."""
        turn = self._turn()
        return Conversation() if turn is None else turn.conversation_at(now, longest_idle)


def _op_bytes(op: int) -> bytes:
    return op.to_bytes(8, "big")


def _on_event_loop() -> bool:
    """Return True if this thread runs an event loop now, so that it must not wait."""
    return asyncio._get_running_loop() is not None  # noqa: SLF001 - documented, and without an exception
