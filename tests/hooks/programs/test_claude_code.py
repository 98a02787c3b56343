"""Claude Code's answers."""

from __future__ import annotations

from otel_loopguard.hooks.events import Answer
from otel_loopguard.hooks.programs.claude_code import PROGRAM


def test_a_run_that_is_to_end_is_refused_and_ended() -> None:
    """Without the refusal this call would still run."""
    answer = PROGRAM.write("PreToolUse", Answer(refusal="why", ends=True))
    assert (answer["continue"], answer["stopReason"]) == (False, "why")
    assert answer["hookSpecificOutput"]["permissionDecision"] == "deny"


def test_a_sentence_is_beside_the_result() -> None:
    """The result stays."""
    assert PROGRAM.write("PostToolUse", Answer(sentence="look")) == {
        "hookSpecificOutput": {"hookEventName": "PostToolUse", "additionalContext": "look"}
    }
