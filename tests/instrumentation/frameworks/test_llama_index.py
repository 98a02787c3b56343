"""LlamaIndex: the framework's own features."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

pytest.importorskip("llama_index.core", reason="llama-index-core is tested in an environment of its own")

from llama_index.core.agent.workflow import FunctionAgent, ReActAgent
from llama_index.core.base.llms.types import ImageBlock, TextBlock
from llama_index.core.objects import ObjectRetriever
from llama_index.core.tools import FunctionTool
from llama_index.core.tools.types import ToolOutput
from llama_index.core.workflow import Context, HumanResponseEvent, InputRequiredEvent

from otel_loopguard import Policy, ToolLoopError, semconv
from otel_loopguard.testing import Ask, assert_no_trip, guarded
from otel_loopguard.turns.scope import current_scope
from tests.instrumentation.frameworks.looking import attribute, calls, look
from tests.scripted.llama_index import (
    ScriptedModel,
    agent_of,
    run,
    run_events,
    with_another,
    workflow_of,
)

pytestmark = pytest.mark.filterwarnings("ignore")
WAYS = pytest.mark.parametrize(
    ("go", "kind", "around"),
    [
        (run, FunctionAgent, lambda agent: agent),
        (run_events, FunctionAgent, lambda agent: agent),
        (run, ReActAgent, lambda agent: agent),
        (run_events, ReActAgent, with_another),
        (run, FunctionAgent, with_another),
        (run_events, FunctionAgent, with_another),
    ],
)


def script(*paths: str, name: str = "look", answer: str = "Done.") -> ScriptedModel:
    return ScriptedModel(calls(paths, name), answer)


def hand_off(to: str, reason: str = "It is your turn.") -> list[Ask]:
    return [Ask("handoff", {"to_agent": to, "reason": reason})]


@pytest.mark.parametrize("go", [run, run_events])
@pytest.mark.parametrize("around", [lambda agent: agent, with_another])
def test_an_abort_among_parallel_calls_ends_the_run(go: Any, around: Any) -> None:
    """An abort ends the run although another call of the same message never returns."""

    async def wait(path: str) -> str:
        """Wait for ever."""
        await asyncio.Event().wait()
        return path

    steps = [*[[Ask("look", {"path": "a"})]] * 3, [Ask("wait", {"path": "b"}), Ask("look", {"path": "a"})]]
    with guarded(Policy(abort_after=1)) as recording:
        with pytest.raises(ToolLoopError):
            go(around(agent_of(ScriptedModel(steps), [look, FunctionTool.from_defaults(async_fn=wait)])))
        assert sorted(recording.outcomes[3:]) == ["aborted", "cancelled"]
        assert recording.runtime.guard.live == 0


def test_calls_of_one_message_are_no_loop() -> None:
    """A message may ask for the same nine times, of which a workflow makes four at once."""
    with guarded() as recording:
        run(agent_of(ScriptedModel([[Ask("look", {"path": "a"})] * 9]), [look]))
        assert recording.outcomes == ["executed"] * 9
        assert_no_trip(recording)


@WAYS
def test_unknown_names_are_not_told(go: Any, kind: Any, around: Any) -> None:
    """A made-up name has a span and is refused, and is shown nowhere."""
    with guarded() as recording:
        go(around(agent_of(script("a", "b", "c", name="SECRET"), [look], kind)))
        assert [span.name for span in recording.spans] == ["execute_tool _unknown"] * 3
        assert "SECRET" not in "".join(span.to_json() for span in recording.spans)


class Found(ObjectRetriever):
    """Finds a tool that the agent does not know."""

    def __init__(self, *tools: Any) -> None:
        self.tools = [FunctionTool.from_defaults(one) for one in tools]

    async def aretrieve(self, query: Any) -> Any:
        """Find it."""
        return self.tools


@pytest.mark.parametrize("around", [lambda agent: agent, with_another])
def test_tools_of_a_retriever_exist(around: Any) -> None:
    """Tools that a retriever finds are no unknown tools; a name that it does not find is one."""
    model = ScriptedModel([*[[Ask("look", {"path": path})] for path in "abcdef"], *[[Ask("nope", {})]] * 3])
    with guarded() as recording:
        run(around(agent_of(model, tool_retriever=Found(look))))
        assert recording.outcomes[:6] == ["executed"] * 6
        assert model.read[:6] == [f"there is {path}" for path in "abcdef"]
        assert recording.outcomes[6:] == ["failed", "failed", "blocked"]


def test_a_refusal_and_a_sentence_are_events_of_the_stream() -> None:
    """The program reads two events of each call, also of a refused one, and the tool's own output."""

    async def events() -> Any:
        handler = agent_of(script(*["a"] * 3), [look]).run("Go on.")
        return [one async for one in handler.stream_events() if hasattr(one, "tool_kwargs")]

    with guarded():
        seen = asyncio.run(events())
        assert [type(one).__name__ for one in seen] == ["ToolCall", "ToolCallResult"] * 3
        results = [one.tool_output for one in seen[1::2]]
        assert [one.is_error for one in results] == [False, False, True]
        assert [one.raw_output for one in results[:2]] == ["there is a"] * 2


