"""A turn that several processes share: its state is in one cell of a store. Load, fold, swap; if it has changed, again.

A process folds its events into its copy of the state, and swaps the copy in if nobody else has written since. If
somebody has, the same events are folded again on the newer state: an event has facts only, so that does no harm. All
of it runs on one background loop, one write of a cell at a time; the events that come meanwhile are written together.
So no exception of a signal handler can cut it short, and threads and tasks wait for it alike.

Four rules keep the promises that nothing new is withheld, and that no message of the user is read twice:

1. *No proof, no refusal.* A verdict above a nudge comes from a state that was swapped in. While the store cannot be
   asked, an event is folded here (it is ``late`` from then on), and a refusal that needs proof is a nudge.
2. *A gap is a change.* Whenever something may have been missed, a ``Gap`` ends all that had been shown before.
3. *Each write counts once.* A state begins with the tokens of its last writes. They tell whether a write arrived whose
   answer was lost, and whose state is newer after a failover.
4. *The store gives a message to one process.* The model gets it once the write is confirmed that takes it. If the store
   has lost something, what waited may have been read: it is lost then, and its sender is told.
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections import deque
from concurrent.futures import Future
from concurrent.futures import wait as wait_for_futures
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import orjson

from otel_loopguard.engine import wire
from otel_loopguard.engine.events import Answered, Began, Ended, Gap, Ran, Said, TurnBegan, TurnEnded
from otel_loopguard.engine.fold import fold, needs_no_proof, would_trip
from otel_loopguard.engine.user_messages import UserMessage
from otel_loopguard.engine.values.introspect import name_text
from otel_loopguard.engine.values.normalise import utf8
from otel_loopguard.engine.verdict import Verdict
from otel_loopguard.engine.words import Action
from otel_loopguard.errors import NotStoredError
from otel_loopguard.store import background
from otel_loopguard.store.store import ANYTHING, Newer, Swapped

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Sequence

    from otel_loopguard.engine.compiled import CompiledPolicy
    from otel_loopguard.engine.state import State
    from otel_loopguard.engine.user_messages import Notes, UserMessages
    from otel_loopguard.shield import Shield
    from otel_loopguard.store.store import Store

logger = logging.getLogger("otel_loopguard")

_TOKEN = 8
"""Bytes."""
_MOST_TOKENS = 64
_MOST_LATE = 256
_MOST_TRIES = 32
_MOST_SAID = 256
RETRY_PAUSES = (0.02, 0.1, 0.5, 2.0, 5.0, 10.0, 30.0, 30.0, 60.0, 60.0, 60.0, 60.0)
"""Seconds between the tries to write late events for which no call comes; then they wait for the next call."""
WATCH_PAUSES = (1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0, 60.0, 60.0, 60.0, 60.0, 60.0)
"""Seconds between the looks after a message until it is delivered."""
_LONGEST_WAIT = 5.0
"""Seconds for the background loop, if the store does not keep its own time-out."""
_LOST = (
    "The shared store has lost a message of the user, which the model may have read before. Say it again if the model "
    "does not follow it."
)

_OF_CALLS = frozenset({Began, Ended, Ran, Answered})
_NOT_JUDGED = Verdict()


class Late(NamedTuple):
    """An event that was folded before it was written."""

    event: Any
    own: float
    """The time of this process."""


class _Write(NamedTuple):
    """A write that is under way."""

    token: bytes
    state: bytes
    late: tuple[Late, ...]
    """The late events in it."""


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
    """One process's part in a shared turn: the last state that it knows the store to have had, and its late events."""

    def __init__(
        self, store: Store, key: str, compiled: CompiledPolicy, turn_id: str, *, begins: bool, is_named: bool
    ) -> None:
        self._store, self._key = store, key
        self._adopts = not begins
        """Go on with the turn that the cell is in, whatever its id."""
        self._has_adopted = False
        """It is in such a turn."""
        self._names_turn = is_named
        """The program has chosen the id, and may use it again: the turn does not end with a block of the program."""
        self._of = compiled.fingerprinter.of
        self._turn_id = turn_id
        self._number = self._of(utf8(turn_id))
        self.process = self.new_op()
        """Tells this part in the turn from others."""
        self.is_alone = False
        """Another turn has replaced this one in the cell: it goes on in this process, as a turn that is not shared."""
        self.own_calls = 0
        self.nested = 0
        """Calls of nested turns since the last event that counts them."""
        # The state that the store had
        self._known = b""
        """That state, or the newer one of this process if the store has lost it; empty before the first contact."""
        self._known_moves = (0, 0)
        """The changes and writes in that state."""
        self._seen = b""
        """The version of the cell now."""
        self._server = b""
        self._has_read = False
        self._has_begun = False
        """The store had this turn."""
        self._owes_gap = False
        self._epoch = ""
        """The server, and a drawn part since it has lost something. Messages that were sent before that are lost."""
        self._is_away = False
        """The last request was not answered."""
        self._time = (0.0, 0.0)
        """The time of the server, and that of this process then."""
        # Events of this process
        self._waiting: deque[tuple[Any, Future[Verdict | None]]] = deque()
        self._batch: list[tuple[Any, Future[Verdict | None]]] = []
        """Those that are being written."""
        self._late: list[Late] = []
        self._unanswered: dict[bytes, tuple[Late, ...]] = {}
        """The events in writes that were not answered, by the tokens."""
        self._said: dict[int, UserMessage] = {}
        self._stored: set[int] = set()
        """The ids of the messages that the store had, waiting or delivered."""
        self._writing: asyncio.Task[None] | None = None
        self._watching: asyncio.Task[None] | None = None
        self._retrying: asyncio.Task[None] | None = None
        self._retries = 0
        self._conversation = ""

    def open(self, turn: CellTurn, clock: Callable[[], float]) -> None:
        """Begin with an empty state."""
        self._clock = clock
        self._time = (time.time(), self._clock())
        self.rebuild(turn)

    @property
    def is_settled(self) -> bool:
        """True if the store has all of the turn."""
        return not (self._waiting or self._late or self._writing)

    def now(self) -> float:
        """Return the time of the server."""
        return self._at(self._clock())

    def _at(self, own: float) -> float:
        """Return the time of the server at a time of this process, by the latest reply."""
        at, then = self._time
        return at + own - then

    # --- from threads and tasks --------------------------------------------------------------------------------------

    def commit(self, turn: CellTurn, event: Any, *, waits: bool = True) -> Generator[Any, Any, Verdict]:
        """Fold an event. What is yielded has to be waited for."""
        if self.is_alone:
            return turn.apply(event)
        if not waits and not self._needs_store(turn, event):
            return self.fold_now(turn, event)
        future = self._put(turn, event)
        verdict: Verdict | None
        try:  # without waits, this blocks an event loop, but for a call that would be refused, or with a message
            verdict = (yield future) if waits else _wait(future)
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
            self._say_again_of(turn, future.result())

    def _say_again_of(self, turn: CellTurn, verdict: Verdict | None) -> None:
        if verdict is not None and verdict.notes and not verdict.repeated:
            self.say_again(turn, verdict.notes)

    def fold_now(self, turn: CellTurn, event: Any) -> Verdict:
        """Fold an event at once, and write it in the background."""
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
        """Return True for a call that this process alone would refuse, and if it has a message that others may give."""
        queue = turn.current.messages
        if type(event) is Began and (queue is None or not queue.stops):
            return self._would_refuse(turn, event)
        return queue is not None and queue.has_shared and not self._is_away

    def _would_refuse(self, turn: CellTurn, event: Began) -> bool:
        """Return True if this process would refuse a call for which only the store has the proof."""
        with turn.lock:
            trip = would_trip(turn.current, event, self.now())
        return trip is not None and trip.action > Action.NUDGE and not needs_no_proof(trip)

    def _put(self, turn: CellTurn, event: Any) -> Future[Verdict | None]:
        """Let the background loop write an event. Its verdict is None if the turn is alone by then."""
        done: Future[Verdict | None] = Future()
        self._waiting.append((event, done))
        background.soon(self._start, turn)
        return done

    def reads(self, turn: CellTurn) -> bool:
        """Load the cell. Return False if no turn goes on in it; True also if the store does not answer."""
        is_loaded = _wait(background.run_later(self._look(turn)))
        return not is_loaded or (bool(turn.current.turn) and not turn.current.is_over)

    # --- messages of the user ----------------------------------------------------------------------------------------

    def say(self, turn: CellTurn, text: str, *, stop: bool) -> UserMessage:
        """Store a message, which is delivered with the next result in any process."""
        message = UserMessage(text, turn.message_queue(), stop=stop, number=self.new_op())
        future = self._send(turn, message)
        if stop or asyncio._get_running_loop() is None:  # noqa: SLF001 - documented, and without an exception
            _wait(future)
        if stop and not (message.stored or self.is_alone):
            raise NotStoredError(
                "The store does not answer, so only this process stops the turn. Others go on until it does: "
                "this process keeps trying."
            )
        return message

    def say_again(self, turn: CellTurn, notes: Notes) -> None:
        """Let any process deliver notes for which there was no place."""
        queue = turn.message_queue()
        again = [UserMessage(note, queue, number=self.new_op()) if isinstance(note, str) else note for note in notes]
        with turn.lock:
            queue.put_back(tuple(again))
        for message in again:
            self._put(turn, Said(message.id, message))

    def _send(self, turn: CellTurn, message: UserMessage) -> Future[Verdict | None]:
        self._said[message.id] = message
        for number in list(self._said)[:-_MOST_SAID]:
            self._said.pop(number, None)
        return self._put(turn, Said(message.id, message))

    async def _watch(self, turn: CellTurn) -> None:
        """Look after the messages of this process until the model has them: the server may lose what it had."""
        with turn.shield("store.watch"):
            for seconds in WATCH_PAUSES:
                if not await background.pause(seconds):
                    break
                await self.look_after(turn)
                if (
                    self.is_alone
                    or turn.message_queue().closed
                    or all(one.delivered for one in list(self._said.values()))
                ):
                    break
        self._watching = None

    async def look_after(self, turn: CellTurn) -> None:
        """Load the cell, and store the messages that it has not, and those to stop that it has lost."""
        if not await self._look(turn):
            return
        self._start(turn)
        with turn.lock:
            self._note_what_became(turn.message_queue())
            lost = [
                one for number, one in list(self._said.items())
                if one.stop and one.stored and not one.delivered and number not in self._stored
            ]  # fmt: skip
        for message in lost:
            self._put(turn, Said(message.id, message))

    def _note_what_became(self, queue: UserMessages) -> None:
        """Note which messages of this process were delivered, and tell the user which may not have been."""
        for number, message in list(self._said.items()):
            taker, waits = queue.taker(number), queue.has(number)
            if waits or taker is not None:  # else it was done long ago, or the store has lost it
                message.delivered = bool(taker)
            if waits or message.stop or message.delivered or message.forgotten:
                continue
            if taker == 0 or (message.sent_in is not None and (message.stored or message.sent_in != self._epoch)):
                message.forgotten = True
                logger.warning(_LOST)
        self._late = [late for late in self._late if not _is_left(late.event)]

    # --- on the background loop --------------------------------------------------------------------------------------

    def _start(self, turn: CellTurn) -> None:
        if self._writing is None and not self.is_alone and (self._waiting or self._late):
            with turn.shield("store.write"):
                self._writing = asyncio.ensure_future(self._write(turn))
        elif self.is_alone:
            waiting = self._drained()
            self._answer(
                turn, [done for _, done in waiting], self._leave_to_turn(turn, [event for event, _ in waiting])
            )

    def _drained(self) -> list[tuple[Any, Future[Verdict | None]]]:
        return [self._waiting.popleft() for _ in range(len(self._waiting))]

    async def _write(self, turn: CellTurn) -> None:
        """Write all that there is to write. After a fault of this package the calls go on that wait for it."""
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
            self._answer(turn, [done for _, done in batch], verdicts)
            if self.is_alone or not (is_written or self._waiting):
                break

    def _give_up(self, turn: CellTurn) -> None:
        """Judge none of the events that wait: a change may be missed. Some may be in the state, which is made again."""
        batch, self._batch, self._owes_gap = self._batch, [], True
        dropped = [done for _, done in (*batch, *self._drained())]
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

    def _answer(
        self, turn: CellTurn, futures: list[Future[Verdict | None]], verdicts: Sequence[Verdict | None]
    ) -> None:
        for done, verdict in zip(futures, verdicts, strict=True):
            if done.set_running_or_notify_cancel():
                done.set_result(verdict)
            else:  # nobody waits for it any more
                self._say_again_of(turn, verdict)

    @staticmethod
    def _leave_to_turn(turn: CellTurn, events: list[Any]) -> list[Verdict | None]:
        """Leave events to a turn that is alone: the messages here, and each call to who waits for it."""
        for event in events:
            if type(event) is Said and not _is_left(event):
                turn.message_queue().offer(event.message)
        return [None] * len(events)

    async def _look(self, turn: CellTurn) -> bool:
        """Load the cell, but not beside a write: that brings a newer state, which an older one must not replace."""
        if self._writing is not None:
            return self._has_read
        seen = self._seen
        reply = await self._store.swap(self._key, ANYTHING, b"", b"")
        if not isinstance(reply, Newer):
            return False
        if self._writing is None and self._seen == seen:
            with turn.lock:
                self._adopt(turn, reply)
        return True

    async def _load(self, turn: CellTurn) -> bool:
        reply = await self._store.swap(self._key, ANYTHING, b"", b"")
        if not isinstance(reply, Newer):
            self._is_away = True
            return False
        with turn.lock:
            self._adopt(turn, reply)
        return True

    async def _swap_in(self, turn: CellTurn, events: list[Any]) -> tuple[list[Verdict | None], bool]:
        """Fold events and swap the state in. Return their verdicts, and whether the store has them."""
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

    def _may_begin(self, turn: CellTurn, events: list[Any]) -> bool:
        """Return False if there is no turn: a message is never the first of one. A call begins it."""
        state = turn.current
        if state.turn:
            return True
        if not any(type(event) in _OF_CALLS for event in (*events, *(late.event for late in self._late))):
            return False
        self._adopts = False
        self._enter(turn, state)
        return True

    def _fold(self, turn: CellTurn, events: list[Any]) -> list[Verdict]:
        """Fold events that wait for their verdicts, which are final if the state is swapped in."""
        self._keep_own(turn, events)
        now, state = self.now(), turn.current
        if any(type(event) in _OF_CALLS for event in events):
            state.is_over = False
        verdicts: list[Verdict] = []
        state.claims = True
        try:
            for event in events:
                verdicts.append(_NOT_JUDGED if _is_left(event) else fold(state, event, now))  # noqa: PERF401 - as below
        except BaseException:
            self._take_back(turn, verdicts)  # of those before the fault
            raise
        finally:
            state.claims = False
        return verdicts

    def _keep_own(self, turn: CellTurn, events: list[Any]) -> None:
        """Keep messages for this process that come while the store does not answer: no other one can have them."""
        for event in events if self._is_away else ():
            if type(event) is Said and event.message.sent_in is None and not (event.message.stop or _is_left(event)):
                turn.message_queue().keep(event.message)

    @staticmethod
    def _take_back(turn: CellTurn, verdicts: list[Verdict]) -> None:
        """Give the messages back that verdicts had which do not hold."""
        queue = turn.current.messages
        for verdict in verdicts if queue is not None else ():
            if not verdict.repeated:
                queue.put_back(verdict.notes)  # type: ignore[union-attr]  # as asked

    def _pack(self, turn: CellTurn) -> _Write:
        token, state = os.urandom(_TOKEN), turn.current
        tokens = [token, *_tokens_of(self._known)[: _MOST_TOKENS - 1]]
        messages = [[], [], []] if state.messages is None else state.messages.to_list()
        data = bytes((len(tokens),)) + b"".join(tokens) + orjson.dumps([wire.plain(state), [*messages, self._epoch]])
        return _Write(token, data, tuple(self._late))

    def _swapped(self, turn: CellTurn, write: _Write, events: list[Any]) -> None:
        """Note that the store has what was written."""
        self._seen, self._owes_gap = write.token, False
        self._know(write.state, turn.current)
        self._has_begun = True
        self._unanswered.clear()
        self._note_written(write.late, events)
        queue = turn.current.messages
        if queue is not None:
            for message in queue.release():  # this process may make no further call
                self._put(turn, Said(message.id, message))
            self._note_what_became(queue)
        if self._said and self._watching is None and WATCH_PAUSES:
            self._watching = asyncio.ensure_future(self._watch(turn))

    def _know(self, data: bytes, state: State) -> None:
        self._known, self._known_moves = data, (state.history.changes, state.history.writes)

    def _note_written(self, late: tuple[Late, ...], events: Sequence[Any] = ()) -> None:
        """Note that the store has had these events."""
        gone = set(map(id, late))
        self._late = [one for one in self._late if id(one) not in gone]
        for event in (*events, *(one.event for one in late)):
            if type(event) is Said:
                event.message.stored, event.message.sent_in = not event.message.forgotten, self._epoch

    def _note_server(self, reply: Swapped | Newer) -> bool:
        """Set the clock by a reply. Return True if it comes from another server than the one before."""
        before, self._server = self._server, reply.server
        self._time = (reply.time, self._clock())
        return before not in (b"", reply.server)

    def _adopt(self, turn: CellTurn, reply: Newer) -> None:
        """Take the state of the store; or keep our own, if the store has lost it."""
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
            self._adopt_messages(turn, [[], [], [], self._epoch], has_lost=True)
        elif theirs:
            has_lost |= bool(ours) and ours[0] not in theirs and len(theirs) < _MOST_TOKENS
            state = self._take(turn, reply.state, has_lost=has_lost)
            if self.is_alone:
                return
        self._owes_gap |= has_lost
        self._epoch = self._epoch or f"{self._server.hex()} 0"
        self._seen = reply.version
        self.rebuild(turn, state)
        self._note_what_became(turn.message_queue())

    def _adopt_messages(self, turn: CellTurn, messages: list[Any], *, has_lost: bool) -> None:
        """Take over the messages that the store has; those that waited are lost if it has lost what became of them."""
        waiting, stops, done, epoch = messages
        if not epoch.startswith(self._server.hex()) or (has_lost and epoch == self._epoch):
            done = [*done, *([number, 0] for number, _, stop in waiting if not stop)]
            waiting = [one for one in waiting if one[2]]
            epoch = f"{self._server.hex()} {self.new_op():x}"
        has_lost, self._epoch = self._epoch not in ("", epoch), epoch
        for _ in range(turn.message_queue().adopt(waiting, stops, done, has_lost=has_lost)):
            logger.warning(_LOST)
        self._stored = {number for number, *_ in (*waiting, *stops, *done)}

    def _take(self, turn: CellTurn, data: bytes, *, has_lost: bool) -> State | None:
        """Take a state of the store, and return it; None if it is that of a turn before this one, or after it."""
        state = self._empty(turn)
        messages = _read(data, state)
        if self._has_adopted and state.turn != self._number:
            self._leave(turn)
        if not self._adopts and state.turn not in (0, self._number):
            if state.turn in turn.current.past:  # the server has lost this turn
                self._owes_gap = True
                self._adopt_messages(turn, [[], [], [], self._epoch], has_lost=True)
                return None
            if self._has_begun or self._number in state.past:
                self._go_alone(turn)
                return None
        elif not self._adopts and state.turn:
            self._has_begun = True
        if self._late and self._known_moves != (state.history.changes, state.history.writes):
            self._owes_gap = True  # a late event is folded after a change that may have come later than it
        state.history.keep_values_of(turn.current.history)
        self._know(data, state)
        if not (self._adopts or state.turn == self._number):
            messages = [[], [], [], messages[-1]]
        self._adopt_messages(turn, messages, has_lost=has_lost)
        return state

    def _go_alone(self, turn: CellTurn) -> None:
        """Go on as a turn that is not shared: another one has replaced it. What another process may read is lost."""
        queue = turn.message_queue()
        for late in self._late:
            if type(late.event) is Said and late.event.message.sent_in is None:
                queue.keep(late.event.message)
        self.is_alone, self._owes_gap = True, False
        self.rebuild(turn)
        self._late = []
        queue.adopt([], [], [], has_lost=True)
        self._forget(all_of_them=False)

    def _leave(self, turn: CellTurn) -> None:
        """Leave the turn that this process went on with for the next one, which takes over nothing of it."""
        turn.message_queue().forget(own=True)
        self._forget(all_of_them=True)
        self._late, self._unanswered, self._said = [], {}, {}

    def _forget(self, *, all_of_them: bool) -> None:
        """Forget the messages to a turn that another one has replaced; or what this process alone does not deliver."""
        for message in list(self._said.values()):
            message.forgotten = not message.delivered and (all_of_them or not (message.is_own or message.stop))

    def rebuild(self, turn: CellTurn, state: State | None = None, *, gap: bool = True) -> None:
        """Make the state again: from this one, or from the bytes of the last one that is known, and the late events."""
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
        """Begin the turn in a state, or take over the one that it is in."""
        if self._conversation:
            state.keep_conversation(self._conversation)
        if self._adopts:
            if state.turn:
                turn.id, self._number, self._has_adopted = state.turn_id, state.turn, True
        elif state.turn != self._number:
            fold(state, TurnBegan(0, self._number, self._turn_id), self.now())

    def _fold_late(self, turn: CellTurn, state: State, late: Late) -> None:
        """Fold a late event. Its call is over, so it takes no messages of the user."""
        queue = state.messages
        if type(late.event) is not Said:
            state.messages = None
        elif queue is None:
            state.messages = turn.message_queue()
        fold(state, late.event, self._at(late.own))
        state.messages = state.messages or queue

    def _go_on_unanswered(self, turn: CellTurn, events: list[Any], write: _Write) -> list[Verdict | None]:
        """Go on without the store after a write that may have arrived: its events must not count twice then."""
        for event in (*events, *(late.event for late in write.late)):
            if type(event) is Said and not event.message.is_own:
                event.message.sent_in = event.message.sent_in or self._epoch
        without = self._go_on_without(turn, events)
        self._unanswered[write.token] = (*write.late, *self._late[len(self._late) - len(events) :])
        if len(self._unanswered) > _MOST_TOKENS:  # no state tells of earlier ones
            del self._unanswered[next(iter(self._unanswered))]
        return without

    def _go_on_without(self, turn: CellTurn, events: list[Any]) -> list[Verdict | None]:
        """Fold events here, because the store cannot be asked: nothing that needs proof is refused."""
        if self.is_alone:
            return self._leave_to_turn(turn, events)
        self._keep_own(turn, events)
        self.rebuild(turn, gap=False)  # that the evidence is void matters once there is proof again
        self._owes_gap = True
        verdicts: list[Verdict | None] = []
        for event in events:
            if _is_left(event):
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
        """Keep an event that was folded here, with what was decided, until it is written."""
        if type(event) in (Began, Answered) and not verdict.asks and verdict.record is not None:
            event = event._replace(ran=verdict.runs)
        self._late.append(Late(event, own))
        if len(self._late) > _MOST_LATE:
            calls = (place for place, one in enumerate(self._late) if type(one.event) is not Said)
            del self._late[next(calls, 0)]
            self._owes_gap = True

    # --- the life of the turn ----------------------------------------------------------------------------------------

    def close(self, turn: CellTurn) -> bool:
        """End the turn. Return False if it goes on: the program has named it."""
        if self._names_turn and not self.is_alone:
            return False
        if self._has_begun and not self.is_alone:
            self.fold_now(turn, TurnEnded(0))
        return True

    def keep_conversation(self, turn: CellTurn, name: str) -> None:
        """Keep the memory of the conversation in the state."""
        self._conversation = name
        turn.current.keep_conversation(name)

    def after_fork(self, turn: CellTurn) -> None:
        """Go on in a child process as any other process of the turn. Its running calls are the parent's."""
        self.process = self.new_op()
        self._waiting, self._writing, self._watching, self._retries = deque(), None, None, 0
        self._batch = []
        self._late, self._unanswered, self._said = [], {}, {}
        self._has_read = False
        self.rebuild(turn)

    # --- identities --------------------------------------------------------------------------------------------------

    @staticmethod
    def new_op() -> int:
        """Return the identity of an event that no other process makes."""
        return int.from_bytes(os.urandom(8), "big") >> 1

    def op_of(self, call_id: Any) -> int:
        """Return the identity of the event of an observed call, which is equal in all processes."""
        return self._of(b"%d %s" % (self._number, utf8(name_text(call_id))))


