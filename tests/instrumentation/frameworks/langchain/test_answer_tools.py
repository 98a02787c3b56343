"""The tools by which LangChain's agents answer."""

from __future__ import annotations

import pytest

pytest.importorskip("langgraph")
pytest.importorskip("langchain.agents.structured_output")

from langchain.agents import structured_output as strategies
from pydantic import BaseModel

from otel_loopguard.instrumentation.runtime import active_runtime
from otel_loopguard.testing import guarded


def test_the_answer_of_an_agent_is_known_by_its_name() -> None:
    """Once the tool of a ``ToolStrategy`` is constructed, as ``create_agent`` does; not while the guard is off."""

    class Found(BaseModel):
        """The answer."""

        owner: str

    (spec,) = strategies.ToolStrategy(Found).schema_specs
    active_runtime.answer_tools.discard("Found")
    strategies.OutputToolBinding.from_schema_spec(spec)
    assert "Found" not in active_runtime.answer_tools
    with guarded():
        strategies.OutputToolBinding.from_schema_spec(spec)
    assert "Found" in active_runtime.answer_tools
