"""Claude Code, and the Claude Agent SDK, which brings it."""

from __future__ import annotations

from functools import partial

from otel_loopguard.hooks.programs import snake_case
from otel_loopguard.hooks.programs.program import Program, Registration, command_hook

PROGRAM = Program(
    "claude-code",
    "Claude Code",
    partial(snake_case.read, turn="prompt_id"),
    snake_case.write_with_end,
    Registration(
        ".claude/settings.json",
        ".claude/settings.json",
        (*snake_case.CALLS, "PostToolBatch", "Stop", "SubagentStop", "SessionEnd"),
        command_hook(5),
        starts=("SessionStart", "UserPromptSubmit"),
        shows_messages=True,
        http_entry=lambda url: {"hooks": [{"type": "http", "url": url, "timeout": 5}]},
    ),
    tells_messages=True,
)
