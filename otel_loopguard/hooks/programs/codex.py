"""Codex CLI. It runs a call whose answer has a key that it does not know, so no end of a run is ever written."""

from __future__ import annotations

from functools import partial

from otel_loopguard.hooks.programs import snake_case
from otel_loopguard.hooks.programs.program import Program, Registration, command_hook

PROGRAM = Program(
    "codex",
    "Codex CLI",
    partial(snake_case.read, turn="turn_id"),
    snake_case.write,
    Registration(
        ".codex/hooks.json",
        ".codex/hooks.json",
        ("PreToolUse", "PostToolUse", "Stop", "SubagentStop", "SessionEnd"),
        command_hook(5),
        starts=("SessionStart", "UserPromptSubmit"),
        shows_messages=True,
        still="trust the hooks once: start codex, and look at them with /hooks. Until then codex runs none of them.",
    ),
    ends_by_answer=False,
)
