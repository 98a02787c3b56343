"""A turn that several processes share: one cell of the store holds its state. Load it, fold the events, swap it in.

If another process has written since, the same events are folded again on the newer state: an event has facts only.
``docs/design.md`` ("A shared call") has the rules by which nothing new is withheld, whatever the store loses: no proof,
no refusal; a gap is a change; each write counts once. Every request to the store runs on one background loop, one write
of a cell at a time, so that no exception of a signal handler can cut a write short.
"""

from __future__ import annotations

import asyncio
import math
import os
import time
from collections import deque
from concurrent.futures import Future
from concurrent.futures import wait as wait_for_futures
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import orjson

from otel_loopguard.engine import wire
from otel_loopguard.engine.events import Answered, Began, Ended, Gap, Ran, Said, Thought, TurnBegan, TurnEnded
from otel_loopguard.engine.fold import fold, needs_no_proof, would_trip
from otel_loopguard.engine.user_messages import UserMessage
from otel_loopguard.engine.values.introspect import name_text
from otel_loopguard.engine.values.normalise import utf8
from otel_loopguard.engine.verdict import Verdict
from otel_loopguard.engine.vocabulary import Action
from otel_loopguard.errors import NotStoredError
from otel_loopguard.store import background
from otel_loopguard.store.cell_messages import CellMessages, is_forgotten, keep_own
from otel_loopguard.store.store import READ_ONLY, Newer, Swapped

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Sequence
    from typing import TypeAlias

    from otel_loopguard.engine.compiled import CompiledPolicy
    from otel_loopguard.engine.state import State
    from otel_loopguard.engine.user_messages import Notes, UserMessages
    from otel_loopguard.shield import Shield
    from otel_loopguard.store.store import Store

    _Pending: TypeAlias = tuple[Any, Future[Verdict | None]]
    """An event that waits to be written, and the future of its verdict: None if the turn is alone by then."""

_TOKEN = 8
"""Bytes of a token, which identifies a write."""
_MOST_TOKENS = 64
_MOST_LATE = 256
_MOST_TRIES = 32
RETRY_PAUSES = (0.02, 0.1, 0.5, 2.0, 5.0, 10.0, 30.0, 30.0, 60.0, 60.0, 60.0, 60.0)
"""Seconds between the tries to write late events while no call comes. Then they wait for the next call."""
WATCH_PAUSES = (1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0, 60.0, 60.0, 60.0, 60.0, 60.0)
"""Seconds between the loads of the cell that tell what became of the user's messages."""
_LONGEST_WAIT = 5.0
"""Seconds that a caller waits for the background loop, in case a store does not keep its own time-out."""
_OF_CALLS = frozenset({Began, Ended, Ran, Answered})
_NOT_JUDGED = Verdict()


class UnwrittenEvent(NamedTuple):
    """An event that this process has folded, and that the store does not have yet."""

    event: Any
    own: float
    """Its time, in seconds of this process's clock."""


class _Write(NamedTuple):
    """A write that is under way."""

    token: bytes
    state: bytes
    late: tuple[UnwrittenEvent, ...]
    """The late events that the state has."""


class CellTurn(Protocol):
    """The part of a turn that its cell needs."""

    id: str
    lock: Any
    changing: bool
    current: State

    @property
    def shield(self) -> Shield:
        """The shield for faults that no caller would see."""

    def new_state(self) -> State:
        """Return an empty state."""

    def message_queue(self) -> UserMessages:
        """Return the queue of the user's messages."""

    def apply(self, event: Any) -> Verdict:
        """Fold an event in this process alone."""

    def is_interrupting(self) -> bool:
        """Return True in code that interrupts this thread's change of the state."""


