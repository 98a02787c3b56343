"""``generic_repeat`` and ``poll_no_progress``: the same call returned the same result, and nothing changed in between.

One rule, the evidence rule, with two names. The second one is for calls that wait for something: those get the highest
limit, and another sentence.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from otel_loopguard.engine.detectors.base import Detector, nudge_limit, refusal, trip
from otel_loopguard.engine.history.call_stats import BRIEF, SUCCESS
from otel_loopguard.engine.history.clock import slow_haste
from otel_loopguard.engine.history.evidence import Reason
from otel_loopguard.engine.words import Action, Mode, Record, Sameness, Trip

if TYPE_CHECKING:
    from otel_loopguard.engine.history.state import History
    from otel_loopguard.engine.policy.policy import Rule

_ENOUGH = 1 - 1e-9
_SAME, _POLL = Sameness.SAME, Mode.POLL_NO_PROGRESS
_BRIEF_SUCCESS = BRIEF | SUCCESS
_ACTS = frozenset({Reason.ACTED, Reason.ACKNOWLEDGED})


def before(history: History, record: Record, rule: Rule) -> Trip | None:
    """Refuse the call whose next *same* would complete the evidence; abort the run at the ``abort`` limit."""
    stats, limit = record.stats, record.limit
    if stats is None or limit.mode is _POLL or not record.kind.is_evidence:
        return None
    if not limit.weight or stats.evidence + record.haste * limit.weight < _ENOUGH:
        return None
    if rule.abort and stats.equal + stats.refused + 1 >= rule.abort:
        return trip(record, Mode.GENERIC_REPEAT, stats.equal + stats.refused + 1, rule.abort, Action.ABORT)
    count = stats.equal + 1  # earlier runs may have weighed more than those of this limit
    reason = "acted" if limit.reason in _ACTS else ""
    return refusal(history, record, Mode.GENERIC_REPEAT, count, min(limit.block, count), reason=reason)


def after(_history: History, record: Record, rule: Rule) -> Trip | None:
    """Nudge at half of the limit; if something changed in between, at the 6th, 12th and 24th run."""
    stats, limit = record.stats, record.limit
    if stats is None or limit is None or not record.kind.is_evidence or record.concurrent:
        return None
    if limit.never:
        return _nudge_after_changes(record, rule)
    if record.sameness is not _SAME or limit.mode is _POLL:
        return None
    due = nudge_limit(rule.nudge, limit.block)
    if not due or stats.equal < due:
        return None
    reason = "acted" if limit.reason in _ACTS else ""
    return trip(record, Mode.GENERIC_REPEAT, stats.equal, due, Action.NUDGE, reason=reason, alone=record.alone)


def _nudge_after_changes(record: Record, rule: Rule) -> Trip | None:
    stats = record.stats
    brief = stats.flags & _BRIEF_SUCCESS == _BRIEF_SUCCESS
    due = (rule.nudge_after_changes or 0) * (2 if brief else 1)
    if not due or stats.steady < due or record.sameness not in _STEADY:
        return None
    reason = "changed" if stats.equal == stats.steady else "changed_alike"
    return trip(record, Mode.GENERIC_REPEAT, stats.steady, due, Action.NUDGE, reason=reason)


_STEADY = frozenset({_SAME, Sameness.ALIKE})


def before_poll(history: History, record: Record, rule: Rule) -> Trip | None:
    """Refuse a poll like any other call, but at its own limit; and in any case once its ``patience`` is over."""
    stats, limit = record.stats, record.limit
    if stats is None or limit.mode is not _POLL or not record.kind.is_evidence:
        return None
    if rule.patience and not limit.never and record.idle - stats.same_since > rule.patience:
        return trip(record, Mode.POLL_NO_PROGRESS, stats.equal + 1, limit.block, Action.BLOCK, reason="patience")
    if not limit.weight or stats.evidence + record.haste * limit.weight < _ENOUGH:
        return None
    count = stats.equal + 1
    return refusal(history, record, Mode.POLL_NO_PROGRESS, count, min(limit.block, count))


def after_poll(_history: History, record: Record, rule: Rule) -> Trip | None:
    """Nudge at half of the limit, unless the poll takes its time."""
    stats, limit = record.stats, record.limit
    if record.sameness is not _SAME or limit is None or limit.mode is not _POLL or not record.kind.is_evidence:
        return None
    due = nudge_limit(rule.nudge, limit.block)
    if not due or stats.equal < due or limit.never or record.concurrent or record.haste < slow_haste(record):
        return None
    return trip(record, Mode.POLL_NO_PROGRESS, stats.equal, due, Action.NUDGE)


POLL = Detector(Mode.POLL_NO_PROGRESS, before_poll, after_poll)
REPEAT = Detector(Mode.GENERIC_REPEAT, before, after)
