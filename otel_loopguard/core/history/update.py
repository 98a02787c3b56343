"""What follows from an outcome: whether it was news, what it changed, and what it is worth as evidence."""

from __future__ import annotations

from typing import TYPE_CHECKING

from otel_loopguard.core.history.bounded import kept
from otel_loopguard.core.history.call_stats import packed
from otel_loopguard.core.history.evidence import weigh
from otel_loopguard.core.history.state import MOST_REMEMBERED, Memory
from otel_loopguard.core.history.tool_stats import tool_stats_of
from otel_loopguard.core.model import Kind, Sameness
from otel_loopguard.core.values.compare import compare, detailed_fingerprints

if TYPE_CHECKING:
    from otel_loopguard.core.history.call_stats import CallStats
    from otel_loopguard.core.model import Record
    from otel_loopguard.core.values.fingerprint import Fingerprinter
    from otel_loopguard.core.values.results import OutcomeFacts

MOST_RECORDS = 64
MOST_PAIRS = 4_096

# Looking up a member of an enumeration costs as much as calling a function on Python 3.11.
_FIRST, _SAME, _ALIKE, _DIFFERENT = Sameness.FIRST, Sameness.SAME, Sameness.ALIKE, Sameness.DIFFERENT
_THINK = Kind.THINK

_64_BITS = 0xFFFFFFFFFFFFFFFF
_MASKED_SALT = 0xC2B2AE3D27D4EB4F
"""A masked form is no result: text without volatile parts has the same bytes in both."""
_NOT_NEW = frozenset({_SAME, _ALIKE})


