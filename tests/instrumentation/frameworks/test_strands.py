"""Strands Agents: the framework's own features."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

pytest.importorskip("strands", reason="strands-agents is tested in an environment of its own")

from pydantic import BaseModel
from strands import ToolContext, tool
from strands.hooks import AfterToolCallEvent, BeforeToolCallEvent
from strands.multiagent import GraphBuilder, Swarm
from strands.session import FileSessionManager
from strands.telemetry import get_tracer
from strands.tools.executors import SequentialToolExecutor
from strands.types.exceptions import EventLoopException

import otel_loopguard as loopguard
from otel_loopguard import Policy, ToolContract, ToolLoopError, semconv
from otel_loopguard.testing import Ask, assert_no_trip, guarded
from tests.instrumentation.frameworks.looking import assert_nothing_left, attribute, calls
from tests.scripted.strands import (
    ScriptedModel,
    agent_of,
    run_async,
    run_stream,
    run_sync,
)

pytestmark = pytest.mark.filterwarnings("ignore")

WAYS = pytest.mark.parametrize("go", [run_sync, run_async, run_stream])
EXECUTORS = pytest.mark.parametrize("options", [{}, {"tool_executor": SequentialToolExecutor()}])
ABORTS = Policy(abort_after=1)


@tool
def look(path: str) -> str:
    """Look at something."""
    return f"there is {path}"


def model_of(*paths: str, name: str = "look", answer: str = "Done.") -> ScriptedModel:
    return ScriptedModel(calls(paths, name), answer)


@WAYS
@EXECUTORS
def test_an_aborted_run_reaches_the_caller(go: Any, options: Any) -> None:
    """``except ToolLoopError`` catches an abort in each way of running, and no turn is left."""
    with guarded(ABORTS) as recording:
        with pytest.raises(ToolLoopError) as caught:
            go(agent_of(model_of(*["a"] * 9), [look], **options))
        assert isinstance(caught.value, EventLoopException)
        assert caught.value.tool_name == "look"
        assert caught.value.turn_id == attribute(recording, semconv.TURN_ID)[0]
        assert recording.outcomes == ["executed", "nudged", "blocked", "aborted"]
        assert_nothing_left(recording)


def test_an_agent_can_go_on_after_an_abort() -> None:
    """The framework completes the messages, and the next message of the user is a new turn."""
    model = model_of(*["a"] * 4)
    with guarded(ABORTS) as recording:
        agent = agent_of(model, [look])
        with pytest.raises(ToolLoopError):
            run_sync(agent)
        model.steps = []
        assert str(run_sync(agent)).strip() == "Done."
        asked = [use for message in model.seen[-1] for use in message["content"] if "toolUse" in use]
        assert len(model.returned) == len(asked) == 4
        assert_nothing_left(recording)


@WAYS
def test_beside_its_own_spans_each_call_has_one(go: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each call of a known tool has one ``execute_tool`` span, theirs or ours: run, refused or failed."""
    model = ScriptedModel([*[[Ask("look", {"path": "a"})]] * 3, [Ask("fetch", {"path": "a"})]])

    @tool
    def fetch(path: str) -> str:
        """Fetch."""
        raise LookupError(path)

    with guarded() as recording:
        monkeypatch.setattr(get_tracer(), "tracer", recording.tracer_provider.get_tracer("strands.telemetry.tracer"))
        go(agent_of(model, [look, fetch]))
        spans = recording._spans.get_finished_spans()
        executions = [span for span in spans if span.name.startswith("execute_tool ")]
        assert [span.name.split()[1] for span in executions] == ["look", "look", "look", "fetch"]
        assert recording.outcomes == ["executed", "nudged", "blocked", "failed"]
        assert [span.name for span in recording.spans if span in executions] == ["execute_tool look"]  # refused
        assert recording.counted(semconv.METRIC_TOOL_CALLS) == 4
        (ours,) = [span for span in spans if span.parent is None]
        inside = [span.name for span in spans if span.parent and span.parent.span_id == ours.context.span_id]
        assert ours.instrumentation_scope.name == semconv.SCOPE
        assert inside == ["invoke_agent helper"]


@WAYS
def test_a_failing_tool_is_read_by_the_model_as_before(go: Any) -> None:
    """The model reads the exception's text, and a call that repeats the same failure is refused."""

    @tool
    def fetch(path: str) -> str:
        """Fetch."""
        raise LookupError("there is no such row")

    model = model_of(*["a"] * 4, name="fetch")
    with guarded() as recording:
        go(agent_of(model, [fetch]))
        assert "there is no such row" in model.read[0]
        assert model.returned[0]["status"] == "error"
        assert recording.outcomes[0] == "failed"
        assert "tool_loop_detected" in model.read[-1]
        assert model.returned[-1]["status"] == "error"


