"""Copilot CLI. Its own form is camelCase, without the event's name: the name is an argument of the hook's command."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from otel_loopguard.engine.vocabulary import Outcome, ToolCall
from otel_loopguard.hooks.events import After, Before, Place, Prompt, SessionOver, Stopping
from otel_loopguard.hooks.programs import snake_case
from otel_loopguard.hooks.programs.program import Program, Registration

if TYPE_CHECKING:
    from otel_loopguard.hooks.events import Answer, Event
    from otel_loopguard.hooks.programs.program import Told


def _read(name: str, told: Told) -> Event | None:
    place = Place(str(told["sessionId"]), str(told.get("agentId") or ""))
    if name == "preToolUse":
        return Before(place, _call_of(told))
    if name in ("postToolUse", "postToolUseFailure"):
        return After(place, _call_of(told), _outcome_of(told))
    if name == "userPromptSubmitted":
        return Prompt(place)
    if name == "agentStop":  # of a sub-agent, too, which has a session of its own
        return Stopping(place)
    return SessionOver(place) if name == "sessionEnd" else None


def _call_of(told: Told) -> ToolCall:
    return ToolCall(str(told["toolName"]), told.get("toolArgs"))


def _outcome_of(told: Told) -> Outcome:
    """A command that fails is a success here: its exit code is in the text."""
    result, error = told.get("toolResult"), told.get("error")
    if error or not isinstance(result, dict):
        return Outcome(error=snake_case.text_of(error)) if error else Outcome(snake_case.text_of(result))
    failed = result.get("resultType") in ("failure", "denied")
    text = snake_case.text_of(result.get("textResultForLlm", result))
    return Outcome(text, is_error=True if failed else None)


def _write(name: str, answer: Answer) -> dict[str, Any]:  # noqa: ARG001 - the signature of Program.write
    if answer.refusal:
        return {"permissionDecision": "deny", "permissionDecisionReason": answer.refusal}
    return {"additionalContext": answer.sentence} if answer.sentence else {}


def _entry(_: str, command: str) -> Any:
    return {"type": "command", "bash": command, "timeoutSec": 5}


PROGRAM = Program(
    "copilot",
    "Copilot CLI",
    _read,
    _write,
    Registration(
        ".copilot/hooks/otel-loopguard.json",
        ".github/hooks/otel-loopguard.json",
        (
            "preToolUse", "postToolUse", "postToolUseFailure", "agentStop", "sessionEnd",
        ),
        _entry,
        empty='{\n  "version": 1\n}\n',
        starts=("sessionStart", "userPromptSubmitted"),
    ),
    ends_by_answer=False,
)  # fmt: skip
