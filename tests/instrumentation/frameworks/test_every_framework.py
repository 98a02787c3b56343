"""What holds for every framework, under each way of running its agents, of the frameworks that are installed.

``tests/scripted`` has the ways of each. What is peculiar to a framework is in the file of its name. The matrix runs
this in each environment of a framework.
"""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from itertools import compress
from typing import Any

import pytest

import otel_loopguard as loopguard
from otel_loopguard import Policy, ToolContract, ToolLoopError, semconv
from otel_loopguard.testing import SCENARIOS, Ask, Recording, assert_no_trip, assert_trips, guarded
from otel_loopguard.turns.scope import current_scope
from tests.instrumentation.frameworks.looking import assert_nothing_left, attribute, calls, fetch, look
from tests.scripted import frameworks
from tests.two_figures import done, said, watched

pytestmark = pytest.mark.filterwarnings("ignore")

ALONE = {"claude-agent-sdk", "langchain", "mcp", "openai-agents", "pydantic-ai"}
"""Frameworks whose own files have all of this."""
EVERY_FRAMEWORK = frameworks()
FRAMEWORKS = {of: framework for of, framework in EVERY_FRAMEWORK.items() if of not in ALONE}
DRIVERS = [
    (of, framework, name, driver)
    for of, framework in FRAMEWORKS.items()
    for name, driver in {**framework.DRIVERS, **getattr(framework, "MORE_DRIVERS", {})}.items()
]


def each_driver(*scenarios: str, but: str = "") -> Any:
    """Parametrize with each driver that can have these scenarios, but those whose ids begin so."""
    return pytest.mark.parametrize(
        ("framework", "name", "driver"),
        [
            pytest.param(framework, name, driver, id=f"{of}-{name}")
            for of, framework, name, driver in DRIVERS
            if not (but and f"{of}-{name}".startswith(but))
            if all(has_scenario(framework, name, scenario) for scenario in scenarios)
        ],
    )


def has_scenario(framework: Any, driver: str, scenario: str) -> bool:
    """Return False for a scenario that the framework itself ends, or cannot have."""
    return not hasattr(framework, "has_scenario") or framework.has_scenario(driver, scenario)


EACH = each_driver()
PATHS = {"equal": "a" * 16, "laps": "abc" * 8, "after_news": "aaaabaaaacdefaaaa"}
ABORTS = Policy(abort_after=1)
LOOK = {"look": look}


def with_each(*kinds: str, but: str = "") -> Any:
    """Parametrize with each framework but one, and each entry that it has of these kinds."""
    return pytest.mark.parametrize(
        ("of", "framework", "way"),
        [
            pytest.param(of, framework, way, id=f"{of}-{key}")
            for of, framework in FRAMEWORKS.items()
            if of != but
            for found in [getattr(framework, kind, {}) for kind in kinds]
            for key, way in (found if isinstance(found, dict) else {one.__name__: one for one in found}).items()
        ],
    )


def made(framework: Any, steps: Any, tools: Any = LOOK) -> tuple[Any, Any]:
    """Make a model that follows these steps, and tools."""
    return framework.MODEL(steps), framework.TOOLS(tools)


@pytest.mark.parametrize(
    ("driver", "scenario"),
    [
        pytest.param(driver, scenario, id=f"{of}-{name}-{scenario.name}")
        for of, framework, name, driver in DRIVERS
        for scenario in SCENARIOS
        if has_scenario(framework, name, scenario.name)
    ],
)
def test_scenario(driver: Any, scenario: Any) -> None:
    """Each way of running an agent passes the shared scenarios."""
    scenario.run(driver)


@EACH
def test_an_aborted_run_reaches_the_caller(framework: Any, name: str, driver: Any) -> None:
    """``except ToolLoopError`` catches an abort in each way of running, and no turn is left."""
    with guarded(ABORTS) as recording:
        error = driver(LOOK, calls("aaaaaaaaa")).error
        assert isinstance(error, ToolLoopError)
        assert error.tool_name == "look"
        assert error.turn_id == attribute(recording, semconv.TURN_ID)[0]
        assert recording.outcomes[-1] == "aborted"
        assert recording.outcomes.count("aborted") == 1
        assert_nothing_left(recording)


