"""The guard itself with the reference's interface: begin and end."""

from __future__ import annotations

from copy import copy
from typing import TYPE_CHECKING, Any

from otel_loopguard.engine.policy.policy import Policy, ToolContract
from otel_loopguard.engine.vocabulary import Action
from otel_loopguard.guard.guard import Guard
from tests.engine.judges.worlds import Door

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from otel_loopguard.engine.vocabulary import Decision, Outcome, ToolCall
    from tests.engine.judges.worlds import World
    from tests.engine.reference.judge import Contract

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
        self.wait = 0.0
        self.begun: dict[Any, Told] = {}
        """The nudges that were due when a call began, by its id."""

    def begin(self, call: ToolCall) -> Told | None:
        """Return the refusal, if there is one; ``wait`` is then the number of seconds after which the call runs."""
        decision = self.turn.begin(call)
        self.wait = decision.trip.wait if decision.trip else 0.0
        if not decision.runs:
            return told(decision, decision.action)
        if decision.trip is not None:
            self.begun[call.call_id] = told(decision, decision.action)
        return None

    def child(self, call: ToolCall) -> EnforcedTurn:
        """Return the turn of an agent that this call has started."""
        inner = copy(self)
        inner.turn = self.turn.child(call)
        return inner

    def thought(self, seconds: float) -> None:
        """Tell that the model has thought for these seconds until now."""
        self.turn.thought(seconds)

    def end(self, call: ToolCall, outcome: Outcome) -> Told | None:
        """Return the nudge, if there is one."""
        decision = self.turn.end(call, outcome)
        if decision.action != Action.NUDGE:
            return None
        return self.begun.pop(call.call_id, None) or told(decision, decision.action)


class Doors:
    """A turn in a world: the kinds of all its tools are declared."""

    def __init__(self, here: World, clock: Callable[[], float]) -> None:
        declared = Policy(tools={tool: ToolContract(kind=kind) for tool, kind in here.kinds.items()})
        self.turn = Guard(declared, clock=clock).turn()

    def begin(self, call: ToolCall) -> Door:
        """Decide about a call."""
        decision = self.turn.begin(call)
        if decision.runs or decision.trip is None:
            return Door(decision.runs)
        trip = decision.trip
        return Door(False, str(trip.mode), trip.insistable, decision.action == Action.ABORT, trip.wait, trip.price)

    def end(self, call: ToolCall, outcome: Outcome) -> None:
        """Take its outcome."""
        self.turn.end(call, outcome)


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
