"""What a program may be told."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from otel_loopguard.hooks.events import Answer
from otel_loopguard.hooks.programs import programs

if TYPE_CHECKING:
    from otel_loopguard.hooks.programs.program import Program

EVENTS = ("PreToolUse", "PostToolUse", "Stop", "BeforeTool", "AfterAgent", "BeforeToolSelection", "preToolUse", "x")


@pytest.mark.parametrize("program", programs().values(), ids=programs())
def test_an_empty_answer_leaves_everything_as_it_is(program: Program) -> None:
    """No program is told anything."""
    assert [program.write(name, Answer()) for name in EVENTS] == [{}] * len(EVENTS)
