"""``generic_repeat``: the same call returned the same result, and nothing changed in between."""

from __future__ import annotations

from typing import TYPE_CHECKING

from otel_loopguard.engine.detectors.row import About, Detector, Sentences, at_a_repeat
from otel_loopguard.engine.detectors.trips import is_proven, nudge_limit, refusal, trip
from otel_loopguard.engine.history.call_stats import BRIEF, SUCCESS
from otel_loopguard.engine.history.evidence import Reason
from otel_loopguard.engine.rule import Rule
from otel_loopguard.engine.settings import Setting
from otel_loopguard.engine.vocabulary import Action, Kind, Record, Sameness, Trip

if TYPE_CHECKING:
    from otel_loopguard.engine.history.history import History

_SAME = Sameness.SAME
_STEADY = frozenset({_SAME, Sameness.ALIKE})
_BRIEF_SUCCESS = BRIEF | SUCCESS


def before(history: History, record: Record, rule: Rule) -> Trip | None:
    """Refuse the call if one more equal result would complete its evidence; end the run at the ``abort`` limit."""
    stats, limit = record.stats, record.limit
    if stats is None or limit.mode != ROW.mode or not record.kind.is_evidence or not is_proven(record):
        return None
    if rule.abort and stats.equal + stats.refused + 1 >= rule.abort:
        return trip(record, ROW.mode, stats.equal + stats.refused + 1, rule.abort, Action.ABORT)
    count = stats.equal + 1  # earlier runs may have weighed more than those of this limit
    reason = "acted" if _acts(record) else "changed" if limit.learned else ""
    limit_shown, may_be_right = min(limit.block, count), limit.learned or limit.reason is Reason.ACTED
    return refusal(history, record, ROW.mode, count, limit_shown, insistable=may_be_right, reason=reason)


def after(_history: History, record: Record, rule: Rule) -> Trip | None:
    """Nudge at half of the limit; if something changed in between, at the 6th, 12th and 24th run."""
    stats, limit = record.stats, record.limit
    if stats is None or limit is None or not record.kind.is_evidence or record.concurrent:
        return None
    if limit.never or limit.learned:
        return _nudge_after_changes(record, rule)
    if record.sameness is not _SAME or limit.mode != ROW.mode:
        return None
    due = nudge_limit(rule.nudge, limit.block)
    if not due or stats.equal < due or not record.haste:  # who waited so long has a reason to ask
        return None
    reason = "acted" if _acts(record) else ""
    return trip(record, ROW.mode, stats.equal, due, Action.NUDGE, reason=reason, alone=record.alone)


def _acts(record: Record) -> bool:
    """Return True if the results say that the call did something. A short one of an unknown tool may be a look's."""
    reason = record.limit.reason
    return reason is Reason.ACTED or (reason is Reason.ACKNOWLEDGED and record.kind is Kind.WRITE)


def _nudge_after_changes(record: Record, rule: Rule) -> Trip | None:
    stats = record.stats
    brief = stats.flags & _BRIEF_SUCCESS == _BRIEF_SUCCESS
    due = (rule.nudge_after_changes or 0) * (2 if brief else 1)
    if not due or stats.steady < due or record.sameness not in _STEADY:
        return None
    reason = "changed" if stats.equal == stats.steady else "changed_alike"
    return trip(record, ROW.mode, stats.steady, due, Action.NUDGE, reason=reason)


ROW = Detector(
    "generic_repeat",
    rule=Rule(
        nudge=2,
        block=3,
        block_after_reads=5,
        block_if_transient=6,
        block_if_acted=4,
        block_if_acknowledged=9,
        fresh_after_news=20,
        nudge_after_changes=6,
    ),
    settings={
        "block_after_reads": Setting.count("The run that is refused if news from reading came in between."),
        "block_if_transient": Setting.count("The run that is refused after a transient error."),
        "block_if_acted": Setting.count(
            "The run of a write that is refused if it succeeds with the same result each time."
        ),
        "block_if_acknowledged": Setting.count(
            "The run that is refused if the tool moves a cursor or its kind is unknown, and the result is an "
            "acknowledgement of up to 80 bytes. Also of a lap with one acknowledgement for all its calls, of one call "
            "whose results go round, and of a call whose result changed by itself before."
        ),
        "fresh_after_news": Setting.count(
            "The number of news since the last run from which a repeat is never refused."
        ),
        "nudge_after_changes": Setting.count(
            "The run that is nudged (again at 2x, 4x), whatever came in between; twice that for short results."
        ),
        "abort": Setting.count("The call that ends the agent's run, if the policy's action is abort."),
    },
    before=before,
    after=after,
    untried=False,
    judges_news=False,
    may_trip_from=at_a_repeat,
    refusal="{tool} was called with these arguments {before} times and returned the same each time.",
    nudge="This returned the same as before, {count} times now.",
    reasons={
        "alone": Sentences(
            nudge="This returned the same as before (call {count}); nothing else was called in between."
        ),
        "acted": Sentences(
            "This was done {before} times already, acknowledged in the same words each time: "
            "see what it did before it is done again.",
            "This has now been done {count} times, acknowledged in the same words each time: "
            "see what it did before it is done again.",
            advice="none",
        ),
        "changed": Sentences(
            "{tool} was called with these arguments {before} times and returned the same each time, whatever was done "
            "in between.",
            "This has now returned the same {count} times, whatever was done in between.",
        ),
        "changed_alike": Sentences(
            nudge="This has now returned the same but for numbers {count} times, whatever was done in between."
        ),
    },
    about=About(
        title="same call, same result",
        agent="makes the same call and gets the same result, and nothing changed in between that ever changed it",
        told="2nd",
        refused="3rd; 4th or 9th where a result proves little, 13th or 20th between changes "
        "([why](#one-call-repeated))",
        cause="the tool returns something that the model cannot use (empty, truncated, an error in prose)",
    ),
)
