"""The guard itself with the reference's interface: begin and end."""

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
    """Convert a contract of the reference to one of the guard."""
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
        """Return the refusal, if there is one."""
        decision = self.turn.begin(call)
        return None if decision.runs else told(decision, decision.action)

    def end(self, call: ToolCall, outcome: Outcome) -> Told | None:
        """Return the nudge, if there is one."""
        decision = self.turn.end(call, outcome)
        return told(decision, decision.action) if decision.action == Action.NUDGE else None


class ObservedTurn:
    """A turn in which everything runs; it reports the verdicts of the rules."""

    def __init__(self, clock: Callable[[], float], contracts: Mapping[str, Contract] | None = None) -> None:
        self.turn = Guard(policy(contracts or {}, action=Action.OBSERVE), clock=clock).turn()

    def begin(self, call: ToolCall) -> Told | None:
        """Return the verdict that would refuse the call."""
        return wanted(self.turn.begin(call))

    def end(self, call: ToolCall, outcome: Outcome) -> Told | None:
        """Return the verdict that would nudge."""
        return wanted(self.turn.end(call, outcome))


def told(decision: Decision, action: Action | None) -> Told:
    """Convert a decision to the form of the reference."""
    assert decision.trip is not None
    return str(decision.trip.mode), str(action), decision.trip.count


def wanted(decision: Decision) -> Told | None:
    """Return the verdict of the rules, without regard to the action that was taken."""
    return None if decision.trip is None else told(decision, decision.trip.verdict)
