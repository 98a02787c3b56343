"""opencode. Its hooks are functions of a plugin, which asks the judge and does what it answers."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import orjson

from otel_loopguard.engine.vocabulary import Outcome, ToolCall
from otel_loopguard.hooks.events import After, Before, Place, Prompt, SessionOver, Stopping
from otel_loopguard.hooks.programs import snake_case
from otel_loopguard.hooks.programs.program import Program, Registration

if TYPE_CHECKING:
    from otel_loopguard.hooks.events import Answer, Event
    from otel_loopguard.hooks.programs.program import Told

_PLUGIN: Final = Path(__file__).with_suffix(".js")
_UNKNOWN_TOOL: Final = "invalid"
"""The tool that opencode runs in place of one that does not exist. The arguments have the name that was called."""


def _read(name: str, told: Told) -> Event | None:
    place = Place(str(told["sessionID"]), turn=str(told.get("messageID") or ""))
    if name == "tool.execute.before":
        return Before(place, _call_of(told))
    if name == "tool.execute.after":
        return After(place, _call_of(told), _outcome_of(told))
    if name == "tool.execute.failed":
        return After(place, _call_of(told), Outcome(error=snake_case.text_of(told.get("error"))))
    if name == "chat.message":
        return Prompt(place)
    if name == "session.idle":
        return Stopping(place)
    return SessionOver(place) if name == "session.deleted" else None


def _call_of(told: Told) -> ToolCall:
    tool, arguments, call_id = str(told["tool"]), told.get("args"), told.get("callID")
    if tool == _UNKNOWN_TOOL and isinstance(arguments, dict) and "tool" in arguments:
        return ToolCall(str(arguments["tool"]), arguments, call_id, known_tools=())
    return ToolCall(tool, arguments, call_id)


def _outcome_of(told: Told) -> Outcome:
    text = snake_case.text_of(told.get("output"))
    if told["tool"] == _UNKNOWN_TOOL:
        return Outcome(error=text)
    failed = told.get("exit") not in (None, 0)  # of a command
    return Outcome(text, is_error=True if failed else None)


def _write(name: str, answer: Answer) -> dict[str, Any]:  # noqa: ARG001 - the signature of Program.write
    """Return what the plugin of this package reads."""
    return {key: value for key, value in answer._asdict().items() if value}


def _plugin(socket: str, starting: list[str], seconds: float) -> str:
    text = _PLUGIN.read_text("utf-8")
    for name, value in (("$SOCKET", socket), ("$START", starting), ("$SECONDS", seconds)):
        text = text.replace(f'"{name}"', orjson.dumps(value).decode())
    return text


PROGRAM = Program(
    "opencode",
    "opencode",
    _read,
    _write,
    Registration(
        ".config/opencode/plugin/otel-loopguard.js",
        ".opencode/plugin/otel-loopguard.js",
        ("tool.execute.before", "tool.execute.after", "tool.execute.failed", "session.idle", "session.deleted"),
        whole=_plugin,
    ),
)
