"""Which time series a policy can produce: each is counted zero at start, so that a first trip is seen as one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from otel_loopguard.core.model import Action, Mode
from otel_loopguard.core.turn.turn import USER_STOP

if TYPE_CHECKING:
    from collections.abc import Iterator

    from otel_loopguard.core.policy.policy import Policy

_VERDICTS = (Action.NUDGE, Action.REUSE, Action.BLOCK, Action.ABORT)


def combinations(policy: Policy) -> list[tuple[str, str, str]]:
    """Every (mode, verdict, action) that can be counted under this policy."""
    if policy.action is Action.OFF:
        return []
    found = {
        (mode, verdict, action) for mode in Mode for verdict in _VERDICTS for action in _actions(policy, mode, verdict)
    }
    words = sorted((str(mode), str(verdict), str(action)) for mode, verdict, action in found)
    return [*words, *((USER_STOP, str(action), str(action)) for action in (Action.BLOCK, Action.ABORT))]


def _actions(policy: Policy, mode: Mode, verdict: Action) -> Iterator[Action]:
    """What can be done where the rules want this."""
    yield Action.OBSERVE  # in a weak turn
    if policy.on_trip is not None:
        yield from _VERDICTS
    for ceiling in _ceilings(policy, mode):
        yield min(verdict, ceiling)
        if verdict > Action.NUDGE and ceiling is Action.REUSE:
            yield Action.NUDGE  # there was no result to give again
        if verdict is Action.ABORT and ceiling is Action.BLOCK:
            yield Action.ABORT  # refusals come to an end


def _ceilings(policy: Policy, mode: Mode) -> Iterator[Action]:
    """The policy's ceiling for this mode, and what single tools lower it to."""
    limits = [policy.action]
    own = policy.rule(mode).action
    if own is not None:
        limits.append(own)
    yield min(limits)
    for contract in policy.tools.values():
        rule = contract.modes.get(mode)
        said = (contract.action, rule.action if rule is not None else None)
        yield min([*limits, *(action for action in said if action is not None)])
