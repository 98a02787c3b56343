"""The rule of evidence: the weight of a repeat depends on the work of other calls since the run before.

The evidence of a call is a sum of weights. At 1 the next equal call is refused: two repeats of 1/2 with nothing in
between, four of 1/4 after news from reading.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from otel_loopguard.core.model import Kind, Mode, Record, Sameness

if TYPE_CHECKING:
    from otel_loopguard.core.history.call_stats import CallStats
    from otel_loopguard.core.history.state import History
    from otel_loopguard.core.policy.policy import Rule


def limit_now(history: History, stats: CallStats, rule: Rule) -> int:
    """Return the run that is refused if nothing more happens: by the work since the last run; 0 after a change."""
    first = first_limit(rule)
    if not first or history.changes != stats.changes:
        return 0
    busy = history.news != stats.news or history.writes != stats.writes
    limit = (rule.block_after_reads if busy else first) or 0
    return max(limit, rule.block_if_transient) if stats.transient and rule.block_if_transient else limit


def first_limit(rule: Rule) -> int:
    """Return the first run that does not run any more, refused or aborted; 0 if there is none."""
    block, abort = rule.block or 0, rule.abort or 0
    return min(block, abort) if block and abort else block or abort


def weight(limit: int) -> float:
    """Return the weight of one *same* under this limit."""
    return 1 / (limit - 1) if limit > 1 else float(limit == 1)


def weigh(history: History, record: Record, stats: CallStats) -> None:
    """Add a run to the evidence of its call. Call it before the run's own part moves the turn's counters."""
    sameness = record.sameness
    if record.child_news:  # the same answer, but the nested run did new work for it
        stats.reset_evidence()
        return
    if record.changed_between:
        stats.evidence, stats.alike = 0, 1
    if record.polled:
        _weigh_poll(history, record, stats)
    elif sameness is Sameness.SAME:
        stats.equal += 1
        if record.kind.is_evidence:
            stats.evidence += _own_weight(history, record, stats)
    elif sameness is Sameness.ALIKE and not record.changed_between:
        stats.alike += 1
    if sameness is Sameness.DIFFERENT or sameness is Sameness.PROGRESS:
        stats.reset_evidence()
        if not record.polled:
            stats.poll = None


def _own_weight(history: History, record: Record, stats: CallStats) -> float:
    rule: Rule = record.resolved.tool.rules[Mode.GENERIC_REPEAT]
    most = weight(limit_now(history, stats, rule))
    if record.transient and rule.block_if_transient:
        return min(most, 1 / max(1, rule.block_if_transient - 1))
    return most


def _weigh_poll(history: History, record: Record, stats: CallStats) -> None:
    """Count a poll without news, unless it kept its interval; a wait only after the turn's last news."""
    if record.news or (record.kind is Kind.WAIT and history.news != stats.news):
        stats.poll = None
        return
    count, since = stats.poll or (1, stats.at)
    interval = record.resolved.tool.rules[Mode.POLL_NO_PROGRESS].min_interval or 0
    stats.poll = (count + (record.at - stats.at < interval), since)
