"""The span and the count of a turn, with its end."""

from __future__ import annotations

import contextlib
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import TYPE_CHECKING, Any

import openai
import pytest
from opentelemetry.sdk.trace.sampling import ParentBasedTraceIdRatio
from opentelemetry.trace import StatusCode

import otel_loopguard as loopguard
from otel_loopguard import Policy, semconv
from otel_loopguard.instrumentation.agent_run import AgentRun, run_plain
from otel_loopguard.instrumentation.targets import RunTarget
from otel_loopguard.testing import guarded
from otel_loopguard.turns.runs import RunInfo
from tests.models.conversation import RejectedError
from tests.models.scripts import Looping, Working, call
from tests.models.server import Server
from tests.store.memory import FlakyStore

if TYPE_CHECKING:
    from collections.abc import Callable

    from opentelemetry.sdk.trace import ReadableSpan
    from opentelemetry.sdk.trace.sampling import Sampler

    from otel_loopguard.testing import Recording
    from tests.models.conversation import Asked, Reply
    from tests.models.scripts import Script

TOOLS: Any = [{"type": "function", "function": {"name": "read_file", "parameters": {"type": "object"}}}]


@loopguard.tool
def look(path: str) -> str:
    """Look at something."""
    return f"there is {path}"


def of_turns(recording: Recording) -> list[ReadableSpan]:
    """The spans of turns."""
    return [
        span
        for span in recording._spans.get_finished_spans()
        if span.attributes and span.attributes.get(semconv.OPERATION_NAME) == "invoke_agent"
    ]


def ask(script: Script) -> None:
    """Run a loop over a client of a scripted model, until that answers."""
    with Server(script).running() as server:
        ask_server(server)


def ask_server(server: Server, question: str = "a question") -> None:
    """Run a loop over a client of a server, until the model answers."""
    messages: list[Any] = [{"role": "user", "content": question}]
    with openai.OpenAI(base_url=f"{server.url}/v1", api_key="local", max_retries=0) as client:
        while True:
            made = client.chat.completions.create(model="gpt-4.1", messages=messages, tools=TOOLS).choices[0].message
            messages.append(made.model_dump(exclude_none=True))
            if not made.tool_calls:
                return
            messages += [{"role": "tool", "tool_call_id": one.id, "content": "a text"} for one in made.tool_calls]


def block(error: type[Exception] | None = None) -> None:
    """Make a call in a block, which this exception leaves."""
    with contextlib.suppress(ZeroDivisionError), loopguard.turn("c", agent_name="helper"):
        look("a")
        if error is not None:
            raise error


def framework(recording: Recording) -> None:
    """Run an agent of a framework that makes a call."""
    assert recording.runtime is not None
    target = RunTarget("m", "f", lambda run, args, kwargs: RunInfo())
    run_plain(AgentRun(recording.runtime, target, None, (), {}), lambda: look("a"))


@pytest.mark.parametrize(
    ("work", "end", "action"),
    [
        (lambda _: block(), "answered", "none"),
        (lambda _: block(ZeroDivisionError), "failed", "none"),
        (framework, "answered", "none"),
        (lambda _: ask(Working(call("read_file", path="a"))), "answered", "none"),
        (lambda _: ask(Looping(call("read_file", path="a"))), "concluded", "conclude"),
    ],
    ids=["block", "failed block", "framework", "client", "concluded client"],
)
def test_a_turn_has_one_span_with_its_end_around_its_calls(
    work: Callable[[Recording], None], end: str, action: str
) -> None:
    """It begins before the first call and ends after the last; it is counted once, by its strongest action."""
    with guarded(clock=lambda: 0.0) as recording:
        work(recording)
        (span,) = of_turns(recording)
        calls = recording.spans
        assert recording.counted(semconv.METRIC_TURNS_ENDED) == 1
        ended = {semconv.TURN_END: end, semconv.ACTION: action}
        assert [point.attributes for point in recording.points(semconv.METRIC_TURNS_ENDED)] == [ended]
    assert span.attributes is not None
    assert span.attributes[semconv.TURN_END] == end
    assert (span.status.status_code is StatusCode.ERROR) is (end == "failed")
    assert {one.parent and one.parent.span_id for one in calls} == {span.context.span_id}
    assert {one.attributes and one.attributes[semconv.TURN_ID] for one in calls} == {span.attributes[semconv.TURN_ID]}
    assert span.start_time is not None
    assert span.end_time is not None
    assert all(span.start_time <= (one.start_time or 0) and (one.end_time or 0) <= span.end_time for one in calls)


def requests_of_runs(recording: Recording) -> list[tuple[int, int]]:
    """The numbers of runs and of their model requests, of each series."""
    points = recording.points(semconv.METRIC_INVOKE_AGENT_INFERENCE_CALLS)
    return [(point.count, point.sum) for point in points]


