"""Statistics of one call: one tool with one set of arguments, in one turn.

Most calls run once. Such a call is a packed line of 45 bytes and becomes an object only when it is made again: that
keeps a live turn small and a first call cheap.
"""

from __future__ import annotations

from struct import Struct
from typing import Any

from otel_loopguard.engine.values.compare import DetailedFingerprints

_LINE = Struct("<QddIIIIIB")
LINE_LENGTH = _LINE.size
BITS_32 = 0xFFFFFFFF

# Flags of a run. They are stored with the call and with the runs in order, so they are plain numbers.
PENDING = 1
"""The result says that work is not done yet. Never with ACTED: a receipt often says so, and nothing is to wait for."""
TRANSIENT = 2
"""The result says that another attempt may help."""
SUCCESS = 4
BRIEF = 8
"""The result has up to 80 bytes."""
ACTED = 16
"""A write that succeeded, and moves no cursor."""
ACKNOWLEDGED = 32
"""A short result of a success that proves little: the tool moves a cursor, or its kind is unknown."""
OVER = 64
"""The result says that nothing is left to wait for, or is an error that stays."""
EMPTY = 128
"""A look found nothing: something may come."""


pack_line = _LINE.pack
"""Pack the statistics of a call that has run once: result, idle, wall, index and end within 32 bits, news, changes,
waits, flags. The fields are those of ``CallStats``."""


class CallStats:
    """Statistics of a call that is made again.

    ``news``, ``changes`` and ``waits`` are the turn's counters at the start of the last run, plus this
    call's own part in them since then: the difference to the counters now is the work of other calls in between.
    """

    __slots__ = (
        "alike", "changes", "details", "equal", "evidence", "first_index", "flags", "idle", "ids", "last_end",
        "last_index", "lifted_at", "moves", "news", "refused", "result", "retry_after", "same_since", "steady",
        "successes", "vain", "varied", "waits", "wall",
    )  # fmt: skip

    def __init__(self, line: bytes) -> None:
        (
            self.result, self.idle, self.wall, self.first_index, self.last_end,
            self.news, self.changes, self.waits, self.flags,
        ) = _LINE.unpack(line)  # fmt: skip
        self.last_index = self.first_index
        # ``result`` stays while results are the *same*. ``idle`` and ``wall`` are the turn's clocks at the end of the
        # last run, ``flags`` are those of the last run.
        self.same_since: float = self.wall
        """The clock ``wall`` when the first of the equal results came."""
        self.successes = self.flags & SUCCESS and 1
        self.equal = 1
        """Runs in a row with the same result, the first included."""
        self.steady = 1
        """Runs in a row whose results are the same or alike, whatever was done in between."""
        self.alike = 1
        """Runs in a row, without a change in between, with results that differ only in ids and numbers seen before."""
        self.varied = 1
        """``alike``, with the runs counted that brought new numbers."""
        self.refused = 0
        """Refusals since the last run."""
        self.lifted_at: float = 0
        """The second (see ``clock.time_of``) from which the call runs again after a refusal; 0 if there is none."""
        self.ids = 0
        """The fingerprint of the ids in the last receipt; 0 if there was none."""
        self.retry_after: float = 0
        """The seconds after which the last result asked to be tried again; 0 if it did not say."""
        self.vain = 0
        """Runs that brought the same again, after a refusal or beyond a limit. Each doubles the time to wait."""
        self.evidence: float = 0
        """The sum of the weights of the equal runs: from 1 on the next one is refused. See ``evidence``."""
        self.moves = 0
        """Runs with another result than the one before, when no other call was made in between."""
        self.details: DetailedFingerprints | None = None

    def add(self, *, news: bool, changed: bool, waited: bool) -> None:
        """Add the call's own part in the turn's counters, so that it is not taken for work of other calls."""
        self.news += news
        self.changes += changed
        self.waits += waited

    def reset_evidence(self, wall: float) -> None:
        """Drop the evidence, because the result is another one. ``wall``: the turn's clock of that name now."""
        self.evidence = self.vain = 0
        self.equal = self.alike = self.varied = self.steady = 1
        self.same_since = wall

    def to_list(self) -> list[Any]:
        """Return the statistics as plain values."""
        details = self.details
        return [
            *(getattr(self, name) for name in _STATE),
            None if details is None else details.to_list(),
        ]

    @classmethod
    def from_list(cls, values: list[Any]) -> CallStats:
        """Restore the statistics that ``to_list`` returned."""
        stats = cls.__new__(cls)
        *plain, details = values
        for name, value in zip(_STATE, plain, strict=True):
            setattr(stats, name, value)
        stats.details = None if details is None else DetailedFingerprints.from_list(details)
        return stats


_STATE = tuple(name for name in CallStats.__slots__ if name != "details")
