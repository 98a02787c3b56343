"""The state of a turn: all that an event can change."""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING, NamedTuple

from otel_loopguard.engine.conversation_memory import ConversationMemory, PlaceInConversation
from otel_loopguard.engine.history.bounded import EMPTY, kept
from otel_loopguard.engine.vocabulary import OVER_TURNS, Action, First, Record

if TYPE_CHECKING:
    from collections.abc import Collection, Hashable

    from otel_loopguard.engine.compiled import CompiledPolicy
    from otel_loopguard.engine.events import Began
    from otel_loopguard.engine.history.history import History
    from otel_loopguard.engine.user_messages import UserMessages
    from otel_loopguard.engine.values.fingerprint import Fingerprinter
    from otel_loopguard.engine.values.pending import PendingWords
    from otel_loopguard.engine.verdict import Verdict
    from otel_loopguard.engine.vocabulary import Trip

_KEPT = (
    "tick", "began_at", "calls", "nested_calls", "spent", "spent_by_nested", "judged", "idle", "wall", "thought",
    "thinking", "thought_at", "active_at", "between", "running", "refusals", "refused_message",
    "started_by_tool", "reached",
)  # fmt: skip
_MOST_OPEN_TRIPS = 32
MOST_OPEN = 1_024
MOST_BATCHES = 64
MOST_ANSWERED = 256
MOST_RAN = 512
MOST_PAST = 32
MOST_IN_BATCH = 1_024


class OpenCall(NamedTuple):
    """A call of a shared turn that began and has not ended. The process that made it has its record."""

    call_id: Hashable
    batch: int | None
    key: int
    index: int  # type: ignore[assignment]  # hides tuple.index, which no caller needs


class Batch:
    """The calls of one model message: when the model wrote them, it had read the result of none of them.

    A run that is interrupted among them and resumed makes them again, with the same ids: each is still one call.
    """

    __slots__ = ("interrupted", "resumed", "started", "written")

    def __init__(self, written: int) -> None:
        self.written = written
        """The turn's tick when the model wrote the message."""
        self.interrupted = False
        """True if a call was interrupted, and the calls are not being made again yet."""
        self.resumed = False
        """True if the calls are being made again."""
        self.started: dict[Hashable, int] = {}
        """The index of each call that started, by its id."""


