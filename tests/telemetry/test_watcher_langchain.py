"""Other instrumentations of LangChain, the real packages: alone, and with our patch in both orders."""

from __future__ import annotations

import importlib
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("langgraph")
pytest.importorskip("langchain")

import langchain.agents
from langchain_core.callbacks import BaseCallbackManager
from langgraph.pregel import Pregel
from langgraph.types import Command

from otel_loopguard import semconv
from otel_loopguard.instrumentation.instrumentor import LoopGuardInstrumentor
from otel_loopguard.testing import Ask, Recording, Toolbox, guarded
from tests.scripted.langchain import (
    QUESTION,
    ScriptedModel,
    async_tools,
    prebuilt_agent,
    sync_tools,
)

from .watching import all_spans, calls, executions, watching, written_trips

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.filterwarnings("ignore")

MAKERS = {
    "openinference": ("openinference.instrumentation.langchain", "LangChainInstrumentor"),
    "openllmetry": ("opentelemetry.instrumentation.langchain", "LangchainInstrumentor"),
    "genai": ("opentelemetry.instrumentation.genai.langchain", "LangChainInstrumentor"),
}
HIDING = {
    "openinference": ("OPENINFERENCE_HIDE_INPUTS", "true"),
    "openllmetry": ("TRACELOOP_TRACE_CONTENT", "false"),
    "genai": ("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", "NO_CONTENT"),
}
STUCK = [[Ask("read_file", {"path": "a.txt"})]] * 5
WORKING = [[Ask("read_file", {"path": f"{name}.txt"})] for name in "abcdef"]


@pytest.fixture(params=MAKERS)
def maker(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """One of the instrumentations that this environment has, set to export content."""
    pytest.importorskip(MAKERS[request.param][0])
    monkeypatch.setenv("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", "SPAN_ONLY")
    return str(request.param)


@contextmanager
def theirs(maker: str, recording: Recording) -> Iterator[None]:
    """Switch the other instrumentation on, and restore everything afterwards."""
    module, name = MAKERS[maker]
    instrumentor = getattr(importlib.import_module(module), name)()
    before = [(owner, dict(vars(owner))) for owner in (BaseCallbackManager, Pregel, Command, langchain.agents)]
    instrumentor.instrument(tracer_provider=recording.tracer_provider)
    try:
        yield
    finally:
        instrumentor.uninstrument()
        for owner, attributes in before:
            for attribute, value in attributes.items():
                if vars(owner).get(attribute) is not value:
                    setattr(owner, attribute, value)


def run(steps: Any) -> int:
    """Run an agent to its end. Return the number of tool runs."""
    toolbox = Toolbox()
    prebuilt_agent(ScriptedModel(steps=steps, seen=[]), sync_tools(toolbox.functions())).invoke(QUESTION)
    return sum(toolbox.ran.values())


async def arun(steps: Any) -> None:
    """Run an agent to its end in async code. Return the number of tool runs."""
    await prebuilt_agent(ScriptedModel(steps=steps, seen=[]), async_tools(Toolbox(0.01).functions())).ainvoke(QUESTION)


def test_alone_a_loop_is_seen_and_never_stopped(maker: str) -> None:
    """Each call and each step is counted once, the first steps are written on a span of theirs, and we make none."""
    with watching() as recording, theirs(maker, recording):
        assert run(STUCK) == 5
        assert calls(recording) == 5
        assert executions(recording) == []
        assert [trip[1:] for trip in written_trips(recording)] == [("generic_repeat", "read_file", "observe")] * 2
        assert recording.counted(semconv.METRIC_TRIPS) == 4
        assert recording.counted(semconv.METRIC_TRIPS, loopguard__verdict="block") >= 1
        assert recording.runtime is not None
        assert recording.runtime.guard.live == 0


async def test_alone_async(maker: str) -> None:
    """Each call is counted once if callbacks run in worker threads."""
    with watching() as recording, theirs(maker, recording):
        await arun(STUCK)
        assert calls(recording) == 5
        assert {trip[1:] for trip in written_trips(recording)} == {("generic_repeat", "read_file", "observe")}


async def test_alone_a_batch_is_no_loop(maker: str) -> None:
    """Four equal calls in parallel are no loop."""
    with watching() as recording, theirs(maker, recording):
        await arun([[Ask("read_file", {"path": "a.txt"})] * 4])
        assert calls(recording) == 4
        assert written_trips(recording) == []


def test_alone_work_is_no_loop(maker: str) -> None:
    """Six different files, read for each message, are no loop."""
    with watching() as recording, theirs(maker, recording):
        for _ in range(4):
            run(WORKING)
        assert calls(recording) == 24
        assert written_trips(recording) == []


def test_what_is_kept_back_is_never_a_repeat(maker: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without recorded content no call is a repeat, because calls cannot be compared."""
    monkeypatch.setenv(*HIDING[maker])
    with watching() as recording, theirs(maker, recording):
        run(STUCK)
        assert calls(recording) == 5
        assert [trip for trip in written_trips(recording) if trip[1] == "generic_repeat"] == []


@pytest.mark.parametrize("ours_first", [True, False], ids=["ours-first", "theirs-first"])
def test_beside_our_patch_a_call_is_one_call(maker: str, ours_first: bool) -> None:
    """Each attempted call has one ``execute_tool`` span of loopguard; calls and trips are counted once."""
    with guarded() as recording:
        if not ours_first:
            LoopGuardInstrumentor().uninstrument()
        with theirs(maker, recording):
            if not ours_first:
                LoopGuardInstrumentor().instrument(runtime=recording.runtime)
            assert run(STUCK) == 2
            assert executions(recording) == ["execute_tool read_file"] * 5
            assert calls(recording) == 5
            assert recording.counted(semconv.METRIC_TRIPS) == len(recording.trips) == len(written_trips(recording)) == 4
            assert len(all_spans(recording)) > 5, "the other instrumentation made no spans: this shows nothing"


@pytest.mark.parametrize("ours_first", [True, False], ids=["ours-first", "theirs-first"])
async def test_beside_our_patch_async_and_parallel(maker: str, ours_first: bool) -> None:
    """With our patch, parallel async calls have one span each, and are counted once."""
    with guarded() as recording:
        if not ours_first:
            LoopGuardInstrumentor().uninstrument()
        with theirs(maker, recording):
            if not ours_first:
                LoopGuardInstrumentor().instrument(runtime=recording.runtime)
            await arun([[Ask("read_file", {"path": f"{name}.txt"}) for name in "abc"]] * 2)
            assert len(executions(recording)) == calls(recording) == 6