def graph_of(*models: ScriptedModel) -> Any:
    """A graph of agents, one after the other."""
    builder = GraphBuilder()
    for number, model in enumerate(models):
        builder.add_node(agent_of(model, [look], name=f"agent_{number}"), f"agent_{number}")
        if number:
            builder.add_edge(f"agent_{number - 1}", f"agent_{number}")
    return builder.build()


def swarm_of(*models: ScriptedModel) -> Any:
    """A swarm of agents: the first one begins."""
    return Swarm([agent_of(model, [look], name=f"agent_{number}") for number, model in enumerate(models)])


@WAYS
def test_each_node_of_a_graph_is_a_turn(go: Any) -> None:
    """Each node has messages of its own: three nodes may look at one file."""
    models = [model_of("a") for _ in range(3)]
    with guarded() as recording:
        go(graph_of(*models))
        assert len(set(attribute(recording, semconv.TURN_ID))) == 3
        assert attribute(recording, semconv.AGENT_NAME) == ["agent_0", "agent_1", "agent_2"]
        assert recording.outcomes == ["executed"] * 3
        assert [model.read for model in models] == [["there is a"]] * 3
        assert_nothing_left(recording)


def test_the_messages_of_parallel_nodes_are_told_apart() -> None:
    """Equal calls of one message are no repeats, whatever another node does meanwhile."""

    @tool
    async def fetch(path: str) -> str:
        """Fetch."""
        await asyncio.sleep(0.05 if path == "a" else 0.01)
        return f"row of {path}"

    steps = {"equal": [[Ask("fetch", {"path": "a"})] * 4], "other": [[Ask("fetch", {"path": n})] for n in "bcdefghij"]}
    builder = GraphBuilder()
    for name, asked in steps.items():
        executor = SequentialToolExecutor()
        builder.add_node(agent_of(ScriptedModel(asked), [fetch], name=name, tool_executor=executor), name)
    with guarded() as recording:
        run_sync(builder.build())
        assert recording.outcomes == ["executed"] * 13
        assert_nothing_left(recording)


@WAYS
def test_a_turn_around_a_graph_is_one_turn(go: Any) -> None:
    """In a turn that the program opened, repeats are counted across the nodes."""
    with guarded() as recording:
        with loopguard.turn():
            go(graph_of(model_of("a"), model_of("a")))
        assert recording.outcomes == ["executed", "nudged"]
        assert_nothing_left(recording)


@WAYS
def test_a_hand_over_stays_in_the_turn(go: Any) -> None:
    """The agent that takes over in a swarm continues the turn."""
    hand_over = Ask("handoff_to_agent", {"agent_name": "agent_1", "message": "Go on."})
    first = ScriptedModel([[Ask("look", {"path": "a"})], [hand_over]])
    with guarded() as recording:
        go(swarm_of(first, model_of("a")))
        assert len(set(attribute(recording, semconv.TURN_ID))) == 1
        assert attribute(recording, semconv.AGENT_NAME) == ["agent_0", "agent_0", "agent_1"]
        assert_nothing_left(recording)


@WAYS
@pytest.mark.parametrize("make", [graph_of, swarm_of])
def test_an_abort_in_several_agents_reaches_the_caller(go: Any, make: Any) -> None:
    """An abort of one agent ends the graph or swarm."""
    with guarded(ABORTS) as recording:
        with pytest.raises(ToolLoopError):
            go(make(model_of(*["a"] * 9), model_of()))
        assert_nothing_left(recording)


@WAYS
def test_the_hooks_of_a_tool_are_part_of_its_call(go: Any) -> None:
    """What a hook cancels has failed; what it changes is the result; a refused call has no hooks."""
    asked = []

    def before(event: BeforeToolCallEvent) -> None:
        path = event.tool_use["input"]["path"]
        asked.append(path)
        event.cancel_tool = "not this one" if path == "forbidden" else False

    def after(event: AfterToolCallEvent) -> None:
        if event.tool_use["input"]["path"] == "changed":
            event.result = {**event.result, "content": [{"text": "changed"}]}

    model = model_of("forbidden", "changed", "a", "a", "a")
    with guarded() as recording:
        agent = agent_of(model, [look])
        agent.hooks.add_callback(BeforeToolCallEvent, before)
        agent.hooks.add_callback(AfterToolCallEvent, after)
        go(agent)
        assert model.read[:3] == ["not this one", "changed", "there is a"]
        assert asked == ["forbidden", "changed", "a", "a"]
        assert recording.outcomes == ["failed", "executed", "executed", "nudged", "blocked"]