@each_driver("parallel", "observe")
def test_an_abort_among_parallel_calls_ends_the_run(framework: Any, name: str, driver: Any) -> None:
    """An abort ends the run although other calls of the same message have results, and it does not hang."""
    steps = [*calls("a"), *[[Ask("look", {"path": path}) for path in "aab"]] * 8]
    with guarded(ABORTS) as recording:
        assert isinstance(driver(LOOK, steps).error, ToolLoopError)
        assert "aborted" in recording.outcomes
        assert_nothing_left(recording)


@pytest.mark.parametrize("paths", PATHS.values(), ids=PATHS)
@pytest.mark.parametrize(
    "driver",
    [
        pytest.param(driver, id=f"{of}-{name}")
        for of, framework in EVERY_FRAMEWORK.items()
        for name, driver in framework.DRIVERS.items()
        if has_scenario(framework, name, "stuck") and of != "crewai"  # it ends a run of five equal calls by itself
    ],
)
def test_a_guarded_run_does_what_a_watch_has_said(driver: Any, paths: str) -> None:
    """As many calls run, as many are refused, and the run ends where the watch has said.

    Each message makes one call. Those that threads make at once, for one message, end in another order in each run.
    """
    ran = []

    def look(path: str) -> str:
        """Look at something."""
        ran.append(path)
        return f"there is {path}"

    turn = watched(lambda: driver({"look": look}, calls(paths)))
    ran.clear()
    with guarded() as recording:
        error = driver({"look": look}, calls(paths)).error
        did = done(recording, len(ran), ended=isinstance(error, ToolLoopError))
    assert did == said(turn, calls_on=True)
    assert did.refused


@with_each("AT_ONCE")
def test_an_abort_cancels_the_other_calls_of_the_message(of: str, framework: Any, way: Any) -> None:
    """Nothing is done after the caller has the error."""
    both = [Ask("look", {"path": path}) for path in "ba"]
    late = []

    async def look(path: str) -> str:
        """Look at something."""
        if path == "b":
            await asyncio.sleep(0.1)
            late.append(path)
        return "there"

    async def main() -> None:
        with pytest.raises(ToolLoopError):
            await way(*made(framework, [*calls("aaa"), both], {"look": look}))
        await asyncio.sleep(0.2)

    with guarded(ABORTS) as recording:
        asyncio.run(main())
        assert sorted(recording.outcomes) == ["aborted", "blocked", "cancelled", "executed", "nudged"]
        assert_nothing_left(recording)
    assert late == []


@each_driver(but="agno-arun-async-generators")  # of which a failure ends the run in the oldest version
def test_a_failing_tool_is_read_by_the_model_as_before(framework: Any, name: str, driver: Any) -> None:
    """The call has failed, and a call that repeats the same failure is refused.

    Where a failure ends the run, the program gets the framework's error as before.
    """
    with guarded() as recording:
        transcript = driver({"fetch": fetch}, calls("abbbb", "fetch"))
        assert recording.outcomes[0] == "failed"
        assert attribute(recording, semconv.ERROR_TYPE)[0] in {"LookupError", "tool_error", "AgentToolExecutionError"}
        if getattr(framework, "READS_FAILURES", True):
            assert "there is no a" in transcript.read[0]
            assert "tool_loop_detected" in transcript.read[-1]
        assert not isinstance(transcript.error, ToolLoopError)
        assert_nothing_left(recording)


@each_driver("stuck")
def test_an_earlier_result_is_given_again(framework: Any, name: str, driver: Any) -> None:
    """With reuse in the contract, a repeated call gets the earlier result with a note, and nothing runs."""
    ran = []

    def look(path: str) -> str:
        """Look at something."""
        ran.append(path)
        return f"there is {path}"

    with guarded(Policy(tools={"look": ToolContract(kind="read", reuse=True)})) as recording:
        transcript = driver({"look": look}, calls("aaa"))
        assert recording.outcomes[-1] == "reused"
        assert "there is a" in transcript.read[-1]
        assert transcript.read[-1] != transcript.read[0]
        assert ran == ["a", "a"]


