"""LangChain and LangGraph pass the scenarios of every framework."""

from __future__ import annotations

import pytest

pytest.importorskip("langgraph")

from otel_loopguard.testing import SCENARIOS, Scenario
from tests.scripted.langchain import DRIVERS

pytestmark = pytest.mark.filterwarnings("ignore")

DOES_NOT_APPLY = {
    ("bare-loop", "unknown_tool"): "a loop by hand looks its tools up itself",
    ("bare-loop", "parallel"): "a loop by hand makes one call after the other",
}


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
@pytest.mark.parametrize("driver", DRIVERS)
def test_scenario(driver: str, scenario: Scenario) -> None:
    """Each way of running an agent passes the shared scenarios."""
    if reason := DOES_NOT_APPLY.get((driver, scenario.name)):
        pytest.skip(reason)
    scenario.run(DRIVERS[driver])
