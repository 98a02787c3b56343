"""Codex' answers: a key that it does not know makes it run the call."""

from __future__ import annotations

import itertools

import pytest

from otel_loopguard.hooks.events import Answer
from otel_loopguard.hooks.programs.codex import PROGRAM

KNOWN = {"hookEventName", "permissionDecision", "permissionDecisionReason", "additionalContext"}


@pytest.mark.parametrize("name", ["PreToolUse", "PostToolUse"])
def test_an_answer_has_no_key_that_is_unknown_there(name: str) -> None:
    """Whatever the guard wants: ``continue`` is unknown before a call, and takes the result away after one."""
    for refusal, sentence, ends in itertools.product(("", "no"), ("", "look"), (False, True)):
        answer = PROGRAM.write(name, Answer(refusal, sentence, ends))
        assert answer.keys() <= {"hookSpecificOutput"}
        assert answer.get("hookSpecificOutput", {}).keys() <= KNOWN
