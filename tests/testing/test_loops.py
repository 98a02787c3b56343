"""A loop as a script of calls: it passes under a policy that stops it, and fails under one that does not."""

from __future__ import annotations

import re
from typing import Any

import pytest

from otel_loopguard import Action, Policy, PolicyError, Rule
from otel_loopguard.testing import ScriptedCall, assert_stopped

STUCK = [ScriptedCall("read_file", "a", "text A")] * 3
POLL = ScriptedCall("get_status", "a", "pending")


@pytest.mark.parametrize(
    ("script", "more"),
    [
        (STUCK, {}),
        ([POLL] * 20, {}),
        ([ScriptedCall("made_up", "a", "Error: no such tool")] * 3, {"unknown": ["made_up"]}),
        ([ScriptedCall("forward", "a", "done")] * 20, {"kinds": {"forward": "poll"}}),
        ([ScriptedCall("read_file", "a", "text A")] * 9, {"have_run": True}),
        ([ScriptedCall("get_status", "a", "text A", pause=20.0, took=1.0)] * 44, {}),
    ],
    ids=["repeat", "poll", "unknown", "kind", "have_run", "slow"],
)
def test_the_last_call_is_the_one_that_is_stopped(script: list[ScriptedCall], more: dict[str, Any]) -> None:
    """The script passes, and fails without its last call: nothing is stopped before."""
    assert_stopped(script, Policy(), **more)
    with pytest.raises(AssertionError, match="the loop is not stopped: all"):
        assert_stopped(script[:-1], Policy(), **more)


@pytest.mark.parametrize(
    ("policy", "reason"),
    [
        (Policy(action=Action.OBSERVE), 'all 3 calls run, because the policy has action = "observe".'),
        (Policy(action=Action.OFF), 'all 3 calls run, because the policy has action = "off".'),
        (Policy(modes={"generic_repeat": Rule(nudge=0, block=0)}), "no mode of the policy finds a loop in them."),
        (
            Policy(modes={"generic_repeat": Rule(action="nudge")}),
            "generic_repeat of read_file: call 3 is told, because an action of the policy allows no more than nudge.",
        ),
        (Policy(modes={"generic_repeat": Rule(nudge=2, block=4)}), "generic_repeat of read_file: call 2 is told."),
    ],
    ids=["observe", "off", "mode off", "ceiling", "higher limit"],
)
def test_a_policy_that_stops_the_loop_no_more_fails_and_says_why(policy: Policy, reason: str) -> None:
    """The message names the setting, or the most that happens instead."""
    with pytest.raises(AssertionError, match=re.escape(reason)):
        assert_stopped(STUCK, policy)


def test_a_stricter_policy_passes() -> None:
    """A loop that is stopped before its last call is stopped."""
    assert_stopped(STUCK * 3, Policy())


def test_the_policy_is_a_file_a_preset_or_that_of_the_environment(tmp_path: Any, monkeypatch: Any) -> None:
    """Each of them decides: two stop the third equal call, the file and the environment's action do not."""
    file = tmp_path / "policy.toml"
    file.write_text('action = "nudge"\n')
    assert_stopped(STUCK)
    assert_stopped(STUCK, "default")
    for policy in (file, str(file)):
        with pytest.raises(AssertionError, match="allows no more than nudge"):
            assert_stopped(STUCK, policy)
    monkeypatch.setenv("OTEL_PYTHON_LOOPGUARD_ACTION", "observe")
    with pytest.raises(AssertionError, match='action = "observe"'):
        assert_stopped(STUCK)


def test_a_policy_with_a_mistake_is_an_error_and_no_pass(tmp_path: Any) -> None:
    """A file that cannot be read would else observe, and the failure would name the wrong reason."""
    with pytest.raises(PolicyError, match=r"missing\.toml"):
        assert_stopped(STUCK, tmp_path / "missing.toml")
