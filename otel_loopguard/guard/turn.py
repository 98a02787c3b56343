"""A turn as programs have it: a state, the lock around its fold, the calls of this process, and texts for the model.

The lock is held while an event is folded, never while user code runs. A signal handler may strike in the midst of a
fold: a call that it makes there is not judged, and if it raises, the history begins empty, because half a change could
prove anything. Each step of a call is one generator, which yields what has to be waited for, to threads and tasks.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from itertools import count
from threading import RLock
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import ref

from otel_loopguard.engine import wording
from otel_loopguard.engine.conversation_memory import ConversationMemory
from otel_loopguard.engine.detectors.run_budget import OUTERMOST, PlaceInTree
from otel_loopguard.engine.events import (
    Answered,
    Asking,
    Began,
    Concluded,
    Ended,
    Found,
    Lost,
    Nested,
    Paid,
    Ran,
    Reached,
    Thought,
    Writing,
)
from otel_loopguard.engine.fold import fold, opened
from otel_loopguard.engine.history.bounded import EMPTY
from otel_loopguard.engine.ledger import CHILD_STARTED, LOOPED
from otel_loopguard.engine.state import State
from otel_loopguard.engine.tools.contracts import LONGEST_TOOL_NAME
from otel_loopguard.engine.user_messages import NO_MESSAGES, UserMessages, note_texts
from otel_loopguard.engine.values.introspect import name_text
from otel_loopguard.engine.values.normalise import utf8
from otel_loopguard.engine.values.results import outcome_facts
from otel_loopguard.engine.verdict import Verdict
from otel_loopguard.engine.vocabulary import Action, First, Kind, is_loop_step, nothing_seen
from otel_loopguard.guard import callbacks
from otel_loopguard.guard.ending import EndedTurn, Ending, ending_of
from otel_loopguard.guard.nesting import ParentCall, TurnTree
from otel_loopguard.guard.reusable_results import ReusableResults
from otel_loopguard.store.cell import wait, wait_in_task

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Generator, Iterable
    from typing import TypeAlias

    from typing_extensions import Self

    from otel_loopguard.engine.compiled import CompiledPolicy
    from otel_loopguard.engine.conversation_memory import PlaceInConversation
    from otel_loopguard.engine.history.conversation_texts import ConversationTexts
    from otel_loopguard.engine.ledger import Ledger
    from otel_loopguard.engine.policy.policy import Policy
    from otel_loopguard.engine.tools.contracts import ResolvedCall
    from otel_loopguard.engine.user_messages import UserMessage
    from otel_loopguard.engine.values.results import OutcomeFacts
    from otel_loopguard.engine.vocabulary import Decision, Outcome, Record, ToolCall, Trip
    from otel_loopguard.guard.ending import End
    from otel_loopguard.guard.nesting import SharedTree
    from otel_loopguard.shield import Shield
    from otel_loopguard.store.cell import Cell

    Steps: TypeAlias = Generator[Any, Any, Decision]

_MOST_RUNNING = 1_024
_MOST_FIRSTS = 64
_NOT_JUDGED = Verdict()
_numbers = count(1)


@dataclass(frozen=True, slots=True)  # its fields are read faster than those of a tuple
class TurnHost:
    """What a turn needs of its guard."""

    clock: Callable[[], float]
    faults: callbacks.CallbackFaults
    forget: Callable[[str], None]
    """Called with the id of a turn that is over."""
    made: Callable[[ref[Turn]], None]
    """Called with a reference to each new turn."""
    gone: Callable[[ref[Turn]], None]
    """Called with the same reference when the turn is gone."""


class Running(NamedTuple):
    """A call of this process that runs."""

    call: ToolCall
    event: Began
    record: Record
    earlier: Running | None
    """A call that began before with the same ``ToolCall`` object and still runs; None if there is none."""


class AskOnTrip(NamedTuple):
    """A step: ask ``on_trip`` about a trip."""

    trip: Trip


class Turn:
    """One user message and all that the agent does until it answers. Made by ``Guard.turn``; thread-safe."""

    __slots__ = (
        "__weakref__", "_aborted_at", "_ceiling", "_firsts", "_made_messages", "_results", "_tree", "cell", "changing",
        "compiled", "current", "ending", "enforced", "host", "id", "known_as", "last_used", "lock", "parent", "running",
        "shared_tree", "source", "span",
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
        conversation: PlaceInConversation | None = None,
        cell: Cell | None = None,
    ) -> None:
        self.id = turn_id
        self.known_as = turn_id
        """The id by which this process finds it. ``id`` may change: to that of the shared turn which it continues."""
        self.source = source
        """How the turn was found, such as "run" or "explicit"."""
        self.enforced = enforced
        """False: loops are reported, and nothing is refused or told."""
        self._ceiling = Action.ABORT if enforced else Action.OBSERVE
        self.compiled = compiled
        self.host = host
        self.last_used = host.clock()
        """The seconds of the guard's clock at the last event."""
        self.lock = RLock()
        self.changing = False
        """True while the state is being changed, and after an exception has cut a change short."""
        self.current = self.new_state(is_shared=cell is not None)
        """The state, as far as this process knows it."""
        self.current.place = conversation
        self.parent = parent
        self._tree: TurnTree | None = None
        if parent is not None:
            self._tree, self.current.messages = parent.tree, parent.tree.user_messages
            self.current.claims = parent.tree.shared is None
        self.running: dict[int, Running] = EMPTY
        """The calls of this process, by the identity of the call. One operation at a time, so it needs no lock."""
        self._results: ReusableResults | None = None
        self._firsts: dict[Trip, First] = EMPTY
        self._made_messages: dict[str, UserMessages] = EMPTY
        """Makes the queue exactly once without a lock, because a signal handler may call ``say``."""
        self._aborted_at = -1
        """``calls`` when a decision last ended the run; -1 if none did."""
        self.ending: Ending | None = None
        """The place of its end; None if nobody has asked for it."""
        self.span: Any = None
        """The span of the turn itself, which telemetry keeps here; None if it has none."""
        self.shared_tree: SharedTree | None = None
        """The tree of several processes that the turn is in; None if it is in none, or nested in a turn here."""
        self.cell = cell
        """The place of the state in the store, if other processes work on this turn, too."""
        if cell is not None:
            cell.open(self, host.clock)
        host.made(ref(self, host.gone))

    def __repr__(self) -> str:
        return f"Turn(id={self.id!r}, source={self.source!r}, calls={self.calls})"

    def new_state(self, *, is_shared: bool = True) -> State:
        """Return an empty state of this turn."""
        return State(self.compiled, ceiling=self._ceiling, is_shared=is_shared)

    @property
    def is_shared(self) -> bool:
        """True if other processes may work on this turn, too: decisions about its calls may wait for the store."""
        return self.cell is not None

    @property
    def messages(self) -> UserMessages | None:
        """The queue of the user's messages; None if there never was one."""
        return self.current.messages

    @property
    def calls(self) -> int:
        """The number of started calls, those of nested turns included; of a shared turn, those of this process."""
        return self.current.history.calls if self.cell is None else self.cell.own_calls

    @property
    def ledger(self) -> Ledger:
        """The ledger of this turn and all turns nested in it, in all processes as far as the store has told."""
        own, tree = self.current.history.ledger, self.shared_tree
        if tree is None or tree.level:
            return own
        return tree.turn.ledger.with_times_of(own)

    @property
    def own_ledger(self) -> Ledger:
        """The same without the nested turns."""
        return self.current.history.own_ledger

    @property
    def tick(self) -> int:
        """The turn's own time, a count: it moves with each start, end and refusal of a call."""
        return self.current.history.tick

    @property
    def refusals(self) -> int:
        """The number of refusals since the last news, as ``abort_after`` counts them."""
        return self.current.history.refusals

    @property
    def changes(self) -> int:
        """The number of calls that may have changed something, and brought news."""
        return self.current.history.changes

    @property
    def policy(self) -> Policy:
        """The policy that this turn began with."""
        return self.compiled.policy

    # --- the turn itself ---------------------------------------------------------------------------------------------

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        self.finish(error)
        self.close()

    @property
    def ended_as(self) -> End | None:
        """How the turn ended: "answered", "concluded", "aborted", "cancelled" or "failed"; None while it goes on."""
        ended = None if self.ending is None else self.ending.turn
        return None if ended is None else ended.ended_as

    @property
    def is_aborted(self) -> bool:
        """True if a decision has ended the run, and no call has run since."""
        return self._aborted_at == self.calls

    def finish(
        self, error: BaseException | None = None, *, how: End | None = None, conversation_id: str | None = None
    ) -> EndedTurn | None:
        """Note that the turn has ended, with this exception or None, and tell the policy's ``on_end``.

        ``how`` replaces the end that is derived from the exception. Return None if the end was noted before, if the
        turn is nested, or if it is a shared one with an id of the program, which may go on in another process.
        """
        self.ending = ending = self.ending or Ending()
        if ending.turn is not None:
            return None
        how = how or ending_of(error, self.current.history, is_aborted=self.is_aborted)
        if self.shared_tree is not None:
            with self.shield("turn.tree"):  # reads what the last agents have spent, but not on an event loop
                self.shared_tree.turn.runs_elsewhere()
        ending.turn = ended = EndedTurn(self.id, how, self.calls, conversation_id, self.ledger)
        self._settle()
        if self.parent is not None or (self.cell is not None and self.cell.names_turn):
            return None
        if self.policy.on_end is not None:
            callbacks.tell_on_end(self.host.faults, self.policy.on_end, ended)
        return ended

    def go_on(self) -> None:
        """Note that the turn goes on, perhaps after an end."""
        if self.ending is not None:
            self.ending.turn = None

    def answered(self) -> None:
        """Note that the model has answered: an earlier decision to end the run no longer counts as the turn's end."""
        self._aborted_at = -1

    def never_ends(self) -> None:
        """Refuse calls at most from now on: nothing can end this run, so nobody must be told that it was ended."""
        self._ceiling = self.current.ceiling = min(self._ceiling, Action.BLOCK)

    def aborted(self) -> None:
        """Note that a decision ends the run."""
        self._aborted_at = self.calls

    def close(self) -> list[str]:
        """End the turn. Return the texts of the user's messages that were not delivered; empty for a nested turn.

        A shared turn that the program gave an id goes on: its next step may be in any process.
        """
        if self.cell is not None and not self.cell.close(self):
            return []
        self.running = EMPTY
        if self.parent is not None:
            return []
        if self.shared_tree is not None:
            self.host.forget(self.shared_tree.turn.known_as)
        self.host.forget(self.known_as)
        messages = self.current.messages or self._first_queue(NO_MESSAGES)
        return [] if messages is NO_MESSAGES else messages.close()

    def state(self) -> bytes:
        """Return the history as bytes, for ``restore`` in this process or in another with the same hash key."""
        with self.lock:
            return self.current.history.to_bytes(self.compiled.fingerprinter.mark())

    def restore(self, state: bytes) -> None:
        """Continue from the history that ``state`` returned. A shared turn, whose history is in the store, ignores it.

        Raise a ``LoopGuardError`` if the state was written under another hash key.
        """
        if self.cell is None:
            with self.lock:
                self.current.history.restore(state, self.compiled.fingerprinter.mark())

    def after_fork(self, turn_id: str) -> None:
        """Begin with an empty history in a child process, under this id. A user's request to stop still holds."""
        self.id = self.known_as = turn_id
        self.lock = RLock()
        self.changing = False
        self.running, self._results, self.span = EMPTY, None, None
        state = self.current
        state.start_over()
        state.history.reached = EMPTY
        state.history.running = 0
        state.batches = EMPTY
        state.batch = None
        if self._tree is not None:
            self._tree.after_fork()
        if self.cell is not None:
            self.cell.after_fork(self)
        if state.messages is not None and self.parent is None:
            state.messages.after_fork(0 if self.cell is None else self.cell.process)

    def child(self, call: ToolCall) -> Turn:
        """Return a new turn for an agent's run inside ``call``, which runs. Its news is news of that call.

        It has its own history, and shares the user's messages.
        """
        tree = self._made_tree()
        running = self.running.get(id(call))
        parent = ParentCall(tree, self, None if running is None else running.record, self.parent)
        if running is not None:
            tree.started(running.record)
        self.spend(CHILD_STARTED)
        child_id, place = f"{self.id}/{tree.next_number()}", self.current.place
        if place is not None and self.cell is not None:
            place = place._replace(memory=_LockedMemory(self))
        return Turn(
            self.host, self.compiled, child_id, self.source, enforced=self.enforced, parent=parent, conversation=place
        )

    def _made_tree(self) -> TurnTree:
        messages = self.message_queue()
        with self.lock:
            self._tree = tree = self._tree or TurnTree(messages, ref(self) if self.is_shared else None)
        return tree

    def count_nested_call(self) -> None:
        """Count a call of a nested turn, or of a turn in the tree whose ledger this is."""
        if self.cell is None or not self.running:
            self._tell(Nested(self._op()))
        else:  # told with the end of the call around it
            with self.lock:
                self.cell.nested += 1
                self.cell.own_calls += 1
        if self.shared_tree is not None:
            self.shared_tree.turn.count_nested_call()

    # --- messages of the user ----------------------------------------------------------------------------------------

    def say(self, text: str, *, stop: bool = False) -> UserMessage:
        """Send the model a message with its next result, in this turn or a nested one.

        ``stop=True`` refuses all further calls with the message.

        The message is False if the turn is over. In a turn of one process nothing is waited for. In a shared turn this
        waits until the message is stored, but not on an event loop: see its ``status``. A stop is always waited for,
        and ``NotStoredError`` is raised if it could not be stored.
        """
        if self.parent is not None and self.parent.tree.shared is not None:
            outermost = self.parent.tree.shared()
            if outermost is not None:
                return outermost.say(text, stop=stop)
        messages = self.message_queue()
        if self.cell is None or self.cell.is_alone or messages.closed:
            return messages.add(text, stop=stop)
        return self.cell.say(self, text, stop=stop)

    def redeliver(self, decision: Decision) -> None:
        """Deliver the notes of a decision with the next result, because this result has no place for them."""
        notes = self.undelivered_notes(decision)
        if not notes:
            return
        if self.cell is None or self.cell.is_alone:
            self.message_queue().put_back(notes)
        else:
            self.cell.say_again(self, notes)

    undelivered_notes = staticmethod(wording.undelivered_notes)

    def take_notes(self) -> str:
        """Take what no result had a place for so far, and return its text; empty if the turn is shared."""
        messages = self.current.messages if self.cell is None else None
        return "" if messages is None else "\n".join(note_texts(messages.take()))

    def message_queue(self) -> UserMessages:
        """Return the queue of the user's messages. It is made when it is first asked for."""
        if self.current.messages is None:
            self.current.messages = self._first_queue(UserMessages(0 if self.cell is None else self.cell.process))
        return self.current.messages

    def _first_queue(self, made: UserMessages) -> UserMessages:
        if not self._made_messages:
            self._made_messages = {}
        return self._made_messages.setdefault("", made)

    # --- the steps of a call -----------------------------------------------------------------------------------------

    def begin(self, call: ToolCall) -> Decision:
        """Decide about a call that is about to be made. If ``decision.runs``, run it, and then call ``end``."""
        event = self._began_event(call)
        if self.cell is None and not event.asks:
            return self._begun(call, event, self.apply(event))
        return self._drive(self._begin(call, event, waits=not on_event_loop()))

    async def abegin(self, call: ToolCall) -> Decision:
        """Decide about a call as ``begin`` does, in async code: an async ``on_trip`` is awaited."""
        event = self._began_event(call)
        if self.cell is None and not event.asks:
            return self._begun(call, event, self.apply(event))
        return await self._adrive(self._begin(call, event))

    def end(self, call: ToolCall, outcome: Outcome) -> Decision:
        """Count the outcome of a call that ``begin`` let run. Add ``decision.message``, if any, to its result."""
        return self._drive(self._end(call, outcome, waits=not on_event_loop()))

    async def aend(self, call: ToolCall, outcome: Outcome) -> Decision:
        """Count the outcome of a call as ``end`` does, in async code: an async ``on_trip`` is awaited."""
        return await self._adrive(self._end(call, outcome))

    def ran(self, call: ToolCall, outcome: Outcome, *, took: float = 0.0, ago: float = 0.0) -> Decision:
        """Judge a call that has run: it took ``took`` seconds, and ended ``ago`` seconds before now.

        If it would have been refused, and its outcome is no news, it counts as a refusal, and ``decision.message`` says
        so: add it to the result. The action is None, OBSERVE, NUDGE, CONCLUDE (make the next model request without
        tools) or ABORT (end the run).
        """
        return self._drive(self._ran(call, outcome, took, ago, waits=not on_event_loop()))

    async def aran(self, call: ToolCall, outcome: Outcome, *, took: float = 0.0, ago: float = 0.0) -> Decision:
        """Judge a call that has run as ``ran`` does, in async code: an async ``on_trip`` is awaited."""
        return await self._adrive(self._ran(call, outcome, took, ago))

    def _begin(self, call: ToolCall, event: Began, *, waits: bool = True) -> Steps:
        return self._begun(call, event, (yield from self._step(event, waits=waits)))

    def _end(self, call: ToolCall, outcome: Outcome, *, waits: bool = True) -> Steps:
        if self.changing and self.is_interrupting():
            return nothing_seen(None)
        running = self._take(call) or self._take_equal(call)
        if running is None:
            return nothing_seen(None)
        if running.event.place is not None and running.event.place.starts:
            (self._tree if self.parent is None else self.parent.tree).starting.discard(id(running.record))  # type: ignore[union-attr]  # it was made at the begin
        event = self._ended_event(running, outcome)
        return self._after_end(running, outcome, event.facts, (yield from self._step(event, waits=waits)))

    def _ran(self, call: ToolCall, outcome: Outcome, ran: float, ago: float, *, waits: bool = True) -> Steps:
        event = self._ran_event(call, outcome, ran, ago)
        verdict = yield from self._step(event, waits=waits)
        if self.parent is not None and verdict.record is not None:
            self.parent.count_call()
            self._tell_parent(verdict.record, event.ended.facts)
        if self.shared_tree is not None and not verdict.repeated:
            self.shared_tree.turn.count_nested_call()
        if self.cell is not None and not verdict.repeated:
            self.cell.own_calls += 1
        self._note_first(verdict)
        decision = wording.ran(verdict, call, self.policy)
        if self.parent is not None and not verdict.repeated and decision.is_loop_step:
            self.parent.spend(LOOPED)
        if decision.action is Action.ABORT:
            self.aborted()
        return decision

    def _step(self, event: Any, *, waits: bool) -> Generator[Any, Any, Verdict]:
        """Fold an event; then the trips of the user's detectors, and the answer of ``on_trip``, if these are asked."""
        verdict = yield from self._commit(event, waits=waits)
        if verdict.finds:
            history, record = self.current.history, verdict.record
            found = callbacks.custom_nudges(self.host.faults, self.compiled, history, record)  # type: ignore[arg-type]  # of a call
            verdict = yield from self._commit(Found(self._op(), event, verdict, found), waits=waits)
        if verdict.asks:
            trip = yield AskOnTrip(verdict.trip)  # type: ignore[arg-type]  # it asks about a trip
            verdict = yield from self._commit(Answered(self._op(), event, verdict, trip), waits=waits)
        return verdict

    def _commit(self, event: Any, *, waits: bool) -> Generator[Any, Any, Verdict]:
        if self.cell is None:
            return self.apply(event)
        return (yield from self.cell.commit(self, event, waits=waits))

    def _drive(self, steps: Steps) -> Decision:
        answer: Any = None
        try:
            while True:
                try:
                    step = steps.send(answer)
                except StopIteration as end:
                    return end.value  # type: ignore[no-any-return]  # a decision, by the type of the steps
                if type(step) is AskOnTrip:
                    answer = callbacks.ask_on_trip(self.host.faults, self.policy.on_trip, step.trip)
                else:
                    answer = wait(step)
        finally:
            steps.close()  # at once, also if the wait was cut off

    async def _adrive(self, steps: Steps) -> Decision:
        answer: Any = None
        try:
            while True:
                try:
                    step = steps.send(answer)
                except StopIteration as end:
                    return end.value  # type: ignore[no-any-return]  # as above
                if type(step) is AskOnTrip:
                    answer = await callbacks.await_on_trip(self.host.faults, self.policy.on_trip, step.trip)
                else:
                    answer = await wait_in_task(step)
        finally:
            steps.close()

    # --- the fold ----------------------------------------------------------------------------------------------------

    def apply(self, event: Any) -> Verdict:
        """Fold one event under the lock."""
        if self.changing and self.is_interrupting():
            return _NOT_JUDGED
        now = self.now()
        if self.cell is None:  # the time of a shared turn is that of its server
            self.last_used = now
        with self.lock:
            if self.changing:  # another thread's change was cut short since
                self._start_over()
            self.changing = type(event) is not Paid  # a fault in the ledger leaves the rest of the state as it was
            verdict = fold(self.current, event, now)
            self.changing = False
        return verdict

    def now(self) -> float:
        """Return the time of this turn in seconds: of the guard's clock, or of the store if it is shared."""
        return self.host.clock() if self.cell is None else self.cell.now()

    def is_interrupting(self) -> bool:
        """Return True in a signal handler that interrupts this thread's change of the state.

        Call it only if ``changing``. If an exception has cut a change of another thread short, empty the history.
        """
        if self.lock._is_owned():  # type: ignore[attr-defined]  # noqa: SLF001 - threading.Condition asks it, too
            return True
        with self.lock:
            if self.changing:
                self._start_over()
        return False

    def _start_over(self) -> None:
        if self.cell is None or self.cell.is_alone:
            self.current.start_over()
        else:
            self.cell.rebuild(self)
        self.changing = False

    # --- events of this process --------------------------------------------------------------------------------------

    def _op(self) -> int:
        return next(_numbers) if self.cell is None else self.cell.new_event_id()

    def _began_event(self, call: ToolCall, op: int = 0) -> Began:
        compiled, known = self.compiled, call.known_tools
        resolved, arguments = compiled.contracts.identify(call)
        registered = None if known is None else is_registered(call.tool, resolved.tool.name, known)
        policy = compiled.policy
        call_id: Any = call.call_id
        batch = written = call.written
        if self.cell is not None:
            self.last_used = self.host.clock()
            of = compiled.fingerprinter.of
            batch = None if written is None else of(b"%d %d" % (self.cell.process, written))
            call_id = None if call_id is None else of(utf8(name_text(call_id)))
            written = None
        key, parent, results = arguments ^ resolved.tool.digest, self.parent, self._results
        reusable = results is not None and key in results
        event: Began = tuple.__new__(Began, (  # see `nothing_seen`
            op or self._op(), resolved, arguments, registered, call_id, batch, written, call.may_exist, (),
            policy.on_trip is not None, reusable, None, False, True, 0 if parent is None else parent.equal_calls(key),
            self._place(resolved) if compiled.budgets else None,
        ))  # fmt: skip
        return event._replace(custom=self._custom_trips(event)) if compiled.custom else event

    def _place(self, resolved: ResolvedCall | None = None) -> PlaceInTree:
        """Return the place of a call, or of a request, in the tree of this turn."""
        tree = self._tree if self.parent is None else self.parent.tree
        starts = resolved is not None and (
            resolved.kind is Kind.AGENT or (tree is not None and resolved.tool.digest in tree.delegating)
        )
        starting = 0 if tree is None else len(tree.starting)
        around = self.place_in_tree()
        return PlaceInTree(around.ledger, around.began_at, around.level, starting, starts)

    def place_in_tree(self) -> PlaceInTree:
        """Return the place of a call of this turn that starts no agent."""
        parent, tree = self.parent, self.shared_tree
        if parent is not None:
            around, root = parent.outermost.place_in_tree(), parent.outermost
            return PlaceInTree(
                around.ledger or root.ledger,
                root.began_at if around.began_at is None else around.began_at,
                around.level + parent.level,
            )
        if tree is not None:
            return PlaceInTree(tree.turn.ledger, tree.began_at(self.now()), tree.level)
        return OUTERMOST

    def _settle(self) -> None:
        """Note what the turn spent in its conversation, if this process remembers that. The store does so by itself."""
        place, compiled = self.current.place, self.compiled
        if place is not None and compiled.counts_conversations and self.parent is None and self.cell is None:
            with place.memory.lock:
                place.conversation(compiled, self.now()).settle(place.turn, self.ledger)

    @property
    def began_at(self) -> float:
        """The time of the first step, in seconds of the turn's clock; minus infinity before it."""
        return self.current.history.began_at

    def _custom_trips(self, event: Began) -> tuple[Trip, ...]:
        if self.changing and self.is_interrupting():
            return ()
        with self.lock:
            history, record = self.current.history, opened(self.current, event, self.now())
        return callbacks.custom_trips(self.host.faults, self.compiled, history, record)

    def _ended_event(self, running: Running, outcome: Outcome) -> Ended:
        _, began, record, _ = running
        op = self._op()
        if outcome.cancelled:
            return Ended(op, began, record, None)
        compiled = self.compiled
        words = self.current.pending_words_for(record)
        facts = outcome_facts(outcome, began.resolved.arguments, compiled.fingerprinter, words)
        nested = 0
        if self.cell is not None:
            with self.lock:
                nested, self.cell.nested = self.cell.nested, 0
        asks = compiled.policy.on_trip is not None
        return Ended(op, began, record, facts, outcome.exists, record.child_news, nested, asks, bool(compiled.custom))

    def _ran_event(self, call: ToolCall, outcome: Outcome, ran: float, ago: float) -> Ran:
        op = self._op()
        if self.cell is not None and call.call_id is not None:
            op = self.cell.event_id_of(call.call_id)
        event = self._began_event(call, op)
        facts = None
        if not outcome.cancelled:
            with self.lock:
                record = opened(self.current, event, self.now() - ago - ran)
            # Whether it ran before is not known for sure in a shared turn: the fold knows, and passes over the rest.
            words = self.compiled.contracts.pending if self.is_shared else self.current.pending_words_for(record)
            facts = outcome_facts(outcome, event.resolved.arguments, self.compiled.fingerprinter, words)
        finds = bool(self.compiled.custom)
        return Ran(op, event, Ended(op, event, None, facts, outcome.exists, asks=event.asks, finds=finds), ran, ago)

    # --- after the fold ----------------------------------------------------------------------------------------------

    def _begun(self, call: ToolCall, event: Began, verdict: Verdict) -> Decision:
        record, trip, action = verdict[:3]
        if record is None:
            return nothing_seen(None)
        if action is None or action <= Action.NUDGE:
            self._note_running(call, event, record)
            if trip is None:
                return nothing_seen(record)
        elif self.parent is not None and is_loop_step(trip, None):
            self.parent.spend(LOOPED)
        self._note_first(verdict)
        if action is Action.ABORT:
            self.aborted()
        earlier = self._results.get(record.key) if action is Action.REUSE else None  # type: ignore[union-attr]  # it has one
        return wording.begun(verdict, call, self.policy, earlier)

    def _note_running(self, call: ToolCall, event: Began, record: Record) -> None:
        running, identity = self.running, id(call)
        if not running:
            self.running = running = {}
        elif len(running) >= _MOST_RUNNING:
            running.pop(next(iter(running)), None)
        running[identity] = Running(call, event, record, running.get(identity))
        if event.place is not None and event.place.starts:
            (self._made_tree() if self.parent is None else self.parent.tree).starting.add(id(record))
        if self.parent is not None and not record.resumed:
            self.parent.count_call()
        if self.shared_tree is not None and not record.resumed:
            self.shared_tree.turn.count_nested_call()
        if self.cell is not None:
            self.cell.own_calls += 1

    def _after_end(self, running: Running, outcome: Outcome, facts: OutcomeFacts | None, verdict: Verdict) -> Decision:
        record = verdict.record
        if record is None:
            return nothing_seen(None if self.cell is None else running.record)
        if record is not running.record:  # the copy of a shared turn was made again in between
            running.record.__dict__.update(vars(record))
        if facts is not None:
            if record.resolved.tool.contract.reuse and not record.error:
                self._results = self._results or ReusableResults()
                self._results.put(record.key, outcome, len(facts.data) or len(utf8(str(outcome.result))))
            if self.parent is not None:
                self._tell_parent(record, facts)
                if is_loop_step(record.trip, record):
                    self.parent.spend(LOOPED)
        if verdict.action is None and not verdict.notes and not verdict.recovered:
            return nothing_seen(record)
        self._note_first(verdict)
        return wording.ended(verdict, running.call, self.policy)

    def _tell_parent(self, record: Record, facts: OutcomeFacts | None) -> None:
        """Mark the calls around this turn if an outcome is news to the whole tree."""
        parent = self.parent
        if facts is not None and record.news and parent.tree.is_news(record, facts, self.compiled.fingerprinter):  # type: ignore[union-attr]  # the caller has asked
            parent.mark_news()  # type: ignore[union-attr]  # as above

    def _take(self, call: ToolCall) -> Running | None:
        """Remove and return the running call that began with this very object."""
        running = self.running.pop(id(call), None)
        if running is not None and running.earlier is not None:
            self.running[id(call)] = running.earlier
        return running

    def _take_equal(self, call: ToolCall) -> Running | None:
        """Remove and return a running call that equals this one: the caller made a new object for its end."""
        key, name = self.key_of(call), name_text(call.tool)
        for running in list(self.running.values()):
            other = running.call
            if name_text(other.tool) == name and other.call_id == call.call_id and running.record.key == key:
                return self._take(other)
        return None

    # --- the model's side --------------------------------------------------------------------------------------------

    @property
    def conclusion_due(self) -> bool:
        """True if the next model request is to be made without tools, so that the model answers."""
        return self.current.history.conclusion_due

    @property
    def is_concluded(self) -> bool:
        """True once the model was asked for its answer."""
        return self.current.history.concluded_at >= 0

    def concluded_before(self, call: ToolCall) -> bool:
        """Return True if a conclusion is due, and the model wrote this call in a later message than the refused one."""
        return self.current.history.concluded_before(call.written)

    def conclude(self) -> str | None:
        """Return the sentence for a model request without tools, once a turn; None if no conclusion is due."""
        event = Concluded(self._op())
        with self.lock:
            if not self.conclusion_due:
                return None
            verdict = self._tell(event)
        stopped = self.current.messages is not None and bool(self.current.messages.stops)
        return wording.concluded(verdict, self.policy, stopped=stopped)

    def asking(self, texts: ConversationTexts | None = None) -> Trip | None:
        """Judge a request to a model before it is sent. Return the trip of a budget that is spent, or of ``texts``.

        With NUDGE the model is to be told; with CONCLUDE a conclusion is due: send it without tools. With ABORT, end
        the run.
        """
        found = None if texts is None else self.compiled.trip_of_texts(texts)
        if found is None and not self.compiled.budgets:
            return None
        trip = self._trip_of(Asking(self._op(), self._place(), found))
        if texts is not None and (trip is None or trip.action is not Action.ABORT):
            texts.judged()
        return trip

    def writing(self, found: Trip) -> Trip | None:
        """Judge the trip of what a model has written so far. With ABORT, cut the stream, and end the run."""
        return self._trip_of(Writing(self._op(), found))

    def _trip_of(self, event: Any) -> Trip | None:
        verdict = self._tell(event)
        self._note_first(verdict)
        if verdict.action is Action.ABORT:
            self.aborted()
        return verdict.trip

    def thought(self, seconds: float, *, ago: float = 0.0) -> None:
        """Note that a model request took these seconds, and ended ``ago`` seconds before now: thinking is no waiting.

        Only seconds count in which no call of the turn started or ended; a negative or absurd number counts as none.
        """
        self._tell(Thought(self._op(), seconds, ago))

    def spend(self, more: Ledger, *, is_nested: bool = False) -> None:
        """Add to the ledger of this turn, and of the turns around it. ``is_nested``: it was in a nested turn.

        After a fault the ledger lacks it. The call or request goes on, and so does its judgement.
        """
        with self.shield("turn.spend"):
            self._tell(Paid(self._op(), more, is_nested))
            if self.parent is not None:
                self.parent.spend(more.around())
            if self.shared_tree is not None:
                self.shared_tree.spend(more)

    def lose(self, keys: Iterable[int]) -> None:
        """Note that the model cannot see the latest result of these calls (``key_of``) any more: it is no evidence.

        The next equal call is judged as if it had not run. From the 20th loss of one call on, the loss is ignored.
        """
        self._tell(Lost(self._op(), tuple(keys)))

    def _tell(self, event: Any) -> Verdict:
        """Fold an event without waiting for the store: its verdict needs no proof."""
        if self.cell is None or self.cell.is_alone:
            return self.apply(event)
        return self.cell.fold_now(self, event)

    def key_of(self, call: ToolCall) -> int:
        """Return the number that identifies a call in the history: equal calls of one tool have the same."""
        resolved, arguments = self.compiled.contracts.identify(call)
        return arguments ^ resolved.tool.digest

    # --- reports -----------------------------------------------------------------------------------------------------

    def reach(self, trip: Trip) -> First:
        """Note that a trip is reported, and return its place in the turn, in all its processes. Call it once a trip."""
        first = self._firsts.pop(trip, None)
        return first or self._tell(Reached(self._op(), trip)).first or First.NO

    @property
    def strongest_action(self) -> Action | None:
        """The strongest action of the trips by which the turn looped; None without any."""
        return max((action for mode, action in self.current.history.reached if mode is None), default=None)

    def _note_first(self, verdict: Verdict) -> None:
        if verdict.first is None:
            return
        self._firsts = self._firsts or {}
        self._firsts.setdefault(verdict.trip, verdict.first)  # type: ignore[arg-type]  # it has a trip
        if len(self._firsts) > _MOST_FIRSTS:
            self._firsts.pop(next(iter(self._firsts)), None)

    @property
    def shield(self) -> Shield:
        """The shield for faults that no caller would see."""
        return self.host.faults.shield

    # --- of a shared turn --------------------------------------------------------------------------------------------

    def keep_conversation(self, name: str) -> None:
        """Remember the conversation of this name beyond its turns, in the cell of a shared turn."""
        self.cell.keep_conversation(self, name)  # type: ignore[union-attr]  # a shared turn

    def runs_elsewhere(self) -> bool:
        """Read the cell. Return True if the turn may go on in it; always on an event loop, which cannot wait."""
        return on_event_loop() or self.cell.reads(self)  # type: ignore[union-attr]  # a shared turn

    @property
    def is_settled(self) -> bool:
        """True if no call runs and no message waits for one, and the store of a shared turn has all of it."""
        if self.cell is not None:
            return not self.running and self.cell.is_settled
        return not self.running and self.messages is None


class _LockedMemory:
    """The memory of a conversation in the state of a shared turn, for the turns nested in it."""

    def __init__(self, turn: Turn) -> None:
        self.lock = turn.lock
        self._turn = ref(turn)

    def use(self, name: str, now: float | None, longest_idle: float) -> ConversationMemory:
        """Return the conversation; a new one if it had no call for ``longest_idle`` seconds.

        The caller holds the lock.
        """
        turn = self._turn()
        place = None if turn is None else turn.current.place
        return ConversationMemory() if place is None else place.memory.use(name, now, longest_idle)


def is_registered(called: Any, name: str, known: Collection[str]) -> bool | None:
    """Return True if a tool of this name exists; None if nobody here knows, as of a tool behind a dispatcher."""
    if type(called) is not str:
        called = name_text(called)
    if len(called) > LONGEST_TOOL_NAME:  # it was cut, and is no dispatcher
        return called in known
    return name in known if name == called else None


def on_event_loop() -> bool:
    """Return True if this thread runs an event loop now, so that it must not wait."""
    return asyncio._get_running_loop() is not None  # noqa: SLF001 - documented, and without an exception
