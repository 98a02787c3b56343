"""The features of LangGraph: threads, interrupts, sub-graphs, commands, artifacts, streams."""

from __future__ import annotations

import asyncio
import threading
import uuid
from typing import Annotated, Any

import pytest

pytest.importorskip("langgraph")

from langchain_core.messages import HumanMessage, ToolMessage
from langchain_core.tools import InjectedToolCallId, StructuredTool, tool
from langgraph.checkpoint.memory import MemorySaver
from langgraph.graph import START, StateGraph
from langgraph.types import Command, interrupt

from otel_loopguard import ToolLoopError, semconv
from otel_loopguard.engine.policy.policy import Policy, ToolContract
from otel_loopguard.testing import Ask, assert_no_trip, assert_trips, guarded
from otel_loopguard.turns.scope import current_scope
from tests.scripted.langchain import (
    QUESTION,
    ScriptedModel,
    State,
    own_graph,
    prebuilt_agent,
    text_of,
)

pytestmark = pytest.mark.filterwarnings("ignore")


@tool
def look(path: str) -> str:
    """Look at something."""
    return f"there is {path}"


def script(*paths: str, name: str = "look") -> ScriptedModel:
    return ScriptedModel(steps=[[Ask(name, {"path": path})] for path in paths], seen=[])


def results(output: Any) -> list[ToolMessage]:
    return [message for message in output["messages"] if isinstance(message, ToolMessage)]


def turn_ids(recording: Any) -> list[str]:
    return [span.attributes[semconv.TURN_ID] for span in recording.spans]


def test_each_message_of_a_thread_is_a_turn_of_its_own() -> None:
    """The second message may read the same file as the first, on the same thread id."""
    config: Any = {"configurable": {"thread_id": "thread-1"}}
    with guarded() as recording:
        agent = prebuilt_agent(script("a", "a"), [look], checkpointer=MemorySaver())
        for _ in range(3):
            output = agent.invoke(QUESTION, config)
        assert [message.status for message in results(output)] == ["success"] * 6
        assert len(set(turn_ids(recording))) == 3
        assert {span.attributes[semconv.CONVERSATION_ID] for span in recording.spans} == {"thread-1"}
        assert all(trip.action == "nudge" for trip in recording.trips)
        assert recording.runtime.guard.live <= 1


def test_an_interrupted_call_that_is_resumed_is_one_call() -> None:
    """A resumed run starts its tools node over: the turn is the same, and the call is no repeat."""
    ran = []

    @tool
    def approve(path: str) -> str:
        """Ask a person."""
        answer = interrupt("may I?")
        ran.append(path)
        return f"{answer}, {path}"

    config: Any = {"configurable": {"thread_id": "t"}}
    with guarded() as recording:
        agent = prebuilt_agent(script("a", "b", "c", name="approve"), [approve], checkpointer=MemorySaver())
        agent.invoke(QUESTION, config)
        for _ in range(3):
            output = agent.invoke(Command(resume="yes"), config)
        assert ran == ["a", "b", "c"]
        assert [text_of(message) for message in results(output)] == ["yes, a", "yes, b", "yes, c"]
        assert len(set(turn_ids(recording))) == 1
        assert recording.outcomes.count("executed") == 3
        assert set(recording.outcomes) == {"cancelled", "executed"}
        assert_no_trip(recording)


def test_a_sub_graph_belongs_to_the_turn_of_its_graph() -> None:
    """Equal calls from a graph and from its sub-graphs are repeats of one call."""
    with guarded() as recording:
        inner = own_graph(script("a", "a"), [look])

        def fresh(_: State) -> dict[str, Any]:
            return {"messages": inner.invoke(QUESTION)["messages"]}

        graph = StateGraph(State)
        graph.add_node("one", fresh)
        graph.add_node("two", fresh)
        graph.add_edge(START, "one")
        graph.add_edge("one", "two")
        graph.compile().invoke(QUESTION)
        assert len(set(turn_ids(recording))) == 1
        assert recording.outcomes == ["executed", "nudged", "blocked", "blocked"]