class State:
    """The state of a turn. Events change it, by ``fold`` only."""

    __slots__ = (
        "answered", "batch", "batches", "ceiling", "claims", "compiled", "conversation", "fingerprinter", "heeds",
        "history", "is_over", "is_recorded", "is_shared", "messages", "open", "past", "place", "ran", "reusable",
        "turn", "turn_id",
    )  # fmt: skip

    def __init__(
        self,
        compiled: CompiledPolicy,
        *,
        ceiling: Action = Action.ABORT,
        is_shared: bool = False,
        is_recorded: bool = False,
        fingerprinter: Fingerprinter | None = None,
    ) -> None:
        self.compiled = compiled
        self.ceiling = ceiling
        """The strongest action in this turn."""
        self.is_shared = is_shared
        """True if other processes fold events into this state, too."""
        self.is_recorded = is_recorded
        """True if the calls were recorded: each has run, also if it trips, and no model has read a refusal."""
        self.heeds = not is_recorded
        """True if the model reads the refusals of this turn, so that it may heed them."""
        self.fingerprinter = fingerprinter or compiled.fingerprinter
        self.history: History = compiled.new_history()
        self.reusable: Collection[int] = ()
        """The recorded calls whose earlier result could be given again: those that succeeded."""
        self.messages: UserMessages | None = None
        """The user's messages that wait; one queue for a turn and its nested turns."""
        self.claims = True
        """True if a fold may take any waiting message; False if the store has to be asked about those of all."""
        self.batch: Batch | None = None
        """The batch of the latest call."""
        self.batches: dict[int, Batch] = EMPTY
        """By ``Began.batch``: the latest batch, or those of several agents in a shared turn."""
        self.place: PlaceInConversation | None = None
        """The place of the turn in its conversation; None if no conversation is remembered."""
        # Of shared turns:
        self.open: dict[int, OpenCall] = EMPTY
        """The calls that have not ended, by the ``op`` of their ``Began``."""
        self.answered: dict[int, Verdict] = EMPTY
        """By ``op``: the verdicts with a trip or notes about calls that had run when they were judged."""
        self.ran: dict[int, None] = EMPTY
        """The ``op`` of each call that had run when it was judged. Several processes may report it; it counts once."""
        self.conversation: ConversationMemory | None = None
        """The memory of the conversation, if the policy wants one."""
        self.turn = 0
        """The keyed fingerprint of the id of the turn that the cell is in; 0 before the first."""
        self.turn_id = ""
        self.past: tuple[int, ...] = ()
        """The turns that the cell was in before."""
        self.is_over = False

    def start_over(self) -> None:
        """Empty the history: no evidence is left. The turn's counters, and what was reported, stay."""
        history = self.compiled.new_history()
        for name in _KEPT:
            setattr(history, name, getattr(self.history, name))
        self.history = history

    def pending_words_for(self, record: Record) -> PendingWords | None:
        """Return the words to search a result for; None for a first run: only repeats are judged by them."""
        if record.stats is None and not record.resolved.tool.refuses_second_run:
            return None
        return self.compiled.contracts.pending

    # --- trips -------------------------------------------------------------------------------------------------------

    def remember(self, trip: Trip) -> None:
        """Keep a trip until the turn brings news again: then the agent has recovered from it."""
        if trip.reason != OVER_TURNS:  # news of the turn is none of the conversation
            history = self.history
            history.open_trips = (*history.open_trips[-_MOST_OPEN_TRIPS:], trip)

    def reach(self, trip: Trip) -> First | None:
        """Note that a trip is reported, and return its place in the turn.

        None if the calls were recorded: whoever reports such a trip folds ``Reached``.
        """
        return None if self.is_recorded else self.place_of(trip)

    def place_of(self, trip: Trip) -> First:
        """Note that a trip is reported, and return its place in the turn; ``First.NO`` for a loop over turns."""
        if trip.reason == OVER_TURNS:
            return First.NO
        return self.history.reach(str(trip.mode), trip.action, loops=trip.is_loop)

    # --- calls that run ----------------------------------------------------------------------------------------------

    def keep(self, event: Began, record: Record) -> None:
        """Remember a call that began, until ``take``."""
        call = OpenCall(event.call_id, event.batch, record.key, record.index)
        self.open = kept(self.open, event.op, MOST_OPEN, call)

    def take(self, op: int) -> OpenCall | None:
        """Remove and return an open call; None if it is not open."""
        return self.open.pop(op, None)

    def own(self, record: Record) -> Record:
        """Return the record of a call with the statistics of this state.

        In a shared turn it is a copy: the state may have been read from bytes since, and the event be folded again.
        """
        if not self.is_shared:
            return record
        copy = Record()
        copy.__dict__.update(vars(record))
        copy.stats = None if record.stats is None else self.history.find(record.key)
        return copy

    # --- the calls of one model message ------------------------------------------------------------------------------

    def is_resumed_by(self, event: Began) -> bool:
        """Return True if the call is made again after the calls of its message were interrupted."""
        batch = self.batch
        return batch is not None and batch.interrupted and event.call_id in batch.started

    def written_of(self, event: Began) -> int | None:
        """Return the tick at which the model wrote a call, without making a batch; None if it is not known."""
        if event.batch is None:
            return event.written
        batch = self.batches.get(event.batch) or (self.batch if self.is_resumed_by(event) else None)
        if batch is not None:
            return batch.written
        return self.history.tick if event.written is None else event.written

    def batch_of(self, event: Began) -> Batch | None:
        """Return the batch of a call, made at the first call of its message; None if the message is not known."""
        if event.batch is None:
            return None
        batch = self.batches.get(event.batch)
        if batch is None:
            if self.batch is not None and self.is_resumed_by(event):
                batch = self.batch
                batch.interrupted, batch.resumed = False, True
            else:
                batch = Batch(self.history.tick if event.written is None else event.written)
            if self.is_shared:  # the messages of several agents at once
                self.batches = self.batches or {}
                if len(self.batches) >= MOST_BATCHES:
                    self.batches.pop(next(iter(self.batches)))
                self.batches[event.batch] = batch
            else:
                self.batches = {event.batch: batch}
        self.batch = batch
        return batch

    def resumed_index(self, event: Began, batch: Batch | None, key: int) -> int | None:
        """Return the first index of a call that was started before an interrupt and is made again; None for others."""
        if batch is None or event.call_id is None:
            return None
        if batch.resumed:
            return batch.started.get(event.call_id)
        if not self.is_shared:
            return None
        for op, one in self.open.items():  # a process that was killed has told of no interrupt
            if one.call_id == event.call_id and one.key == key and one.batch != event.batch:
                self.take(op)
                return one.index
        return None

    def add_to_batch(self, event: Began, record: Record) -> None:
        """Remember that a call of the latest batch started."""
        started = self.batch.started  # type: ignore[union-attr]  # the caller has asked
        if event.call_id is not None and len(started) < MOST_IN_BATCH:
            started[event.call_id] = record.index

    # --- of shared turns ---------------------------------------------------------------------------------------------

    def answer(self, op: int, verdict: Verdict) -> Verdict:
        """Return the verdict about a call that had run. A shared turn keeps it for the next report of that call."""
        if self.is_shared:
            self.ran = kept(self.ran, op, MOST_RAN)
        if self.is_shared and (verdict.trip is not None or verdict.notes):
            self.answered = kept(self.answered, op, MOST_ANSWERED, verdict)
        return verdict

    def begin_turn(self, number: int, turn_id: str) -> None:
        """Begin a turn in the cell: forget the calls and messages of the turn before, and keep the conversation."""
        if self.turn:
            self.past = (*self.past[1 - MOST_PAST :], self.turn)
            if self.conversation is not None:
                self.conversation.settle(self.turn, self.history.ledger)
            self.history = self.compiled.new_history()
            if self.messages is not None:
                self.messages.forget(own=False)
        self.turn, self.turn_id, self.is_over = number, turn_id, False
        self.open = self.batches = self.answered = self.ran = EMPTY
        self.batch = None
        self.set_place()

    def keep_conversation(self, name: str) -> None:
        """Keep the memory of a conversation in this state."""
        self.conversation = self.conversation or ConversationMemory()
        self.set_place(name)

    def set_place(self, name: str = "") -> None:
        """Set the place of this turn in the conversation that the state keeps."""
        if self.conversation is not None:
            self.place = PlaceInConversation(_MemoryOf(self), name, self.turn)


class _MemoryOf:
    """The ``Memory`` of one conversation, which is a part of a state."""

    lock = nullcontext()
    """The state is changed by one thread at a time anyway."""

    def __init__(self, state: State) -> None:
        self._state = state

    def use(self, _: str, now: float | None, longest_idle: float) -> ConversationMemory:
        """Return the conversation; a new one if it had no call for ``longest_idle`` seconds."""
        found = self._state.conversation
        if found is None or (now is not None and now - found.used > longest_idle):
            found = self._state.conversation = ConversationMemory()
        if now is not None:
            found.used = now
        return found
