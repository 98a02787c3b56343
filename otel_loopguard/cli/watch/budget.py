"""Bound the time of an export, and the memory of all messages that are read, unpacked, decoded and queued.

The memory is one budget for all receivers. Each message has a share, which grows before the memory is used. If there is
no room, the message is not taken, and its sender sends it again.
"""

from __future__ import annotations

from threading import Condition
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from typing_extensions import Self

WINDOW_SECONDS = 10.0
"""The time that a span waits for others. A program sends its spans within 5 s, and a collector's batch takes longer."""
MOST_BYTES = 64 << 20
"""The memory of all messages that are read or wait in the queue."""
QUIET_SECONDS = 60.0
"""A connection on which nothing is sent for so long is closed."""
REQUEST_SECONDS = 60.0
"""The longest time of an export, from its first byte to its last."""
PATIENCE_SECONDS = 2.0
"""An export that takes longer may be dropped if others have no room."""
_ROOM_SECONDS = 1.0
"""The longest wait for the memory of an export that was dropped."""


class FullError(Exception):
    """There is no room for a message now. It can be sent again."""


class OverBudgetError(ValueError):
    """A message is larger than the whole budget, so there is no use in sending it again."""


def no_room(_: int) -> bool:
    """Make no room, and return False: no receiver can drop anything."""
    return False


class Budget:
    """The bytes that all messages may take together, ``most``."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.make_room: Callable[[int], bool] = no_room
        """Drops exports whose senders are slow, until so many bytes are free. Returns False if that is not possible."""
        self._used = 0
        self._changed = Condition()

    @property
    def used(self) -> int:
        """The bytes that are taken now."""
        return self._used

    def share(self) -> Share:
        """Return a new share, of 0 bytes, for a message."""
        return Share(self)

    def take(self, size: int) -> None:
        """Take so many bytes. Raise ``FullError`` if they are not free within a second, nor can be made free."""
        with self._changed:
            missing = self._used + size - self.most
            if missing <= 0:
                self._used += size
                return
        if not self.make_room(missing):
            raise FullError
        with self._changed:
            if not self._changed.wait_for(lambda: self._used + size <= self.most, _ROOM_SECONDS):
                raise FullError
            self._used += size

    def give(self, size: int) -> None:
        """Give so many bytes back."""
        with self._changed:
            self._used -= size
            self._changed.notify_all()


class Share:
    """The bytes of the budget that one message has. Used as a context, they are given back at the end."""

    __slots__ = ("_budget", "size")

    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self.size = 0

    def resize(self, size: int) -> None:
        """Take or give back bytes until the share has this size.

        Raise ``FullError`` if there is no room now, ``OverBudgetError`` if there can never be.
        """
        if size > self._budget.most:
            raise OverBudgetError(f"it would take more memory than all messages may have, {self._budget.most:,} bytes")
        if size > self.size:
            self._budget.take(size - self.size)
        else:
            self._budget.give(self.size - size)
        self.size = size

    def close(self) -> None:
        """Give all bytes back."""
        self.resize(0)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _: type[BaseException] | None, __: BaseException | None, ___: TracebackType | None) -> None:
        self.close()
