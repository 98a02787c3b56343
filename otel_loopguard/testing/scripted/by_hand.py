"""A loop by hand, as around a chat API."""

from __future__ import annotations

from typing import TYPE_CHECKING

from otel_loopguard.testing.agent import Ask, ScriptedAgent, Transcript
from otel_loopguard.testing.scripted import AGENT_NAME, failing_as, next_calls

if TYPE_CHECKING:
    from otel_loopguard.testing.scripted import Steps, Tools


def run(tools: Tools, steps: Steps) -> Transcript:
    """Run one turn with the steps, which have one call each."""
    answering = {name: failing_as(tool, lambda text: f"Error: {text}") for name, tool in tools.items()}

    def script(transcript: Transcript) -> Ask | None:
        return next(iter(next_calls(steps, len(transcript.read), transcript.read)), None)

    return ScriptedAgent(answering, script, agent_name=AGENT_NAME).run()


DRIVERS = {"run": run}
