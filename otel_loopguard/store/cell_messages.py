"""The user's messages of a shared turn: the store gives each one to one process, so that the model reads it once.

The model gets a message when the store has confirmed the write that takes the message out of the cell. If the store has
lost something, the model may have read the messages that waited: these are lost, and a line in the log tells it.
"""

from __future__ import annotations

import logging
import os
from typing import TYPE_CHECKING, Any

from otel_loopguard.engine.events import Said

if TYPE_CHECKING:
    from collections.abc import Iterable

    from otel_loopguard.engine.user_messages import UserMessage, UserMessages

logger = logging.getLogger("otel_loopguard")

_MOST_SAID = 256
_LOST = (
    "The shared store has lost a message of the user, which the model may have read before. Say it again if the model "
    "does not follow it."
)


class CellMessages:
    """What one process knows about the store's messages of a turn. Those that wait are in the turn's ``UserMessages``.

    It takes no lock, and iterates over copies: a signal handler may call ``keep`` at any moment.
    """

    def __init__(self) -> None:
        self.said: dict[int, UserMessage] = {}
        """The latest 256 messages that the user gave to this process, by their ids."""
        self.unclaimed: frozenset[int] = frozenset()
        """The ids of those that were said before the process joined its first turn, until it has written to that."""
        self._stored: set[int] = set()
        """The ids of the messages that the cell had when it was last read, waiting or delivered."""
        self._epoch = ""
        """The id of the server, and a drawn number that changes when the server has lost something.

        A message that was sent in an earlier epoch, and does not wait in the cell, is lost.
        """

    def keep(self, message: UserMessage) -> None:
        """Keep a message that is about to be stored, to tell later what became of it."""
        self.said[message.id] = message
        for number in list(self.said)[:-_MOST_SAID]:
            self.said.pop(number, None)

    @property
    def all_delivered(self) -> bool:
        """True if the model has all messages of this process."""
        return all(message.delivered for message in list(self.said.values()))

    def lost_stops(self) -> list[UserMessage]:
        """Return the messages to stop that the cell has lost, and that the model does not have: to be stored again."""
        return [
            message for number, message in list(self.said.items())
            if message.stop and message.stored and not message.delivered and number not in self._stored
        ]  # fmt: skip

    def note_what_became(self, queue: UserMessages) -> None:
        """Note which messages of this process were delivered, and log each one that may not have been."""
        for number, message in list(self.said.items()):
            taker, waits = queue.taker(number), queue.has(number)
            if waits or taker is not None:  # else it was done long ago, or the store has lost it
                message.delivered = bool(taker)
            if waits or message.stop or message.delivered or message.forgotten:
                continue
            if taker == 0 or (
                message.store_epoch is not None and (message.stored or message.store_epoch != self._epoch)
            ):
                message.forgotten = True
                logger.warning(_LOST)

    def note_sent(self, events: Iterable[Any]) -> None:
        """Note that the store may have the messages among these events: their write was not answered."""
        for event in events:
            if type(event) is Said and not event.message.is_own:
                event.message.store_epoch = event.message.store_epoch or self._epoch

    def note_stored(self, events: Iterable[Any]) -> None:
        """Note that the store has the messages among these events."""
        for event in events:
            if type(event) is Said:
                event.message.stored, event.message.store_epoch = not event.message.forgotten, self._epoch

    def to_list(self, queue: UserMessages | None) -> list[Any]:
        """Return the messages of a queue and their epoch as plain values, for the cell. No queue is an empty one."""
        return [*([[], [], []] if queue is None else queue.to_list()), self._epoch]

    def adopt(self, queue: UserMessages, messages: list[Any], server: bytes, *, has_lost: bool) -> None:
        """Take over the messages of the cell, as ``to_list`` returned them.

        With ``has_lost``, those that waited are lost, but for the messages to stop: every process has a copy of these.
        """
        waiting, stops, done, epoch = messages
        if not epoch.startswith(server.hex()) or (has_lost and epoch == self._epoch):
            done = [*done, *([number, 0] for number, _, stop in waiting if not stop)]
            waiting = [one for one in waiting if one[2]]
            epoch = f"{server.hex()} {os.urandom(8).hex()}"
        has_lost, self._epoch = self._epoch not in ("", epoch), epoch
        for _ in range(queue.adopt(waiting, stops, done, has_lost=has_lost)):
            logger.warning(_LOST)
        self._stored = {number for number, *_ in (*waiting, *stops, *done)}

    def begin(self, server: bytes) -> None:
        """Begin the first epoch, if no cell had one."""
        self._epoch = self._epoch or f"{server.hex()} 0"

    def forget(self, *, all_of_them: bool) -> None:
        """Forget the messages to a turn that another one has replaced; or only those that other processes deliver."""
        for message in list(self.said.values()):
            message.forgotten = not message.delivered and (all_of_them or not (message.is_own or message.stop))


def keep_own(queue: UserMessages, events: Iterable[Any], *, stops: bool = False) -> None:
    """Keep the messages among these events that were never sent to the store: this process alone can deliver them.

    A message to stop is kept with ``stops`` only: else it waits for the store, because every process has to read it.
    """
    for event in events:
        if type(event) is not Said or event.message.store_epoch is not None or event.message.forgotten:
            continue
        if stops or not event.message.stop:
            queue.keep(event.message)


def is_forgotten(event: Any) -> bool:
    """Return True for a message to a turn that another turn has replaced, and for a lost one."""
    return type(event) is Said and event.message.forgotten
