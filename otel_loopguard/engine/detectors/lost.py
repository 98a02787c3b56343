"""A call is made again because its result was cleared from the model's context. That is no loop, until it goes on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from otel_loopguard.engine.detectors.base import trip
from otel_loopguard.engine.words import Action, Mode, Record, Trip

if TYPE_CHECKING:
    from otel_loopguard.engine.policy.policy import Rule

_TOLD = 3


def after(record: Record, rule: Rule) -> Trip | None:
    """Nudge a call whose result the model lost for the third time. All other modes ignore such a run."""
    if not rule.nudge or record.lost < _TOLD or not record.kind.is_evidence:
        return None
    return trip(record, Mode.GENERIC_REPEAT, record.lost, _TOLD, Action.NUDGE, reason="lost")
