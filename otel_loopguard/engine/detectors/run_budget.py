"""``run_budget``: a turn, all agents that were started for it, or a conversation has spent what the policy allows.

Each account of ``[budget]`` is one row. It is no loop: it is counted apart, and news lifts nothing. The model is told
at three quarters, has to answer at the whole, and the run is ended if it goes on. An agent that would be one too many,
or too deep, is refused, and the run goes on.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from otel_loopguard.engine.detectors.row import Detector, Sentences
from otel_loopguard.engine.detectors.trips import trip
from otel_loopguard.engine.history.history import NEVER
from otel_loopguard.engine.history.update import is_new_refusal
from otel_loopguard.engine.settings import ACTION, Setting
from otel_loopguard.engine.vocabulary import RUN_BUDGET, Action, Record, Trip

if TYPE_CHECKING:
    from collections.abc import Mapping

    from otel_loopguard.engine.history.history import History
    from otel_loopguard.engine.ledger import Ledger
    from otel_loopguard.engine.rule import Rule

TOLD_AT: Final = 0.75
"""The share of a budget at which the model is told."""
MILLION: Final = 1_000_000
"""A trip counts whole numbers, so cost is counted in millionths."""

_DEPTH = Setting.count("Levels of agents below the turn. A call that would start one on a deeper level is refused.")
ACCOUNTS: Mapping[str, Setting] = {
    "requests": Setting.count("Requests to models, failed ones included."),
    "calls": Setting.count("Tool calls that ran."),
    "tokens": Setting.count("Tokens of input and output."),
    "input_tokens": Setting.count("Tokens of the input, also those from the provider's cache."),
    "output_tokens": Setting.count("Tokens of the replies."),
    "cost": Setting.number("Cost of the requests, by the policy's prices."),
    "seconds": Setting.seconds("Seconds since the first request or call."),
    "children": Setting.count(
        "Agents that were started inside of a call. A call that would start one more is refused."
    ),
}
SCOPES: Mapping[str, Mapping[str, Setting]] = {
    "turn": ACCOUNTS,
    "tree": {**ACCOUNTS, "depth": _DEPTH},
    "conversation": ACCOUNTS,
}
"""The accounts of a turn alone; of the outermost turn with all that are nested in it; and of these with the other turns
of the conversation."""
SETTINGS: Mapping[str, Setting] = {"action": ACTION}
"""The settings of all budgets."""
_OF_AGENTS = ("children", "depth")
_UNITS = {
    "requests": "model requests",
    "calls": "tool calls",
    "input_tokens": "input tokens",
    "output_tokens": "output tokens",
}


class PlaceInTree(NamedTuple):
    """The place of a call or a request in the tree of its turn."""

    ledger: Ledger | None = None
    """That of the whole tree; None if it is the turn's own."""
    began_at: float | None = None
    """The time of the tree's first step; None as above."""
    level: int = 0
    """The number of turns around this one."""
    starting: int = 0
    """Agents whose calls run, and that have not begun yet."""
    starts: bool = False
    """True if the call is of a tool that starts agents."""
    earlier: Ledger | None = None
    """That of the conversation's other turns; None if no conversation is remembered."""


OUTERMOST = PlaceInTree()


class RunBudget(NamedTuple):
    """The limit of one account."""

    scope: str
    account: str
    limit: float

    @property
    def reason(self) -> str:
        """The reason of its trips, such as ``tree.cost``."""
        return f"{self.scope}.{self.account}"

    @property
    def is_of_agents(self) -> bool:
        """True if it only refuses calls that would start one more agent."""
        return self.account in _OF_AGENTS

    def spent(self, history: History, place: PlaceInTree | None, now: float | None) -> float:
        """Return what was spent before a call or a request."""
        place = place or OUTERMOST
        is_turn = self.scope == "turn"
        ledger = history.own_ledger if is_turn else (place.ledger or history.ledger)
        earlier = getattr(place.earlier, self.account, 0) if self.scope == "conversation" else 0
        if self.account == "seconds":
            began = history.began_at if place.began_at is None or is_turn else place.began_at
            return earlier + (0.0 if now is None or began == NEVER else max(0.0, now - began))
        if self.account == "depth":
            return place.level
        if self.account == "children":
            return earlier + ledger.children + place.starting
        return earlier + float(getattr(ledger, self.account))

    def counted(self, number: float) -> int:
        """Return a number of this account as trips count it."""
        return math.ceil(number * MILLION if self.account == "cost" else number)


def budgets_of(policy: Any) -> tuple[RunBudget, ...]:
    """Return the budgets of a policy, the widest scope first."""
    return tuple(
        RunBudget(scope, account, limit)
        for scope in reversed([*SCOPES])
        for account, limit in policy.budget.get(scope, {}).items()
    )


def next_action(history: History, policy: Any) -> Action:
    """Return the action beyond a budget: have the model answer, once; if it goes on, end the run."""
    if policy.conclude_after and history.concluded_at < 0:
        return Action.BLOCK if history.conclusion_due else Action.CONCLUDE
    return Action.ABORT if policy.abort_after else Action.BLOCK


def rows_of(policy: Any) -> tuple[Detector, ...]:
    """Return the rows of a policy's budgets."""
    return tuple(_row(budget, policy) for budget in budgets_of(policy))


def _row(budget: RunBudget, policy: Any) -> Detector:
    limit = budget.counted(budget.limit)

    def before(history: History, record: Record, _rule: Rule) -> Trip | None:
        place: PlaceInTree | None = record.place
        if budget.is_of_agents and (place is None or not place.starts):
            return None
        spent = budget.spent(history, place, record.at)
        if spent < budget.limit:
            return None
        action = Action.BLOCK
        if not budget.is_of_agents and is_new_refusal(history, record):
            action = next_action(history, policy)
        return trip(record, RUN_BUDGET, budget.counted(spent), limit, action, reason=budget.reason)

    def after(history: History, record: Record, _rule: Rule) -> Trip | None:
        spent = budget.spent(history, record.place, record.at)
        if budget.is_of_agents or spent < TOLD_AT * budget.limit:
            return None
        return trip(record, RUN_BUDGET, budget.counted(spent), limit, Action.NUDGE, reason=budget.reason)

    return Detector(
        RUN_BUDGET,
        before=before,
        after=after,
        once_per="turn",
        declared=_declared,
        reasons={budget.reason: _sentences(budget, policy.currency)},
        title="a budget of the run",
    )


def _declared(_contract: Any, policy: Any) -> Mapping[str, Any]:
    """Return the settings of the mode: the strongest action of all budgets, if that is set."""
    action = policy.budget.get("action")
    return {} if action is None else {"action": action}


def _sentences(budget: RunBudget, currency: str | None) -> Sentences:
    task = "this conversation" if budget.scope == "conversation" else "this task"
    whose = task.capitalize() + (" and its agents" if budget.scope == "tree" else "")
    unit = (currency or "of cost") if budget.account == "cost" else _UNITS.get(budget.account, budget.account)
    if budget.account == "children":
        return Sentences(
            f"{{count}} agents were started for {task}, and no more may be: use what they brought.", advice="none"
        )
    if budget.account == "depth":
        return Sentences("Agents may be nested {limit} levels deep: do the task yourself.", advice="none")
    return Sentences(
        f"{whose} may use {{limit}} {unit}, and {{count}} are used.",
        f"{whose} may use {{limit}} {unit}, and {{count}} are used: come to an end, and say what is missing.",
        advice="stop",
    )
