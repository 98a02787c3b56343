"""``poll_no_progress``: a call that waits for something has had the same result for too long.

It is judged by the same evidence as ``generic_repeat``, with the highest limit and another sentence.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from otel_loopguard.engine.detectors.row import About, Detector, Sentences, at_a_repeat
from otel_loopguard.engine.detectors.trips import is_proven, nudge_limit, refusal, trip
from otel_loopguard.engine.history.clock import slow_haste
from otel_loopguard.engine.rule import Rule
from otel_loopguard.engine.settings import Setting
from otel_loopguard.engine.vocabulary import Action, Record, Sameness, Trip

if TYPE_CHECKING:
    from collections.abc import Mapping

    from otel_loopguard.engine.history.history import History

_SAME = Sameness.SAME


def before(history: History, record: Record, rule: Rule) -> Trip | None:
    """Refuse a poll if one more equal result would complete its evidence, or after ``patience`` seconds."""
    stats, limit = record.stats, record.limit
    if stats is None or limit.mode != ROW.mode or not record.kind.is_evidence:
        return None
    if rule.patience and not limit.never and record.wall - stats.same_since > rule.patience:
        count, learned = stats.equal + 1, limit.learned
        return trip(record, ROW.mode, count, limit.block, Action.BLOCK, insistable=learned, reason="patience")
    if not is_proven(record):
        return None
    count = stats.equal + 1
    return refusal(history, record, ROW.mode, count, min(limit.block, count), insistable=limit.learned)


def after(_history: History, record: Record, rule: Rule) -> Trip | None:
    """Nudge at half of the limit, unless the poll waits long between its runs."""
    stats, limit = record.stats, record.limit
    if record.sameness is not _SAME or limit is None or limit.mode != ROW.mode or not record.kind.is_evidence:
        return None
    due = nudge_limit(rule.nudge, limit.block)
    if not due or stats.equal < due or limit.never or record.concurrent or record.haste < slow_haste(record):
        return None
    return trip(record, ROW.mode, stats.equal, due, Action.NUDGE)


def declared(contract: Any, _policy: Any) -> Mapping[str, Any]:
    """Return the settings of this mode that a tool's contract gives: interval and patience."""
    return {"min_interval": contract.interval, "patience": contract.patience}


ROW = Detector(
    "poll_no_progress",
    rule=Rule(nudge=10, block=20, min_interval=10.0, min_interval_share=0.03, block_if_slow=8, patience=0.0),
    settings={
        "min_interval": Setting.seconds(
            "The seconds between two runs from which time counts, for calls of every kind; shorter pauses are not "
            "added up."
        ),
        "min_interval_share": Setting.share(
            "The same interval as a share of the time for which the result has been the same."
        ),
        "block_if_slow": Setting.count(
            "The run that reaches the limit if a call that is refused at the third waits each time."
        ),
        "patience": Setting.seconds(
            "Seconds with equal results after which a poll is refused, however long it waits; 0 = never."
        ),
    },
    declared=declared,
    before=before,
    after=after,
    untried=False,
    judges_news=False,
    may_trip_from=at_a_repeat,
    refusal="{tool} was asked {before} times and still reports nothing new.",
    nudge="This is check {count} without anything new: wait longer between checks, or say so.",
    reasons={"patience": Sentences("{tool} has been polled for too long and still reports nothing new.")},
    advice="wait",
    about=About(
        title="polls without progress",
        agent="polls something that makes no progress",
        told="10th",
        refused="20th",
        cause="the job that is polled hangs",
    ),
)