def test_blocks_that_are_no_text_are_left_alone() -> None:
    """A result with an image gets no sentence, and two images are not the same result."""
    numbers = iter(range(9))

    def draw(path: str) -> Any:
        """Draw."""
        blocks = [TextBlock(text="here"), ImageBlock(url=f"http://localhost/{next(numbers)}.png")]
        return ToolOutput(tool_name="draw", blocks=blocks, raw_input={}, raw_output=None)

    tool = FunctionTool.from_defaults(draw, callback=lambda output: output)
    with guarded() as recording:
        run(agent_of(script("a", "a", "a", name="draw"), [tool]))
        assert recording.outcomes == ["executed"] * 3
        assert len(set(attribute(recording, semconv.RESULT_HASH))) == 3


@pytest.mark.parametrize("go", [run, run_events])
def test_a_hand_off_is_a_call_and_stays_in_the_turn(go: Any) -> None:
    """The other agent goes on in the same turn, under its own name."""
    first = agent_of(ScriptedModel([hand_off("second")]), [look], name="first")
    second = agent_of(script("a"), [look], name="second")
    with guarded() as recording:
        go(workflow_of(first, second))
        assert [span.name for span in recording.spans] == ["execute_tool handoff", "execute_tool look"]
        assert attribute(recording, semconv.AGENT_NAME) == ["first", "second"]
        assert len(set(attribute(recording, semconv.TURN_ID))) == 1
        assert recording.runtime.guard.live == 0


class Writing(ScriptedModel):
    """Hands off at each request, with a text before it."""

    def __init__(self, to: str, texts: list[str]) -> None:
        super().__init__([])
        self._to, self._texts = to, iter(texts)

    def _respond(self, messages: Any, *, is_text: bool) -> Any:
        text = next(self._texts, None)
        self._steps = [] if text is None else [hand_off(self._to)] * 99
        response = super()._respond(messages, is_text=is_text)
        if text:
            response.message.content = text
        return response


def test_agents_that_hand_off_to_and_fro_are_stopped() -> None:
    """A hand-off that brings no news is refused: the agent that made it goes on."""
    first = agent_of(Writing("second", [""] * 9), name="first")
    second = agent_of(Writing("first", [""] * 9), name="second")
    with guarded() as recording:
        run(workflow_of(first, second))
        assert "blocked" in recording.outcomes
        assert "handoff" in {trip.tool for trip in recording.trips}


