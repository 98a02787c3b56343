"""``same_answer``: one tool answers in the same way to different arguments."""

from __future__ import annotations

from typing import TYPE_CHECKING

from otel_loopguard.engine.detectors.row import About, Bound, Counter, Detector, Sentences, lowest
from otel_loopguard.engine.detectors.trips import judges_untried, trip
from otel_loopguard.engine.rule import Rule
from otel_loopguard.engine.settings import Setting
from otel_loopguard.engine.vocabulary import EMPTY_ANSWERS, Action, Kind, Record, Sameness, Trip

if TYPE_CHECKING:
    from otel_loopguard.engine.history.history import History

_MOST_WAIVED = 16
_FIRST, _READ, _SHELL = Sameness.FIRST, Kind.READ, Kind.SHELL


def before(history: History, record: Record, rule: Rule) -> Trip | None:
    """Refuse an untried call that would get its tool's tenth equal answer in a row; its 25th, if it says "nothing".

    Other short answers prove too little, and those of shell commands tell of an act: each crate compiles with one
    warning. The limit of empty answers doubles each time that the model insists: a long list may hold nothing.
    """
    stats = history.tools.get(record.resolved.tool.digest)
    if stats is None or not judges_untried(record):
        return None
    limit = (rule.block_if_empty or 0) << min(stats.waived, _MOST_WAIVED) if stats.empty else rule.block or 0
    if not limit or stats.answers < limit - 1:
        return None
    count = stats.known(stats.answers, record.written) + 1
    if count < limit or (not stats.empty and (stats.brief or record.kind is _SHELL)):
        return None
    return trip(
        record, ROW.mode, count, limit, Action.BLOCK, insistable=True, reason=EMPTY_ANSWERS if stats.empty else ""
    )


def after(history: History, record: Record, rule: Rule) -> Trip | None:
    """Nudge at the fifth equal answer in a row; the eighth if it says "nothing", the tenth if it is short otherwise.

    A short one that says something counts only for tools that read.

    Answers to other calls of the same model message do not count: the model had not read them when it wrote this call.
    """
    stats = history.tools.get(record.resolved.tool.digest)
    if stats is None or record.error or record.sameness is not _FIRST:
        return None
    due = (rule.nudge_if_empty if stats.empty else 2 * (rule.nudge or 0) if stats.brief else rule.nudge) or 0
    if not due or stats.answers < due or (stats.brief and not stats.empty and record.kind is not _READ):
        return None
    count = stats.answers if record.written is None else stats.known(stats.answers, record.written) + 1
    reason = EMPTY_ANSWERS if stats.empty else ""
    return trip(record, ROW.mode, count, due, Action.NUDGE, reason=reason) if count >= due else None


def may_trip_from(rule: Rule) -> Bound:
    """Bound this detector by the equal answers of one tool."""
    return {Counter.ANSWERED_ALIKE: lowest(rule.nudge, rule.block, rule.nudge_if_empty, rule.block_if_empty)}


ROW = Detector(
    "same_answer",
    rule=Rule(nudge=5, block=10, nudge_if_empty=8, block_if_empty=25),
    settings={
        "nudge_if_empty": Setting.count(
            "The answer at which the model is told, if all of them say that nothing was found."
        ),
        "block_if_empty": Setting.count(
            "The call that is refused, if all answers say that nothing was found; twice that each time that the model "
            "insists."
        ),
    },
    before=before,
    after=after,
    once_per="tool",
    may_trip_from=may_trip_from,
    refusal="{tool} has returned the same for {before} different calls, apart from ids and the call's own arguments.",
    nudge="{tool} has now returned the same for {count} different calls, apart from ids and the call's own arguments.",
    reasons={
        EMPTY_ANSWERS: Sentences(
            "{tool} has found nothing for {before} different calls.",
            "{tool} has now found nothing for {count} different calls.",
            advice="different",
        )
    },
    insisted_by_tool=True,
    about=About(
        title="the same answer, other arguments",
        agent="gets the same answer from a tool whatever the arguments are",
        told="5th; 8th if it is empty; 10th if it is short, of a tool that reads",
        refused="10th, or 25th if it is empty, unless it insists; never if it is short",
        precisely=(
            "one tool gives one answer to different arguments",
            "5th; the 8th if it says that nothing was found, the 10th if it is short otherwise and the tool reads",
            "10th; the 25th, 50th and 100th if it says that nothing was found; never if it is short otherwise, or the "
            "tool runs commands",
        ),
        cause='the tool ignores its arguments, or its answer for "not found" does not say so',
    ),
)
