"""``error_repeat`` and ``same_answer``: one tool fails, or answers, in the same way for different arguments.

Both judge calls that have never run, so they may be wrong about one. Each refusal can be insisted on, and after it the
tool is half open: its next untried call runs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from otel_loopguard.core.detectors.base import Detector, trip
from otel_loopguard.core.model import Action, Kind, Mode, Record, Sameness, Trip

if TYPE_CHECKING:
    from otel_loopguard.core.history.state import History
    from otel_loopguard.core.history.tool_stats import ToolStats
    from otel_loopguard.core.policy.policy import Rule

_FIRST, _READ, _SHELL = Sameness.FIRST, Kind.READ, Kind.SHELL


def before_error(history: History, record: Record, rule: Rule) -> Trip | None:
    """Refuse an untried call at the tenth equal failure of its tool in a row, with no change since.

    A tool that worked before is given more: two failures more than it had successes, up to twice the limit.
    """
    stats = _row_of(history, record)
    if stats is None or not rule.block or stats.errors + 1 < rule.block or stats.changes != history.changes:
        return None
    limit = min(max(rule.block, stats.successes + 2), 2 * rule.block)
    count = stats.known(stats.errors, record.written) + 1
    return trip(record, Mode.ERROR_REPEAT, count, limit, Action.BLOCK, insistable=True) if count >= limit else None


def after_error(history: History, record: Record, rule: Rule) -> Trip | None:
    """Nudge at the third such failure."""
    stats = history.tools.get(record.resolved.tool.digest)
    if stats is None or not record.error or record.sameness is not _FIRST or not rule.nudge:
        return None
    return (
        trip(record, Mode.ERROR_REPEAT, stats.errors, rule.nudge, Action.NUDGE) if stats.errors >= rule.nudge else None
    )


def before_answer(history: History, record: Record, rule: Rule) -> Trip | None:
    """Refuse an untried call at the tenth equal answer of its tool in a row.

    Short answers prove too little, and those of commands are about an act: each crate compiles with the same warning.
    """
    stats = _row_of(history, record)
    if stats is None or not rule.block or stats.answers + 1 < rule.block or stats.brief or record.kind is _SHELL:
        return None
    count = stats.known(stats.answers, record.written) + 1
    return (
        trip(record, Mode.SAME_ANSWER, count, rule.block, Action.BLOCK, insistable=True)
        if count >= rule.block
        else None
    )


def after_answer(history: History, record: Record, rule: Rule) -> Trip | None:
    """Nudge at the fifth such answer; at the tenth if it is short, and then only for tools that read."""
    stats = history.tools.get(record.resolved.tool.digest)
    if stats is None or record.error or record.sameness is not _FIRST or not rule.nudge or stats.answers < rule.nudge:
        return None
    due = 2 * rule.nudge if stats.brief else rule.nudge
    if stats.answers < due or (stats.brief and record.kind is not _READ):
        return None
    return trip(record, Mode.SAME_ANSWER, stats.answers, due, Action.NUDGE)


def _row_of(history: History, record: Record) -> ToolStats | None:
    """Return the statistics of an untried call's tool; None if its last untried call was refused."""
    digest = record.resolved.tool.digest
    if record.stats is not None or digest in history.half_open or not record.kind.is_evidence:
        return None
    return history.tools.get(digest)


ERROR = Detector(Mode.ERROR_REPEAT, before_error, after_error, untried=True)
ANSWER = Detector(Mode.SAME_ANSWER, before_answer, after_answer, untried=True, judges_news=True)
