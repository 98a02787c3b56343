"""Read and answer hooks of the form that Claude Code began and others took over: snake_case, one object an event."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

import orjson

from otel_loopguard.engine.vocabulary import Outcome, ToolCall
from otel_loopguard.hooks.events import After, Before, MessageOver, Place, Prompt, SessionOver, Stopping
from otel_loopguard.spans.dialects import without_added

if TYPE_CHECKING:
    from otel_loopguard.hooks.events import Answer, Event
    from otel_loopguard.hooks.programs.program import Told

STOPS: Final = ("Stop", "SubagentStop")
CALLS: Final = ("PreToolUse", "PostToolUse", "PostToolUseFailure")
_NO_SUCH_TOOL: Final = re.compile(r"Error: No such tool available: |Tool \\?\"[^\"]*\" not found in registry")
"""The result of a call whose tool does not exist, in the words of Claude Code and of Qwen Code."""


def place_of(told: Told, *, turn: str = "") -> Place:
    """Return the place of a hook. ``turn``: the key of the program's id of the user's message."""
    return Place(str(told["session_id"]), str(told.get("agent_id") or ""), str(told.get(turn) or "") if turn else "")


def call_of(told: Told, call_id: str = "tool_use_id") -> ToolCall:
    """Return the call of a hook. ``call_id``: the key of the model's id of it."""
    found = told.get(call_id)
    return ToolCall(str(told["tool_name"]), told.get("tool_input"), None if found is None else str(found))


def text_of(result: Any) -> str:
    """Return a result as text: what the model reads of it, without the numbers that the program adds."""
    result = _shown(result)
    text = result if isinstance(result, str) else orjson.dumps(result, option=orjson.OPT_SORT_KEYS).decode()
    return without_added(text)


def _shown(result: Any) -> Any:
    """Return the part of a result that the model reads, where it can be told: the rest has ids and times."""
    if not isinstance(result, dict):
        return result
    if "response_parts" in result:  # of a batch of Qwen Code
        return [part.get("functionResponse", {}).get("response") for part in result["response_parts"]]
    if isinstance(result.get("content"), list):  # of an MCP server, and of a sub-agent of Claude Code
        return result["content"]
    return result.get("llmContent", result)


def outcome_of(told: Told) -> Outcome:
    """Return the outcome in a hook after a call: its result, or its error."""
    error = told.get("error")
    if error:
        return Outcome(error=text_of(error), cancelled=told.get("is_interrupt") is True)
    result = told.get("tool_response")
    failed = isinstance(result, dict) and (result.get("isError") is True or result.get("is_error") is True)
    return Outcome(text_of(result), is_error=True if failed else None)


def _batched(told: Told, call_id: str) -> tuple[ToolCall, Outcome]:
    """Return a call of a batch. One without hooks of its own had no such tool, or arguments that are not valid."""
    call, text = call_of(told, call_id), text_of(told.get("tool_response"))
    if _NO_SUCH_TOOL.search(text):
        return call._replace(known_tools=()), Outcome(error=text)
    failed = told.get("status") == "error" or text.startswith("<tool_use_error>")
    return call, Outcome(error=text) if failed else Outcome(text)


def answer_again(told: Told) -> str | None:
    """Return the agent's answer, if a stop hook has made it go on before; else None."""
    return str(told.get("last_assistant_message") or "") if told.get("stop_hook_active") is True else None


def read(name: str, told: Told, *, turn: str, call_id: str = "tool_use_id") -> Event | None:
    """Return what a hook tells: the names of Claude Code's events, which Codex and Qwen Code have, too."""
    place = place_of(told, turn=turn)
    if name == "PreToolUse":
        return Before(place, call_of(told, call_id))
    if name in ("PostToolUse", "PostToolUseFailure"):
        return After(place, call_of(told, call_id), outcome_of(told))
    if name == "PostToolBatch":
        return MessageOver(place, tuple(_batched(one, call_id) for one in told.get("tool_calls") or ()))
    if name == "UserPromptSubmit":
        return Prompt(place)
    if name in (*STOPS, "StopFailure"):
        return Stopping(place, answer_again(told))
    return SessionOver(place) if name == "SessionEnd" else None


def write(name: str, answer: Answer) -> dict[str, Any]:
    """Return a refusal, or a sentence beside the result, without a word on the run's end."""
    if name in STOPS:
        return let_go(answer)
    if answer.refusal:
        decided = {"permissionDecision": "deny", "permissionDecisionReason": answer.refusal}
        return {"hookSpecificOutput": {"hookEventName": name, **decided}}
    if answer.sentence:
        return {"hookSpecificOutput": {"hookEventName": name, "additionalContext": answer.sentence}}
    return {}


def let_go(answer: Answer) -> dict[str, Any]:
    """Let an agent stop, whatever other hooks say, if it has given the same answer again and again."""
    if answer.refusal:
        return {"continue": False, "stopReason": answer.refusal}
    return {"systemMessage": answer.sentence} if answer.sentence else {}


def write_with_end(name: str, answer: Answer) -> dict[str, Any]:
    """Return the same, for a program that ends its run when it is told so."""
    if name in STOPS:
        return let_go(answer)
    end = {"continue": False, "stopReason": answer.refusal or answer.sentence} if answer.ends else {}
    return {**end, **write(name, answer)}
