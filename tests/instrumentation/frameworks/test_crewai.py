"""CrewAI: the framework's own features."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

pytest.importorskip("crewai", reason="crewai is tested in an environment of its own")

from crewai import Crew
from crewai.agent.planning_config import PlanningConfig
from crewai.tools import tool

from otel_loopguard import Policy, ToolLoopError, semconv
from otel_loopguard.engine.vocabulary import Action
from otel_loopguard.testing import Ask, assert_trips, guarded
from tests.instrumentation.frameworks.looking import attribute, calls, fetch, look
from tests.scripted.crewai import (
    Script,
    agent_of,
    alone,
    crew,
    crew_native_async,
    crew_of,
    task_of,
)

pytestmark = pytest.mark.filterwarnings("ignore")
CALLS = pytest.mark.parametrize("react", [False, True], ids=["native", "react"])


def script(*paths: str, name: str = "look", **options: Any) -> Script:
    return Script(calls(paths, name), **options)


def test_with_the_action_observe_nothing_is_changed() -> None:
    """Four equal calls run, and the loop is told."""
    model = script(*"aaaa")
    with guarded(Policy(action=Action.OBSERVE)) as recording:
        crew(agent_of(model, [look]))
        assert model.read == ["there is a"] * 4
        assert recording.outcomes == ["executed"] * 4
        assert_trips(recording, "generic_repeat", action="observe")


def test_an_abort_among_parallel_calls_ends_the_run() -> None:
    """An abort among calls that run in threads reaches the caller, and nothing hangs."""
    steps = [*[[Ask("look", {"path": "a"})]] * 3, *[[Ask("look", {"path": "a"}), Ask("look", {"path": "b"})]] * 8]
    with guarded(Policy(abort_after=1)) as recording:
        with pytest.raises(ToolLoopError):
            crew(agent_of(Script(steps), [look]))
        assert recording.runtime.guard.live == 0


@CALLS
def test_an_equal_action_is_refused_although_crewai_answers_it(react: bool) -> None:
    """CrewAI's own answer to an equal action has not stopped the model: then it reads a refusal."""
    model = script(*"aaaaa", react=react)
    with guarded() as recording:
        crew(agent_of(model, [look]))
        assert recording.outcomes[-2:] == ["blocked", "blocked"]
        assert "tool_loop_detected" in model.read[-1]


@CALLS
def test_a_failing_tool_is_read_as_before(react: bool) -> None:
    """The exception of a tool is an error that the model reads, and the call has failed."""
    model = script("a", "b", name="fetch", react=react)
    with guarded() as recording:
        crew(agent_of(model, [fetch]))
        assert "there is no a" in model.read[0]
        assert recording.outcomes == ["failed"] * 2


@CALLS
def test_a_result_that_is_the_answer_gets_no_sentence(react: bool) -> None:
    """The result of a tool with ``result_as_answer`` is the answer of the task, and not changed."""
    answering = tool("look", result_as_answer=True)(look)
    with guarded():
        assert str(crew(agent_of(script("a", react=react), [answering]))) == "there is a"


def test_a_cached_result_is_a_call() -> None:
    """With CrewAI's cache the second call does not run the tool, and is counted and judged as any other."""
    model = script("a", "b", "a", "b", "a")
    with guarded() as recording:
        crew_of(agent_of(model, [look], cache=True), cache=True).kickoff()
        assert len(recording.spans) == 5
        assert "blocked" in recording.outcomes


class Planner(Script):
    """Plans its steps first."""

    number = 1

    def respond(self, messages: Any) -> Any:
        """Make the plan, or the next message of the step."""
        if "NOT READY" not in str(messages):
            return super().respond(messages)
        steps = [
            {"step_number": number, "description": f"look for {number}", "tool_to_use": "look", "depends_on": earlier}
            for number in range(1, self.number + 1)
            for earlier in [list(range(1, number))]
        ]
        return json.dumps({"plan": "look", "steps": steps, "ready": True})


class LookInEachStep(Planner):
    """Looks at one file in each of its three steps."""

    number = 3

    def respond(self, messages: Any) -> Any:
        """Look once in the messages of a step."""
        if "step_completed" in str(messages):
            goes_on = {"remaining_plan_still_valid": True, "needs_full_replan": False, "goal_already_achieved": False}
            return json.dumps({"step_completed_successfully": True, "key_information_learned": "x", **goes_on})
        self.seen = [[]] if "'tool'" in str(messages) else []
        return super().respond(messages)


@CALLS
def test_a_step_of_a_plan_is_guarded(react: bool) -> None:
    """The steps of a plan have an executor of their own, and an abort in one reaches the caller."""
    planned = {"planning_config": PlanningConfig(max_attempts=1)}
    with guarded(Policy(abort_after=1)) as recording:
        with pytest.raises(ToolLoopError):
            alone(agent_of(Planner([[Ask("look", {"path": "a"})]] * 9, react=react), [look], **planned))
        assert recording.outcomes[-2:] == ["blocked", "aborted"]
        assert recording.runtime.guard.live == 0


def test_each_step_of_a_plan_is_a_turn() -> None:
    """Each step has messages of its own: three steps may look at one file."""
    planned = {"planning_config": PlanningConfig(max_attempts=1, reasoning_effort="low")}
    with guarded() as recording:
        alone(agent_of(LookInEachStep([[Ask("look", {"path": "a"})]]), [look], **planned))
        assert recording.outcomes[:3] == ["executed"] * 3
        assert len(set(attribute(recording, semconv.TURN_ID))) == len(recording.spans)
        assert recording.runtime.guard.live == 0


