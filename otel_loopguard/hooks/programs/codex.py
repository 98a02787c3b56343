"""Codex CLI. It runs a call whose answer has a key that it does not know, so no end of a run is ever written."""

from __future__ import annotations

from functools import partial

from otel_loopguard.hooks.programs import snake_case
from otel_loopguard.hooks.programs.program import Program

PROGRAM = Program(
    "codex", "Codex CLI", partial(snake_case.read, turn="turn_id"), snake_case.write, ends_by_answer=False
)
