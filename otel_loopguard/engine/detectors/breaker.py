"""``global_circuit_breaker``: the turn as a whole makes no progress."""

from __future__ import annotations

from typing import TYPE_CHECKING

from otel_loopguard.engine.detectors.base import Detector, refusal, trip, unchanged
from otel_loopguard.engine.words import Action, Mode, Record, Trip

if TYPE_CHECKING:
    from otel_loopguard.engine.history.state import History
    from otel_loopguard.engine.policy.policy import Policy, Rule
    from otel_loopguard.engine.tools.contracts import Tool


def before(history: History, record: Record, rule: Rule) -> Trip | None:
    """Refuse at the 8th error in a row or the 200th call without news, if nothing changed since this call last ran."""
    if record.stats is None or not record.kind.is_evidence or not unchanged(history, record):
        return None
    no_news = int(history.no_news_in_turn + 1)
    if rule.no_news_block and no_news >= rule.no_news_block:  # even if it waited: every run ends
        return trip(record, Mode.GLOBAL_CIRCUIT_BREAKER, no_news, rule.no_news_block, Action.BLOCK, reason="no_news")
    if rule.block and history.errors_in_row + 1 >= rule.block:
        return refusal(history, record, Mode.GLOBAL_CIRCUIT_BREAKER, history.errors_in_row + 1, rule.block)
    return None


def after(history: History, record: Record, rule: Rule) -> Trip | None:
    """Nudge at the 5th error in a row, and at the 100th call without news."""
    if not record.kind.is_evidence:
        return None
    if record.error and rule.nudge and history.errors_in_row >= rule.nudge:
        return trip(record, Mode.GLOBAL_CIRCUIT_BREAKER, history.errors_in_row, rule.nudge, Action.NUDGE)
    if not record.news and rule.no_news_nudge and history.no_news_in_turn >= rule.no_news_nudge:
        count, limit = int(history.no_news_in_turn), rule.no_news_nudge
        return trip(record, Mode.GLOBAL_CIRCUIT_BREAKER, count, limit, Action.NUDGE, reason="no_news")
    return None


def before_most_calls(history: History, record: Record, _rule: Rule) -> Trip | None:
    """Refuse the first call beyond the turn's budget."""
    if history.calls < history.most_calls:
        return None
    count, limit = history.calls + 1, history.most_calls
    return trip(record, Mode.GLOBAL_CIRCUIT_BREAKER, count, limit, Action.BLOCK, reason="max_calls")


def _has_budget(_tool: Tool, policy: Policy) -> bool:
    return policy.max_calls > 0


BUDGET = Detector(Mode.GLOBAL_CIRCUIT_BREAKER, before_most_calls, None, untried=True, concerns=_has_budget)
TURN = Detector(Mode.GLOBAL_CIRCUIT_BREAKER, before, after)