def test_an_agent_that_is_a_tool_has_a_turn_of_its_own() -> None:
    """Two calls of a sub-agent that makes the same call each time are no loop of the outer agent."""
    with guarded() as recording:
        helper = prebuilt_agent(script("shared"), [look])

        @tool
        def ask_helper(path: str) -> str:
            """Ask the helper."""
            return f"{path}: {text_of(helper.invoke(QUESTION)['messages'][-1])}"

        agent = prebuilt_agent(script("q1", "q2", "q3", "q4", name="ask_helper"), [ask_helper])
        output = agent.invoke(QUESTION)
        assert [message.status for message in results(output)] == ["success"] * 4
        assert len(recording.spans) == 8
        assert len(set(turn_ids(recording))) == 5
        assert_no_trip(recording)


def test_a_command_stays_one() -> None:
    """The message in a result that is a ``Command`` takes the sentence, and its repeat is refused."""
    ran = []

    @tool
    def look_into(path: str, tool_call_id: Annotated[str, InjectedToolCallId]) -> Command:  # type: ignore[type-arg]
        """Read something into the state."""
        ran.append(path)
        return Command(update={"messages": [ToolMessage(f"read {path}", tool_call_id=tool_call_id)]})

    with guarded() as recording:
        output = prebuilt_agent(script("a", "a", "a", name="look_into"), [look_into]).invoke(QUESTION)
        read = [text_of(message) for message in results(output)]
        assert read[0] == "read a"
        assert read[1].startswith("read a\n\n[loopguard]")
        assert "tool_loop_detected" in read[2]
        assert ran == ["a", "a"]
        assert recording.outcomes == ["executed", "nudged", "blocked"]


def test_an_artifact_is_left_alone() -> None:
    """A nudge is added to the text for the model, and not to the artifact for the program."""
    artifact = {"rows": [1, 2]}
    fetch = StructuredTool.from_function(
        lambda path: (f"2 rows of {path}", artifact),
        name="look",
        description="Fetch.",
        response_format="content_and_artifact",
        args_schema=look.args_schema,
    )
    with guarded() as recording:
        first, second = results(prebuilt_agent(script("a", "a"), [fetch]).invoke(QUESTION))
        assert first.artifact == second.artifact == artifact
        assert text_of(first) == "2 rows of a"
        assert text_of(second).startswith("2 rows of a\n")
        assert recording.outcomes == ["executed", "nudged"]


def test_json_stays_json() -> None:
    """No sentence is added to JSON, which a program may parse; the model reads it in its request."""

    @tool
    def fetch(path: str) -> str:
        """Fetch."""
        return '{"rows": 2}'

    model = ScriptedModel(steps=[[Ask("fetch", {"path": "a"})], [Ask("fetch", {"path": "a"})]], seen=[])
    with guarded():
        results_of_run = results(prebuilt_agent(model, [fetch]).invoke(QUESTION))
    assert [text_of(message) for message in results_of_run] == ['{"rows": 2}'] * 2
    assert "fetch" in text_of(model.seen[-1][-1])


def test_a_direct_answer_is_for_the_user() -> None:
    """The result of a return_direct tool ends the run as its answer, without a sentence for the model."""
    direct = StructuredTool.from_function(
        lambda path: "the answer", name="look", description="Answer.", args_schema=look.args_schema, return_direct=True
    )
    model = ScriptedModel(steps=[[Ask("look", {"path": "a"})] * 2], seen=[])
    with guarded():
        assert {text_of(m) for m in results(prebuilt_agent(model, [direct]).invoke(QUESTION))} == {"the answer"}


def test_nothing_of_ours_is_current_between_two_pieces_of_a_stream() -> None:
    """The code that consumes a stream is not in the agent's turn, even after it leaves the stream early."""
    with guarded() as recording:
        for _ in prebuilt_agent(script("a", "b"), [look]).stream(QUESTION):
            assert current_scope() is None
        for _ in prebuilt_agent(script("a", "b"), [look]).stream(QUESTION):
            break
        assert current_scope() is None
        assert recording.runtime.guard.live == 0


