"""Under presets that count calls only ``kind = "step"`` exempts a tool, not its name."""

from __future__ import annotations

import pytest

from .driver import Driven

NAMES = ("submit", "final_answer", "finish", "transfer_to_billing", "composio_finish")
LIMITS = {"chat_turn": 2, "repeat_hint": 4, "repeat_abort": 4, "typed_window": 5}


@pytest.mark.parametrize("preset", LIMITS)
@pytest.mark.parametrize("name", [*NAMES, "press_key", "get_job_status", "sleep"])
def test_any_tool_is_counted_whatever_it_is_called(preset, name):
    """The systems that the presets copy know no kinds; polls have a mode of their own in typed_window alone."""
    limit = 10 if preset == "typed_window" and name in {"get_job_status", "sleep"} else LIMITS[preset]
    driven = Driven(preset, 'tools."*".cap = 99\n' if preset == "chat_turn" else "")
    assert [driven.runs(name, {"a": 1}, result="same") for _ in range(limit)] == [True] * (limit - 1) + [False]


def test_turn_nudge_warns_of_any_tool():
    """The third equal hand-off is nudged like any other call."""
    driven = Driven("turn_nudge")
    for _ in range(3):
        driven("transfer_to_billing", {"a": 1})
    assert driven.nudge is not None


def test_two_agents_that_hand_over_to_each_other_alternate():
    """Hand-offs and final tools make laps like other calls."""
    driven = Driven("typed_window")
    assert [driven.runs(name) for name in ["transfer_to_a", "submit"] * 3] == [True] * 5 + [False]


def test_a_tool_declared_a_step_is_exempt():
    """Its equal calls are no loop, neither in a row nor in laps."""
    more = '[tools."press_*"]\nkind = "step"\n[modes.global_circuit_breaker]\nblock = 0\n'
    driven = Driven("typed_window", more)
    assert all(driven.runs("press_key", {"key": "a"}) for _ in range(40))
    assert all(driven.runs("press_key", {"key": key}) for key in "ab" * 20)


@pytest.mark.parametrize("kind", ["final", "handoff", "think", "read", "agent"])
def test_no_other_declared_kind_exempts(kind):
    """A tool of another kind is counted like any other."""
    driven = Driven("typed_window", f'[tools."to_*"]\nkind = "{kind}"\n')
    assert [driven.runs("to_a") for _ in range(5)] == [True] * 4 + [False]