@EACH
def test_a_turn_around_several_runs_is_one_turn(framework: Any, name: str, driver: Any) -> None:
    """With ``turn()`` around several runs, repeats are counted across the runs."""
    with guarded() as recording, loopguard.turn():
        for _ in range(4):
            driver(LOOK, calls("a"))
        assert len(set(attribute(recording, semconv.TURN_ID))) == 1
        assert_trips(recording, "generic_repeat", action="block", times=2)


@each_driver(but="strands")  # whose oldest version has traces of its own
def test_calls_are_in_the_trace_of_the_program(framework: Any, name: str, driver: Any) -> None:
    """Each call has one span, in the trace of the code that started the run, and all are of one turn."""
    with guarded() as recording:
        with recording.tracer_provider.get_tracer("program").start_as_current_span("question") as span:
            driver(LOOK, calls("ab"))
        assert [one.name for one in recording.spans] == ["execute_tool look"] * 2
        assert {one.context.trace_id for one in recording.spans} == {span.get_span_context().trace_id}
        assert len(set(attribute(recording, semconv.TURN_ID))) == 1


def helper_of(driver: Any, paths: str) -> dict[str, Any]:
    """Make a tool that runs an agent with these calls, in a thread: there may be an event loop in this one."""

    def helper(path: str) -> str:
        """Ask the helper."""
        with ThreadPoolExecutor() as pool:
            ended = pool.submit(copy_context().run, driver, LOOK, calls(paths)).result()
        if ended.error is not None:
            raise ended.error
        return f"{path}: {ended.read[0]}"

    return {"helper": helper}


def tells_abort(text: str) -> bool:
    """Return True for a result that names the tool. That of the oldest Agent Framework has no more than a failure."""
    return "look" in text or text == "Error: Function failed."


@EACH
def test_an_agent_in_a_tool_has_a_turn_of_its_own(framework: Any, name: str, driver: Any) -> None:
    """Four runs in a tool that make the same call each time are no loop of the agent that asks."""
    with guarded() as recording:
        assert driver(helper_of(driver, "a"), calls("abcd", "helper")).error is None
        assert_turns_of_helpers(recording, nested=not name.startswith("run-team"))  # AutoGen's members are in no turn


@each_driver("stuck", but="anthropic-runner-by-hand")  # of which the oldest version ends both
def test_the_abort_of_an_agent_in_a_tool_is_a_failure_of_the_tool(framework: Any, name: str, driver: Any) -> None:
    """The agent that asks reads it, and goes on."""
    with guarded(ABORTS) as recording:
        transcript = driver(helper_of(driver, "aaaaaaaaa"), calls("ab", "helper"))
        assert transcript.error is None
        assert [tells_abort(text) for text in transcript.read] == [True] * 2
        assert recording.outcomes.count("aborted") == 2
        calls_of_helper = [span.name == "execute_tool helper" for span in recording.spans]
        assert [*compress(recording.outcomes, calls_of_helper)] == ["failed"] * 2
        assert len(set(attribute(recording, semconv.TURN_ID))) == 3
        assert_nothing_left(recording)


@with_each("NESTED", "GROUPS")
def test_an_agent_that_is_a_tool_has_a_turn_of_its_own(of: str, framework: Any, way: Any) -> None:
    """Four calls of a helper that makes the same call each time are no loop of the agent that asks."""
    ask, run = way
    boss = framework.MODEL([[ask(f"question {number}")] for number in range(4)])
    with guarded() as recording:
        run(boss, *made(framework, calls("a")))
        assert [text.count("Done.") for text in boss.read] == [1] * 4
        assert_turns_of_helpers(recording)


def assert_turns_of_helpers(recording: Recording, *, nested: bool = True) -> None:
    """Assert that four helpers made one call each, in a turn of their own within that of the agent that asks."""
    turns = attribute(recording, semconv.TURN_ID)
    top = min(turns, key=len)
    assert turns.count(top) == 4
    assert len(turns) == 8
    assert len(set(turns)) == 5
    assert all(turn.startswith(top) for turn in turns) or not nested
    assert_no_trip(recording)
    assert_nothing_left(recording)


