"""The coding agents as programs, one a file: how each is run in a test."""

from __future__ import annotations

from tests.hooks.programs.claude_code import ClaudeCode
from tests.hooks.programs.codex import Codex
from tests.hooks.programs.copilot import Copilot
from tests.hooks.programs.gemini import Gemini
from tests.hooks.programs.opencode import OpenCode
from tests.hooks.programs.qwen import Qwen

AGENTS = (ClaudeCode, Codex, Copilot, Gemini, OpenCode, Qwen)
