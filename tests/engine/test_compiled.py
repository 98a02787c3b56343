"""The limits of a policy apply by mode and by tool."""

from __future__ import annotations

import pytest

from otel_loopguard.engine.vocabulary import Outcome, ToolCall
from otel_loopguard.guard.guard import Guard
from otel_loopguard.policy_files.load import load_text


def refused(text, names, result="same"):
    """Return the first of these calls that is refused, and the mode."""
    turn = Guard(load_text(text).checked()).turn()
    for position, name in enumerate(names):
        call = ToolCall("read_file", {"path": name})
        decision = turn.begin(call)
        if not decision.runs:
            return position, str(decision.trip.mode)
        turn.end(call, Outcome(f"{result} {name}"))
    return None


QUIET = "[modes]\ngeneric_repeat.block = 0\nno_novelty.block = 0\n"


@pytest.mark.parametrize(
    ("text", "names", "expected"),
    [
        ("", "aaaaa", (2, "generic_repeat")),
        ("modes.generic_repeat.block = 4", "aaaaa", (3, "generic_repeat")),
        ("tools.read_file.modes.generic_repeat.block = 4", "aaaaa", (3, "generic_repeat")),
        (
            "tools.'read_*'.modes.generic_repeat.block = 4\nmodes.generic_repeat.block = 2",
            "aaaaa",
            (3, "generic_repeat"),
        ),
        ("", "abababab", (4, "ping_pong")),
        (QUIET + "ping_pong.block = 4", "abababab", (6, "ping_pong")),
        (QUIET + "ping_pong.block = 0", "ab" * 10, None),
        (QUIET + "cycle.block = 0", "abababab", (4, "ping_pong")),
        (QUIET + "cycle.block = 4", "abcabcabcabc", (9, "cycle")),
        ("max_calls = 3", "abcd", (3, "global_circuit_breaker")),
        ("tools.read_file.cap = 2", "abc", (2, "retry_limit")),
        ("order = ['retry_limit']", "a" * 30, None),
        ("action = 'nudge'", "a" * 30, None),
    ],
)
def test_limits(text, names, expected):
    """Each limit refuses exactly the call that the policy gives."""
    assert refused(text, names) == expected