class History(Memory):
    """One turn's memory, and what each outcome adds to it."""

    __slots__ = ()

    def ended(self, record: Record, outcome: OutcomeFacts, fingerprinter: Fingerprinter) -> None:
        """The call has run: everything that follows from its outcome is counted."""
        digest, _, record.error, _, record.transient, record.pending, _, _ = outcome
        record.result = digest
        stats = record.stats or self.find(record.key)
        if stats is None:
            self._ended_first(record, outcome)
        elif record.stats is None or record.tick < stats.last_end:
            self._ended_beside(record, stats, outcome)
            return
        else:
            self._ended_again(record, stats, outcome, fingerprinter)
            digest = stats.result
        if not record.polled:
            self.errors_in_row = self.errors_in_row + 1 if record.error else 0
            if record.kind.makes_laps:
                self._order(record, digest)
        self._tool(record, outcome)

    def _ended_first(self, record: Record, outcome: OutcomeFacts) -> None:
        record.sameness = _FIRST
        record.news = news = self._is_news(record, outcome, unseen=True)
        wrote, waited = record.kind.writes, record.polled or record.pending
        changed = news and wrote and not record.error
        before_news, before_changes, before_writes, before_waits = record.since
        self._count(record, changed=changed, wrote=wrote, waited=waited)
        self.keep_once(record.key, packed(
            outcome.digest, record.at, record.index, self.tick,
            before_news + news, before_changes + changed, before_writes + 2 * wrote, before_waits + waited,
            record.pending, record.transient, not record.error,
        ))  # fmt: skip

    def _ended_beside(self, record: Record, stats: CallStats, outcome: OutcomeFacts) -> None:
        """It was started before the last result of the same call was known: it adds nothing to any count."""
        first = record.stats is None
        record.stats, record.concurrent = stats, True
        record.sameness = _SAME if stats.result == outcome.digest else _DIFFERENT
        record.news = self._is_news(record, outcome, unseen=self._is_unseen(record.key, outcome.digest, stats.result))
        wrote, waited = record.kind.writes, record.kind.polls or record.pending
        self._count(record, changed=record.news, wrote=wrote, waited=waited)
        stats.add(news=record.news, changed=record.news, wrote=wrote * (1 + first), waited=waited)
        stats.successes += not record.error
        if record.sameness is _DIFFERENT:  # which of the two is how things are now, nobody knows
            stats.starts_anew()
            stats.result = outcome.digest

    def _ended_again(
        self, record: Record, stats: CallStats, outcome: OutcomeFacts, fingerprinter: Fingerprinter
    ) -> None:
        record.changed_between = self.changes != stats.changes
        record.sameness, masked = self._compared(record, stats, outcome, fingerprinter)
        unseen = self._is_unseen(record.key, outcome.digest, stats.result)
        if masked is not None:  # a result that comes back under a new id is no news either
            unseen = self._is_unseen(record.key, masked ^ _MASKED_SALT, 0) and unseen
        record.news = self._is_news(record, outcome, unseen=unseen)
        wrote, waited = record.kind.writes, record.kind.polls or record.pending
        proof = record.sameness is not _SAME  # the same call, another result: something did change
        changed = record.news and (proof or (not record.error and wrote))
        weigh(self, record, stats)
        if record.sameness is not _SAME:
            stats.result = outcome.digest
        news, changes, writes, waits = record.since
        stats.news += news
        stats.changes += changes
        stats.writes += writes
        stats.waits += waits
        stats.add(news=record.news, changed=changed, wrote=wrote, waited=waited)
        self._count(record, changed=changed, wrote=wrote, waited=waited)
        stats.last_end, stats.at, stats.refused = self.tick, record.at, 0
        stats.pending, stats.transient = record.pending, record.transient
        stats.successes += not record.error

    def _compared(
        self, record: Record, stats: CallStats, outcome: OutcomeFacts, fingerprinter: Fingerprinter
    ) -> tuple[Sameness, int | None]:
        """How the result compares with the last one of this call; and its masked fingerprint, where it was made."""
        if outcome.digest == stats.result:
            return _SAME, None
        if outcome.sameness is not None:
            return outcome.sameness, None
        last, tool = stats.details, record.resolved.tool
        stats.details = now = detailed_fingerprints(
            outcome.data, fingerprinter, volatile_keys=tool.contract.volatile, mask=not tool.takes_next
        )
        masked = (now.with_durations if record.changed_between else now.without_durations).masked
        if last is None:
            return _DIFFERENT, masked
        sameness = compare(last, now, record.kind, moves_cursor=tool.moves_cursor, changed=record.changed_between)
        return sameness, masked

    def _is_news(self, record: Record, outcome: OutcomeFacts, *, unseen: bool) -> bool:
        if record.child_news:
            return True
        if not record.error:
            alike = record.sameness in _NOT_NEW and not (unseen and record.resolved.tool.takes_next)
            return unseen and not alike and record.kind is not _THINK
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

    def _count(self, record: Record, *, changed: bool, wrote: bool, waited: bool) -> None:
        """The turn's counters move; also how long it has been without news."""
        self.tick += 1
        self.changes += changed
        self.writes += wrote
        self.waits += waited
        if record.news:
            self.news += 1
            self.no_news_in_row = self.refusals = 0
        elif not record.polled and not record.concurrent and record.kind.is_evidence:
            self.no_news_in_turn += 1
            self.no_news_in_row += record.sameness is not _ALIKE

    def _order(self, record: Record, result: int) -> None:
        """The run takes its place among the last ones."""
        key = record.key
        if key == self.last_key:
            self.streak += 1
        else:
            self.last_key, self.streak = key, 1
        self.keys.append(key)
        self.results.append(result)
        if len(self.keys) > MOST_RECORDS:
            del self.keys[0], self.results[0]
        if record.transient:
            self.transients = kept(self.transients, result, MOST_REMEMBERED)

    def _tool(self, record: Record, outcome: OutcomeFacts) -> None:
        """What this run says of its tool."""
        if record.registered is False and record.tool not in self.unknown_answered:
            if record.error:
                self.unknown_calls += 1
            else:
                self.unknown_answered = kept(self.unknown_answered, record.tool, MOST_REMEMBERED)
        elif not record.error:
            self.unknown_calls = 0
        if record.sameness is _FIRST and not record.polled and record.kind.is_evidence:
            stats = self.tools.get(record.tool) or tool_stats_of(self, record.tool)
            if record.error:
                stats.failed(outcome.shape, self.changes)
            else:
                stats.succeeded(record, outcome)
        elif not record.error and record.tool in self.tools:
            self.tools[record.tool].errors = 0


def _pair(key: int, result: int) -> int:
    return (key * 31 + result) & _64_BITS
