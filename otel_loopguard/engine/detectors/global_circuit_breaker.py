"""``global_circuit_breaker``: the turn as a whole makes no progress, or has used up its budget of calls."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from otel_loopguard.engine.detectors.retry_limit import SHARE
from otel_loopguard.engine.detectors.row import About, Bound, Counter, Detector, Sentences, lowest
from otel_loopguard.engine.detectors.trips import refusal, trip, unchanged
from otel_loopguard.engine.rule import Rule
from otel_loopguard.engine.settings import Setting
from otel_loopguard.engine.vocabulary import Action, Record, Trip

if TYPE_CHECKING:
    from collections.abc import Mapping

    from otel_loopguard.engine.history.history import History


def before(history: History, record: Record, rule: Rule) -> Trip | None:
    """Refuse at the 8th error in a row or the 200th call without news, if nothing changed since this call last ran."""
    if record.stats is None or not record.kind.is_evidence or not unchanged(history, record):
        return None
    no_news = int(history.no_news_in_turn + 1)
    if rule.no_news_block and no_news >= rule.no_news_block:  # even if it waited: every run ends
        return trip(record, ROW.mode, no_news, rule.no_news_block, Action.BLOCK, reason="no_news")
    if rule.block and history.errors_in_row + 1 >= rule.block:
        return refusal(history, record, ROW.mode, history.errors_in_row + 1, rule.block)
    return None


def after(history: History, record: Record, rule: Rule) -> Trip | None:
    """Nudge at the 5th error in a row, and at the 100th call without news."""
    if not record.kind.is_evidence:
        return None
    if record.error and record.haste and rule.nudge and history.errors_in_row >= rule.nudge:
        return trip(record, ROW.mode, history.errors_in_row, rule.nudge, Action.NUDGE)
    if not record.news and rule.no_news_nudge and history.no_news_in_turn >= rule.no_news_nudge:
        count, limit = int(history.no_news_in_turn), rule.no_news_nudge
        return trip(record, ROW.mode, count, limit, Action.NUDGE, reason="no_news")
    return None


def may_trip_from(rule: Rule) -> Bound:
    """Bound this detector by the errors in a row, and by the calls without news."""
    return {
        Counter.VAIN: lowest(rule.nudge, rule.block),
        Counter.VAIN_IN_TURN: lowest(rule.no_news_nudge, rule.no_news_block),
    }


def declared(_contract: Any, policy: Any) -> Mapping[str, Any]:
    """Return the settings of this mode that the policy as a whole gives: its budget of calls."""
    return {"max_calls": policy.max_calls}


ROW = Detector(
    "global_circuit_breaker",
    rule=Rule(nudge=5, block=8, no_news_nudge=100, no_news_block=200),
    settings={
        "nudge_at_share": SHARE,
        "no_news_nudge": Setting.count("Calls without news in the turn, after which the model is nudged."),
        "no_news_block": Setting.count("Calls without news in the turn, after which repeats are refused."),
    },
    declared=declared,
    before=before,
    after=after,
    untried=False,
    judges_news=False,
    once_per="turn",
    may_trip_from=may_trip_from,
    refusal="The last {before} calls all failed, and this one has been made before.",
    nudge="The last {count} calls all failed.",
    reasons={
        "no_news": Sentences(
            "{before} calls of this turn brought nothing new, and this one has been made before.",
            "{count} calls of this turn brought nothing new.",
        ),
    },
    advice="different",
    about=About(
        title="errors, or nothing new, over all tools",
        agent="fails, or gets nothing new, over the whole turn",
        told="5th; 100th",
        refused="8th; 200th",
        precisely=("errors in a row; calls without news in the turn", "5th; 100th", "8th; 200th"),
        cause="see [breaker open](breaker-open.md)",
    ),
)


# --- the budget of the turn --------------------------------------------------------------------------------------


def before_most_calls(history: History, record: Record, _rule: Rule) -> Trip | None:
    """Refuse the first call beyond the turn's budget."""
    if history.calls < history.most_calls:
        return None
    count, limit = history.calls + 1, history.most_calls
    return trip(record, ROW.mode, count, limit, Action.BLOCK, reason="max_calls")


def has_budget(_tool: Any, policy: Any) -> bool:
    """Return True if the policy limits the calls of a turn."""
    return bool(policy.max_calls)


BUDGET = Detector(
    ROW.mode,
    before=before_most_calls,
    concerns=has_budget,
    may_trip_from=lambda rule: {Counter.CALLS: rule.max_calls + 1},
    reasons={
        "max_calls": Sentences(
            "A turn may make {limit} tool calls, and this one has made them.",
            "A turn may make {limit} tool calls; this is call {count}.",
            advice="stop",
        ),
    },
)