def test_a_writer_and_a_critic_are_no_loop() -> None:
    """What an agent writes before its hand-off is news."""
    writer = agent_of(Writing("critic", [f"draft {number}" for number in range(6)]), name="writer")
    critic = agent_of(Writing("writer", [f"remark {number}" for number in range(6)]), name="critic")
    with guarded() as recording:
        run(workflow_of(writer, critic))
        assert recording.outcomes == ["executed"] * 12


def as_tool(make: Any) -> Any:
    """Make a tool that asks another agent."""

    async def ask_helper(question: str) -> str:
        """Ask the helper."""
        return str(await make().run(question))

    return FunctionTool.from_defaults(async_fn=ask_helper)


@WAYS
def test_an_abort_of_a_sub_agent_is_a_failure_for_the_agent_around_it(go: Any, kind: Any, around: Any) -> None:
    """The outer agent reads the abort as the result of its call, and goes on."""
    boss = ScriptedModel([[Ask("ask_helper", {"question": "a question"})]])
    with guarded(Policy(abort_after=1)) as recording:
        go(around(agent_of(boss, [as_tool(lambda: agent_of(script(*["shared"] * 9), [look]))], kind)))
        assert "The agent called look again and again" in boss.read[0]
        assert recording.outcomes == ["failed", "executed", "nudged", "blocked", "aborted"]
        assert recording.runtime.guard.live == 0


@pytest.mark.parametrize("around", [lambda agent: agent, with_another])
def test_a_tool_that_waits_for_a_human_is_one_call(around: Any) -> None:
    """A step that runs again after the answer has not failed before, and its call is counted once as executed."""

    async def delete(ctx: Context, path: str) -> str:
        """Delete something."""
        answer = await ctx.wait_for_event(HumanResponseEvent, waiter_event=InputRequiredEvent(prefix=f"delete {path}?"))
        return f"{answer.response}: {path}"

    delete.__annotations__["ctx"] = Context  # LlamaIndex does not read annotations that are text
    model = script("a", "b", "c", name="delete")

    async def ask() -> Any:
        handler = around(agent_of(model, [FunctionTool.from_defaults(async_fn=delete)])).run("Go on.")
        async for event in handler.stream_events():
            if isinstance(event, InputRequiredEvent):
                handler.ctx.send_event(HumanResponseEvent(response="yes"))
        return await handler

    with guarded() as recording:
        asyncio.run(ask())
        assert model.read == ["yes: a", "yes: b", "yes: c"]
        assert recording.outcomes.count("executed") == 3
        assert set(recording.outcomes) <= {"executed", "cancelled"}
        assert_no_trip(recording)
        assert recording.runtime.guard.live == 0


@pytest.mark.parametrize("around", [lambda agent: agent, with_another])
def test_a_cancelled_run_leaves_no_turn(around: Any) -> None:
    """``cancel_run`` ends the call that runs, and the turn."""
    runs = asyncio.Event()

    async def wait(path: str) -> str:
        """Wait for ever."""
        runs.set()
        await asyncio.Event().wait()
        return path

    async def ask() -> None:
        handler = around(agent_of(script("a", name="wait"), [FunctionTool.from_defaults(async_fn=wait)])).run("Go on.")
        await runs.wait()
        await handler.cancel_run()
        with pytest.raises(Exception):  # noqa: B017, PT011 - its class depends on the version
            await handler

    with guarded() as recording:
        asyncio.run(ask())
        assert recording.outcomes == ["cancelled"]
        assert recording.runtime.guard.live == 0


def test_the_code_that_reads_events_is_nobodys() -> None:
    """No scope is bound in it, and a stream that is left early does not end the run."""

    async def ask() -> Any:
        handler = agent_of(script(*"abc"), [look]).run("Go on.")
        async for _ in handler.stream_events():
            assert current_scope() is None
            break
        assert current_scope() is None
        return await handler

    with guarded() as recording:
        asyncio.run(ask())
        assert recording.outcomes == ["executed"] * 3
        assert recording.runtime.guard.live == 0
