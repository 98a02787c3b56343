"""Pydantic AI's own spans: alone, and with our patch, in both orders."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pydantic_ai")

from pydantic_ai import Agent
from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import FunctionModel

from otel_loopguard import semconv
from otel_loopguard.instrumentation.instrumentor import LoopGuardInstrumentor
from otel_loopguard.testing import Recording, guarded

from .watching import all_spans, calls, executions, watching, written_trips

if TYPE_CHECKING:
    from collections.abc import Sequence

pytestmark = pytest.mark.filterwarnings("ignore")


def agent_of(recording: Recording, paths: Sequence[Any], **settings: Any) -> tuple[Agent[None, str], list[str]]:
    """An agent that looks at these paths, one after the other; and what it looked at."""
    from pydantic_ai.models.instrumented import InstrumentationSettings

    looked: list[str] = []

    def script(messages: Any, info: Any) -> ModelResponse:
        done = sum(isinstance(part, ToolCallPart) for message in messages for part in message.parts)
        if done >= len(paths):
            return ModelResponse(parts=[TextPart("Done.")])
        return ModelResponse(parts=[ToolCallPart("look", {"path": paths[done]}, f"call-{done}")])

    told_to = InstrumentationSettings(tracer_provider=recording.tracer_provider, **settings)
    try:
        from pydantic_ai.capabilities import Instrumentation

        agent = Agent(FunctionModel(script), capabilities=[Instrumentation(told_to)], retries=9)
    except ImportError:
        agent = Agent(FunctionModel(script), instrument=told_to, retries=9)

    @agent.tool_plain
    def look(path: str) -> str:
        looked.append(path)
        return f"there is {path}"

    return agent, looked


def tool_spans(recording: Recording) -> list[Any]:
    """Everybody's ``execute_tool`` spans."""
    return [
        span
        for span in all_spans(recording)
        if (span.attributes or {}).get(semconv.OPERATION_NAME) == semconv.OPERATION_EXECUTE_TOOL
    ]


def test_alone_a_loop_is_seen_and_never_stopped() -> None:
    """Each call and each step is counted once, the first steps are written on their open span, and we make none."""
    with watching() as recording:
        agent, looked = agent_of(recording, "aaaaa")
        agent.run_sync("Go on.")
        assert looked == ["a"] * 5
        assert calls(recording) == 5
        assert executions(recording) == []
        assert [trip[1:] for trip in written_trips(recording)] == [("generic_repeat", "look", "observe")] * 2
        assert recording.counted(semconv.METRIC_TRIPS) == 4


def test_alone_work_is_no_loop() -> None:
    """Six different files, read again for each of four messages, are no loop."""
    with watching() as recording:
        agent, _ = agent_of(recording, "abcdef")
        for _ in range(4):
            agent.run_sync("Go on.")
        assert calls(recording) == 24
        assert written_trips(recording) == []


def test_what_is_kept_back_is_never_a_repeat() -> None:
    """Without recorded content no call is a repeat, because calls cannot be compared."""
    with watching() as recording:
        agent, _ = agent_of(recording, "aaaaa", include_content=False)
        agent.run_sync("Go on.")
        assert calls(recording) == 5
        assert [trip for trip in written_trips(recording) if trip[1] == "generic_repeat"] == []


@pytest.mark.parametrize("ours_first", [True, False], ids=["ours-first", "theirs-first"])
def test_beside_our_patch_a_call_is_one_call(ours_first: bool) -> None:
    """Each attempted call has one ``execute_tool`` span, theirs or ours, and is counted once."""
    with guarded() as recording:
        if ours_first:
            agent, looked = agent_of(recording, "aaaaa")
        else:
            LoopGuardInstrumentor().uninstrument()
            agent, looked = agent_of(recording, "aaaaa")
            LoopGuardInstrumentor().instrument(runtime=recording.runtime)
        agent.run_sync("Go on.")
        assert looked == ["a"] * 2
        assert calls(recording) == 5
        assert recording.counted(semconv.METRIC_TRIPS) == len(recording.trips) == len(written_trips(recording)) == 4
        assert len(tool_spans(recording)) == 5


def test_a_call_that_is_turned_down_before_it_runs_is_one_call() -> None:
    """Arguments that do not fit get a span of theirs before our patch is reached, and still count once."""
    with guarded() as recording:
        agent, looked = agent_of(recording, ["a", 1, 2, "b"])
        agent.run_sync("Go on.")
        assert looked == ["a", "b"]
        assert calls(recording) == 4
        assert len(tool_spans(recording)) == 4