async def test_runs_at_the_same_time_have_turns_of_their_own() -> None:
    """Agents that make equal calls in parallel are not counted together."""
    with guarded() as recording:
        agents = [prebuilt_agent(script("a", "a"), [look]) for _ in range(10)]
        outputs = await asyncio.gather(*(agent.ainvoke(QUESTION) for agent in agents))
        assert all(message.status == "success" for output in outputs for message in results(output))
        assert len(set(turn_ids(recording))) == 10
        assert recording.runtime.guard.live == 0


def test_threads_have_turns_of_their_own() -> None:
    """Each run in a thread has a separate turn."""
    with guarded() as recording:
        agents = [prebuilt_agent(script("a", "a"), [look]) for _ in range(8)]
        threads = [threading.Thread(target=agent.invoke, args=(QUESTION,)) for agent in agents]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(timeout=30)
        assert len(set(turn_ids(recording))) == 8
        assert "blocked" not in recording.outcomes


async def test_a_cancelled_call_ends_its_span_and_leaves_nothing() -> None:
    """If a run is cancelled while a tool runs, the call's span is marked cancelled and the turn is closed."""
    started = asyncio.Event()

    @tool
    async def wait_long(path: str) -> str:
        """Wait."""
        started.set()
        await asyncio.sleep(30)
        return path

    with guarded() as recording:
        run = asyncio.ensure_future(prebuilt_agent(script("a", name="wait_long"), [wait_long]).ainvoke(QUESTION))
        await asyncio.wait_for(started.wait(), 10)
        run.cancel()
        with pytest.raises(asyncio.CancelledError):
            await run
        assert recording.outcomes == ["cancelled"]
        assert current_scope() is None
        assert recording.runtime.guard.live == 0


def test_an_exception_of_a_tool_is_told_by_its_type_only() -> None:
    """The span has the exception's class, and not its message, which quotes arguments."""

    @tool
    def fail(path: str) -> str:
        """Fail."""
        raise FileNotFoundError(f"no {path} here")

    with guarded() as recording:
        with pytest.raises(FileNotFoundError, match="no secret-path here"):
            own_graph(script("secret-path", name="fail"), [fail], handle_tool_errors=False).invoke(QUESTION)
        (span,) = recording.spans
        assert span.attributes[semconv.ERROR_TYPE] == "FileNotFoundError"
        assert span.attributes[semconv.OUTCOME] == "failed"
        assert "secret-path" not in span.to_json()


def test_the_abort_is_an_exception_that_callers_catch() -> None:
    """``except ToolLoopError`` around the run catches it, although every node below catches ``Exception``."""

    def careless(state: State) -> dict[str, Any]:
        for number in range(20):
            try:
                look.invoke({"name": "look", "args": {"path": "a"}, "id": f"c{number}", "type": "tool_call"})
            except Exception:  # noqa: PERF203 - the point of this test
                continue
        return {"messages": [HumanMessage("never reached")]}

    graph = StateGraph(State)
    graph.add_node("careless", careless)
    graph.add_edge(START, "careless")
    with guarded(Policy(abort_after=2)) as recording:
        with pytest.raises(ToolLoopError) as caught:
            graph.compile().invoke(QUESTION)
        assert caught.value.tool_name == "look"
        assert caught.value.turn_id == turn_ids(recording)[0]
        assert recording.outcomes[-1] == "aborted"


def test_a_thread_id_makes_bare_calls_a_turn() -> None:
    """Tools that are invoked with a thread id, and outside of any graph, are guarded as one turn."""
    config: Any = {"configurable": {"thread_id": "t"}}
    with guarded() as recording:
        read = [look.invoke({"path": "a"}, config) for _ in range(4)]
        assert read[0] == "there is a"
        assert "tool_loop_detected" in read[3]
        assert {span.attributes[semconv.TURN_SOURCE] for span in recording.spans} == {"thread"}


def test_bare_calls_without_a_turn_are_only_watched() -> None:
    """A program that calls a tool in a loop is no agent, and no call of it is refused."""
    with guarded() as recording:
        assert {look.invoke({"path": "a"}) for _ in range(6)} == {"there is a"}
        assert_trips(recording, "generic_repeat", action="observe")