def test_the_requests_of_a_turn_are_those_that_its_model_got() -> None:
    """Also of turns at once, in one block: no request is lost or counted twice."""
    observing = guarded(Policy(action="observe"))  # so many equal calls in a turn are a loop
    with observing as recording, Server(Working(call("read_file", path="a"))).running() as server:
        with loopguard.turn(), ThreadPoolExecutor(16) as pool:
            questions = [f"task-{number}: q" for number in range(64)]
            asked = [pool.submit(copy_context().run, ask_server, server, question) for question in questions]
            assert all(one.result() is None for one in asked)
        assert requests_of_runs(recording) == [(1, len(server.exchanges))] == [(1, 128)]
        ask_server(server, "task-64: q")
        assert requests_of_runs(recording) == [(2, 130)]


def test_a_request_that_fails_is_one_of_the_turn() -> None:
    """The conventions count it, too."""

    def script(_: Asked) -> Reply:
        raise RejectedError("no")

    with guarded() as recording:
        with pytest.raises(openai.BadRequestError), loopguard.turn():
            ask(script)
        assert requests_of_runs(recording) == [(1, 1)]


def test_a_turn_without_a_known_request_has_no_number_of_them() -> None:
    """The client of its agent is not read: zero would be wrong."""
    with guarded() as recording:
        block()
        assert recording.counted(semconv.METRIC_INVOKE_AGENT_TOOL_CALLS) == 1
        assert requests_of_runs(recording) == []


def test_a_request_inside_a_call_is_one_of_the_agent_in_it() -> None:
    """The agent around that call has not made it."""

    @loopguard.tool
    def ask_expert() -> None:
        ask(Working())

    with guarded() as recording:
        with loopguard.turn():
            ask(Working(call("read_file", path="a")))
            ask_expert()
        assert requests_of_runs(recording) == [(1, 2)]


@pytest.mark.parametrize("place", ["around", "inside"])
def test_a_turn_has_no_second_span_if_another_instrumentation_has_one(place: str) -> None:
    """Its agent's span around the block, or in it, is that of the turn. The turn is counted all the same."""
    with guarded() as recording:
        other = recording.tracer_provider.get_tracer("another instrumentation")
        agent = other.start_as_current_span("invoke_agent a", attributes={semconv.OPERATION_NAME: "invoke_agent"})
        with contextlib.ExitStack() as stack:
            for one in (agent, loopguard.turn()) if place == "around" else (loopguard.turn(), agent):
                stack.enter_context(one)
            look("a")
        assert [span.name for span in of_turns(recording)] == ["invoke_agent a"]
        assert recording.counted(semconv.METRIC_TURNS_ENDED) == 1


def test_a_turn_inside_of_a_servers_span_has_its_own() -> None:
    """The span of the request tells nothing of the turn. The span of a call keeps its parent."""
    with guarded() as recording:
        with recording.tracer_provider.get_tracer("a server").start_as_current_span("POST /chat") as request:
            block()
        (span,) = of_turns(recording)
        assert span.parent is not None
        assert span.parent.span_id == request.get_span_context().span_id
        assert semconv.OWN_TRACE not in (span.attributes or {})


def test_nested_work_is_no_turn_of_its_own() -> None:
    """An agent's run in a block, and one in a call, are parts of the block's turn."""

    @loopguard.tool
    def ask_expert() -> None:
        with loopguard.turn():
            look("a")

    with guarded() as recording:
        with loopguard.turn():
            framework(recording)
            ask_expert()
        assert len(of_turns(recording)) == 1
        assert recording.counted(semconv.METRIC_TURNS_ENDED) == 1


def traces_of(turn_id: str | None, *, shared: bool = True, sampler: Sampler | None = None) -> set[int]:
    """The traces of a turn's spans, of which another process has a part if it is shared."""
    found = set()
    for _ in range(2):  # each with providers and a guard of its own
        with guarded(sampler=sampler) as recording:
            assert recording.runtime is not None
            recording.runtime.guard.store = FlakyStore() if shared else None
            with loopguard.turn(turn_id=turn_id):
                look("a")
            found |= {span.context.trace_id for span in recording._spans.get_finished_spans()}
    return found


def test_a_shared_turn_is_one_trace_in_all_processes() -> None:
    """If the program has given its id; turns of other ids, and those of one process, are traces of their own."""
    assert len(traces_of("job 7")) == 1
    assert traces_of("job 7") == traces_of("job 7") != traces_of("job 8")
    assert len(traces_of(None)) == len(traces_of("job 7", shared=False)) == 2


def test_all_processes_sample_a_shared_turn_alike() -> None:
    """The sampler decides as without a parent, so that a share of the turns is kept, each one whole."""
    half = ParentBasedTraceIdRatio(0.5)
    kept = [traces_of(f"job {number}", sampler=half) for number in range(20)]
    assert {len(traces) for traces in kept} == {0, 1}


def test_a_shared_turn_in_a_span_stays_in_its_trace() -> None:
    """The context of the program's own spans is stronger."""
    with guarded() as recording:
        assert recording.runtime is not None
        recording.runtime.guard.store = FlakyStore()
        with recording.tracer_provider.get_tracer("a worker").start_as_current_span("task"):
            block()
            with loopguard.turn(turn_id="job 7"):
                look("a")
        assert len({span.context.trace_id for span in recording._spans.get_finished_spans()}) == 1