def _is_left(event: Any) -> bool:
    """Return True for a message to a turn that another one has replaced since."""
    return type(event) is Said and event.message.forgotten


def _tokens_of(data: bytes) -> list[bytes]:
    """Return the tokens of the writes that led to a state, the newest first."""
    return [data[place : place + _TOKEN] for place in range(1, 1 + data[0] * _TOKEN, _TOKEN)] if data else []


def _read(data: bytes, state: State) -> list[Any]:
    """Read a packed state into an empty one. Return the user's messages in it and their epoch, as plain values."""
    values, messages = orjson.loads(data[1 + data[0] * _TOKEN :])
    wire.read(values, state)
    return messages  # type: ignore[no-any-return]  # as ``UserMessages.to_list`` returned them


def wait(future: Future[Any]) -> Any:
    """Wait for the background loop, in a thread that may wait. Raise ``TimeoutError`` if it takes too long."""
    return future.result(_LONGEST_WAIT)


async def wait_in_task(future: Future[Any]) -> Any:
    """Do the same in a task."""
    waiting = asyncio.wrap_future(future)
    try:
        done, _ = await asyncio.wait((waiting,), timeout=_LONGEST_WAIT)
    finally:
        waiting.cancel()
    if not done:
        raise TimeoutError
    return waiting.result()


def _wait(future: Future[Any]) -> Any:
    """Wait for the background loop; None if it takes too long."""
    done, _ = wait_for_futures((future,), _LONGEST_WAIT)
    return future.result() if done else None
