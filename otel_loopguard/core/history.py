"""One turn's bounded memory: what was called, what came back, what was news and what changed the world.

Two counters carry the idea of the whole package: ``news`` (a result not seen before) and ``changes`` (news that
may have changed the world, or proves that it changed). What a call's evidence is worth depends on how far they
moved since the call last ran, its own part in them apart.
"""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, Any

from otel_loopguard.core.bounded import EMPTY, kept
from otel_loopguard.core.contracts import WRITING
from otel_loopguard.core.evidence import NO_EVIDENCE, weigh
from otel_loopguard.core.known import Known, packed
from otel_loopguard.core.model import Kind, Record, Sameness, Trip
from otel_loopguard.core.sameness import compare, likeness
from otel_loopguard.core.streaks import Streaks

if TYPE_CHECKING:
    from otel_loopguard.core.contracts import Understood
    from otel_loopguard.core.fingerprint import Fingerprinter
    from otel_loopguard.core.outcomes import Fingerprinted
    from otel_loopguard.core.tally import Tally

MOST_RECORDS = 64
MOST_CALLS = 1_024
MOST_PAIRS = 4_096
MOST_REMEMBERED = 256

_64_BITS = 0xFFFFFFFFFFFFFFFF
_MASKED_SALT = 0xC2B2AE3D27D4EB4F
"""A masked form is no result: text without volatile parts has the same bytes in both."""
_POLLING = frozenset({Kind.POLL, Kind.WAIT})
_NO_ORDER = frozenset({Kind.FINAL, Kind.STEP})
"""Kinds whose runs are no step of a lap."""
_NOT_NEW = frozenset({Sameness.SAME, Sameness.ALIKE})


