"""``error_repeat``: one tool fails in the same way for different arguments."""

from __future__ import annotations

from typing import TYPE_CHECKING

from otel_loopguard.engine.detectors.row import NEVER, About, Bound, Counter, Detector, lowest
from otel_loopguard.engine.detectors.trips import judges_untried, trip
from otel_loopguard.engine.rule import Rule
from otel_loopguard.engine.vocabulary import Action, Record, Sameness, Trip

if TYPE_CHECKING:
    from otel_loopguard.engine.history.history import History

_FIRST = Sameness.FIRST


def before(history: History, record: Record, rule: Rule) -> Trip | None:
    """Refuse an untried call that would be its tool's tenth equal failure in a row, with no change in between.

    A tool that worked before may fail more often: two times more than it succeeded, up to twice the limit.
    """
    stats = history.tools.get(record.resolved.tool.digest)
    if stats is None or stats.errors < (rule.block or NEVER) - 1 or not judges_untried(record):
        return None
    limit = min(max(rule.block or 0, stats.successes + 2), 2 * (rule.block or 0))
    count = stats.known(stats.errors, record.written) + 1
    if count < limit or stats.changes != history.changes:
        return None
    return trip(record, ROW.mode, count, limit, Action.BLOCK, insistable=True)


def after(history: History, record: Record, rule: Rule) -> Trip | None:
    """Nudge at the third equal failure in a row."""
    stats = history.tools.get(record.resolved.tool.digest)
    if stats is None or not record.error or record.sameness is not _FIRST or not rule.nudge:
        return None
    return trip(record, ROW.mode, stats.errors, rule.nudge, Action.NUDGE) if stats.errors >= rule.nudge else None


def may_trip_from(rule: Rule) -> Bound:
    """Bound this detector by the failures of one tool."""
    return {Counter.FAILED: lowest(rule.nudge, rule.block)}


ROW = Detector(
    "error_repeat",
    rule=Rule(nudge=3, block=10),
    before=before,
    after=after,
    judges_news=False,
    once_per="tool",
    may_trip_from=may_trip_from,
    refusal="{tool} failed in the same way {before} times in a row, whatever its arguments were.",
    nudge="{tool} has now failed {count} times in the same way. Its arguments may not be the reason.",
    advice="different",
    insisted_by_tool=True,
    about=About(
        title="the same error, other arguments",
        agent="gets the same error from a tool whatever the arguments are",
        told="3rd",
        refused="10th, unless it insists",
        precisely=(
            "one tool fails in one way with new arguments", "3rd",
            "10th, or 2 more than its successes, at most the 20th",
        ),
        cause="the tool or its back end is broken, or its arguments are described wrongly",
    ),
)  # fmt: skip
