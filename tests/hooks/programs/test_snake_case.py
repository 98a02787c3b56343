"""Hooks of the form of Claude Code: what a result says, and which calls of a batch are to no tool."""

from __future__ import annotations

from typing import Any

import pytest

from otel_loopguard.engine.vocabulary import Outcome
from otel_loopguard.hooks.events import MessageOver
from otel_loopguard.hooks.programs import programs
from otel_loopguard.hooks.programs.snake_case import text_of

SENT = {"session_id": "s", "prompt_id": "p", "hook_event_name": "PostToolBatch"}


@pytest.mark.parametrize(
    ("result", "text"),
    [
        ("out\n", "out\n"),
        ("Output: x\nProcess Group PGID: 26911", "Output: x\nProcess Group PGID: "),
        ("x\n<shellId: 3 completed with exit code 0>", "x\n<shellId:  completed with exit code 0>"),
        ({"stdout": "x", "interrupted": False}, '{"interrupted":false,"stdout":"x"}'),
        ({"llmContent": "x", "returnDisplay": {"totalDurationMs": 411}}, "x"),
        ({"agentId": "a66", "content": [{"type": "text", "text": "x"}]}, '[{"text":"x","type":"text"}]'),
        ({"content": "x", "numFiles": 1}, '{"content":"x","numFiles":1}'),
        ({"response_parts": [{"functionResponse": {"id": "1", "response": {"error": "x"}}}]}, '[{"error":"x"}]'),
    ],
)
def test_a_result_is_what_the_model_reads_of_it(result: Any, text: str) -> None:
    """Ids, times and numbers that are new each time would make each result a new one."""
    assert text_of(result) == text


def batched(program: str, response: Any, **more: str) -> tuple[Any, Outcome]:
    """The call of a batch, as the program's adapter reads it: its known tools and its outcome."""
    call = {"tool_name": "frob", "tool_input": {}, "tool_use_id": "1", "tool_call_id": "1", "tool_response": response}
    event = programs()[program].read("PostToolBatch", {**SENT, "tool_calls": [{**call, **more}]})
    assert isinstance(event, MessageOver)
    ((found, outcome),) = event.calls
    return found.known_tools, outcome


def parts(text: str) -> dict[str, Any]:
    """A result of Qwen Code in a batch."""
    return {"response_parts": [{"functionResponse": {"id": "1", "name": "frob", "response": {"error": text}}}]}


def test_a_tool_that_does_not_exist_is_known_by_the_words_of_the_program() -> None:
    """Both say it in the result only."""
    text = "<tool_use_error>Error: No such tool available: frob</tool_use_error>"
    assert batched("claude-code", text) == ((), Outcome(error=text))
    text = 'Tool "frob" not found in registry. Tools must use the exact names that are registered.'
    known, outcome = batched("qwen", parts(text), status="error")
    assert known == ()
    assert "not found in registry" in str(outcome.error)


def test_a_call_with_invalid_arguments_is_one_of_a_tool_that_exists() -> None:
    """It has no hooks of its own either."""
    text = "<tool_use_error>InputValidationError: Read failed</tool_use_error>"
    assert batched("claude-code", text) == (None, Outcome(error=text))
    known, outcome = batched("qwen", parts("params must have required property 'file_path'"), status="error")
    assert known is None
    assert outcome.error


def test_a_call_whose_hooks_were_missed_keeps_its_result() -> None:
    """The judge was started after it had begun."""
    assert batched("claude-code", "the text") == (None, Outcome("the text"))