class Cell:
    """One process's part in a shared turn: the last known state of the store, and the events that the store lacks."""

    def __init__(
        self, store: Store, key: str, compiled: CompiledPolicy, turn_id: str, *, begins: bool, is_named: bool
    ) -> None:
        self._store, self._key = store, key
        self._adopts = not begins
        """True if this process joins the turn that it finds in the cell, whatever the id of that turn."""
        self._has_adopted = False
        """True once it has joined a turn."""
        self.names_turn = is_named
        """True if the program gave the turn an id, so that its next step may be in any process."""
        """True if the program has chosen the id: it may use the id again, so the turn does not end with its block."""
        self._of = compiled.fingerprinter.of
        self._turn_id = turn_id
        self._number = self._of(utf8(turn_id))
        """The fingerprint of the turn's id, by which its state is known."""
        self.process = self.new_event_id()
        """Identifies this process among those that work on the turn."""
        self.is_alone = False
        """True if another turn has replaced this one in the cell: it goes on as a turn of this process alone."""
        self.own_calls = 0
        """The calls of this process, those of nested turns included."""
        self.nested = 0
        """Calls of nested turns since the last event that counts them."""
        # The state that the store had
        self._known = b""
        """The newest packed state that the store has had, lost there or not; empty before the first contact."""
        self._known_changes = 0
        """The number of changes that this state has counted."""
        self._seen = b""
        """The version that the cell had at the last reply."""
        self._server = b""
        self._has_read = False
        """False if the cell has to be loaded before the next write."""
        self._has_begun = False
        """True once the store has had this turn."""
        self._owes_gap = False
        """True if something may have been missed, so that a ``Gap`` has to be folded."""
        self._is_away = False
        """True if the store has not answered the last request."""
        self._time = (0.0, 0.0)
        """Seconds by the server's clock at its last reply, and by this process's clock then."""
        # Events of this process
        self._waiting: deque[_Pending] = deque()
        self._batch: list[_Pending] = []
        """The events that are being written."""
        self._late: list[UnwrittenEvent] = []
        self._unanswered: dict[bytes, tuple[UnwrittenEvent, ...]] = {}
        """The events of each write that was not answered, by the token of the write."""
        self.messages = CellMessages()
        self._writing: asyncio.Task[None] | None = None
        self._watching: asyncio.Task[None] | None = None
        self._retrying: asyncio.Task[None] | None = None
        self._retries = 0
        self._conversation = ""

    def open(self, turn: CellTurn, clock: Callable[[], float]) -> None:
        """Begin with an empty state. ``clock`` returns seconds."""
        self._clock = clock
        self._time = (time.time(), self._clock())
        self.rebuild(turn)

    @property
    def is_settled(self) -> bool:
        """True if the store has every event of this process."""
        return not (self._waiting or self._late or self._writing)

    def now(self) -> float:
        """Return the present time by the server's clock, in seconds."""
        return self._at(self._clock())

    def _at(self, own: float) -> float:
        """Convert a time of this process's clock into one of the server's, by the last reply."""
        at, then = self._time
        return at + own - then

    # --- from threads and tasks --------------------------------------------------------------------------------------

    def commit(self, turn: CellTurn, event: Any, *, waits: bool = True) -> Generator[Any, Any, Verdict]:
        """Fold an event, and return its verdict. Yield a future that the caller waits for; it sends the result back.

        Without ``waits`` it yields none, and blocks the thread if only the store can decide.
        """
        if self.is_alone:
            return turn.apply(event)
        if not waits and not self._needs_store(turn, event):
            return self.fold_now(turn, event)
        future = self._put(turn, event)
        verdict: Verdict | None
        try:  # without ``waits`` this may block an event loop, but only before a refusal, or for a message
            verdict = (yield future) if waits else _result_or_none(future)
        except BaseException:
            self._hand_back(turn, future)
            raise
        if verdict is None:
            self._hand_back(turn, future)
            return turn.apply(event) if self.is_alone else _NOT_JUDGED
        return verdict

    def _hand_back(self, turn: CellTurn, future: Future[Verdict | None]) -> None:
        """Let any process deliver the messages of a verdict that comes too late for its call."""
        if not (future.cancel() or future.cancelled()):
            self._store_notes_again(turn, future.result())

    def _store_notes_again(self, turn: CellTurn, verdict: Verdict | None) -> None:
        if verdict is not None and verdict.notes and not verdict.repeated:
            self.say_again(turn, verdict.notes)

    def fold_now(self, turn: CellTurn, event: Any) -> Verdict:
        """Fold an event in this process, return the verdict, and write the event in the background."""
        if turn.changing and turn.is_interrupting():
            return _NOT_JUDGED
        with turn.lock:
            now = self._clock()
            turn.changing = True
            verdict = fold(turn.current, event, self._at(now))
            self._keep_late(event, verdict, now)
            turn.changing = False
        background.soon(self._start, turn)
        return verdict

    def _needs_store(self, turn: CellTurn, event: Any) -> bool:
        """Return True if only the store can decide: a call may be refused, or a message of the user be delivered."""
        queue = turn.current.messages
        if type(event) is not Began or (queue is not None and queue.stops):
            return queue is not None and queue.has_shared and not self._is_away
        with turn.lock:
            trip = would_trip(turn.current, event, self.now())
        return trip is not None and trip.action > Action.NUDGE and not needs_no_proof(trip)

    def _put(self, turn: CellTurn, event: Any) -> Future[Verdict | None]:
        """Let the background loop write an event. Return the future of its verdict."""
        done: Future[Verdict | None] = Future()
        self._waiting.append((event, done))
        background.soon(self._start, turn)
        return done

    def reads(self, turn: CellTurn) -> bool:
        """Load the cell. Return True if a turn goes on in it, or the store does not answer."""
        is_loaded = _result_or_none(background.run_later(self._look(turn)))
        return not is_loaded or (bool(turn.current.turn) and not turn.current.is_over)

    # --- messages of the user ----------------------------------------------------------------------------------------

    def say(self, turn: CellTurn, text: str, *, stop: bool) -> UserMessage:
        """Store a message, which any process delivers with its next result. Wait for it, but not on an event loop.

        A stop is waited for in any case. Raise a ``NotStoredError`` if it could not be stored.
        """
        message = UserMessage(text, turn.message_queue(), stop=stop, number=self.new_event_id())
        self.messages.keep(message)
        future = self._put(turn, Said(message.id, message))
        if stop or asyncio._get_running_loop() is None:  # noqa: SLF001 - documented, and without an exception
            _result_or_none(future)
        if stop and not (message.stored or self.is_alone):
            raise NotStoredError(
                "The store does not answer, so only this process stops the turn. Others go on until it does: "
                "this process keeps trying."
            )
        return message

    def say_again(self, turn: CellTurn, notes: Notes) -> None:
        """Store notes that did not fit into their result, so that any process may deliver them."""
        queue = turn.message_queue()
        again = [
            UserMessage(note, queue, number=self.new_event_id()) if isinstance(note, str) else note for note in notes
        ]
        with turn.lock:
            queue.put_back(tuple(again))
        self._put_said(turn, again)

    def _put_said(self, turn: CellTurn, messages: Iterable[UserMessage]) -> None:
        for message in messages:
            self._put(turn, Said(message.id, message))

    async def _watch(self, turn: CellTurn) -> None:
        """Look after the messages of this process until the model has them: the server may lose them."""
        with turn.shield("store.watch"):
            for seconds in WATCH_PAUSES:
                if not await background.pause(seconds):
                    break
                await self.check_messages(turn)
                if self.is_alone or turn.message_queue().closed or self.messages.all_delivered:
                    break
        self._watching = None

    async def check_messages(self, turn: CellTurn) -> None:
        """Load the cell, write what waits, note what became of the messages, and store each stop again that is lost."""
        if not await self._look(turn):
            return
        self._start(turn)
        with turn.lock:
            self._note_what_became(turn)
            lost = self.messages.lost_stops()
        self._put_said(turn, lost)

    def _note_what_became(self, turn: CellTurn) -> None:
        self.messages.note_what_became(turn.message_queue())
        self._late = [late for late in self._late if not is_forgotten(late.event)]

    # --- on the background loop --------------------------------------------------------------------------------------

    def _start(self, turn: CellTurn) -> None:
        if self._writing is None and not self.is_alone and (self._waiting or self._late):
            with turn.shield("store.write"):
                self._writing = asyncio.ensure_future(self._write(turn))
        elif self.is_alone:
            waiting = self._drained()
            self._answer(turn, waiting, self._leave_to_turn(turn, [event for event, _ in waiting]))

    def _drained(self) -> list[_Pending]:
        return [self._waiting.popleft() for _ in range(len(self._waiting))]

    async def _write(self, turn: CellTurn) -> None:
        """Write all events that wait. After a fault of this package the calls that wait go on, and are not judged."""
        is_over = False
        try:
            with turn.shield("store.write"):
                await self._write_all(turn)
                is_over = True
        finally:
            self._writing = None
            if not is_over:
                self._give_up(turn)
        if self._waiting:
            self._start(turn)
        elif not self._late:
            self._retries = 0
        elif self._retries < len(RETRY_PAUSES):
            self._retrying = asyncio.ensure_future(self._retry(turn, RETRY_PAUSES[self._retries]))
            self._retries += 1

    async def _write_all(self, turn: CellTurn) -> None:
        while self._waiting or self._late:
            self._batch = self._drained()
            verdicts, is_written = await self._swap_in(turn, [event for event, _ in self._batch])
            batch, self._batch = self._batch, []
            self._answer(turn, batch, verdicts)
            if self.is_alone or not (is_written or self._waiting):
                break

    def _give_up(self, turn: CellTurn) -> None:
        """Answer all waiting events with an empty verdict. Rebuild the state: the fault may have cut a change short."""
        batch, self._batch, self._owes_gap = self._batch, [], True
        dropped = [*batch, *self._drained()]
        self._answer(turn, dropped, [_NOT_JUDGED] * len(dropped))
        with turn.lock:
            self.rebuild(turn)

    async def _retry(self, turn: CellTurn, seconds: float) -> None:
        """Write again after a pause, or at once when the program ends."""
        with turn.shield("store.write"):
            await background.pause(seconds)
            self._start(turn)
            if self._writing is not None:
                await self._writing

    def _answer(self, turn: CellTurn, batch: list[_Pending], verdicts: Sequence[Verdict | None]) -> None:
        for (_, done), verdict in zip(batch, verdicts, strict=True):
            if done.set_running_or_notify_cancel():
                done.set_result(verdict)
            else:  # nobody waits for it any more
                self._store_notes_again(turn, verdict)

    @staticmethod
    def _leave_to_turn(turn: CellTurn, events: list[Any]) -> list[Verdict | None]:
        """Queue the user's messages in a turn that is alone. Return None for each event: its caller then folds it."""
        for event in events:
            if type(event) is Said and not is_forgotten(event):
                turn.message_queue().offer(event.message)
        return [None] * len(events)

    async def _look(self, turn: CellTurn) -> bool:
        """Load the cell, unless a write goes on: it brings a newer state. Return False if the store does not answer."""
        if self._writing is not None:
            return self._has_read
        seen = self._seen
        reply = await self._store.swap(self._key, READ_ONLY, b"", b"")
        if not isinstance(reply, Newer):
            return False
        if self._writing is None and self._seen == seen:
            with turn.lock:
                self._adopt(turn, reply)
        return True

    async def _load(self, turn: CellTurn) -> bool:
        reply = await self._store.swap(self._key, READ_ONLY, b"", b"")
        if not isinstance(reply, Newer):
            self._is_away = True
            return False
        with turn.lock:
            self._adopt(turn, reply)
        return True

    async def _swap_in(self, turn: CellTurn, events: list[Any]) -> tuple[list[Verdict | None], bool]:
        """Fold events and swap the state in. Return their verdicts, and True if the store has the events."""
        if not (self._has_read and turn.current.turn) and not await self._load(turn):
            with turn.lock:
                return self._go_on_without(turn, events), False
        if self._owes_gap:
            with turn.lock:
                self.rebuild(turn)
        for tried in range(_MOST_TRIES):
            with turn.lock:
                if self.is_alone:
                    return self._leave_to_turn(turn, events), True
                if not events and self._late_counts_nothing(turn):
                    self._late, self._has_read = [], False
                    return [], True
                if not self._may_begin(turn, events):
                    self._has_read = False  # the next try looks whether another process has begun one
                    return self._go_on_without(turn, events), False
                verdicts = self._fold(turn, events)
                write = self._pack(turn)
            reply = await self._store.swap(self._key, self._seen, write.token, write.state)
            with turn.lock:
                self._is_away = reply is None
                if isinstance(reply, Swapped) or (reply is not None and write.token == reply.version):
                    if not self._note_server(reply):
                        self._swapped(turn, write, events)
                        return list(verdicts), True
                    reply = None  # another server: it may lack what others have written since we had the cell
                self._take_back(turn, verdicts)
                if reply is None:
                    return self._go_on_unanswered(turn, events, write), False
                self._adopt(turn, reply)
            if tried:  # several processes write at once
                await asyncio.sleep(0.002 * 2 ** min(tried, 5) * os.urandom(1)[0] / 255)
        with turn.lock:
            return self._go_on_without(turn, events), False

    def _late_counts_nothing(self, turn: CellTurn) -> bool:
        """Return True if all that is to be written is thought before the first call of the turn."""
        is_thought = all(type(late.event) is Thought for late in self._late)
        return is_thought and turn.current.history.active_at == math.inf

    def _may_begin(self, turn: CellTurn, events: list[Any]) -> bool:
        """Return True if the turn has begun, or a call begins it now. A message of the user alone begins no turn."""
        state = turn.current
        if state.turn:
            return True
        if not any(type(event) in _OF_CALLS for event in (*events, *(late.event for late in self._late))):
            return False
        self._adopts = False
        self._enter(turn, state)
        return True

    def _fold(self, turn: CellTurn, events: list[Any]) -> list[Verdict]:
        """Fold events, and return their verdicts, which hold only if the state is swapped in."""
        if self._is_away:
            keep_own(turn.message_queue(), events)
        now, state = self.now(), turn.current
        if any(type(event) in _OF_CALLS for event in events):
            state.is_over = False
        verdicts: list[Verdict] = []
        state.claims = True
        try:
            for event in events:
                verdicts.append(_NOT_JUDGED if is_forgotten(event) else fold(state, event, now))  # noqa: PERF401 - as below
        except BaseException:
            self._take_back(turn, verdicts)  # of those before the fault
            raise
        finally:
            state.claims = False
        return verdicts

    @staticmethod
    def _take_back(turn: CellTurn, verdicts: list[Verdict]) -> None:
        """Put the messages of verdicts that do not hold back into the queue."""
        queue = turn.current.messages
        for verdict in verdicts if queue is not None else ():
            if not verdict.repeated:
                queue.put_back(verdict.notes)  # type: ignore[union-attr]  # as asked

    def _pack(self, turn: CellTurn) -> _Write:
        token, state = os.urandom(_TOKEN), turn.current
        tokens = [token, *_tokens_of(self._known)[: _MOST_TOKENS - 1]]
        values = [wire.plain(state), self.messages.to_list(state.messages)]
        data = bytes((len(tokens),)) + b"".join(tokens) + orjson.dumps(values)
        return _Write(token, data, tuple(self._late))

    def _swapped(self, turn: CellTurn, write: _Write, events: list[Any]) -> None:
        """Note that the store has a write, and the events in it."""
        self._seen, self._owes_gap, self.messages.unclaimed = write.token, False, frozenset()
        self._know(write.state, turn.current)
        self._has_begun = True
        self._unanswered.clear()
        self._note_written(write.late, events)
        queue = turn.current.messages
        if queue is not None:
            self._put_said(turn, queue.release())  # this process may make no further call
            self._note_what_became(turn)
        if self.messages.said and self._watching is None and WATCH_PAUSES:
            self._watching = asyncio.ensure_future(self._watch(turn))

    def _know(self, data: bytes, state: State) -> None:
        self._known, self._known_changes = data, state.history.changes

    def _note_written(self, late: tuple[UnwrittenEvent, ...], events: Sequence[Any] = ()) -> None:
        """Note that the store has these events, and keep the late ones no longer."""
        gone = set(map(id, late))
        self._late = [one for one in self._late if id(one) not in gone]
        self.messages.note_stored((*events, *(one.event for one in late)))

    def _note_server(self, reply: Swapped | Newer) -> bool:
        """Note the time and the server of a reply. Return True if the reply before came from another server."""
        before, self._server = self._server, reply.server
        self._time = (reply.time, self._clock())
        return before not in (b"", reply.server)

    def _adopt(self, turn: CellTurn, reply: Newer) -> None:
        """Go on from the state of a reply; from our own one, if the store has lost that."""
        has_lost = self._note_server(reply)
        self._has_read, self._is_away = True, False
        theirs, ours = _tokens_of(reply.state), _tokens_of(self._known)
        state = None
        for token in [one for one in theirs if one in self._unanswered]:  # that write has arrived
            self._note_written(self._unanswered.pop(token))
            if theirs[0] == token or token not in ours:
                ours = [token, *ours]
        if ours and (not theirs or (theirs[0] in ours and theirs[0] != ours[0])):
            has_lost = True  # it is gone, or an earlier one: others may have lost more than we know
            self.messages.adopt(turn.message_queue(), self.messages.to_list(None), self._server, has_lost=True)
        elif theirs:
            has_lost |= bool(ours) and ours[0] not in theirs and len(theirs) < _MOST_TOKENS
            state = self._take(turn, reply.state, has_lost=has_lost)
            if self.is_alone:
                return
        self._owes_gap |= has_lost
        self.messages.begin(self._server)
        self._seen = reply.version
        self.rebuild(turn, state)
        self._note_what_became(turn)

    def _take(self, turn: CellTurn, data: bytes, *, has_lost: bool) -> State | None:
        """Unpack a state of the store and return it; None if it is of a turn before this one, or after it."""
        state = self._empty(turn)
        messages = _read(data, state)
        if self._has_adopted and state.turn != self._number:
            self._leave(turn)
        if not self._adopts and state.turn not in (0, self._number):
            if state.turn in turn.current.past:  # the server has lost this turn
                self._owes_gap = True
                self.messages.adopt(turn.message_queue(), self.messages.to_list(None), self._server, has_lost=True)
                return None
            if self._has_begun or self._number in state.past:
                self._go_alone(turn)
                return None
        elif not self._adopts and state.turn:
            self._has_begun = True
        if self._known_changes != state.history.changes and any(type(one.event) is not Thought for one in self._late):
            self._owes_gap = True  # a late event is folded after a change that may have come later than it
        state.history.keep_values_of(turn.current.history)
        self._know(data, state)
        if not (self._adopts or state.turn == self._number):
            messages = [[], [], [], messages[-1]]
        self.messages.adopt(turn.message_queue(), messages, self._server, has_lost=has_lost)
        return state

    def _go_alone(self, turn: CellTurn) -> None:
        """Go on as a turn of this process alone: another turn has the cell. Messages that others may have are lost."""
        queue = turn.message_queue()
        keep_own(queue, [late.event for late in self._late], stops=True)
        self.is_alone, self._owes_gap = True, False
        self.rebuild(turn)
        self._late = []
        queue.adopt([], [], [], has_lost=True)
        self.messages.forget(all_of_them=False)

    def _leave(self, turn: CellTurn) -> None:
        """Leave the turn that this process had joined, with its messages and events: the next one is in the cell.

        A message that was said before it joined, and that no other process has, is for whichever turn goes on.
        """
        queue = turn.message_queue()
        unclaimed = [message for message in queue.release() if message.id in self.messages.unclaimed]
        queue.forget(own=True)
        self.messages.forget(all_of_them=True)
        self._late, self._unanswered, self.messages.said = [], {}, {}
        for message in unclaimed:
            message.forgotten = False
            self.messages.keep(message)
        self._put_said(turn, unclaimed)

    def rebuild(self, turn: CellTurn, state: State | None = None, *, gap: bool = True) -> None:
        """Set the turn's state to ``state``, or to the last known one of the store, and fold the late events on it."""
        if state is None:
            state = self._empty(turn)
            if self._known:
                _read(self._known, state)
            state.history.keep_values_of(turn.current.history)
        state.messages = turn.current.messages
        self._enter(turn, state)
        for late in self._late:
            self._fold_late(turn, state, late)
        if self._owes_gap and gap:
            fold(state, Gap(0), self.now())
        turn.current = state

    def _empty(self, turn: CellTurn) -> State:
        state = turn.new_state()
        state.messages, state.claims = turn.current.messages, self.is_alone
        return state

    def _enter(self, turn: CellTurn, state: State) -> None:
        """Begin the turn in a state, or join the turn that the state is of."""
        if self._conversation:
            state.keep_conversation(self._conversation)
        if self._adopts:
            if state.turn:
                if not self._has_adopted:
                    self.messages.unclaimed = frozenset(
                        one.event.message.id for one in self._late if type(one.event) is Said
                    )
                turn.id, self._number, self._has_adopted = state.turn_id, state.turn, True
        elif state.turn != self._number:
            fold(state, TurnBegan(0, self._number, self._turn_id), self.now())

    def _fold_late(self, turn: CellTurn, state: State, late: UnwrittenEvent) -> None:
        """Fold a late event. Its call is over, so its verdict must not take messages of the user."""
        queue = state.messages
        if type(late.event) is not Said:
            state.messages = None
        elif queue is None:
            state.messages = turn.message_queue()
        fold(state, late.event, self._at(late.own))
        state.messages = state.messages or queue

    def _go_on_unanswered(self, turn: CellTurn, events: list[Any], write: _Write) -> list[Verdict | None]:
        """Go on without the store after a write that may have arrived. Keep its events, so that none counts twice."""
        self.messages.note_sent((*events, *(late.event for late in write.late)))
        without = self._go_on_without(turn, events)
        self._unanswered[write.token] = (*write.late, *self._late[len(self._late) - len(events) :])
        if len(self._unanswered) > _MOST_TOKENS:  # no state tells of earlier ones
            del self._unanswered[next(iter(self._unanswered))]
        return without

    def _go_on_without(self, turn: CellTurn, events: list[Any]) -> list[Verdict | None]:
        """Fold events without the store, and return their verdicts. A refusal that needs proof becomes a nudge."""
        if self.is_alone:
            return self._leave_to_turn(turn, events)
        if self._is_away:
            keep_own(turn.message_queue(), events)
        self.rebuild(turn, gap=False)  # that the evidence is void matters once there is proof again
        self._owes_gap = True
        verdicts: list[Verdict | None] = []
        for event in events:
            if is_forgotten(event):
                verdicts.append(_NOT_JUDGED)
                continue
            now = self._clock()
            if type(event) in (Began, Answered):
                event = event._replace(unproven=True)  # noqa: PLW2901 - so it is written
            verdict = fold(turn.current, event, self._at(now))
            self._keep_late(event, verdict, now)
            verdicts.append(verdict)
        return verdicts

    def _keep_late(self, event: Any, verdict: Verdict, own: float) -> None:
        """Keep a folded event, with its decision, until it is written."""
        if type(event) in (Began, Answered) and not verdict.asks and verdict.record is not None:
            event = event._replace(ran=verdict.runs)
        self._late.append(UnwrittenEvent(event, own))
        if len(self._late) > _MOST_LATE:
            calls = (place for place, one in enumerate(self._late) if type(one.event) is not Said)
            del self._late[next(calls, 0)]
            self._owes_gap = True

    # --- the life of the turn ----------------------------------------------------------------------------------------

    def close(self, turn: CellTurn) -> bool:
        """End the turn. Return False if it goes on because the program has named it."""
        if self.names_turn and not self.is_alone:
            return False
        if self._has_begun and not self.is_alone:
            self.fold_now(turn, TurnEnded(0))
        return True

    def keep_conversation(self, turn: CellTurn, name: str) -> None:
        """Keep the memory of the conversation ``name`` in this state and in all later ones."""
        self._conversation = name
        turn.current.keep_conversation(name)

    def after_fork(self, turn: CellTurn) -> None:
        """Go on in a forked child as another process of the turn. Unwritten events stay with the parent."""
        self.process = self.new_event_id()
        self._waiting, self._writing, self._watching, self._retries = deque(), None, None, 0
        self._batch = []
        self._late, self._unanswered, self.messages.said = [], {}, {}
        self._has_read = False
        self.rebuild(turn)

    # --- identities --------------------------------------------------------------------------------------------------

    @staticmethod
    def new_event_id() -> int:
        """Draw the id of an event. No other event has it, in any process."""
        return int.from_bytes(os.urandom(8), "big") >> 1

    def event_id_of(self, call_id: Any) -> int:
        """Return the id of the event of a call that has run: equal in all processes, so that it counts once."""
        return self._of(b"%d %s" % (self._number, utf8(name_text(call_id))))


