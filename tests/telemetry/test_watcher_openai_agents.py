"""Other instrumentations of the OpenAI Agents SDK, the real packages: alone, and with our patch in both orders."""

from __future__ import annotations

import importlib
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("agents")

from agents import Agent, Runner, function_tool, set_trace_processors, set_tracing_disabled

from otel_loopguard import semconv
from otel_loopguard.instrumentation.instrumentor import LoopGuardInstrumentor
from otel_loopguard.testing import Ask, Recording, guarded
from tests.scripted.openai_agents import ScriptedModel

from .watching import all_spans, calls, executions, watching, written_trips

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.filterwarnings("ignore")

MAKERS = {
    "openinference": "openinference.instrumentation.openai_agents",
    "openllmetry": "opentelemetry.instrumentation.openai_agents",
    "genai": "opentelemetry.instrumentation.genai.openai_agents",
}


@pytest.fixture(params=MAKERS)
def maker(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """One of the instrumentations that this environment has, set to export content."""
    pytest.importorskip(MAKERS[request.param])
    monkeypatch.setenv("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", "SPAN_ONLY")
    return str(request.param)


@contextmanager
def theirs(maker: str, recording: Recording) -> Iterator[None]:
    """Switch the other instrumentation on. All of them use the SDK's own tracing, which exports nothing here."""
    instrumentor = importlib.import_module(MAKERS[maker]).OpenAIAgentsInstrumentor()
    set_trace_processors([])
    set_tracing_disabled(False)
    instrumentor.instrument(tracer_provider=recording.tracer_provider)
    try:
        yield
    finally:
        instrumentor.uninstrument()
        set_trace_processors([])
        set_tracing_disabled(True)


async def run(paths: str) -> int:
    """Run an agent that looks at these paths. Return the number of tool runs."""
    ran = []

    @function_tool
    def look(path: str) -> str:
        """Look at something."""
        ran.append(path)
        return f"there is {path}"

    model = ScriptedModel([[Ask("look", {"path": path})] for path in paths])
    await Runner.run(Agent(name="helper", model=model, tools=[look]), "Go on.", max_turns=50)
    return len(ran)


async def test_alone_a_loop_is_seen_and_never_stopped(maker: str) -> None:
    """Each call and each step is counted once, the first steps are written, and we make no span."""
    with watching() as recording, theirs(maker, recording):
        assert await run("aaaaa") == 5
        assert calls(recording) == 5
        assert executions(recording) == []
        assert [trip[1:] for trip in written_trips(recording)] == [("generic_repeat", "look", "observe")] * 2
        assert recording.counted(semconv.METRIC_TRIPS) == 4


async def test_alone_work_is_no_loop(maker: str) -> None:
    """Six different calls, repeated for each of four messages, are no loop."""
    with watching() as recording, theirs(maker, recording):
        for _ in range(4):
            await run("abcdef")
        assert calls(recording) == 24
        assert written_trips(recording) == []


@pytest.mark.parametrize("ours_first", [True, False], ids=["ours-first", "theirs-first"])
async def test_beside_our_patch_a_call_is_one_call(maker: str, ours_first: bool) -> None:
    """Each attempted call has one ``execute_tool`` span of loopguard; calls and trips are counted once."""
    with guarded() as recording:
        if not ours_first:
            LoopGuardInstrumentor().uninstrument()
        with theirs(maker, recording):
            if not ours_first:
                LoopGuardInstrumentor().instrument(runtime=recording.runtime)
            assert await run("aaaaa") == 2
            assert executions(recording) == ["execute_tool look"] * 5
            assert calls(recording) == 5
            assert recording.counted(semconv.METRIC_TRIPS) == len(recording.trips) == len(written_trips(recording)) == 4
            assert len(all_spans(recording)) > 5, "the other instrumentation made no spans: this shows nothing"