@with_each("NESTED")
def test_the_abort_of_a_helper_is_read_by_the_agent_that_asks(of: str, framework: Any, way: Any) -> None:
    """It is the result of the call, and the agent goes on."""
    ask, run = way
    boss = framework.MODEL([[ask("loop")], [ask("loop again")]])
    with guarded(ABORTS) as recording:
        run(boss, *made(framework, calls("aaaaaaaaa")))
        assert [tells_abort(text) for text in boss.read] == [True] * 2
        assert recording.outcomes.count("aborted") == 2
        assert recording.outcomes.count("failed") == (0 if of == "ag2" else 2)  # there it is a text as any other
        assert len(set(attribute(recording, semconv.TURN_ID))) == 3
        assert_nothing_left(recording)


@with_each("CONVERSATIONS")
def test_each_message_of_a_conversation_is_a_turn_of_its_own(of: str, framework: Any, way: Any) -> None:
    """The second message may read the same file as the first, in the same conversation."""
    with guarded() as recording:
        way(*made(framework, calls("aa")), 3)
        assert recording.outcomes == ["executed", "nudged"] * 3
        assert len(set(attribute(recording, semconv.TURN_ID))) == 3
        conversations = set(attribute(recording, semconv.CONVERSATION_ID))
        assert len(conversations) == 1
        assert (None in conversations) == (of in {"autogen", "llama-index"})  # which have no id of one
        names = set(attribute(recording, semconv.AGENT_NAME))
        assert names == {None if of in {"ag2", "agent-framework"} else "helper"}  # these do not tell it
        assert_nothing_left(recording)


@with_each("STREAMS")
def test_a_stream_that_is_left_early_leaves_nothing(of: str, framework: Any, way: Any) -> None:
    """No scope is bound in the consumer's code, and the turn is closed with the stream."""

    def is_enough() -> bool:
        assert current_scope() is None
        return bool(recording.spans)

    async def leave() -> None:
        async for _ in stream:
            if is_enough():
                break
        await stream.aclose()

    with guarded() as recording:
        stream = way(*made(framework, calls("abcdefgh")))
        if hasattr(stream, "__aiter__"):
            asyncio.run(leave())
        else:
            for _ in stream:
                if is_enough():
                    break
            stream.close()
        assert recording.spans
        assert_nothing_left(recording)


@with_each("IN_LOOP", but="llama-index")  # whose runs go on, but for ``cancel_run``: see its file
def test_a_run_that_is_cancelled_leaves_nothing(of: str, framework: Any, way: Any) -> None:
    """The call that ran is cancelled, and its turn is closed."""

    async def cancel() -> None:
        started = asyncio.Event()

        async def wait(path: str) -> str:
            """Wait."""
            started.set()
            await asyncio.Event().wait()
            return path

        task = asyncio.create_task(way(*made(framework, calls("a", "wait"), {"wait": wait})))
        await started.wait()
        task.cancel()
        (ended,) = await asyncio.gather(task, return_exceptions=True)
        assert isinstance(ended, BaseException) or of == "agno"  # which makes a result of it

    with guarded() as recording:
        asyncio.run(cancel())
        assert recording.outcomes == ["cancelled"]
        assert_nothing_left(recording)


@pytest.mark.parametrize("framework", FRAMEWORKS.values(), ids=FRAMEWORKS)
def test_runs_side_by_side_are_turns_of_their_own(framework: Any) -> None:
    """Three agents that make equal calls, in one event loop or in threads, are no loop."""
    drivers, in_loop = framework.DRIVERS.values(), getattr(framework, "IN_LOOP", ())

    async def together() -> None:
        for way in in_loop:
            await asyncio.gather(*(way(*made(framework, calls("ab"))) for _ in range(3)))
        for driver in drivers:
            await asyncio.gather(*(asyncio.to_thread(driver, LOOK, calls("ab")) for _ in range(3)))

    with guarded() as recording:
        asyncio.run(together())
        runs = 3 * (len(drivers) + len(in_loop))
        assert len(set(attribute(recording, semconv.TURN_ID))) == runs
        assert len(recording.spans) == 2 * runs
        assert_no_trip(recording)
        assert_nothing_left(recording)
