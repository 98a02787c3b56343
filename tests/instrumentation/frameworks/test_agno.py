"""Agno: the framework's own features."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

pytest.importorskip("agno", reason="agno is tested in an environment of its own")

from agno.db.in_memory import InMemoryDb
from agno.exceptions import RetryAgentRun, StopAgentRun
from agno.tools import tool as agno_tool
from agno.tools.function import Function, ToolResult

import otel_loopguard as loopguard
from otel_loopguard import Policy, ToolContract, ToolLoopError, semconv
from otel_loopguard.testing import Ask, assert_no_trip, guarded
from tests.instrumentation.frameworks.looking import assert_nothing_left, attribute, calls, look
from tests.scripted.agno import (
    ScriptedModel,
    agent_of,
    generator_tools,
    run_async,
    run_async_stream,
    run_stream,
    run_sync,
    team_of,
)

pytestmark = pytest.mark.filterwarnings("ignore")

WAYS = pytest.mark.parametrize("go", [run_sync, run_stream, run_async, run_async_stream])
ABORTS = Policy(abort_after=1)


def model_of(*paths: str, name: str = "look", answer: str = "Done.") -> ScriptedModel:
    return ScriptedModel(calls(paths, name), answer)


def boss_of(*tasks: str) -> ScriptedModel:
    asks = [[Ask("delegate_task_to_member", {"member_id": "helper", "task": task})] for task in tasks]
    return ScriptedModel(asks, "All done.")


@WAYS
def test_a_leader_that_gives_the_same_task_again_is_stopped(go: Any) -> None:
    """The text of a member's run is the result of the call, whatever ids its events have."""
    boss = boss_of(*["the same"] * 4)
    with guarded() as recording:
        go(team_of(boss, members=[agent_of(ScriptedModel([], "nothing new"))]))
        assert ["tool_loop_detected" in text for text in boss.read] == [False, False, True, True]
        assert boss.read[0] == "nothing new"
        assert boss.read[1] != boss.read[0]
        assert boss.read[1].startswith("nothing new")
        assert set(attribute(recording, semconv.AGENT_NAME)) == {"boss"}
        assert recording.outcomes == ["executed", "nudged", "blocked", "blocked"]
        assert_nothing_left(recording)


@WAYS
def test_a_made_up_name_is_judged_where_its_message_is_written(go: Any) -> None:
    """A name that does not exist is refused at its second repeat, is never shown, and has a span."""
    model = model_of("a", "a", "a", name="SECRET")
    with guarded() as recording:
        go(agent_of(model, [look]))
        assert "does not exist" in model.read[0]
        assert ["tool_loop_detected" in text for text in model.read] == [False, False, True]
        assert {span.name for span in recording.spans} == {"execute_tool _unknown"}
        assert "SECRET" not in "".join(span.to_json() for span in recording.spans)
        assert recording.outcomes == ["failed", "failed", "blocked"]


def test_arguments_that_are_no_object_are_failures() -> None:
    """Calls that fail before they run are counted, and refused when they repeat."""
    model = ScriptedModel([[Ask("look", ["a"])]] * 4)  # type: ignore[arg-type]
    with guarded() as recording:
        run_sync(agent_of(model, [look]))
        assert "not a valid JSON object" in model.read[0]
        assert "tool_loop_detected" in model.read[3]
        assert {span.name for span in recording.spans} == {"execute_tool look"}
        assert recording.outcomes[0] == "failed"


@WAYS
def test_a_failing_tool_is_read_by_the_model_as_before(go: Any) -> None:
    """The model reads the exception's text, and a call that repeats the same failure is refused."""

    def fetch(path: str) -> str:
        """Fetch."""
        raise LookupError("there is no such row")

    model = model_of(*["a"] * 4, name="fetch")
    with guarded() as recording:
        go(agent_of(model, [fetch]))
        assert model.read[0] == "there is no such row"
        assert model.returned[0].tool_call_error
        assert recording.outcomes[0] == "failed"
        assert "tool_loop_detected" in model.read[-1]
        assert model.returned[-1].tool_call_error


def test_a_tool_that_asks_for_a_retry_has_failed() -> None:
    """``RetryAgentRun`` reaches the model as before."""

    def fetch(path: str) -> str:
        """Fetch."""
        raise RetryAgentRun("give the full path")

    with guarded() as recording:
        run_sync(agent_of(model_of("a", name="fetch"), [fetch]))
        assert recording.outcomes == ["failed"]


@WAYS
def test_a_tool_that_stops_the_run_has_not_failed(go: Any) -> None:
    """``StopAgentRun`` ends the run as before, and is no failure."""

    def finish(path: str) -> str:
        """Finish."""
        raise StopAgentRun("enough")

    model = model_of("a", "a", name="finish")
    with guarded() as recording:
        go(agent_of(model, [finish]))
        assert len(model.seen) == 1
        assert recording.outcomes == ["cancelled"]
        assert_nothing_left(recording)


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("is_async", [False, True])
def test_a_call_that_waits_for_a_person_is_one_call(streamed: bool, is_async: bool) -> None:
    """A call that waited for a confirmation is counted once, in the turn that it was written in."""
    ran = []

    @agno_tool(requires_confirmation=True)
    def delete(path: str) -> str:
        """Delete something."""
        ran.append(path)
        return f"{path} is gone"

    model = ScriptedModel([[Ask("look", {"path": "b"})], [Ask("delete", {"path": "a"})]])
    agent = agent_of(model, [look, delete], db=InMemoryDb())
    options = {"session_id": "one", "stream": streamed}

    async def go() -> None:
        paused = await _last(agent.arun("Go on.", **options) if is_async else agent.run("Go on.", **options))
        assert paused.is_paused
        assert not ran
        for one in paused.tools:
            one.confirmed = True
        resumed = agent.acontinue_run if is_async else agent.continue_run
        await _last(resumed(run_id=paused.run_id, **_decided(paused), **options))

    with guarded() as recording:
        asyncio.run(go())
        assert ran == ["a"]
        assert recording.outcomes == ["executed", "executed"]
        assert len(set(attribute(recording, semconv.TURN_ID))) == 1
        assert_no_trip(recording)
        assert_nothing_left(recording)


