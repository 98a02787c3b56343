"""A run is ended by a mode's ``abort`` limit under ``action="abort"``, and by too many refusals."""

from __future__ import annotations

import pytest

from otel_loopguard.core.guard import Guard
from otel_loopguard.core.model import Action, Mode, Outcome, ToolCall
from otel_loopguard.core.policy.policy import Policy, Rule

RUNS, NUDGE, BLOCK, ABORT = None, Action.NUDGE, Action.BLOCK, Action.ABORT


def actions(policy: Policy, calls: int) -> list[Action | None]:
    """Return the actions for equal calls with equal results."""
    turn, done = Guard(policy).turn(), []
    for _ in range(calls):
        call = ToolCall("read_file", {"path": "a"})
        decision = turn.begin(call)
        done.append((turn.end(call, Outcome("same")) if decision.runs else decision).action)
    return done


def repeats(action: str, **limits: int) -> Policy:
    """Return a policy with these limits of ``generic_repeat``."""
    return Policy(action=action, modes={Mode.GENERIC_REPEAT: Rule(**limits)})


@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        ({"abort": 5}, [RUNS, NUDGE, BLOCK, BLOCK, ABORT]),
        ({"abort": 3}, [RUNS, NUDGE, ABORT]),
        ({"abort": 2}, [RUNS, ABORT]),
        ({"abort": 4, "block": 0}, [RUNS, NUDGE, RUNS, ABORT]),
    ],
)
def test_an_abort_limit_ends_the_run_at_that_attempt(limits: dict[str, int], expected: list[Action | None]) -> None:
    """Refused attempts count; without a ``block`` limit no call is refused before it."""
    assert actions(repeats("abort", **limits), len(expected)) == expected


def test_an_abort_limit_is_no_more_than_the_ceiling_allows() -> None:
    """Under ``block`` the call is refused and the run continues."""
    assert actions(repeats("block", abort=3), 5) == [RUNS, NUDGE, BLOCK, BLOCK, BLOCK]


def test_without_a_limit_abort_does_what_block_does() -> None:
    """``abort`` is only a ceiling: modes refuse, until ``abort_after`` refusals end the run."""
    assert actions(Policy(action="abort"), 14) == actions(Policy(action="block"), 14)
    assert actions(Policy(action="abort"), 13)[-2:] == [BLOCK, ABORT]


def test_an_abort_limit_ends_no_run_that_gets_anywhere() -> None:
    """An abort limit counts equal runs without news in between, like a ``block`` limit."""
    turn = Guard(repeats("abort", abort=3)).turn()
    for number in range(9):
        for tool, result in (("edit_file", "ok"), ("read_file", "the same")):
            call = ToolCall(tool, {"path": "a"} if tool == "read_file" else {"path": "a", "text": number})
            assert turn.begin(call).runs
            turn.end(call, Outcome(result))