@WAYS
def test_a_call_that_waits_for_a_person_is_one_call(go: Any, tmp_path: Any) -> None:
    """A call that waited for an answer is not done; after it, it runs once, in the same turn."""
    ran = []

    def approve(event: BeforeToolCallEvent) -> None:
        if event.tool_use["name"] == "delete":
            event.interrupt("approval", reason="sure?")

    @tool
    def delete(path: str) -> str:
        """Delete something."""
        ran.append(path)
        return f"{path} is gone"

    with guarded() as recording:
        sessions = FileSessionManager(session_id="session-1", storage_dir=str(tmp_path))
        agent = agent_of(model_of("a", name="delete"), [delete], session_manager=sessions)
        agent.hooks.add_callback(BeforeToolCallEvent, approve)
        result = go(agent)
        result = result[-1]["result"] if isinstance(result, list) else result
        assert result.stop_reason == "interrupt"
        assert not ran
        answer = {"interruptResponse": {"interruptId": result.interrupts[0].id, "response": "yes"}}
        agent([answer])
        assert ran == ["a"]
        assert recording.outcomes == ["cancelled", "executed"]
        assert len(set(attribute(recording, semconv.TURN_ID))) == 1
        assert_no_trip(recording)
        assert_nothing_left(recording)


@WAYS
def test_the_tool_of_a_structured_answer_is_no_call(go: Any) -> None:
    """Its name is the model's; its call is the agent's answer, and is neither guarded nor counted."""

    class Answer(BaseModel):
        """The answer."""

        text: str

    model = ScriptedModel([[Ask("look", {"path": "a"})], [Ask("Answer", {"text": "it is there"})]])
    with guarded() as recording:
        result = go(agent_of(model, [look]), structured_output_model=Answer)
        result = result[-1]["result"] if isinstance(result, list) else result
        assert result.structured_output.text == "it is there"
        assert attribute(recording, semconv.TOOL_NAME) == ["look"]


def test_a_call_by_hand_is_no_call_of_a_model() -> None:
    """``agent.tool.look()`` is the program's own call."""
    with guarded() as recording:
        agent = agent_of(model_of(), [look])
        for _ in range(5):
            assert agent.tool.look(path="a")["status"] == "success"
        assert recording.spans == []


@EXECUTORS
def test_a_cancelled_run_leaves_nothing(options: Any) -> None:
    """The call of a cancelled task is cancelled, and its turn is closed."""

    async def cancelled() -> None:
        began = asyncio.Event()

        @tool
        async def wait(path: str) -> str:
            """Wait."""
            began.set()
            await asyncio.Event().wait()
            return path

        agent = agent_of(model_of("a", name="wait"), [wait], **options)
        task = asyncio.create_task(agent.invoke_async("Go on."))
        await began.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    with guarded() as recording:
        asyncio.run(cancelled())
        assert recording.outcomes == ["cancelled"]
        assert_nothing_left(recording)


def test_a_sentence_is_one_more_block() -> None:
    """The other blocks of a result, and the result that the tool returned, stay as they are."""
    rows = {"status": "success", "content": [{"json": {"rows": 2}}]}

    @tool
    def fetch(path: str) -> Any:
        """Fetch."""
        return rows

    model = model_of("a", "a", name="fetch")
    with guarded() as recording:
        run_sync(agent_of(model, [fetch]))
        assert recording.outcomes == ["executed", "nudged"]
        assert model.returned[1]["content"][0] == {"json": {"rows": 2}}
        assert list(model.returned[1]["content"][1]) == ["text"]
        assert rows["content"] == [{"json": {"rows": 2}}]


@WAYS
def test_an_earlier_result_that_is_given_again_is_a_success(go: Any) -> None:
    """Its status is that of the call that ran."""
    model = model_of("a", "a", "a")
    with guarded(Policy(tools={"look": ToolContract(kind="read", reuse=True)})) as recording:
        go(agent_of(model, [look]))
        assert recording.outcomes[-1] == "reused"
        assert model.returned[-1]["status"] == "success"


def test_a_call_beside_one_that_waits_for_a_person_has_its_own_result() -> None:
    """The results of one message may be in one list: that of a parallel call is not taken for the waiting one's."""

    @tool(context=True)
    async def approve(path: str, tool_context: ToolContext) -> str:
        """Ask a person, when the other call is done."""
        await asyncio.sleep(0.05)
        return str(tool_context.interrupt("approval", reason="sure?"))

    steps = [[Ask("approve", {"path": "a"}), Ask("look", {"path": "b"})]]
    with guarded() as recording:
        assert run_sync(agent_of(ScriptedModel(steps), [approve, look])).stop_reason == "interrupt"
        assert sorted(recording.outcomes) == ["cancelled", "executed"]
