"""Propose a budget: three times the most that a good run has spent. It is a comment: nobody has a budget by default."""

from __future__ import annotations

from math import ceil, floor, log10
from typing import TYPE_CHECKING, Final

from otel_loopguard.engine.detectors.run_budget import SCOPES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from otel_loopguard.engine.ledger import Ledger
    from otel_loopguard.engine.policy.policy import Policy

TIMES: Final = 3
_SCOPE = "tree"
"""The scope of a message of the user, with all agents that are started for it. It bounds each of these, too."""
_ACCOUNTS = [account for account in SCOPES[_SCOPE] if account not in {"input_tokens", "output_tokens"}]
"""``tokens`` is the sum of the two that are left out."""


class MostSpent:
    """The most that a turn has spent of each account, and the name of its run."""

    def __init__(self) -> None:
        self._most: dict[str, tuple[float, str]] = {}

    def add(self, ledger: Ledger, run: str) -> None:
        """Add what a turn with its nested turns has spent."""
        for account in _ACCOUNTS:
            found = getattr(ledger, account), run
            self._most[account] = max(self._most.get(account, found), found)  # whatever the order of the runs

    def proposal(self, policy: Policy) -> Iterator[str]:
        """Yield the lines of the proposal; none for a policy that has a budget. Without prices no cost is proposed."""
        known = {account: most for account, most in self._most.items() if most[0]}
        if not policy.cost_per_million_tokens:
            known.pop("cost", None)
        if policy.budget or not known:
            return
        yield f"A budget: {TIMES} times the most that a good run spent on one message of the user. It is not set: to"
        yield "set it, remove the # of the next lines. What the recordings do not tell has no line."
        yield ""
        yield f"[budget.{_SCOPE}]"
        for account, (most, run) in known.items():
            yield f"{account} = {_limit(account, most):.12g}  # {run} has {_shown(most)}"


def _limit(account: str, most: float) -> float:
    """Return the limit: a whole number, but of a cost, which has three digits."""
    limit = TIMES * most
    if account != "cost":
        return ceil(limit)
    step = 10.0 ** (floor(log10(limit)) - 2)
    return ceil(limit / step) * step


def _shown(most: float) -> str:
    return f"{most:,}" if isinstance(most, int) else f"{most:,.3g}"
