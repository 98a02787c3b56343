"""opencode: what its plugin tells."""

from __future__ import annotations

import pytest

from otel_loopguard.engine.vocabulary import Outcome
from otel_loopguard.hooks.events import After, Before, Place, Prompt, SessionOver, Stopping
from otel_loopguard.hooks.programs import programs

OPENCODE = programs()["opencode"]
PLACE = {"sessionID": "s", "messageID": "m"}
RAN = {**PLACE, "tool": "bash", "args": {"command": "x"}, "callID": "1"}
UNKNOWN = {**PLACE, "tool": "invalid", "args": {"tool": "frob", "error": "no such tool"}, "callID": "1"}


def test_an_unknown_tool_has_the_name_that_was_called() -> None:
    """The program runs a tool of its own in its place, whose result is the error."""
    event = OPENCODE.read("tool.execute.before", UNKNOWN)
    assert isinstance(event, Before)
    assert (event.call.tool, event.call.registered) == ("frob", False)
    after = OPENCODE.read("tool.execute.after", {**UNKNOWN, "output": "no such tool"})
    assert isinstance(after, After)
    assert after.outcome == Outcome(error="no such tool")


@pytest.mark.parametrize(
    ("more", "outcome"),
    [
        ({"output": "x", "exit": 0}, Outcome("x")),
        ({"output": "x", "exit": 3}, Outcome("x", is_error=True)),
        ({"output": [{"type": "text", "text": "x"}]}, Outcome('[{"text":"x","type":"text"}]')),
    ],
)
def test_a_command_that_fails_has_its_exit_code_beside_its_output(more: dict[str, object], outcome: Outcome) -> None:
    """Other tools have none."""
    event = OPENCODE.read("tool.execute.after", {**RAN, **more})
    assert isinstance(event, After)
    assert event.outcome == outcome


def test_a_turn_begins_and_ends() -> None:
    """With the user's message, with the answer, and with the session."""
    events = [OPENCODE.read(name, PLACE) for name in ("chat.message", "session.idle", "session.deleted")]
    place = Place("s", turn="m")
    assert events == [Prompt(place), Stopping(place), SessionOver(place)]
