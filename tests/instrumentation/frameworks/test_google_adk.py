"""Google ADK: the framework's own features."""

from __future__ import annotations

import asyncio
import sys
from contextlib import contextmanager, suppress
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("google.adk", reason="google-adk is tested in an environment of its own")

from google.adk.agents import LlmAgent, LoopAgent, ParallelAgent, SequentialAgent
from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_response import LlmResponse
from google.adk.tools import FunctionTool, LongRunningFunctionTool, ToolContext, exit_loop
from google.genai import types

from otel_loopguard import Policy, ToolLoopError, semconv
from otel_loopguard.policy_files.load import load_preset
from otel_loopguard.testing import Ask, assert_no_trip, guarded
from tests.instrumentation.frameworks.looking import assert_nothing_left, attribute, calls, look
from tests.scripted.google_adk import (
    TELLS_UNKNOWN,
    ScriptedModel,
    agent_of,
    arguments,
    message,
    run_async,
    run_stream,
    run_sync,
    runner_of,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.filterwarnings("ignore")

WAYS = pytest.mark.parametrize("go", [run_async, run_stream, run_sync])
ABORTS = Policy(abort_after=1)


def model_of(*paths: str, name: str = "look", answer: str = "Done.") -> ScriptedModel:
    return ScriptedModel(calls(paths, name), answer)


@WAYS
def test_a_made_up_name_is_not_shown(go: Any) -> None:
    """A name that does not exist is a failed call. Before 2.0 it ends the run with the framework's error."""
    model = model_of("a", "a", "a", name="SECRET")
    with guarded() as recording:
        if TELLS_UNKNOWN:
            go(agent_of(model, [look]))
            assert ["tool_loop_detected" in text for text in model.read] == [False, False, True]
        elif go is run_sync:
            go(agent_of(model, [look]))  # this version loses the exceptions of its thread
        else:
            with pytest.raises(ValueError, match="not found"):
                go(agent_of(model, [look]))
        assert {span.name for span in recording.spans} == {"execute_tool _unknown"}
        assert recording.outcomes == (["failed", "failed", "blocked"] if TELLS_UNKNOWN else ["failed"])
        assert "SECRET" not in "".join(span.to_json() for span in recording.spans)
        assert_nothing_left(recording)


@contextmanager
def traced(recording: Any) -> Iterator[None]:
    """Have the framework's own spans recorded. Its modules import its tracer by name.

    Older versions write the attributes of their spans to any current span, if their own tracer makes none.
    """
    tracer = recording.tracer_provider.get_tracer("gcp.vertex.agent")
    modules = [module for name, module in list(sys.modules.items()) if name.startswith("google.adk.")]
    with pytest.MonkeyPatch.context() as patch:
        for module in modules:
            if "tracer" in vars(module):
                patch.setattr(module, "tracer", tracer)
        yield


def test_beside_its_own_spans_each_call_has_one() -> None:
    """Each call of a known tool has one ``execute_tool`` span, theirs or ours: run, refused or failed."""
    model = ScriptedModel([*[[Ask("look", {"path": "a"})]] * 3, [Ask("fetch", {"path": "a"})]])

    def fetch(path: str) -> str:
        """Fetch."""
        raise LookupError(path)

    with guarded() as recording, traced(recording):
        with pytest.raises(LookupError):
            run_async(agent_of(model, [look, fetch]))
        spans = recording._spans.get_finished_spans()
        executions = [span for span in spans if span.name.startswith("execute_tool ")]
        assert [span.name.split()[1] for span in executions] == ["look", "look", "look", "fetch"]
        assert recording.outcomes == ["executed", "nudged", "blocked", "failed"]
        assert [span.name for span in recording.spans if span in executions] == ["execute_tool look"]  # refused
        assert recording.counted(semconv.METRIC_TOOL_CALLS) == 4


def test_its_own_spans_keep_their_parents() -> None:
    """A run is read event by event, and its spans are inside of its agent's as without a guard."""
    with guarded() as recording, traced(recording):
        run_async(agent_of(model_of("a", "b"), [look]))
        spans = recording._spans.get_finished_spans()
        (ours,) = [span for span in spans if span.parent is None]
        inside = [span for span in spans if span.parent and span.parent.span_id == ours.context.span_id]
        assert ours.instrumentation_scope.name == semconv.SCOPE
        assert len(inside) == 1
        assert len(spans) > 8


def test_a_hand_over_stays_in_the_turn() -> None:
    """The agent that takes over continues the turn: a call that both make is a repeat."""
    helper = agent_of(model_of("a", "a"), [look], description="helps")
    boss = ScriptedModel([[Ask("look", {"path": "a"})], [Ask("transfer_to_agent", {"agent_name": "helper"})]])
    with guarded() as recording:
        run_async(LlmAgent(name="boss", model=boss, tools=[look], sub_agents=[helper]))
        assert len(set(attribute(recording, semconv.TURN_ID))) == 1
        assert set(attribute(recording, semconv.AGENT_NAME)) == {"boss", "helper"}
        assert "transfer_to_agent" in attribute(recording, semconv.TOOL_NAME)
        assert_nothing_left(recording)


@pytest.mark.parametrize("go", [run_async, run_stream])
@pytest.mark.parametrize("drafts", [12, 1])
def test_a_writer_and_a_critic_bring_news(go: Any, drafts: int) -> None:
    """Agents that hand over to each other are refused only if they write the same each time."""

    def model(other: str) -> Exchanging:
        return Exchanging(other=other, drafts=drafts)

    critic = agent_of(model("writer"), name="critic")
    with guarded() as recording:
        with suppress(ToolLoopError):
            go(agent_of(model("critic"), name="writer", sub_agents=[critic]))
        assert len(recording.outcomes) > 5
        assert ("blocked" in recording.outcomes) == (drafts == 1)
        assert_nothing_left(recording)


class Exchanging(BaseLlm):
    """Writes a text and hands over to another agent, 12 times."""

    model: str = "scripted"
    other: str
    drafts: int
    written: int = 0

    async def generate_content_async(self, llm_request: Any, stream: bool = False) -> Any:
        """Number the drafts."""
        self.written += 1
        parts = [types.Part(text=f"draft {min(self.written, self.drafts)}")]
        if self.written <= 12:
            parts.append(types.Part.from_function_call(name="transfer_to_agent", args={"agent_name": self.other}))
        yield LlmResponse(content=types.Content(role="model", parts=parts))


@pytest.mark.parametrize("kind", [SequentialAgent, ParallelAgent])
def test_the_agents_of_a_workflow_share_a_turn(kind: Any) -> None:
    """A workflow is one run."""
    agents = [agent_of(model_of("a"), [look], name=f"agent_{number}") for number in range(2)]
    with guarded() as recording:
        run_async(kind(name="workflow", sub_agents=agents))
        assert len(set(attribute(recording, semconv.TURN_ID))) == 1
        assert set(attribute(recording, semconv.AGENT_NAME)) == {"agent_0", "agent_1"}
        assert_nothing_left(recording)


WORKFLOWS: dict[str, Any] = {"sequential": SequentialAgent, "parallel": ParallelAgent}
if find_spec("google.adk.workflow"):
    WORKFLOWS["graph"] = lambda name, sub_agents: import_module("google.adk.workflow").Workflow(
        name=name, edges=[("START", *sub_agents)]
    )


@pytest.mark.parametrize("kind", WORKFLOWS)
def test_agents_that_read_nothing_of_each_other_have_turns_of_their_own(kind: str) -> None:
    """Five agents without the messages of others look at the same file, and one of them is caught in a loop."""
    agents = [
        agent_of(model_of(*["a"] * (4 if number == 2 else 1)), [look], name=f"agent_{number}", include_contents="none")
        for number in range(5)
    ]
    with guarded() as recording:
        run_async(WORKFLOWS[kind](name="workflow", sub_agents=agents))
        assert sorted(recording.outcomes) == ["blocked", "blocked", *["executed"] * 5, "nudged"]
        assert len(set(attribute(recording, semconv.TURN_ID))) == 5
        assert len(set(attribute(recording, semconv.CONVERSATION_ID))) == 1
        assert_nothing_left(recording)


@WAYS
@pytest.mark.parametrize("kind", WORKFLOWS)
def test_the_abort_of_such_an_agent_reaches_the_caller(go: Any, kind: str) -> None:
    """A turn inside the run of a workflow ends that run, as any abort does."""
    agent = agent_of(model_of(*["a"] * 9), [look], include_contents="none")
    with guarded(ABORTS) as recording:
        with pytest.raises(ToolLoopError):
            go(WORKFLOWS[kind](name="workflow", sub_agents=[agent]))
        assert recording.outcomes == ["executed", "nudged", "blocked", "aborted"]
        assert_nothing_left(recording)


@pytest.mark.parametrize("go", [run_async, run_stream])
def test_a_failing_tool_ends_the_run_as_before(go: Any) -> None:
    """A tool's exception reaches the caller, and the call has failed."""

    def fetch(path: str) -> str:
        """Fetch."""
        raise LookupError(path)

    with guarded() as recording:
        with pytest.raises(LookupError):
            go(agent_of(model_of("a", name="fetch"), [fetch]))
        assert recording.outcomes == ["failed"]
        assert attribute(recording, semconv.ERROR_TYPE) == ["LookupError"]
        assert_nothing_left(recording)


def test_a_result_with_an_error_is_a_failure() -> None:
    """The key that the framework uses for errors tells that a call has failed."""

    def fetch(path: str) -> dict[str, str]:
        """Fetch."""
        return {"error": "the server is away"}

    model = model_of(*["a"] * 4, name="fetch")
    with guarded() as recording:
        run_async(agent_of(model, [fetch]))
        assert recording.outcomes[0] == "failed"
        assert "tool_loop_detected" in model.read[-1]


def test_callbacks_of_a_tool_are_part_of_its_call() -> None:
    """What a callback answers, or changes, is the result of the call; a refused call has no callbacks."""
    asked = []

    def before(tool: Any, args: Any, tool_context: Any) -> Any:
        asked.append(args["path"])
        return {"result": "from the cache"} if args["path"] == "cached" else None

    def after(tool: Any, args: Any, tool_context: Any, tool_response: Any) -> Any:
        return {"result": "changed"} if args["path"] == "changed" else None

    model = model_of("cached", "changed", "a", "a", "a")
    with guarded() as recording:
        run_async(agent_of(model, [look], before_tool_callback=before, after_tool_callback=after))
        assert model.read[:3] == ["from the cache", "changed", "there is a"]
        assert asked == ["cached", "changed", "a", "a"]
        assert recording.outcomes == ["executed", "executed", "executed", "nudged", "blocked"]


@pytest.mark.parametrize("contents", ["default", "none"])
def test_a_call_that_waits_for_a_person_is_one_call(contents: Any) -> None:
    """A call that needs a confirmation is not done; after it, it runs once, in the same turn."""
    ran = []

    def delete(path: str) -> str:
        """Delete something."""
        ran.append(path)
        return f"{path} is gone"

    tools = [FunctionTool(delete, require_confirmation=True)]
    runner = runner_of(agent_of(model_of("a", name="delete"), tools, include_contents=contents))

    async def go() -> None:
        events = [event async for event in runner.run_async(**arguments())]
        (request,) = [
            call for event in events for call in event.get_function_calls() if call.name == "adk_request_confirmation"
        ]
        assert not ran
        answer = types.FunctionResponse(id=request.id, name=request.name, response={"confirmed": True})
        answered = message(types.Part(function_response=answer))
        assert [event async for event in runner.run_async(**arguments(new_message=answered))]

    with guarded() as recording:
        asyncio.run(go())
        assert ran == ["a"]
        assert recording.outcomes == ["cancelled", "executed"]
        assert len(set(attribute(recording, semconv.TURN_ID))) == 1
        assert_no_trip(recording)
        assert_nothing_left(recording)


def test_users_with_equal_session_ids_have_their_own_turns() -> None:
    """A run that waits is continued in the turn of its user, whoever else has a session of that name."""

    def order(path: str) -> None:
        """Order something."""

    users = ("alice", "bob")
    steps = [[Ask("order", {"path": "a"})], [Ask("look", {"path": "a"})]]
    tools = [look, LongRunningFunctionTool(order)]
    runners = {user: runner_of(agent_of(ScriptedModel(steps), tools), user_id=user) for user in users}

    async def run(user: str, **options: Any) -> Any:
        return [event async for event in runners[user].run_async(**arguments(user_id=user, **options))]

    async def go() -> None:
        asked = {user: await run(user) for user in users}
        for user, events in asked.items():
            (call,) = [call for event in events for call in event.get_function_calls()]
            response = types.FunctionResponse(id=call.id, name=call.name, response={"result": "it is here"})
            await run(user, new_message=message(types.Part(function_response=response)))

    with guarded() as recording:
        asyncio.run(go())
        seen = set(
            zip(attribute(recording, semconv.CONVERSATION_ID), attribute(recording, semconv.TURN_ID), strict=True)
        )
        conversations = [conversation for conversation, _ in seen]
        assert {one.partition("/")[0] for one in conversations} == {"session-1"}
        assert len(set(conversations)) == len(users)
        assert not [one for one in conversations for user in users if user in one.partition("/")[2]]
        assert len(set(attribute(recording, semconv.TURN_ID))) == 2
        assert_nothing_left(recording)


def test_a_tool_that_answers_later_has_no_result_yet() -> None:
    """A long-running tool that returns nothing has neither failed nor succeeded."""

    def order(path: str) -> None:
        """Order something."""

    with guarded() as recording:
        run_async(agent_of(model_of("a", name="order"), [LongRunningFunctionTool(order)]))
        assert recording.outcomes == ["cancelled"]


def test_a_sentence_is_one_more_key_of_an_object() -> None:
    """An object is for models only; the tool's own one is not changed."""
    rows = {"rows": 2}

    def fetch(path: str) -> dict[str, int]:
        """Fetch."""
        return rows

    model = model_of("a", "a", name="fetch")
    with guarded() as recording:
        run_async(agent_of(model, [fetch]))
        assert recording.outcomes == ["executed", "nudged"]
        assert sorted(model.returned[1].response) == ["loopguard", "rows"]
        assert rows == {"rows": 2}


@pytest.mark.parametrize("result", ["the answer", {"rows": 2}])
def test_an_answer_for_the_user_has_no_sentence(result: Any) -> None:
    """A result that no model reads is left as it is, though the call repeats."""

    def fetch(path: str, tool_context: ToolContext) -> Any:
        """Fetch."""
        tool_context.actions.skip_summarization = True
        return result

    agent = agent_of(ScriptedModel([[Ask("fetch", {"path": "a"})]] * 9), [fetch])
    with guarded() as recording:
        events = run_async(LoopAgent(name="loop", sub_agents=[agent], max_iterations=2))
        responses = [answered.response for event in events for answered in event.get_function_responses()]
        assert recording.outcomes == ["executed", "executed"]
        assert recording.trips
        assert responses == [result if isinstance(result, dict) else {"result": result}] * 2
        assert_nothing_left(recording)


def test_the_tool_of_a_structured_answer_is_no_call() -> None:
    """``set_model_response`` is the agent's answer, and is neither guarded nor counted."""
    from pydantic import BaseModel

    class Answer(BaseModel):
        text: str

    model = ScriptedModel([[Ask("look", {"path": "a"})], [Ask("set_model_response", {"text": "it is there"})]])
    with guarded() as recording, traced(recording):
        events = run_async(agent_of(model, [look], output_schema=Answer))
        assert "it is there" in str(events[-1].content)
        assert attribute(recording, semconv.TOOL_NAME) == ["look"]


def test_the_end_of_a_loop_is_no_call() -> None:
    """A loop that runs once for each item ends each time with the same call, which is neither guarded nor counted."""

    def loop_of(number: int) -> LoopAgent:
        model = ScriptedModel([[Ask("look", {"path": f"item {number}"})], [Ask("exit_loop", {})]])
        agent = agent_of(model, [look, exit_loop], name=f"agent_{number}")
        return LoopAgent(name=f"loop_{number}", sub_agents=[agent], max_iterations=2)

    with guarded() as recording, traced(recording):
        events = run_async(SequentialAgent(name="workflow", sub_agents=[loop_of(number) for number in range(5)]))
        assert sum(bool(event.actions.escalate) for event in events) == 5
        assert attribute(recording, semconv.TOOL_NAME) == ["look"] * 5
        assert_no_trip(recording)


def test_a_refusal_is_marked_in_the_metadata_of_its_event() -> None:
    """The preset's mark is for the program; the model reads the sentence alone."""
    model = model_of("a", "a", "a", "a")
    with guarded(load_preset("repeat_hint").policy):
        events = run_async(agent_of(model, [look]))
        answered = [event for event in events if event.get_function_responses()]
        marks = [event.custom_metadata for event in answered]
        assert marks == [None, None, None, {"loopguard.mark": "loop-detected"}]
        assert model.read[3].startswith("[loop-detected]")
        assert "loopguard.mark" not in model.read[3]


def test_nothing_of_a_call_is_told() -> None:
    """Spans, events and counters have no argument, result, exception text or unknown name."""

    def fetch(path: str) -> dict[str, str]:
        """Fetch."""
        return {"error": f"SECRET of {path}"} if "FAIL" in path else {"text": f"SECRET row of {path}"}

    paths = ["SECRET1"] * 4 + ["SECRETFAIL"] * 4
    unknown = [[Ask("SECRETTOOL", {"SECRET": 1})]] * 3 if TELLS_UNKNOWN else []
    model = ScriptedModel([*[[Ask("fetch", {"path": path})] for path in paths], *unknown])
    with guarded() as recording, traced(recording):
        run_async(agent_of(model, [fetch]))
        assert len(recording.spans) == 8 + len(unknown)
        exported = [span.to_json() for span in recording.spans]
        for metric in (semconv.METRIC_TRIPS, semconv.METRIC_TOOL_TRIPS, semconv.METRIC_TOOL_CALLS):
            exported += [str(point) for point in recording.points(metric)]
        assert "SECRET" not in "".join(exported)
