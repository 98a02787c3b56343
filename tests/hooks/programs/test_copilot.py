"""Copilot's answers, in its own form."""

from __future__ import annotations

from otel_loopguard.hooks.events import Answer
from otel_loopguard.hooks.programs.copilot import PROGRAM


def test_a_refusal_is_a_decision_with_its_reason() -> None:
    """Not inside another object, as elsewhere. Its end cannot be told."""
    refused = {"permissionDecision": "deny", "permissionDecisionReason": "why"}
    assert PROGRAM.write("preToolUse", Answer(refusal="why", ends=True)) == refused


def test_a_command_that_failed_is_told_by_its_text() -> None:
    """Copilot calls it a success, and writes a number of its own into each result."""
    texts = [{"resultType": "success", "textResultForLlm": f"no file\n<shellId: {at} completed>"} for at in (3, 4)]
    told = [{"sessionId": "s", "toolName": "bash", "toolArgs": {}, "toolResult": text} for text in texts]
    first, second = (PROGRAM.read("postToolUse", one) for one in told)
    assert first == second
