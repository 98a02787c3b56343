"""What is known of one call: of one tool with one set of arguments, in one turn.

Most calls run once. Such a one is kept as a packed line of 41 bytes and becomes an object only when it is made
again: that is what keeps a live turn small and a first call cheap.
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from otel_loopguard.core.values.compare import DetailedFingerprints

_LINE = Struct("<QdIIIIIIB")
_PENDING, _TRANSIENT, _SUCCESS = 1, 2, 4
_32_BITS = 0xFFFFFFFF


def packed(  # noqa: PLR0917 - one line's fields, in their order; by name they would cost as much as the rest
    result: int, at: float, index: int, end: int, news: int, changes: int, writes: int, waits: int,
    pending: bool, transient: bool, success: bool,  # noqa: FBT001
) -> bytes:  # fmt: skip
    """The line of a call that has run once. The counters are those of ``CallStats``."""
    flags = pending * _PENDING + transient * _TRANSIENT + success * _SUCCESS
    return _LINE.pack(result, at, index & _32_BITS, end & _32_BITS, news, changes, writes, waits, flags)


class CallStats:
    """What is known of a call that is made again."""

    __slots__ = (
        "alike",
        "at",
        "changes",
        "details",
        "equal",
        "evidence",
        "first_index",
        "last_end",
        "news",
        "pending",
        "poll",
        "refused",
        "result",
        "successes",
        "transient",
        "waits",
        "writes",
    )  # fmt: skip

    def __init__(self, line: bytes) -> None:
        (
            self.result, self.at, self.first_index, self.last_end,
            self.news, self.changes, self.writes, self.waits, flags,
        ) = _LINE.unpack(line)  # fmt: skip
        # ``result`` stays while results are the *same*. ``news``, ``changes``, ``writes`` and ``waits`` are the turn's
        # counters at the start of the last run plus this call's own part in them since: what a counter is above them
        # now is what others did in between.
        self.pending = bool(flags & _PENDING)
        self.transient = bool(flags & _TRANSIENT)
        self.successes = int(bool(flags & _SUCCESS))
        self.equal = 1
        """Runs in a row with the same result, the first included."""
        self.alike = 1
        self.refused = 0
        """Refusals since the last run."""
        self.evidence: float = 0
        self.details: DetailedFingerprints | None = None
        self.poll: tuple[int, float] | None = None
        """For polls: how many runs without news count, and when the first of them started."""

    def add(self, *, news: bool, changed: bool, wrote: int, waited: bool) -> None:
        """The call's own part in the turn's counters."""
        self.news += news
        self.changes += changed
        self.writes += wrote
        self.waits += waited

    def starts_anew(self) -> None:
        """Another result: nothing that was gathered holds any more."""
        self.evidence, self.equal, self.alike = 0, 1, 1