def test_each_task_of_a_crew_is_a_turn() -> None:
    """Each task has messages of its own: three tasks may read the same file twice."""
    agents = [agent_of(script("a", "a"), [look]) for _ in range(3)]
    with guarded() as recording:
        Crew(agents=agents, tasks=[task_of(agent) for agent in agents], cache=False).kickoff()
        assert recording.outcomes == ["executed", "nudged"] * 3
        assert len(set(attribute(recording, semconv.TURN_ID))) == 3
        assert recording.runtime.guard.live == 0


class LookAndAnswer(Script):
    """Looks once in fresh messages, then answers."""

    def respond(self, messages: Any) -> Any:
        """Make the next message of these messages."""
        self.seen = [[]] if any(message["role"] == "tool" for message in messages) else []
        return super().respond(messages)


def test_each_attempt_of_a_guardrail_is_a_turn() -> None:
    """A retry begins with fresh messages: four attempts may look at one file."""
    asked: list[str] = []

    def check(answer: Any) -> tuple[bool, str]:
        asked.append(answer.raw)
        return (len(asked) > 3, "Try again.")

    agent = agent_of(LookAndAnswer([[Ask("look", {"path": "a"})]]), [look], guardrail=check, guardrail_max_retries=5)
    with guarded() as recording:
        alone(agent)
        assert recording.outcomes == ["executed"] * 4
        assert len(set(attribute(recording, semconv.TURN_ID))) == 4
        assert recording.runtime.guard.live == 0


def test_a_kickoff_in_an_event_loop_is_one_run() -> None:
    """There it returns a coroutine, and only that runs the agent."""

    async def kickoff() -> Any:
        return await agent_of(script("a"), [look]).kickoff("Go on.")

    with guarded() as recording:
        asyncio.run(kickoff())
        runs = [span for span in recording._spans.get_finished_spans() if span.name.startswith("invoke_agent")]
        assert len(runs) == 1
        assert recording.outcomes == ["executed"]


def delegating(number: int, worker: Script) -> Any:
    """A crew whose boss asks a coworker so often."""
    ask = {"coworker": "worker", "context": "none"}
    steps = [[Ask("delegate_work_to_coworker", {"task": f"question {n}", **ask})] for n in range(number)]
    boss = agent_of(Script(steps), role="boss", allow_delegation=True)
    return Crew(agents=[boss, agent_of(worker, [look], role="worker")], tasks=[task_of(boss)], cache=False), boss


def test_the_task_of_a_coworker_is_a_child_turn() -> None:
    """The calls of the coworker are counted in a turn of their own, inside the call that asks for them."""
    crew_, _ = delegating(1, script("a", "b"))
    with guarded() as recording:
        crew_.kickoff()
        assert [span.name for span in recording.spans] == [
            "execute_tool delegate_work_to_coworker",
            "execute_tool look",
            "execute_tool look",
        ]
        turns = attribute(recording, semconv.TURN_ID)
        assert turns[1] == turns[2] == f"{turns[0]}/1"
        assert attribute(recording, semconv.AGENT_NAME) == ["boss", "worker", "worker"]
        assert recording.runtime.guard.live == 0


def test_an_abort_of_a_coworker_is_a_failure_for_the_agent_that_asks() -> None:
    """The boss reads the abort as the result of its call, and goes on."""
    worker = script(*"aaaaaaaaa")
    crew_, boss = delegating(1, worker)
    with guarded(Policy(abort_after=1)) as recording:
        crew_.kickoff()
        assert recording.outcomes[1:] == ["executed", "nudged", "blocked", "aborted"]
        assert "The agent called look again and again" in boss.llm._script.read[0]
        assert recording.runtime.guard.live == 0


def test_a_cancelled_run_leaves_no_turn() -> None:
    """Cancelling the coroutine of an agent closes its turn."""
    with guarded() as recording:
        with pytest.raises(asyncio.CancelledError):
            asyncio.run(_cancelled())
        assert recording.runtime.guard.live == 0


async def _cancelled() -> None:
    reached = asyncio.Event()

    class Waiting(Script):
        def respond(self, messages: Any) -> Any:
            reached.set()
            return super().respond(messages)

    running = asyncio.ensure_future(agent_of(Waiting([[Ask("look", {"path": "a"})]] * 9), [look]).kickoff_async("Go."))
    await reached.wait()
    running.cancel()
    await running
    raise asyncio.CancelledError  # it was too late to cancel the run


@pytest.mark.parametrize("go", [crew, crew_native_async, alone])
def test_each_call_has_one_span_in_the_trace_of_the_program(go: Any) -> None:
    """Spans of CrewAI's own tracing go to a provider of its own, so ours are the only ones here."""
    with guarded() as recording:
        with recording.tracer_provider.get_tracer("program").start_as_current_span("question") as span:
            go(agent_of(script("a", "b"), [look]))
        executions = [one for one in recording._spans.get_finished_spans() if one.name.startswith("execute_tool")]
        assert [one.name for one in executions] == ["execute_tool look"] * 2
        assert {one.context.trace_id for one in executions} == {span.get_span_context().trace_id}


@CALLS
def test_nothing_of_a_call_is_told(react: bool) -> None:
    """Spans, events and counters have no argument, result, exception text or unknown name."""
    asked = [*[Ask("look", {"path": "SECRET"})] * 3, *[Ask("fetch", {"path": "SECRET"})] * 3, *[Ask("SECRET", {})] * 3]
    with guarded() as recording:
        crew(agent_of(Script([[ask] for ask in asked], react=react), [look, fetch]))
        assert len(recording.spans) == 9
        exported = [span.to_json() for span in recording.spans]
        for metric in (semconv.METRIC_TRIPS, semconv.METRIC_TOOL_TRIPS, semconv.METRIC_TOOL_CALLS):
            exported += [str(point) for point in recording.points(metric)]
        assert "SECRET" not in "".join(exported)
