"""opencode. Its hooks are functions of a plugin, which asks the judge and does what it answers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from otel_loopguard.engine.vocabulary import Outcome, ToolCall
from otel_loopguard.hooks.events import After, Before, Place, Prompt, Stopping
from otel_loopguard.hooks.programs import snake_case
from otel_loopguard.hooks.programs.program import Program

if TYPE_CHECKING:
    from otel_loopguard.hooks.events import Answer, Event
    from otel_loopguard.hooks.programs.program import Told

_UNKNOWN_TOOL = "invalid"
"""The tool that opencode runs in place of one that does not exist. The arguments have the name that was called."""


def _read(name: str, told: Told) -> Event | None:
    place = Place(str(told["sessionID"]), turn=str(told.get("messageID") or ""))
    if name == "tool.execute.before":
        return Before(place, _call_of(told))
    if name == "tool.execute.after":
        return After(place, _call_of(told), Outcome(snake_case.text_of(told.get("output"))))
    if name == "tool.execute.failed":
        return After(place, _call_of(told), Outcome(error=snake_case.text_of(told.get("error"))))
    if name == "chat.message":
        return Prompt(place)
    return Stopping(place) if name == "session.idle" else None


def _call_of(told: Told) -> ToolCall:
    tool, arguments, call_id = str(told["tool"]), told.get("args"), told.get("callID")
    if tool == _UNKNOWN_TOOL and isinstance(arguments, dict) and "tool" in arguments:
        return ToolCall(str(arguments["tool"]), arguments, call_id, known_tools=())
    return ToolCall(tool, arguments, call_id)


def _write(name: str, answer: Answer) -> dict[str, Any]:  # noqa: ARG001 - the signature of Program.write
    """Return what the plugin of this package reads."""
    return {key: value for key, value in answer._asdict().items() if value}


PROGRAM = Program("opencode", "opencode", _read, _write)
