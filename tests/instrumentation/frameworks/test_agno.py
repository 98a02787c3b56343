"""Agno: the shared scenarios, and the framework's own features."""

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
from otel_loopguard.testing import SCENARIOS, Ask, Scenario, assert_no_trip, assert_trips, guarded
from otel_loopguard.turns.scope import current_scope
from tests.scripted.agno import (
    DRIVERS,
    ScriptedModel,
    agent_of,
    async_tools,
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


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
@pytest.mark.parametrize("driver", DRIVERS)
def test_scenario(driver: str, scenario: Scenario) -> None:
    """Each way of running an agent passes the shared scenarios."""
    scenario.run(DRIVERS[driver])


def look(path: str) -> str:
    """Look at something."""
    return f"there is {path}"


def model_of(*paths: str, name: str = "look", answer: str = "Done.") -> ScriptedModel:
    return ScriptedModel([[Ask(name, {"path": path})] for path in paths], answer)


def boss_of(*tasks: str, tool: str = "delegate_task_to_member") -> ScriptedModel:
    who = {"member_id": "helper"} if tool.endswith("member") else {}
    return ScriptedModel([[Ask(tool, {**who, "task": task})] for task in tasks], "All done.")


def attribute(recording: Any, name: str) -> list[Any]:
    return [span.attributes.get(name) for span in recording.spans]


def assert_nothing_left(recording: Any) -> None:
    assert recording.runtime.guard.live == 0
    assert recording.counted(semconv.METRIC_INTERNAL_ERRORS) == 0
    assert current_scope() is None


@WAYS
@pytest.mark.parametrize("make", [agent_of, team_of])
@pytest.mark.parametrize("make_tools", [list, generator_tools])
def test_an_aborted_run_reaches_the_caller(go: Any, make: Any, make_tools: Any) -> None:
    """``except ToolLoopError`` catches an abort in each way of running, and no turn is left."""
    with guarded(ABORTS) as recording:
        tools = [look] if make_tools is list else generator_tools({"look": look})
        with pytest.raises(ToolLoopError) as caught:
            go(make(model_of(*["a"] * 9), tools))
        assert caught.value.tool_name == "look"
        assert caught.value.turn_id == attribute(recording, semconv.TURN_ID)[0]
        assert recording.outcomes == ["executed", "nudged", "blocked", "aborted"]
        assert_nothing_left(recording)


@WAYS
def test_an_abort_among_parallel_calls_ends_the_run(go: Any) -> None:
    """An abort ends the other calls of the same message, too, and the run does not hang."""
    steps = [[Ask("look", {"path": "a"})], *[[Ask("look", {"path": "a"}), Ask("look", {"path": "b"})]] * 8]
    with guarded(ABORTS) as recording:
        with pytest.raises(ToolLoopError):
            go(agent_of(ScriptedModel(steps), async_tools({"look": look}) if "async" in go.__name__ else [look]))
        assert_nothing_left(recording)


@WAYS
@pytest.mark.parametrize("name", ["delegate_task_to_member", "delegate_task_to_members"])
def test_a_member_of_a_team_has_a_turn_of_its_own(go: Any, name: str) -> None:
    """Four runs of a member that makes the same call each time are no loop of the leader."""
    boss = boss_of(*(f"task {number}" for number in range(4)), tool=name)
    options = {"delegate_task_to_all_members": True} if name.endswith("s") else {}
    with guarded() as recording:
        go(team_of(boss, members=[agent_of(model_of("shared"), [look])], **_known(options)))
        assert [text.count("Done.") for text in boss.read] == [1] * 4
        turns = attribute(recording, semconv.TURN_ID)
        top = min(turns, key=len)
        assert turns.count(top) == 4
        assert len(set(turns)) == 5
        assert all(turn.startswith(top) for turn in turns)
        assert set(attribute(recording, semconv.AGENT_NAME)) == {"boss", "helper"}
        assert_no_trip(recording)
        assert_nothing_left(recording)


def _known(options: dict[str, Any]) -> dict[str, Any]:
    """The name of the option in this version."""
    from inspect import signature

    from agno.team import Team

    old = "delegate_to_all_members"
    return {old: True} if options and old in signature(Team.__init__).parameters else options


@WAYS
def test_the_abort_of_a_member_is_a_failed_tool_of_its_leader(go: Any) -> None:
    """The leader reads why its member was ended, and goes on."""
    boss = boss_of("loop")
    with guarded(ABORTS) as recording:
        go(team_of(boss, members=[agent_of(model_of(*["a"] * 9), [look])]))
        assert len(boss.seen) == 2
        assert "look" in boss.read[0]
        assert recording.outcomes.count("aborted") == 1
        assert_nothing_left(recording)


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
        assert recording.outcomes == ["executed", "nudged", "blocked", "blocked"]
        assert_nothing_left(recording)


@WAYS
def test_an_agent_that_is_a_tool_has_a_turn_of_its_own(go: Any) -> None:
    """A run inside a function is a child turn, and its abort is a failure of that function."""

    def ask_helper(question: str) -> str:
        """Ask the helper."""
        return str(agent_of(model_of(*["shared"] * 9), [look]).run(question).content)

    model = ScriptedModel([[Ask("ask_helper", {"question": f"question {number}"})] for number in range(2)])
    with guarded(ABORTS) as recording:
        go(agent_of(model, [ask_helper]))
        assert len(model.read) == 2
        assert all("look" in text for text in model.read)
        assert recording.outcomes.count("aborted") == 2
        assert len(set(attribute(recording, semconv.TURN_ID))) == 3
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


@WAYS
def test_each_message_of_a_session_is_a_turn_of_its_own(go: Any) -> None:
    """The session is the conversation; each message may read the same file again."""
    with guarded() as recording:
        for _ in range(3):
            go(agent_of(model_of("a", "a"), [look]), session_id="session-1")
        assert recording.outcomes == ["executed", "nudged"] * 3
        assert len(set(attribute(recording, semconv.TURN_ID))) == 3
        assert len(set(attribute(recording, semconv.CONVERSATION_ID))) == 1
        assert set(attribute(recording, semconv.AGENT_NAME)) == {"helper"}
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


def test_a_stream_that_is_left_leaves_nothing() -> None:
    """No scope is bound in the consumer's code, and a stream that is closed early closes its turn."""
    with guarded() as recording:
        stream = agent_of(model_of(*"abcdefgh"), [look]).run("Go on.", stream=True, stream_events=True)
        for _ in stream:
            assert current_scope() is None
            if recording.spans:
                break
        stream.close()
        assert_nothing_left(recording)


def test_a_members_stream_that_is_left_leaves_nothing() -> None:
    """A stream that is closed while a member runs closes both turns."""
    boss = boss_of("a task")
    with guarded() as recording:
        team = team_of(boss, members=[agent_of(model_of("a", "b"), [look])])
        stream = team.run("Go on.", stream=True, stream_events=True)
        for _ in stream:
            assert current_scope() is None
            if recording.spans:
                break
        stream.close()
        assert_nothing_left(recording)


def test_a_cancelled_run_leaves_nothing() -> None:
    """The call of a cancelled task is cancelled, and its turn is closed."""

    async def cancelled() -> None:
        began = asyncio.Event()

        async def wait(path: str) -> str:
            """Wait."""
            began.set()
            await asyncio.Event().wait()
            return path

        task = asyncio.create_task(agent_of(model_of("a", name="wait"), [wait]).arun("Go on."))
        await began.wait()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    with guarded() as recording:
        asyncio.run(cancelled())
        assert recording.outcomes == ["cancelled"]
        assert_nothing_left(recording)


def test_runs_side_by_side_are_turns_of_their_own() -> None:
    """Three agents that make equal calls in parallel are no loop."""

    async def together() -> None:
        await asyncio.gather(*(agent_of(model_of("a", "b"), [look]).arun("Go on.") for _ in range(3)))

    with guarded() as recording:
        asyncio.run(together())
        assert len(set(attribute(recording, semconv.TURN_ID))) == 3
        assert_no_trip(recording)


def test_a_turn_around_several_runs_is_one_turn() -> None:
    """With ``turn()`` around several runs, repeats are counted across the runs."""
    with guarded() as recording, loopguard.turn():
        for _ in range(4):
            run_sync(agent_of(model_of("a"), [look]))
        assert_trips(recording, "generic_repeat", action="block", times=2)


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


@WAYS
def test_an_earlier_result_is_given_again(go: Any) -> None:
    """With reuse in the contract, a repeated call gets the earlier result with a note, and nothing runs."""
    model = model_of("a", "a", "a")
    with guarded(Policy(tools={"look": ToolContract(kind="read", reuse=True)})) as recording:
        go(agent_of(model, [look]))
        assert recording.outcomes[-1] == "reused"
        assert model.read[-1].startswith("there is a\n")
        assert not model.returned[-1].tool_call_error


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


def test_nothing_of_a_call_is_told() -> None:
    """Spans, events and counters have no argument, result, exception text or unknown name."""

    def fetch(path: str) -> str:
        """Fetch."""
        if "FAIL" in path:
            raise LookupError(f"SECRET of {path}")
        return f"SECRET row of {path}"

    paths = ["SECRET1"] * 4 + ["SECRETFAIL"] * 4
    model = ScriptedModel(
        [*[[Ask("fetch", {"path": path})] for path in paths], *[[Ask("SECRETTOOL", {"SECRET": 1})]] * 3]
    )
    with guarded() as recording:
        run_sync(agent_of(model, [fetch]))
        assert len(recording.spans) == 11
        exported = [span.to_json() for span in recording.spans]
        for metric in (semconv.METRIC_TRIPS, semconv.METRIC_TOOL_TRIPS, semconv.METRIC_TOOL_CALLS):
            exported += [str(point) for point in recording.points(metric)]
        assert "SECRET" not in "".join(exported)
