"""Runs that are found by their id: an ``async with`` block in which no scope is bound."""

from __future__ import annotations

import asyncio
from collections import deque
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest
from opentelemetry import trace

import otel_loopguard as loopguard
from otel_loopguard import semconv
from otel_loopguard.engine.vocabulary import ToolCall
from otel_loopguard.instrumentation.agent_run import AgentRun, RunContext, generator_of_run
from otel_loopguard.instrumentation.targets import CallStyle, Original, Reading, RunTarget, ToolAdapter
from otel_loopguard.instrumentation.wrappers import open_call, wrapper_of
from otel_loopguard.testing import assert_no_trip, guarded
from otel_loopguard.turns import runs
from otel_loopguard.turns.runs import RunInfo
from otel_loopguard.turns.scope import current_scope
from tests.steps import steps

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

    from otel_loopguard.instrumentation.runtime import Runtime

POINT = RunTarget(
    "m", "f", lambda run, args, kwargs: RunInfo(run_id=run, can_continue=False, conversation_id=f"of-{run}")
)
ADAPTER = ToolAdapter(
    read=lambda run, args, kwargs: Reading(ToolCall("look", {"at": args[0]}, known_tools=("look",)), run_id=run),
    answer=lambda reading, content, error: content,
    by_run=True,
)


def call(runtime: Runtime, run: str, at: str, then: Callable[[], Any] = lambda: "seen") -> Any:
    """A tool call that this run makes."""
    guarded_call = open_call(runtime, ADAPTER, run, (at,), {})
    if guarded_call is None:
        return then()
    with guarded_call:
        return guarded_call.answer if guarded_call.answered else guarded_call.result(then())


def going(runtime: Runtime, run: str) -> RunContext:
    """``async with framework.run() as run:``."""

    @asynccontextmanager
    async def manager() -> AsyncIterator[str]:
        yield run

    return RunContext(lambda entered: AgentRun(runtime, POINT, entered, (), {}), manager())


def turns(recording: Any) -> list[str]:
    return [span.attributes[semconv.TURN_ID] for span in recording.spans]


async def test_a_runs_calls_are_its_turn_and_the_block_is_nobodys() -> None:
    """The third equal call of a run is refused, the code in the block has no turn, and nothing is left after it."""
    with guarded() as recording:
        runtime = recording.runtime
        assert runtime is not None
        async with going(runtime, "r1"):
            assert current_scope() is None
            assert [call(runtime, "r1", "a") for _ in range(2)] == ["seen", "seen"]
            assert "tool_loop_detected" in call(runtime, "r1", "a")
        assert runtime.guard.live == 0
        assert runtime.runs.known("r1") is None
        assert {span.attributes[semconv.TURN_SOURCE] for span in recording.spans} == {"run"}


async def test_runs_in_one_task_are_told_apart() -> None:
    """Two runs that alternate in one block are two turns, and their calls are not repeats of each other."""
    with guarded() as recording:
        runtime = recording.runtime
        assert runtime is not None
        async with going(runtime, "r1"), going(runtime, "r2"):
            for run in ("r1", "r2") * 2:
                call(runtime, run, "a")
        assert [trip.count for trip in recording.trips] == [2, 2]
        assert len(set(turns(recording))) == 2


async def test_a_run_inside_a_call_is_a_child_turn() -> None:
    """A call of another run inside a call is counted; a call of the same run is a layer."""
    with guarded() as recording:
        runtime = recording.runtime
        assert runtime is not None

        async def nested() -> None:
            async with going(runtime, "child"):
                call(runtime, "child", "a")

        def helper() -> str:
            asyncio.run(nested())
            return call(runtime, "parent", "layer") or ""

        async with going(runtime, "parent"):
            await asyncio.to_thread(call, runtime, "parent", "q", helper)
        parent, child = turns(recording)
        assert child.startswith(f"{parent}/")
        assert_no_trip(recording)


async def test_a_run_in_a_turn_of_the_programs_belongs_to_it() -> None:
    """``with turn():`` around several runs makes them one turn, also for runs that are found by their id."""
    with guarded() as recording:
        runtime = recording.runtime
        assert runtime is not None
        with loopguard.turn() as explicit:
            for run in ("r1", "r2"):
                async with going(runtime, run):
                    call(runtime, run, "a")
        assert turns(recording) == [explicit.id] * 2