def _decided(paused: Any) -> dict[str, Any]:
    """The argument of this version that holds what the person has decided."""
    requirements = getattr(paused, "requirements", None)
    return {"requirements": requirements} if requirements else {"updated_tools": paused.tools}


async def _last(result: Any) -> Any:
    """The result of a run, or the last item of its stream."""
    if hasattr(result, "__aiter__"):
        return [item async for item in result][-1]
    if hasattr(result, "__await__"):
        return await result
    return list(result)[-1] if hasattr(result, "__next__") else result


def shown_tools(**options: Any) -> Any:
    """Tools with text or items that the user reads."""

    @agno_tool(show_result=True, **options)
    def look(path: str) -> str:
        """Look at something."""
        return "there it is"

    @agno_tool(show_result=True, **options)
    def fetch(path: str) -> Any:
        """Fetch something."""
        yield from ("there ", "it is")

    return [look, fetch]


@WAYS
@pytest.mark.parametrize("name", ["look", "fetch"])
def test_an_answer_for_the_user_has_no_sentence(go: Any, name: str) -> None:
    """Neither a sentence nor a refusal is shown to the user; the model reads the refusal."""
    model = model_of("a", "a", "a", name=name)
    with guarded() as recording:
        result = go(agent_of(model, shown_tools()))
        assert recording.outcomes == ["executed", "executed", "blocked"]
        assert model.read[:2] == ["there it is"] * 2
        assert "tool_loop_detected" in model.read[2]
        shown = result.content if hasattr(result, "content") else "".join(str(event.content) for event in result)
        assert shown == "there it is" * 2 + "Done."
        assert_nothing_left(recording)


def test_a_result_that_ends_the_run_has_no_sentence() -> None:
    """The text of a tool that ends the run is left as it is, though the call repeats."""
    model = model_of("a", name="look")
    with guarded() as recording, loopguard.turn():
        answers = [run_sync(agent_of(model, shown_tools(stop_after_tool_call=True))).content for _ in range(2)]
        assert answers == ["there it is"] * 2
        assert recording.trips
        assert recording.outcomes == ["executed", "executed"]


def test_a_tool_result_keeps_what_is_beside_its_text() -> None:
    """A sentence goes into the content of a ``ToolResult``, and an earlier one can be given again."""

    def fetch(path: str) -> ToolResult:
        """Fetch."""
        return ToolResult(content=f"2 rows of {path}")

    model = model_of("a", "a", name="fetch")
    with guarded() as recording:
        run_sync(agent_of(model, [fetch]))
        assert model.read[1].startswith("2 rows of a\n")
        assert recording.outcomes == ["executed", "nudged"]


def test_structured_results_stay_what_they_are() -> None:
    """No sentence is added to an object; it waits for the next text."""

    def fetch(path: str) -> dict[str, int]:
        """Fetch."""
        return {"rows": 2}

    model = ScriptedModel([[Ask("fetch", {"path": "a"})]] * 2 + [[Ask("look", {"path": "b"})]])
    with guarded():
        run_sync(agent_of(model, [fetch, look]))
        assert model.read[1] == "{'rows': 2}"
        assert model.read[2].startswith("there is b\n")
        assert "fetch" in model.read[2]


def test_hooks_of_a_tool_run_as_before() -> None:
    """The hooks around a tool run for the calls that run, and not for those that are refused."""
    hooked = []

    def hook(function_name: str, function_call: Any, arguments: dict[str, Any]) -> Any:
        hooked.append(function_name)
        return function_call(**arguments)

    model = model_of("a", "a", "a")
    with guarded() as recording:
        run_sync(agent_of(model, [look], tool_hooks=[hook]))
        assert hooked == ["look", "look"]
        assert recording.outcomes == ["executed", "nudged", "blocked"]


def test_a_function_call_is_dumped_as_before() -> None:
    """What is noted on a call is no field of it."""
    dumped = []

    def hook(fc: Any) -> None:
        dumped.append(set(fc.model_dump(exclude={"function"})))

    with guarded():
        run_sync(agent_of(model_of("a"), [Function(name="look", entrypoint=look, pre_hook=hook)]))
    with_guard = list(dumped)
    run_sync(agent_of(model_of("a"), [Function(name="look", entrypoint=look, pre_hook=hook)]))
    assert with_guard == [dumped[-1]]


@WAYS
@pytest.mark.parametrize("make", [agent_of, team_of])
def test_an_abort_of_a_generator_reaches_the_caller(go: Any, make: Any) -> None:
    """Also one that is streamed, and one of a team."""
    with guarded(ABORTS) as recording:
        with pytest.raises(ToolLoopError):
            go(make(model_of(*["a"] * 9), generator_tools({"look": look})))
        assert recording.outcomes == ["executed", "nudged", "blocked", "aborted"]
        assert_nothing_left(recording)


@WAYS
def test_an_earlier_result_that_is_given_again_is_no_error(go: Any) -> None:
    """The message says what the call that ran has said."""
    model = model_of("a", "a", "a")
    with guarded(Policy(tools={"look": ToolContract(kind="read", reuse=True)})) as recording:
        go(agent_of(model, [look]))
        assert recording.outcomes[-1] == "reused"
        assert not model.returned[-1].tool_call_error