def test_an_earlier_result_can_be_given_again() -> None:
    """With reuse in the contract, the model reads the earlier result with a note, and the tool does not run."""
    ran = []

    @tool
    def fetch(path: str) -> str:
        """Fetch."""
        ran.append(path)
        return f"rows of {path}"

    policy = Policy(tools={"fetch": ToolContract(reuse=True)})
    with guarded(policy) as recording:
        output = prebuilt_agent(script("a", "a", "a", name="fetch"), [fetch]).invoke(QUESTION)
        last = results(output)[2]
        assert text_of(last).startswith("rows of a\n")
        assert last.status == "success"
        assert ran == ["a", "a"]
        assert recording.outcomes == ["executed", "nudged", "reused"]
        assert_trips(recording, "generic_repeat", action="reuse")


def fetching(artifact: Any, ran: list[str]) -> StructuredTool:
    def fetch(path: str) -> tuple[str, Any]:
        ran.append(path)
        return f"rows of {path}", artifact

    return StructuredTool.from_function(
        fetch, name="fetch", description="Fetch.", response_format="content_and_artifact", args_schema=look.args_schema
    )


def test_an_earlier_artifact_is_given_again_with_its_result() -> None:
    """The artifact of a result does not change."""
    artifact, ran = {"rows": [1, 2]}, []
    with guarded(Policy(tools={"fetch": ToolContract(reuse=True)})) as recording:
        agent = prebuilt_agent(script("a", "a", "a", name="fetch"), [fetching(artifact, ran)])
        last = results(agent.invoke(QUESTION))[2]
        assert recording.outcomes == ["executed", "nudged", "reused"]
        assert text_of(last).startswith("rows of a\n")
        assert last.artifact == artifact
        assert ran == ["a", "a"]


@pytest.mark.parametrize("artifact", [b"x" * 300_000, ["x" * 300_000], {"deep": [b"x" * 300_000]}], ids=type)
def test_an_artifact_that_is_too_large_is_not_kept(artifact: Any) -> None:
    """Without a kept result there is nothing to reuse, and the call is refused."""
    with guarded(Policy(tools={"fetch": ToolContract(reuse=True)})) as recording:
        prebuilt_agent(script("a", "a", "a", name="fetch"), [fetching(artifact, [])]).invoke(QUESTION)
        assert recording.outcomes == ["executed", "nudged", "blocked"]


def test_a_function_graph_is_a_run() -> None:
    """``@entrypoint`` and ``@task`` are graphs, too."""
    from langgraph.func import entrypoint, task

    @task
    def run_tool(number: int) -> Any:
        return look.invoke({"name": "look", "args": {"path": "a"}, "id": f"c{number}", "type": "tool_call"})

    @entrypoint()
    def agent(question: str) -> list[str]:
        return [text_of(run_tool(number).result()) for number in range(4)]

    with guarded() as recording:
        read = agent.invoke("Go on.")
        assert "tool_loop_detected" in read[2]
        assert len(set(turn_ids(recording))) == 1


async def test_a_timeout_ends_the_call_and_the_next_run_is_whole() -> None:
    """After ``wait_for`` gave a run up, the agent works as before."""
    running = asyncio.Event()

    @tool
    async def slow(path: str) -> str:
        """Wait without end, except for b."""
        running.set()
        await asyncio.sleep(0 if path == "b" else 60)
        return path

    with guarded() as recording:
        run = asyncio.ensure_future(prebuilt_agent(script("a", name="slow"), [slow]).ainvoke(QUESTION))
        await running.wait()
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(run, 0.01)
        output = await prebuilt_agent(script("b", name="slow"), [slow]).ainvoke(QUESTION)
        assert [text_of(message) for message in results(output)] == ["b"]
        assert recording.outcomes == ["cancelled", "executed"]
        assert recording.runtime.guard.live == 0


def test_ids_of_content_blocks_are_no_news() -> None:
    """New ids of content blocks, as LangChain and its MCP adapters make them, do not make a result new."""

    @tool
    def fetch(path: str) -> list[dict[str, str]]:
        """Fetch."""
        return [{"type": "text", "text": "the same", "id": f"lc_{uuid.uuid4()}"}]

    with guarded() as recording:
        prebuilt_agent(script("a", "a", "a", name="fetch"), [fetch]).invoke(QUESTION)
        assert recording.outcomes == ["executed", "nudged", "blocked"]