class History:
    """The memory of one turn. Not thread-safe by itself: the turn holds its lock around every method."""

    __slots__ = (
        "barren", "barren_in_turn", "calls", "changes", "counts_refused", "errors_in_row", "gates", "insistable",
        "keys", "known", "last_key", "most_calls", "news", "once", "open_trips", "pairs", "polls_apart", "refusals",
        "results", "shapes", "started_by_tool", "streak", "tally", "tick", "tools", "transients", "unknown_answered",
        "unknown_calls", "waits", "writes",
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
        self.known: dict[int, Known] = EMPTY
        """Calls that were made again."""
        self.keys = array("Q")
        self.results = array("Q")
        """The last runs in order, what was called and what came back; polls and waits left out."""
        self.barren = self.barren_in_turn = 0
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
        self.tools: dict[str, Streaks] = EMPTY
        self.started_by_tool: dict[str, int] = EMPTY
        self.open_trips: tuple[Trip, ...] = ()
        self.tally: Tally | None = None
        """For detectors that count calls; the others need none."""
        self.counts_refused = self.polls_apart = False
        """What else those detectors are told: refused calls count, too; polls have a mode of their own."""

    # --- before a call -------------------------------------------------------------------------------------------

    def opened(self, understood: Understood, arguments: int, *, registered: bool | None, now: float) -> Record:
        """A record for a call that is about to be judged; it counts only once it is ``started``."""
        record = Record()
        record.tool = understood.tool.name
        record.call = understood
        record.kind = understood.kind
        record.registered = registered
        record.arguments = arguments
        record.key = key = (arguments ^ hash(understood.tool.name)) & _64_BITS
        record.known = known = self._known(key)
        record.polled = understood.kind in _POLLING
        if known is None:
            record.since = (self.news, self.changes, self.writes, self.waits)
        else:
            if record.kind not in NO_EVIDENCE and (known.pending or self.waits != known.waits):
                record.polled = True
            record.since = (
                self.news - known.news, self.changes - known.changes,
                self.writes - known.writes, self.waits - known.waits,
            )  # fmt: skip
        record.index = self.calls
        record.tick = self.tick
        record.at = now
        record.result = record.sameness = record.trip = None
        record.error = record.pending = record.transient = record.news = False
        record.concurrent = record.between = record.child_news = False
        return record

    def _known(self, key: int) -> Known | None:
        """What is known of a call; one that ran once becomes an object here, as it is made again."""
        known = self.known.get(key)
        if known is None:
            line = self.once.pop(key, None)
            if line is None:
                return None
            if not self.known:
                self.known = {}
            known = self.known[key] = Known(line)
        elif len(self.known) > MOST_CALLS // 4:  # least recently used goes first
            self.known[key] = self.known.pop(key)
        return known

    def started(self, record: Record) -> None:
        """The call runs: it counts towards caps from now on, so that parallel calls cannot outrun them."""
        self.tick += 1
        record.tick = self.tick
        self.calls += 1
        if record.kind in WRITING:  # from now on it may write
            self.writes += 1
            if record.known is not None:
                record.known.writes += 1
        if self.tally is not None:
            self.tally.add(record)
        if record.call.tool.contract.cap is not None:
            self.started_by_tool = counts = self.started_by_tool or {}
            counts[record.tool] = counts.get(record.tool, 0) + 1

    def refused(self, record: Record, *, insistable: bool) -> None:
        """The call does not run; if it can be insisted on, it runs when it is made once more."""
        self.refusals += 1
        if record.known is not None:
            record.known.refused += 1
        if insistable:
            self.insistable = kept(self.insistable, record.key, MOST_REMEMBERED)
        if self.counts_refused and self.tally is not None:
            self.tally.add(record)

    def changed_since(self, known: Known) -> bool:
        """Whether anything may have changed since the start of this call's last run, its own part apart."""
        since: int = known.changes
        return self.changes != since

    # --- after a call --------------------------------------------------------------------------------------------

    def ended(self, record: Record, outcome: Fingerprinted, fingerprinter: Fingerprinter) -> None:
        """The call has run: everything that follows from its outcome is counted."""
        record.result, record.error = outcome.digest, outcome.is_error
        record.transient, record.pending = outcome.transient, outcome.pending
        known = record.known or self._known(record.key)
        if known is None:
            self._ended_first(record, outcome)
        elif record.known is None or record.tick < known.last_end:
            self._ended_beside(record, known, outcome)
            return
        else:
            self._ended_again(record, known, outcome, fingerprinter)
        self._order(record, outcome.digest if known is None else known.result)
        self._tool(record, outcome)

    def _ended_first(self, record: Record, outcome: Fingerprinted) -> None:
        record.sameness = Sameness.FIRST
        record.news = self._is_news(record, outcome, unseen=True)
        changed = record.news and not record.error and record.kind in WRITING
        news, changes, writes, waits = record.since
        wrote, waited = self._count(record, changed=changed)
        if len(self.once) + len(self.known) >= MOST_CALLS:
            oldest: dict[int, Any] = self.once or self.known
            oldest.pop(next(iter(oldest)))
        self.once[record.key] = packed(
            result=outcome.digest, at=record.at, index=record.index, end=self.tick,
            counters=(news + record.news, changes + changed, writes + 2 * wrote, waits + waited),
            pending=record.pending, transient=record.transient, success=not record.error,
        )  # fmt: skip
        self._count_news(record)

    def _ended_beside(self, record: Record, known: Known, outcome: Fingerprinted) -> None:
        """It was started before the last result of the same call was known: it adds nothing to any count."""
        first = record.known is None
        record.known, record.concurrent = known, True
        record.sameness = Sameness.SAME if known.result == outcome.digest else Sameness.DIFFERENT
        record.news = self._is_news(record, outcome, unseen=self._is_unseen(record.key, outcome.digest, known.result))
        wrote, waited = self._count(record, changed=record.news)
        known.add(news=record.news, changed=record.news, wrote=wrote * (1 + first), waited=waited)
        known.successes += not record.error
        if record.sameness is Sameness.DIFFERENT:  # which of the two is how things are now, nobody knows
            known.starts_anew()
            known.result = outcome.digest
        if record.news:
            self.barren = self.refusals = 0

    def _ended_again(self, record: Record, known: Known, outcome: Fingerprinted, fingerprinter: Fingerprinter) -> None:
        record.between = self.changes != known.changes
        record.sameness, masked = self._compared(record, known, outcome, fingerprinter)
        unseen = self._is_unseen(record.key, outcome.digest, known.result)
        if masked is not None:  # a result that comes back under a new id is no news either
            unseen = self._is_unseen(record.key, masked ^ _MASKED_SALT, 0) and unseen
        record.news = self._is_news(record, outcome, unseen=unseen)
        proof = record.sameness is Sameness.DIFFERENT  # the same call, another result: something did change
        changed: bool = record.news and (proof or (not record.error and record.kind in WRITING))
        weigh(self, record, known)
        if record.sameness is not Sameness.SAME:
            known.result = outcome.digest
        wrote, waited = self._count(record, changed=changed)
        news, changes, writes, waits = record.since
        known.news += news
        known.changes += changes
        known.writes += writes
        known.waits += waits
        known.add(news=record.news, changed=changed, wrote=wrote, waited=waited)
        known.last_end, known.at, known.refused = self.tick, record.at, 0
        known.pending, known.transient = record.pending, record.transient
        known.successes += not record.error
        self._count_news(record)

    def _compared(
        self, record: Record, known: Known, outcome: Fingerprinted, fingerprinter: Fingerprinter
    ) -> tuple[Sameness, int | None]:
        """How the result compares with the last one of this call; and its masked fingerprint, where it was made."""
        if outcome.digest == known.result:
            return Sameness.SAME, None
        if outcome.sameness is not None:
            return outcome.sameness, None
        last = known.likeness
        known.likeness = now = likeness(outcome.data, record.call.tool, fingerprinter)
        masked = (now.changed if record.between else now.quiet).masked
        if last is None:
            return Sameness.DIFFERENT, masked
        return compare(last, now, record.kind, changed=record.between, moves=record.call.tool.moves), masked

    def _is_news(self, record: Record, outcome: Fingerprinted, *, unseen: bool) -> bool:
        if record.child_news:
            return True
        if not record.error:
            return unseen and record.sameness not in _NOT_NEW and record.kind is not Kind.THINK
        shape = outcome.shape ^ (hash(record.tool) & _64_BITS)
        if shape in self.shapes:
            return False
        self.shapes = kept(self.shapes, shape, MOST_PAIRS)
        return True

    def _is_unseen(self, key: int, result: int, last: int) -> bool:
        """Whether the call never gave this result; a call's last result is known without being kept here."""
        if result == last:
            return False
        pair = _pair(key, result)
        unseen = pair not in self.pairs
        self.pairs = kept(self.pairs, _pair(key, last), MOST_PAIRS)
        self.pairs = kept(self.pairs, pair, MOST_PAIRS)
        return unseen

    def _count(self, record: Record, *, changed: bool) -> tuple[bool, bool]:
        """The turn's counters move; whether the run may have written, and whether it waited."""
        wrote = record.kind in WRITING
        waited = record.kind in _POLLING or record.pending
        self.tick += 1
        self.news += record.news
        self.changes += changed
        self.writes += wrote
        self.waits += waited
        return wrote, waited

    def _count_news(self, record: Record) -> None:
        """How long the turn, and its calls in a row, have been without news or success."""
        if record.news:
            self.barren = self.refusals = 0
        elif not record.polled and record.kind not in NO_EVIDENCE:
            self.barren_in_turn += 1
            self.barren += record.sameness is not Sameness.ALIKE
        if not record.polled:
            self.errors_in_row = self.errors_in_row + 1 if record.error else 0

    def _order(self, record: Record, result: int) -> None:
        """The run takes its place among the last ones."""
        if record.polled or record.kind in _NO_ORDER:
            return
        if record.key == self.last_key:
            self.streak += 1
        else:
            self.last_key, self.streak = record.key, 1
        self.keys.append(record.key)
        self.results.append(result)
        if len(self.keys) > MOST_RECORDS:
            del self.keys[0], self.results[0]
        if record.transient:
            self.transients = kept(self.transients, result, MOST_REMEMBERED)

    def _tool(self, record: Record, outcome: Fingerprinted) -> None:
        """What this run says of its tool."""
        if record.registered is False and record.tool not in self.unknown_answered:
            if record.error:
                self.unknown_calls += 1
            else:
                self.unknown_answered = kept(self.unknown_answered, record.tool, MOST_REMEMBERED)
        elif not record.error:
            self.unknown_calls = 0
        first = record.sameness is Sameness.FIRST
        if first and not record.polled and record.kind not in NO_EVIDENCE:
            streaks = self._streaks(record.tool)
            if record.error:
                streaks.failed(outcome.shape, self.changes)
            else:
                streaks.succeeded(record, outcome)
        elif not record.error and record.tool in self.tools:
            self.tools[record.tool].errors = 0

    def _streaks(self, tool: str) -> Streaks:
        streaks = self.tools.get(tool)
        if streaks is None:
            if not self.tools:
                self.tools = {}
            elif len(self.tools) >= MOST_REMEMBERED:
                self.tools.pop(next(iter(self.tools)))
            streaks = self.tools[tool] = Streaks()
        return streaks


def _pair(key: int, result: int) -> int:
    return (key * 31 + result) & _64_BITS
