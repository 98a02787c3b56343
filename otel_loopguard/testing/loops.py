"""Play a loop as a script of calls, without an agent, and assert that a policy stops it."""

from __future__ import annotations

from os import fspath
from typing import TYPE_CHECKING, NamedTuple

from otel_loopguard.engine.policy.policy import Policy, ToolContract
from otel_loopguard.engine.vocabulary import Action, Kind, Outcome, ToolCall
from otel_loopguard.guard.guard import Guard
from otel_loopguard.instrumentation.runtime import policy_from_environment
from otel_loopguard.policy_files.load import load_policy, load_preset, preset_names

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence
    from os import PathLike

    from otel_loopguard.engine.vocabulary import Decision
    from otel_loopguard.guard.turn import Turn


class ScriptedCall(NamedTuple):
    """One call of a loop, with made-up values: only what is equal in them, and the words of a result, matters."""

    tool: str
    arguments: str
    """Stands for the arguments: calls of one tool with the same text have equal arguments."""
    result: str
    """What the tool returns. The guard reads it as any result: as an error, as "pending", as empty."""
    pause: float = 0.0
    """The seconds before the call in which no call runs."""
    took: float = 0.0
    """The seconds that the call runs."""


def assert_stopped(
    script: Sequence[ScriptedCall],
    policy: Policy | str | PathLike[str] | None = None,
    *,
    kinds: Mapping[str, Kind | str] | None = None,
    unknown: Collection[str] | None = None,
    have_run: bool = False,
) -> None:
    """Assert that the last call of a loop is refused, or ends the run, if no earlier one is or does.

    Args:
        script: the calls of the loop, in order. They are judged by a guard as live calls are, on a clock of their own.
        policy: the policy, the path of a policy file, or the name of a preset; None: the policy of the environment.
        kinds: what tools do, as ``@loopguard.tool(kind=...)`` declares it.
        unknown: the tools of the script that do not exist; None if no mode is to ask.
        have_run: the calls have run when the guard reads them in a model request. It cannot refuse such a call, so the
            last one has to end the run, or have the model answer without tools.

    """
    player = Player(loaded_policy(policy), kinds)
    decisions = enumerate(player.play(script, unknown, have_run=have_run), 1)
    seen = [(number, decision) for number, decision in decisions if decision.trip is not None]
    if not (seen and stops(seen[-1][1], have_run=have_run)):
        raise AssertionError(f"the loop is not stopped: {_verdict(script, seen, player.policy)}")


class Player:
    """Plays scripts under one policy, each as a turn of its own."""

    def __init__(self, policy: Policy, kinds: Mapping[str, Kind | str] | None = None) -> None:
        """``kinds`` are those of tools that code declares."""
        self.policy = policy
        self._now = 0.0
        self._guard = Guard(policy, clock=lambda: self._now)
        for tool, kind in (kinds or {}).items():
            self._guard.declared.add(tool, ToolContract(kind=Kind(kind)))

    def play(
        self, script: Sequence[ScriptedCall], unknown: Collection[str] | None = None, *, have_run: bool = False
    ) -> Iterator[Decision]:
        """Yield the decision about each call and its result, up to the first call that is stopped."""
        known = None if unknown is None else {one.tool for one in script}.difference(unknown)
        with self._guard.turn() as turn:
            for one in script:
                self._now += one.pause
                call = ToolCall(one.tool, {"arguments": one.arguments}, known_tools=known, written=turn.tick)
                decision = self._read(turn, call, one) if have_run else self._call(turn, call, one)
                yield decision
                if stops(decision, have_run=have_run):
                    return

    def _read(self, turn: Turn, call: ToolCall, one: ScriptedCall) -> Decision:
        self._now += one.took
        return turn.ran(call, Outcome(one.result), took=one.took)

    def _call(self, turn: Turn, call: ToolCall, one: ScriptedCall) -> Decision:
        decision = turn.begin(call)
        if not decision.runs:
            return decision
        self._now += one.took
        ended = turn.end(call, Outcome(one.result))
        return decision if ended.trip is None else ended


def stops(decision: Decision, *, have_run: bool) -> bool:
    """Return True if a call is refused or ends the run; with ``have_run`` only if it ends the run."""
    return decision.action is not None and decision.action >= (Action.CONCLUDE if have_run else Action.REUSE)


def loaded_policy(policy: Policy | str | PathLike[str] | None) -> Policy:
    """Return the policy that ``assert_stopped`` was given. Raise ``PolicyError`` if it has mistakes."""
    if policy is None:
        return policy_from_environment()
    if isinstance(policy, Policy):
        return policy
    name = fspath(policy)
    return load_preset(name).policy if name in preset_names() else load_policy(name)


def _verdict(script: Sequence[ScriptedCall], seen: list[tuple[int, Decision]], policy: Policy) -> str:
    """Say what the policy does with the calls instead."""
    calls = f"all {len(script)} calls run"
    if policy.action <= Action.OBSERVE:
        return f'{calls}, because the policy has action = "{policy.action}".'
    if not seen:
        return f"{calls}, and no mode of the policy finds a loop in them."
    number, decision = max(seen, key=lambda one: (one[1].action or 0, one[0]))
    trip, said = decision.trip, _WORDS.get(decision.action or Action.OBSERVE, "told")
    assert trip is not None  # noqa: S101 - ``seen`` has decisions with a trip only
    ceiling = (
        f", because an action of the policy allows no more than {trip.action}" if trip.verdict > trip.action else ""
    )
    return f"{calls}. The most that happens is {trip.mode} of {trip.tool}: call {number} is {said}{ceiling}."


_WORDS = {Action.OBSERVE: "observed", Action.NUDGE: "told"}
