"""A loop by hand, as around a chat API."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING

from otel_loopguard.testing import ScriptedAgent

if TYPE_CHECKING:
    from otel_loopguard.testing import Transcript
    from tests.scripted import Steps, Tools


def run(tools: Tools, steps: Steps) -> Transcript:
    """Run one turn with the calls of all steps, one after the other."""
    return ScriptedAgent(tools, chain.from_iterable(steps)).run()


DRIVERS = {"run": run}
