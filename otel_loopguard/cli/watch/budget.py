"""Bound the time of requests, and the memory of all messages that are read, unpacked, decoded and queued.

The memory is one budget for all receivers. Each message has a share, which grows before the memory is used. If there is
no room, the message is refused, and its sender sends it again.
"""

from __future__ import annotations

from threading import Condition
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from typing_extensions import Self

QUIET_SECONDS = 60.0
"""A connection without a request for so long is closed."""
REQUEST_SECONDS = 60.0
"""The time of a whole request, from its first byte to its last."""
PATIENCE_SECONDS = 2.0
"""A request that takes longer may be dropped if others have no room."""
_ROOM_SECONDS = 1.0
"""The longest wait for the memory of a request that was dropped."""


class FullError(Exception):
    """There is no room for a message now. It can be sent again."""


class OverBudgetError(ValueError):
    """A message is larger than the whole budget. It would be refused again if it were sent again."""


def no_room(_: int) -> bool:
    """Make no room: there is no request to drop."""
    return False


class Budget:
    """The bytes that all messages may have together."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.make_room: Callable[[int], bool] = no_room
        """Drops requests whose senders are slow, for so many bytes. Returns False if there are none."""
        self._used = 0
        self._changed = Condition()

    @property
    def used(self) -> int:
        """The bytes that are taken."""
        return self._used

    def share(self) -> Share:
        """Make the share of a message. It is empty."""
        return Share(self)

    def take(self, size: int) -> None:
        """Take so many bytes, or raise ``FullError``."""
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
        """Give bytes back."""
        with self._changed:
            self._used -= size
            self._changed.notify_all()


class Share:
    """The bytes of one message. Used as a context, it is given back at the end."""

    __slots__ = ("_budget", "size")

    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self.size = 0

    def resize(self, size: int) -> None:
        """Take what is missing to this size, or give the rest back. Raise an error if that is too much."""
        if size > self._budget.most:
            raise OverBudgetError(f"it would take more memory than all messages may have, {self._budget.most:,} bytes")
        if size > self.size:
            self._budget.take(size - self.size)
        else:
            self._budget.give(self.size - size)
        self.size = size

    def close(self) -> None:
        """Give all back."""
        self.resize(0)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _: type[BaseException] | None, __: BaseException | None, ___: TracebackType | None) -> None:
        self.close()
