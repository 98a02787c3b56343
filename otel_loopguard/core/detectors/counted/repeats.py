"""``generic_repeat``, counted: the same tool with the same arguments, whatever it returns."""

from __future__ import annotations

from typing import TYPE_CHECKING

from otel_loopguard.core.detectors.base import EXEMPT, POLLING, Detector, counted, declared_exempt, trip
from otel_loopguard.core.model import Action, Mode, Record, Trip

if TYPE_CHECKING:
    from otel_loopguard.core.history.update import History
    from otel_loopguard.core.policy.policy import Rule


def before(history: History, record: Record, rule: Rule) -> Trip | None:
    """The call that would be one too many in the window; ``abort`` ends the run instead of refusing it."""
    if _not_judged(history, record):
        return None
    tally = counted(history, record)
    count = tally.equal(record.key) + 1
    if rule.abort and count >= rule.abort:
        return trip(record, Mode.GENERIC_REPEAT, count, rule.abort, Action.ABORT)
    if rule.block and count >= rule.block:
        return trip(record, Mode.GENERIC_REPEAT, count, rule.block, Action.BLOCK)
    return None


def after(history: History, record: Record, rule: Rule) -> Trip | None:
    """The call whose result comes with a sentence."""
    if not rule.nudge or _not_judged(history, record):
        return None
    count = counted(history, record).equal(record.key)
    return trip(record, Mode.GENERIC_REPEAT, count, rule.nudge, Action.NUDGE) if count >= rule.nudge else None


def _not_judged(history: History, record: Record) -> bool:
    """Polls have a mode of their own, if the policy asks it."""
    return declared_exempt(record, EXEMPT) or (record.kind in POLLING and history.polls_apart)


DETECTOR = Detector(Mode.GENERIC_REPEAT, before, after, untried=True, judges_news=True)
