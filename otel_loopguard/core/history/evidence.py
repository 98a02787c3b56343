"""The one rule: what a repeat is worth as evidence of a loop, by what came between it and the run before."""

from __future__ import annotations

from typing import TYPE_CHECKING

from otel_loopguard.core.model import Kind, Mode, Record, Sameness

if TYPE_CHECKING:
    from otel_loopguard.core.history.call_stats import Known
    from otel_loopguard.core.history.update import History
    from otel_loopguard.core.policy.policy import Rule

NO_EVIDENCE = frozenset({Kind.FINAL, Kind.STEP, Kind.HANDOFF})
"""Kinds whose equal results say nothing; they neither end nor lengthen a run of calls without news."""


def limit_now(history: History, known: Known, rule: Rule) -> int:
    """The run that is refused if things stay as they are: by what came since the last one; 0 after a change."""
    first = first_limit(rule)
    if not first or history.changes != known.changes:
        return 0
    busy = history.news != known.news or history.writes != known.writes
    limit = (rule.reading if busy else first) or 0
    return max(limit, rule.transient) if known.transient and rule.transient else limit


def first_limit(rule: Rule) -> int:
    """The first run that does not run any more: refused, or the end of the agent's run; 0 where there is none."""
    block, abort = rule.block or 0, rule.abort or 0
    return min(block, abort) if block and abort else block or abort


def weight(limit: int) -> float:
    """What one *same* under this limit adds to its call's evidence."""
    return 1 / (limit - 1) if limit > 1 else float(limit == 1)


def weigh(history: History, record: Record, known: Known) -> None:
    """What a run adds to its call's counts. To be asked before the run's own part moves the turn's counters."""
    sameness = record.sameness
    if record.child_news:  # the same answer, but work was done for it
        known.starts_anew()
        return
    if record.between:
        known.evidence, known.alike = 0, 1
    if record.polled:
        _weigh_poll(history, record, known)
    elif sameness is Sameness.SAME:
        known.equal += 1
        if record.kind not in NO_EVIDENCE:
            known.evidence += _own_weight(history, record, known)
    elif sameness is Sameness.ALIKE and not record.between:
        known.alike += 1
    if sameness is Sameness.DIFFERENT or sameness is Sameness.PROGRESS:
        known.starts_anew()
        if not record.polled:
            known.poll = None


def _own_weight(history: History, record: Record, known: Known) -> float:
    rule: Rule = record.call.tool.rules[Mode.GENERIC_REPEAT]
    most = weight(limit_now(history, known, rule))
    return min(most, 1 / max(1, rule.transient - 1)) if record.transient and rule.transient else most


def _weigh_poll(history: History, record: Record, known: Known) -> None:
    """A poll without news counts, unless it took its time; of a wait only what came after the last news at all."""
    if record.news or (record.kind is Kind.WAIT and history.news != known.news):
        known.poll = None
        return
    count, since = known.poll or (1, known.at)
    apart = record.call.tool.rules[Mode.POLL_NO_PROGRESS].apart or 0
    known.poll = (count + (record.at - known.at < apart), since)
