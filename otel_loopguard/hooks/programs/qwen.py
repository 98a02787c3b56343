"""Qwen Code. Each event has the id of the prompt. The prompt's own event comes before each request, and is left out."""

from __future__ import annotations

from functools import partial

from otel_loopguard.hooks.programs import snake_case
from otel_loopguard.hooks.programs.program import Program, Registration, command_hook

PROGRAM = Program(
    "qwen",
    "Qwen Code",
    partial(snake_case.read, turn="prompt_id", call_id="tool_call_id"),
    snake_case.write,
    Registration(
        ".qwen/settings.json",
        ".qwen/settings.json",
        (*snake_case.CALLS, "PostToolBatch", "Stop", "SubagentStop", "SessionEnd"),
        command_hook(5_000),
        starts=("SessionStart", "UserPromptSubmit"),
    ),
    ends_by_answer=False,
)