def _tokens_of(data: bytes) -> list[bytes]:
    """Return the tokens of the writes that led to a state, the newest first."""
    return [data[place : place + _TOKEN] for place in range(1, 1 + data[0] * _TOKEN, _TOKEN)] if data else []


def _read(data: bytes, state: State) -> list[Any]:
    """Read a packed state into an empty one. Return the user's messages in it and their epoch, as plain values."""
    values, messages = orjson.loads(data[1 + data[0] * _TOKEN :])
    wire.read(values, state)
    return messages  # type: ignore[no-any-return]  # as ``UserMessages.to_list`` returned them


def wait(future: Future[Any]) -> Any:
    """Block this thread until the background loop has a result; return it. Raise ``TimeoutError`` after 5 seconds."""
    return future.result(_LONGEST_WAIT)


async def wait_in_task(future: Future[Any]) -> Any:
    """Wait, in a task, until the background loop has a result; return it. Raise ``TimeoutError`` after 5 seconds."""
    waiting = asyncio.wrap_future(future)
    try:
        done, _ = await asyncio.wait((waiting,), timeout=_LONGEST_WAIT)
    finally:
        waiting.cancel()
    if not done:
        raise TimeoutError
    return waiting.result()


def _result_or_none(future: Future[Any]) -> Any:
    """Block this thread until the background loop has a result, and return it; None after 5 seconds."""
    done, _ = wait_for_futures((future,), _LONGEST_WAIT)
    return future.result() if done else None
