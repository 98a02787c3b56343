"""``error_repeat`` and ``same_answer``: one tool fails, or answers, in the same way for different arguments.

Both judge calls that have never run, so they may be wrong about one. Each refusal can be insisted on, and after it the
tool is half open: its next untried call runs.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from otel_loopguard.engine.detectors.base import Detector, trip
from otel_loopguard.engine.words import Action, Kind, Mode, Record, Sameness, Trip

if TYPE_CHECKING:
    from otel_loopguard.engine.history.state import History
    from otel_loopguard.engine.policy.policy import Rule

_FIRST, _READ, _SHELL = Sameness.FIRST, Kind.READ, Kind.SHELL
_NEVER = sys.maxsize


def before_error(history: History, record: Record, rule: Rule) -> Trip | None:
    """Refuse an untried call at the tenth equal failure of its tool in a row, with no change since.

    A tool that worked before is given more: two failures more than it had successes, up to twice the limit.
    """
    stats = history.tools.get(record.resolved.tool.digest)
    if stats is None or stats.errors < (rule.block or _NEVER) - 1 or not _judges(history, record):
        return None
    limit = min(max(rule.block or 0, stats.successes + 2), 2 * (rule.block or 0))
    count = stats.known(stats.errors, record.written) + 1
    if count < limit or stats.changes != history.changes:
        return None
    return trip(record, Mode.ERROR_REPEAT, count, limit, Action.BLOCK, insistable=True)


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
    stats = history.tools.get(record.resolved.tool.digest)
    if stats is None or stats.answers < (rule.block or _NEVER) - 1 or not _judges(history, record):
        return None
    count, limit = stats.known(stats.answers, record.written) + 1, rule.block or 0
    if count < limit or stats.brief or record.kind is _SHELL:
        return None
    return trip(record, Mode.SAME_ANSWER, count, limit, Action.BLOCK, insistable=True)


def after_answer(history: History, record: Record, rule: Rule) -> Trip | None:
    """Nudge at the fifth such answer; at the tenth if it is short, and then only for tools that read."""
    stats = history.tools.get(record.resolved.tool.digest)
    if stats is None or record.error or record.sameness is not _FIRST or not rule.nudge or stats.answers < rule.nudge:
        return None
    due = 2 * rule.nudge if stats.brief else rule.nudge
    if stats.answers < due or (stats.brief and record.kind is not _READ):
        return None
    return trip(record, Mode.SAME_ANSWER, stats.answers, due, Action.NUDGE)


def _judges(history: History, record: Record) -> bool:
    """Return True for an untried call of a tool whose last untried call was not refused."""
    half_open = record.resolved.tool.digest in history.half_open
    return record.stats is None and record.kind.is_evidence and not half_open


ERROR = Detector(Mode.ERROR_REPEAT, before_error, after_error, untried=True)
ANSWER = Detector(Mode.SAME_ANSWER, before_answer, after_answer, untried=True, judges_news=True)