def test_a_call_of_a_run_that_was_never_seen_to_start_is_guarded_by_its_id() -> None:
    """A run id alone makes a strong turn, as in a worker of a durable workflow."""
    with guarded() as recording:
        runtime = recording.runtime
        assert runtime is not None
        assert "tool_loop_detected" in [call(runtime, "elsewhere", "a") for _ in range(3)][2]
        assert {span.attributes[semconv.TURN_SOURCE] for span in recording.spans} == {"thread"}


async def failing(runtime: Runtime) -> None:
    async with going(runtime, "r1"):
        call(runtime, "r1", "a")
        raise LookupError


async def test_a_failed_run_leaves_nothing_behind() -> None:
    """The turn of a failed run that cannot be resumed is over, even if its conversation is known."""
    with guarded() as recording:
        runtime = recording.runtime
        assert runtime is not None
        with pytest.raises(LookupError):
            await failing(runtime)
        assert runtime.guard.live == 0


async def test_known_runs_are_bounded(monkeypatch: Any) -> None:
    """Runs beyond the bound are guarded by their id."""
    monkeypatch.setattr(runs, "MOST_KNOWN", 1)
    with guarded() as recording:
        runtime = recording.runtime
        assert runtime is not None
        async with going(runtime, "r1"), going(runtime, "r2"):
            assert runtime.runs.known("r2") is None
            assert "tool_loop_detected" in [call(runtime, "r2", "a") for _ in range(3)][2]


def test_a_sentence_about_a_failure_is_read_with_the_next_result() -> None:
    """A sentence about a call that raised is added to the next result."""

    def fail() -> None:
        raise LookupError("no such thing")

    with guarded() as recording:
        runtime = recording.runtime
        assert runtime is not None
        for _ in range(2):
            with pytest.raises(LookupError):
                call(runtime, "r1", "a", fail)
        assert recording.outcomes == ["failed", "failed"]
        noting = ToolAdapter(
            ADAPTER.read, ADAPTER.answer, annotate=lambda reading, result, text: result + text, by_run=True
        )
        guarded_call = open_call(runtime, noting, "r1", ("b",), {})
        assert guarded_call is not None
        with guarded_call:
            assert "About the earlier call of look" in guarded_call.result("seen")


def test_a_chunk_of_a_stream_costs_few_calls() -> None:
    """A graph's run yields several chunks at each step: none makes an object, or looks for an unfinished run."""
    stream = RunTarget("m", "f", lambda run, args, kwargs: RunInfo(can_continue=False), CallStyle.GENERATOR)
    with guarded() as recording:
        runtime = recording.runtime
        assert runtime is not None

        def consume(chunks: int) -> int:
            run = generator_of_run(
                lambda args, kwargs: (AgentRun(runtime, stream, None, (), {}), lambda: iter(range(chunks)))
            )
            return steps(lambda: deque(run(), maxlen=0))

        consume(1)  # a first run costs more
        assert (consume(110) - consume(10)) / 100 <= 24


@pytest.mark.parametrize("style", [CallStyle.GENERATOR, CallStyle.ASYNC_GENERATOR])
async def test_a_streamed_run_keeps_its_own_spans_in_each_other(style: CallStyle) -> None:
    """A span that is current when the framework yields is the parent of its later spans, and not our span."""

    def stream() -> Iterator[int]:
        with tracer.start_as_current_span("workflow"):
            yield 1
            tracer.start_span("inner").end()
            yield 2

    async def async_stream() -> AsyncIterator[int]:
        for number in stream():
            yield number

    function = stream if style is CallStyle.GENERATOR else async_stream
    wrapped = wrapper_of(RunTarget("", "", lambda *_: RunInfo(), style), Original(function, None))
    with guarded() as recording:
        tracer = recording.tracer_provider.get_tracer("framework")
        numbers = list(wrapped()) if style is CallStyle.GENERATOR else [number async for number in wrapped()]
        assert numbers == [1, 2]
        spans = {span.name: span for span in recording._spans.get_finished_spans()}
        assert spans["inner"].parent.span_id == spans["workflow"].context.span_id
        assert spans["workflow"].parent.span_id == spans["invoke_agent"].context.span_id
        assert not trace.get_current_span().get_span_context().is_valid
