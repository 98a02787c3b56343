"""The descriptions of programs, compared with each other."""

from __future__ import annotations

import pytest

from otel_loopguard.hooks.programs import programs
from otel_loopguard.hooks.programs.program import Program, command_hook

TOLD = {
    "session_id": "s", "sessionId": "s", "sessionID": "s", "tool_name": "Read", "toolName": "Read", "tool": "read",
    "tool_response": "the text", "toolResult": {"textResultForLlm": "the text"},
}  # fmt: skip
"""What hooks of any program may have."""


@pytest.mark.parametrize("program", programs().values(), ids=programs())
def test_every_event_that_is_asked_for_is_read(program: Program) -> None:
    """A hook that tells the judge nothing would only take time."""
    assert [name for name in program.registration.events if program.read(name, TOLD) is None] == []


def test_a_hook_has_a_time_limit_in_the_unit_of_its_program() -> None:
    """Seconds or milliseconds."""
    assert command_hook(5, matcher="*")("PreToolUse", "ask") == {
        "matcher": "*",
        "hooks": [{"type": "command", "command": "ask", "timeout": 5}],
    }
