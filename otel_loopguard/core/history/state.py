"""What a turn remembers, and how a call is looked up in it before it is judged. Bounded in every part.

Two counters carry the idea of the whole package: ``news`` (a result not seen before) and ``changes`` (news that
may have changed the world, or proves that it changed). What a call's evidence is worth depends on how far they
moved since the call last ran, its own part in them apart.
"""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, Any

from otel_loopguard.core.history.bounded import EMPTY, kept
from otel_loopguard.core.history.call_stats import CallStats
from otel_loopguard.core.model import Record, Trip

if TYPE_CHECKING:
    from otel_loopguard.core.history.tool_stats import ToolStats
    from otel_loopguard.core.history.window import CallWindow
    from otel_loopguard.core.tools.contracts import ResolvedCall

MOST_CALLS = 1_024
MOST_REMEMBERED = 256

_64_BITS = 0xFFFFFFFFFFFFFFFF


class Memory:
    """The state of one turn. Not thread-safe by itself: the turn holds its lock around every method."""

    __slots__ = (
        "calls",
        "changes",
        "counts_refused",
        "errors_in_row",
        "gates",
        "insistable",
        "keys",
        "last_key",
        "most_calls",
        "news",
        "no_news_in_row",
        "no_news_in_turn",
        "once",
        "open_ended",
        "open_trips",
        "pairs",
        "polls_apart",
        "refusals",
        "repeated",
        "results",
        "shapes",
        "started_by_tool",
        "streak",
        "tally",
        "tick",
        "tools",
        "transients",
        "unknown_answered",
        "unknown_calls",
        "waits",
        "writes",
    )  # fmt: skip

    def __init__(self, most_calls: int = 0) -> None:
        self.most_calls = most_calls
        self.tick = 0
        """Counts starts and ends: the turn's own time."""
        self.calls: int = 0
        self.news: int = 0
        self.changes: int = 0
        self.writes = 0
        """Starts and ends of tools that may write."""
        self.waits = 0
        """Ended runs of waits and polls."""
        self.once: dict[int, bytes] = {}
        """Calls that have run once, packed."""
        self.repeated: dict[int, CallStats] = EMPTY
        """Calls that were made again."""
        self.keys = array("Q")
        self.results = array("Q")
        """The last runs in order, what was called and what came back; polls and waits left out."""
        self.no_news_in_row = self.no_news_in_turn = 0
        """Calls without news: in a row, and in the turn."""
        self.errors_in_row = self.unknown_calls = 0
        self.refusals = 0
        """Refusals since the last news."""
        self.last_key = self.streak = 0
        # Most turns never need these:
        self.unknown_answered: dict[str, None] = EMPTY
        self.pairs: dict[int, None] = EMPTY
        self.shapes: dict[int, None] = EMPTY
        self.transients: dict[int, None] = EMPTY
        self.insistable: dict[int, None] = EMPTY
        self.gates: dict[Any, int] = EMPTY
        self.tools: dict[str, ToolStats] = EMPTY
        self.started_by_tool: dict[str, int] = EMPTY
        self.open_trips: tuple[Trip, ...] = ()
        self.tally: CallWindow | None = None
        """For detectors that count calls; the others need none."""
        self.open_ended = False
        """There may be tools that are not registered."""
        self.counts_refused = self.polls_apart = False
        """What else those detectors are told: refused calls count, too; polls have a mode of their own."""

    def opened(
        self, resolved: ResolvedCall, arguments: int, *, registered: bool | None, now: float, written: int | None = None
    ) -> Record:
        """A record for a call that is about to be judged; it counts only once it is ``started``.

        ``written``: the time at which the model made it. A run that ended since then is none to judge it by.
        """
        record = Record()
        record.resolved = resolved
        tool, _, record.kind = resolved
        record.tool = tool.name
        record.registered = registered
        record.arguments = arguments
        record.key = key = (arguments ^ hash(tool.name)) & _64_BITS
        record.polled = record.kind.polls
        stats = self.find(key)
        if stats is not None and written is not None and stats.last_end > written:
            stats = None
        record.stats = stats
        if stats is None:
            record.since = (self.news, self.changes, self.writes, self.waits)
        else:
            if record.kind.is_evidence and (stats.pending or self.waits != stats.waits):
                record.polled = True
            record.since = (
                self.news - stats.news, self.changes - stats.changes,
                self.writes - stats.writes, self.waits - stats.waits,
            )  # fmt: skip
        record.index = self.calls
        record.tick = self.tick
        record.at = now
        record.result = record.sameness = record.trip = None
        record.error = record.pending = record.transient = record.news = False
        record.concurrent = record.changed_between = record.child_news = record.resumed = False
        return record

    def find(self, key: int) -> CallStats | None:
        """What is known of a call; one that ran once becomes an object here, as it is made again."""
        if key in self.once:
            if not self.repeated:
                self.repeated = {}
            stats = self.repeated[key] = CallStats(self.once.pop(key))
            return stats
        if key not in self.repeated:
            return None
        if len(self.repeated) > MOST_CALLS // 4:  # least recently used goes first
            self.repeated[key] = self.repeated.pop(key)
        return self.repeated[key]

    def keep_once(self, key: int, line: bytes) -> None:
        """A call has run for the first time."""
        if len(self.once) + len(self.repeated) >= MOST_CALLS:
            oldest: dict[int, Any] = self.once or self.repeated
            oldest.pop(next(iter(oldest)))
        self.once[key] = line

    def started(self, record: Record) -> None:
        """The call runs: it counts towards caps from now on, so that parallel calls cannot outrun them."""
        self.tick += 1
        record.tick = self.tick
        if record.kind.writes:  # from now on it may write
            self.writes += 1
            if record.stats is not None:
                record.stats.writes += 1
        if record.resumed:
            return
        self.calls += 1
        if self.tally is not None:
            self.tally.add(record)
        if record.resolved.tool.contract.cap is not None:
            self.started_by_tool = counts = self.started_by_tool or {}
            counts[record.tool] = counts.get(record.tool, 0) + 1

    def refused(self, record: Record, *, insistable: bool) -> None:
        """The call does not run; if it can be insisted on, it runs when it is made once more."""
        self.refusals += 1
        if record.stats is not None:
            record.stats.refused += 1
        if insistable:
            self.insistable = kept(self.insistable, record.key, MOST_REMEMBERED)
        if self.counts_refused and self.tally is not None:
            self.tally.add(record)

    def changed_since(self, stats: CallStats) -> bool:
        """Whether anything may have changed since the start of this call's last run, its own part apart."""
        since: int = stats.changes
        return self.changes != since
