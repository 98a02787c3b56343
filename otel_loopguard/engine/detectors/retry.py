"""``retry_limit``: a tool's declared cap for the turn. No default cap: caps cannot tell work from loops."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from otel_loopguard.engine.detectors.base import Detector, trip
from otel_loopguard.engine.words import Action, Mode, Record, Trip

if TYPE_CHECKING:
    from otel_loopguard.engine.history.state import History
    from otel_loopguard.engine.policy.policy import Policy, Rule
    from otel_loopguard.engine.tools.contracts import Tool


def before(history: History, record: Record, _rule: Rule) -> Trip | None:
    """Refuse the first call beyond the cap."""
    cap = record.resolved.tool.contract.cap
    count = history.started_by_tool.get(record.resolved.tool.digest, 0) + 1
    return trip(record, Mode.RETRY_LIMIT, count, cap, Action.BLOCK) if count > cap else None


def after(history: History, record: Record, rule: Rule) -> Trip | None:
    """Nudge at three quarters of the cap."""
    cap = record.resolved.tool.contract.cap
    if not rule.nudge_at_share:
        return None
    count, warning = history.started_by_tool.get(record.resolved.tool.digest, 0), math.ceil(cap * rule.nudge_at_share)
    return trip(record, Mode.RETRY_LIMIT, count, cap, Action.NUDGE) if warning <= count <= cap else None


def _concerns(tool: Tool, _policy: Policy) -> bool:
    return tool.contract.cap is not None


DETECTOR = Detector(Mode.RETRY_LIMIT, before, after, untried=True, judges_news=True, concerns=_concerns)
