"""Statistics of one call: one tool with one set of arguments, in one turn.

Most calls run once. Such a call is a packed line of 41 bytes and becomes an object only when it is made again: that
keeps a live turn small and a first call cheap.
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from otel_loopguard.core.values.compare import DetailedFingerprints

_LINE = Struct("<QdIIIIIIB")
LINE_LENGTH = _LINE.size
_PENDING, _TRANSIENT, _SUCCESS = 1, 2, 4
_32_BITS = 0xFFFFFFFF


def pack_line(  # noqa: PLR0917 - the fields of one line in their order; keywords would cost as much as the rest
    result: int, at: float, index: int, end: int, news: int, changes: int, writes: int, waits: int,
    pending: bool, transient: bool, success: bool,  # noqa: FBT001 - as above
) -> bytes:  # fmt: skip
    """Pack the statistics of a call that has run once. The counters are those of ``CallStats``."""
    flags = pending * _PENDING + transient * _TRANSIENT + success * _SUCCESS
    return _LINE.pack(result, at, index & _32_BITS, end & _32_BITS, news, changes, writes, waits, flags)


class CallStats:
    """Statistics of a call that is made again.

    ``news``, ``changes``, ``writes`` and ``waits`` are the turn's counters at the start of the last run, plus this
    call's own part in them since then: the difference to the counters now is the work of other calls in between.
    """

    __slots__ = (
        "alike", "at", "changes", "details", "equal", "evidence", "first_index", "last_end", "news", "pending", "poll",
        "refused", "result", "successes", "transient", "waits", "writes",
    )  # fmt: skip

    def __init__(self, line: bytes) -> None:
        (
            self.result, self.at, self.first_index, self.last_end,
            self.news, self.changes, self.writes, self.waits, flags,
        ) = _LINE.unpack(line)  # fmt: skip
        # ``result`` stays while results are the *same*.
        self.pending = bool(flags & _PENDING)
        self.transient = bool(flags & _TRANSIENT)
        self.successes = int(bool(flags & _SUCCESS))
        self.equal = 1
        """Runs in a row with the same result, the first included."""
        self.alike = 1
        """Runs in a row without a change in between whose results differ only in ids and numbers."""
        self.refused = 0
        """Refusals since the last run."""
        self.evidence: float = 0
        """The weights of the equal runs; see ``evidence``."""
        self.details: DetailedFingerprints | None = None
        self.poll: tuple[int, float] | None = None
        """For polls: the number of runs without news that count, and the start of the first of them."""

    def add(self, *, news: bool, changed: bool, wrote: int, waited: bool) -> None:
        """Add the call's own part in the turn's counters."""
        self.news += news
        self.changes += changed
        self.writes += wrote
        self.waits += waited

    def reset_evidence(self) -> None:
        """Drop the evidence: the result is another one."""
        self.evidence, self.equal, self.alike = 0, 1, 1

    def to_list(self) -> list[Any]:
        """Return the statistics as plain values. ``details`` are left out: they hold numbers of the result."""
        return [getattr(self, name) for name in _STATE]

    @classmethod
    def from_list(cls, values: list[Any]) -> CallStats:
        """Restore the statistics that ``to_list`` returned."""
        stats = cls.__new__(cls)
        for name, value in zip(_STATE, values, strict=True):
            setattr(stats, name, value)
        stats.poll = None if stats.poll is None else (stats.poll[0], stats.poll[1])
        stats.details = None
        return stats


_STATE = tuple(name for name in CallStats.__slots__ if name != "details")
