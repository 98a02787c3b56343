"""The guard itself behind the same two doors as the reference."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from otel_loopguard.core.guard import Guard
from otel_loopguard.core.model import Action
from otel_loopguard.core.policy.policy import Policy, ToolContract

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from otel_loopguard.core.model import Decision, Outcome, ToolCall
    from tests.core.judges.reference import Contract

Told = tuple[str, str, int]


def contract(said: Contract) -> ToolContract:
    """The same contract in the guard's own words."""
    return ToolContract(
        kind=said.kind,
        query=said.query,
        volatile=tuple(said.volatile),
        cap=said.cap,
        once=True if said.once else None,
        interval=said.interval,
        patience=said.patience,
    )


def policy(contracts: Mapping[str, Contract], **settings: Any) -> Policy:
    """A policy with these contracts."""
    return Policy(tools={name: contract(said) for name, said in contracts.items()}, **settings)


class EnforcedTurn:
    """A turn that refuses."""

    def __init__(self, contracts: Mapping[str, Contract], clock: Callable[[], float], **settings: Any) -> None:
        self.turn = Guard(policy(contracts, **settings), clock=clock).turn()

    def begin(self, call: ToolCall) -> Told | None:
        """The refusal, if there is one."""
        decision = self.turn.begin(call)
        return None if decision.runs else told(decision, decision.action)

    def end(self, call: ToolCall, outcome: Outcome) -> Told | None:
        """The nudge, if there is one."""
        decision = self.turn.end(call, outcome)
        return told(decision, decision.action) if decision.action == Action.NUDGE else None


class ObservedTurn:
    """A turn in which everything runs, and which tells what the rules wanted."""

    def __init__(self, clock: Callable[[], float], contracts: Mapping[str, Contract] | None = None) -> None:
        self.turn = Guard(policy(contracts or {}, action=Action.OBSERVE), clock=clock).turn()

    def begin(self, call: ToolCall) -> Told | None:
        """What would be refused."""
        return wanted(self.turn.begin(call))

    def end(self, call: ToolCall, outcome: Outcome) -> Told | None:
        """What would be nudged."""
        return wanted(self.turn.end(call, outcome))


def told(decision: Decision, action: Action | None) -> Told:
    """A decision as the reference puts it."""
    assert decision.trip is not None
    return str(decision.trip.mode), str(action), decision.trip.count


def wanted(decision: Decision) -> Told | None:
    """What the rules wanted, whatever was done."""
    return None if decision.trip is None else told(decision, decision.trip.verdict)
