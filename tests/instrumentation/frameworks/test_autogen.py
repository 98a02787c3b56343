"""AutoGen: the framework's own features."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

pytest.importorskip("autogen_agentchat", reason="autogen is tested in an environment of its own")

from autogen_agentchat.agents import SocietyOfMindAgent
from autogen_agentchat.conditions import MaxMessageTermination
from autogen_agentchat.teams import RoundRobinGroupChat, Swarm
from autogen_agentchat.tools import TeamTool
from autogen_core import CancellationToken, SingleThreadedAgentRuntime
from autogen_core.models import FunctionExecutionResultMessage
from autogen_core.tools import StaticWorkbench

import otel_loopguard as loopguard
from otel_loopguard import Policy, ToolLoopError, semconv
from otel_loopguard.testing import Ask, assert_no_trip, guarded
from tests.instrumentation.frameworks.looking import attribute, calls, look
from tests.scripted.autogen import WAYS, Script, agent_of, plain_tools, run, team_of

pytestmark = pytest.mark.filterwarnings("ignore")
EACH_WAY = pytest.mark.parametrize("go", WAYS)


LOOK = plain_tools({"look": look})


def script(*paths: str, name: str = "look", answer: str = "Done.") -> Script:
    return Script(calls(paths, name), answer)


def test_a_team_can_run_again_after_an_abort() -> None:
    """The team is over as after any other exception of a member, and its next run is another turn."""

    async def twice() -> None:
        team = team_of(agent_of(script(*"aaaaa"), LOOK), messages=2)
        with pytest.raises(ToolLoopError):
            await team.run(task="Go on.")
        await team.reset()
        with pytest.raises(ToolLoopError):
            await team.run(task="Go on.")

    with guarded(Policy(abort_after=1)) as recording:
        asyncio.run(twice())
        assert len(set(attribute(recording, semconv.TURN_ID))) == 2
        assert recording.runtime.guard.live == 0


@pytest.mark.parametrize("is_team", [False, True])
def test_after_an_abort_each_call_of_the_assistant_has_a_result(is_team: bool) -> None:
    """Providers reject calls without a result, so the next task would fail."""
    model = Script([[Ask("look", {"path": "a"})] * 2] * 9)

    async def main() -> None:
        assistant = agent_of(model, LOOK)
        runner = team_of(assistant, messages=2) if is_team else assistant
        with pytest.raises(ToolLoopError):
            await runner.run(task="Go on.")
        model.steps = []
        await assistant.run(task="And now?")

    with guarded(Policy(abort_after=1)) as recording:
        asyncio.run(main())
        assert recording.counted(semconv.METRIC_INTERNAL_ERRORS) == 0
    last = model.seen[-1]
    asked = [call.id for one in last if isinstance(one.content, list) for call in one.content if hasattr(call, "id")]
    answered = [result for one in last if isinstance(one, FunctionExecutionResultMessage) for result in one.content]
    assert asked == [result.call_id for result in answered]
    assert answered[-1].is_error
    assert "look" in answered[-1].content


@EACH_WAY
def test_a_refusal_is_an_error_result(go: Any) -> None:
    """The refusal has the id of its call, and the error flag."""
    model = script("a", "a", "a")
    with guarded() as recording:
        asyncio.run(go(model, LOOK))
        assert [bool(result.is_error) for result in model.returned] == [False, False, True]
        assert recording.outcomes == ["executed", "nudged", "blocked"]
        assert attribute(recording, semconv.TOOL_CALL_ID) == [result.call_id for result in model.returned]
        assert set(attribute(recording, semconv.AGENT_NAME)) == {"helper"}
        assert recording.counted(semconv.METRIC_INTERNAL_ERRORS) == 0


def test_the_tools_of_a_remote_workbench_are_not_known() -> None:
    """A workbench that asks a server for its tools is not asked once more: no name of it counts as made up."""

    class Remote(StaticWorkbench):
        """A workbench without a list of tools."""

        @property
        def _tools(self) -> Any:
            return tuple(LOOK)

        @_tools.setter
        def _tools(self, tools: Any) -> None: ...

    with guarded() as recording:
        agent = agent_of(script("a", "a", "a"), workbench=[Remote([])])
        asyncio.run(agent.run(task="Go on."))
        assert {span.name for span in recording.spans} == {"execute_tool look"}
        assert attribute(recording, semconv.TOOL_REGISTERED) == [None] * 3
        assert recording.outcomes == ["executed", "nudged", "blocked"]


@EACH_WAY
def test_beside_its_own_spans_each_call_has_one(go: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each call has one ``execute_tool`` span, theirs or ours: run, refused, with wrong arguments, or unknown."""
    paths = [{"path": "a"}, {"path": "a"}, {"path": "a"}, {"wrong": 1}]
    model = Script([*[[Ask("look", arguments)] for arguments in paths], [Ask("nope", {})]])
    with guarded() as recording:
        provider = recording.tracer_provider
        monkeypatch.setattr("opentelemetry.trace.get_tracer", lambda name, *_, **__: provider.get_tracer(name))
        asyncio.run(go(model, LOOK))
        finished = recording._spans.get_finished_spans()
        named = [span for span in finished if span.name.startswith("execute_tool ")]
        assert len(named) == 5
        assert len(recording.spans) == 5
        assert recording.outcomes == ["executed", "nudged", "blocked", "failed", "failed"]
        parents = {span.context.span_id for span in recording.spans}
        theirs = [span for span in named if span not in recording.spans]
        assert [span.parent.span_id in parents for span in theirs] == [True] * 3
        words = [span.name.split()[0] for span in recording.spans]
        assert words == ["loopguard", "loopguard", "execute_tool", "loopguard", "execute_tool"]


