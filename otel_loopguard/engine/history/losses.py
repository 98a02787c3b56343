"""Results that the model can no longer see: they were cleared from its context, or summarised. Most turns lose none.

A call whose last result is lost is judged as if it had not run, but not for ever: an agent that reads and loses without
end repeats itself, too. From the 20th loss of one call, or after 60 rereads in a row without news, a loss is ignored.
"""

from __future__ import annotations

from typing import Any

from otel_loopguard.engine.history.bounded import EMPTY, kept

MOST_CALLS = 1_024
MOST_LOSSES = 20
MOST_REREADS = 60


class Losses:
    """The calls whose last result is lost, and the number of losses of each call."""

    __slots__ = ("_counts", "_lost", "_reread_at", "_rereads")

    def __init__(self) -> None:
        self._lost: dict[int, None] = EMPTY
        self._counts: dict[int, int] = EMPTY
        self._rereads = 0
        self._reread_at = -1
        """Calls in a row that were made again after a loss, and the turn's ``news`` at the last one (-1: none yet)."""

    def __contains__(self, key: int) -> bool:
        return key in self._lost

    def count(self, key: int) -> int:
        """Return how often results of this call were lost; 20 stands for 20 or more."""
        return self._counts.get(key, 0)

    def add(self, key: int, news: int) -> bool:
        """Count the loss of a call's last result. Return False if the loss is ignored. ``news``: the turn's counter."""
        if key in self._lost:
            return False
        count = self.count(key) + 1
        if not self._counts:
            self._counts = {}
        elif count == 1 and len(self._counts) >= MOST_CALLS:
            self._counts.pop(next(iter(self._counts)))
        self._counts[key] = min(count, MOST_LOSSES)
        if count >= MOST_LOSSES or (self._rereads >= MOST_REREADS and self._reread_at == news):
            return False
        self._lost = kept(self._lost, key, MOST_CALLS)
        return True

    def read_again(self, key: int, news: int) -> None:
        """Note that the call has run again, so the model has its result. ``news``: the turn's counter."""
        if self._lost.pop(key, 0) is None:
            self._rereads = self._rereads + 1 if self._reread_at == news else 1
            self._reread_at = news

    def to_list(self) -> list[Any]:
        """Return the losses as plain values."""
        return [list(self._lost), list(self._counts.items()), self._rereads, self._reread_at]

    @classmethod
    def from_list(cls, values: list[Any]) -> Losses:
        """Restore the losses that ``to_list`` returned."""
        losses = cls()
        lost, counts, losses._rereads, losses._reread_at = values
        losses._lost = dict.fromkeys(lost) or EMPTY
        losses._counts = dict(counts) or EMPTY
        return losses
