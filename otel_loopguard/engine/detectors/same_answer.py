"""``same_answer``: one tool answers in the same way to different arguments."""

from __future__ import annotations

from typing import TYPE_CHECKING

from otel_loopguard.engine.detectors.row import NEVER, About, Bound, Counter, Detector, lowest
from otel_loopguard.engine.detectors.trips import judges_untried, trip
from otel_loopguard.engine.rule import Rule
from otel_loopguard.engine.vocabulary import Action, Kind, Record, Sameness, Trip

if TYPE_CHECKING:
    from otel_loopguard.engine.history.history import History

_FIRST, _READ, _SHELL = Sameness.FIRST, Kind.READ, Kind.SHELL


def before(history: History, record: Record, rule: Rule) -> Trip | None:
    """Refuse an untried call that would get its tool's tenth equal answer in a row.

    Short answers prove too little, and those of shell commands tell of an act: each crate compiles with one warning.
    """
    stats = history.tools.get(record.resolved.tool.digest)
    if stats is None or stats.answers < (rule.block or NEVER) - 1 or not judges_untried(history, record):
        return None
    count, limit = stats.known(stats.answers, record.written) + 1, rule.block or 0
    if count < limit or stats.brief or record.kind is _SHELL:
        return None
    return trip(record, ROW.mode, count, limit, Action.BLOCK, insistable=True)


def after(history: History, record: Record, rule: Rule) -> Trip | None:
    """Nudge at the fifth equal answer in a row; at the tenth if it is short, and then only for tools that read.

    Answers to other calls of the same model message do not count: the model had not read them when it wrote this call.
    """
    stats = history.tools.get(record.resolved.tool.digest)
    if stats is None or record.error or record.sameness is not _FIRST or not rule.nudge or stats.answers < rule.nudge:
        return None
    due = 2 * rule.nudge if stats.brief else rule.nudge
    if stats.answers < due or (stats.brief and record.kind is not _READ):
        return None
    count = stats.answers if record.written is None else stats.known(stats.answers, record.written) + 1
    return trip(record, ROW.mode, count, due, Action.NUDGE) if count >= due else None


def may_trip_from(rule: Rule) -> Bound:
    """Bound this detector by the equal answers of one tool."""
    return {Counter.ANSWERED_ALIKE: lowest(rule.nudge, rule.block)}


ROW = Detector(
    "same_answer",
    rule=Rule(nudge=5, block=10),
    before=before,
    after=after,
    once_per="tool",
    may_trip_from=may_trip_from,
    refusal="{tool} has returned the same for {before} different calls, apart from ids and the call's own arguments.",
    nudge="{tool} has now returned the same for {count} different calls, apart from ids and the call's own arguments.",
    half_opens=True,
    about=About(
        title="the same answer, other arguments",
        agent="gets the same answer from a tool whatever the arguments are",
        told="5th; 10th if it is short",
        refused="10th, unless it insists; never if it is short",
        precisely=(
            "one tool gives one answer to different arguments",
            "5th; the 10th if it is short",
            "10th; never if it is short or the tool runs commands",
        ),
        cause='the tool ignores its arguments, or its answer for "not found" does not say so',
    ),
)