def test_the_abort_of_a_team_that_is_a_tool_is_a_failed_call() -> None:
    """The agent that asks reads that the team was stopped, and goes on."""
    boss = Script([[Ask("worker", {"task": "Go on."})]])
    with guarded(Policy(abort_after=1)) as recording:
        worker = team_of(agent_of(script(*"aaaaa"), LOOK), messages=2)
        result = asyncio.run(run(boss, [TeamTool(worker, "worker", "Works.")]))
        assert result.messages[-1].content == "Done."
        assert "again and again" in boss.read[0]
        assert recording.outcomes[0] == "failed"
        assert recording.runtime.guard.live == 0


def test_the_members_of_a_team_have_turns_of_their_own() -> None:
    """Members do not see each other's results: three that make the same call are no loop."""
    names = ["first", "second", "third"]
    with guarded() as recording:
        team = team_of(*(agent_of(script("a"), LOOK, name=name) for name in names), messages=4)
        asyncio.run(team.run(task="Go on."))
        assert recording.outcomes == ["executed"] * 3
        assert attribute(recording, semconv.AGENT_NAME) == names
        assert len(set(attribute(recording, semconv.TURN_ID))) == 3
        assert_no_trip(recording)
        assert recording.runtime.guard.live == 0


def test_a_turn_around_a_team_is_one_turn() -> None:
    """With ``turn()`` around the team, repeats are counted across its members."""
    with guarded() as recording, loopguard.turn():
        team = team_of(*(agent_of(script("a"), LOOK, name=name) for name in ("first", "second", "third")), messages=4)
        asyncio.run(team.run(task="Go on."))
        assert recording.outcomes == ["executed", "nudged", "blocked"]
        assert attribute(recording, semconv.AGENT_NAME) == ["first", "second", "third"]
        assert len(set(attribute(recording, semconv.TURN_ID))) == 1


def test_the_abort_of_a_team_in_a_team_reaches_the_caller() -> None:
    """The inner team's exception becomes the abort again at the end of the outer team's run."""
    with guarded(Policy(abort_after=1)) as recording:
        inner = team_of(agent_of(script(*"aaaaa"), LOOK), messages=2)
        with pytest.raises(ToolLoopError):
            asyncio.run(team_of(SocietyOfMindAgent("society", inner, Script([])), messages=2).run(task="Go on."))
        assert recording.runtime.guard.live == 0


def test_hand_offs_are_no_calls() -> None:
    """A hand-off is neither guarded nor counted, and the next agent has a turn of its own."""
    first = Script([[Ask("look", {"path": "a"})], [Ask("transfer_to_second", {})]])
    with guarded() as recording:
        one = agent_of(first, LOOK, name="first", handoffs=["second"])
        team = Swarm([one, agent_of(script("a"), LOOK, name="second")], termination_condition=MaxMessageTermination(3))
        result = asyncio.run(team.run(task="Go on."))
        assert result.messages[-1].content == "Done."
        assert [span.name for span in recording.spans] == ["execute_tool look"] * 2
        assert attribute(recording, semconv.AGENT_NAME) == ["first", "second"]
        assert len(set(attribute(recording, semconv.TURN_ID))) == 2
        assert recording.runtime.guard.live == 0


def test_in_a_runtime_of_the_program_calls_are_refused() -> None:
    """Its tasks began before the team's run, so the team makes a RuntimeError of an abort."""

    async def team(model: Script) -> None:
        runtime = SingleThreadedAgentRuntime()
        runtime.start()
        try:
            condition = MaxMessageTermination(2)
            one = RoundRobinGroupChat([agent_of(model, LOOK)], termination_condition=condition, runtime=runtime)
            await one.run(task="Go on.")
        finally:
            await runtime.close()

    model = script(*"aaaa")
    with guarded() as recording:
        asyncio.run(team(model))
        assert recording.outcomes == ["executed", "nudged", "blocked", "blocked"]
        assert recording.runtime.guard.live == 0
    with guarded(Policy(abort_after=1)) as recording:
        with pytest.raises(RuntimeError, match="again and again"):
            asyncio.run(team(script(*"aaaaa")))
        assert recording.runtime.guard.live == 0


@pytest.mark.parametrize("by_token", [False, True])
def test_a_run_that_is_cancelled_leaves_nothing(by_token: bool) -> None:
    """The call that ran is cancelled, and its turn is closed."""

    async def cancel() -> None:
        started, token = asyncio.Event(), CancellationToken()

        async def wait(path: str) -> str:
            """Wait."""
            started.set()
            await asyncio.Event().wait()
            return path

        agent = agent_of(script("a", name="wait"), plain_tools({"wait": wait}))
        task = asyncio.create_task(agent.run(task="Go on.", cancellation_token=token))
        await started.wait()
        if by_token:  # the framework itself goes on waiting for the stream of the call
            token.cancel()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    with guarded() as recording:
        asyncio.run(cancel())
        assert recording.outcomes == ["cancelled"]
        assert recording.runtime.guard.live == 0
