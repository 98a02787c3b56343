"""Gemini CLI. Its hooks have no id of a turn, a call or a sub-agent: all agents of a session are one place."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from otel_loopguard.engine.vocabulary import Outcome
from otel_loopguard.hooks.events import After, Before, Choosing, Prompt, SessionOver, Stopping
from otel_loopguard.hooks.programs import snake_case
from otel_loopguard.hooks.programs.program import Program, Registration, command_hook

if TYPE_CHECKING:
    from otel_loopguard.hooks.events import Answer, Event
    from otel_loopguard.hooks.programs.program import Told


def _read(name: str, told: Told) -> Event | None:
    place = snake_case.place_of(told)
    if name == "BeforeTool":
        return Before(place, snake_case.call_of(told))
    if name == "AfterTool":
        return After(place, snake_case.call_of(told), _outcome_of(told))
    if name == "BeforeAgent":
        return Prompt(place)
    if name == "BeforeToolSelection":
        return Choosing(place)
    if name == "AfterAgent":
        so_far = str(told.get("prompt_response") or "")
        return Stopping(place, so_far if told.get("stop_hook_active") else None, so_far)
    return SessionOver(place) if name == "SessionEnd" else None


def _outcome_of(told: Told) -> Outcome:
    """A failed call has its error in the response. The exit code of a command is in its text only."""
    response = told.get("tool_response")
    if not isinstance(response, dict):
        return snake_case.outcome_of(told)
    error = response.get("error")
    if error:
        return Outcome(error=snake_case.text_of(error))
    return Outcome(snake_case.text_of(response))


def _write(name: str, answer: Answer) -> dict[str, Any]:
    if answer.withdraws:
        return {"hookSpecificOutput": {"hookEventName": name, "toolConfig": {"mode": "NONE"}}}
    if name == "AfterAgent":
        return snake_case.let_go(answer)
    if not answer.refusal:
        return snake_case.write_with_end(name, answer)
    end = {"continue": False, "stopReason": answer.refusal} if answer.ends else {}
    return {**end, "decision": "deny", "reason": answer.refusal}


PROGRAM = Program(
    "gemini",
    "Gemini CLI",
    _read,
    _write,
    Registration(
        ".gemini/settings.json",
        ".gemini/settings.json",
        ("BeforeTool", "AfterTool", "AfterAgent", "BeforeToolSelection", "SessionEnd"),
        command_hook(5_000, matcher="*"),
        starts=("SessionStart", "BeforeAgent"),
        shows_messages=True,
    ),
    delegating=frozenset({"invoke_agent"}),
)
