"""The test kit: prove that the guard leaves your agent alone, and that it stops the loop you fear.

>>> from otel_loopguard.testing import ScriptedAgent, assert_no_trip, assert_trips, guarded

``guarded()`` switches the guard on for a block, with its own providers, and records calls and trips.
"""

from __future__ import annotations

from otel_loopguard.testing.agent import Ask, ScriptedAgent, Transcript
from otel_loopguard.testing.loops import ScriptedCall, assert_stopped
from otel_loopguard.testing.recording import Recording, SeenTrip, assert_no_trip, assert_trips, guarded
from otel_loopguard.testing.scenarios import SCENARIOS, Driver, Scenario, Toolbox

__all__ = [
    "SCENARIOS",
    "Ask",
    "Driver",
    "Recording",
    "Scenario",
    "ScriptedAgent",
    "ScriptedCall",
    "SeenTrip",
    "Toolbox",
    "Transcript",
    "assert_no_trip",
    "assert_stopped",
    "assert_trips",
    "guarded",
]


def __dir__() -> list[str]:
    return sorted(__all__)
