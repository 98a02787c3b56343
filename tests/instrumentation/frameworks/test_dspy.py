"""DSPy: the shared scenarios, and the framework's own features."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

pytest.importorskip("dspy", reason="dspy is tested in an environment of its own")

import dspy
from dspy.utils.exceptions import AdapterParseError

from otel_loopguard import Policy, ToolLoopError, semconv
from otel_loopguard.testing import SCENARIOS, Ask, Scenario, assert_no_trip, guarded
from tests.scripted.dspy import DRIVERS, WAYS, WAYS_V2, Script, async_tool, plain_tool, run, run_async

pytestmark = pytest.mark.filterwarnings("ignore")

ALL = {**WAYS, **WAYS_V2}
over_each = pytest.mark.parametrize("way", ALL)
OF_ONE_CALL = ("unknown_tool", "parallel")
"""Scenarios that ``ReAct`` cannot have: it makes one call at a time, and its adapter accepts no name but those of its
tools, so that a made-up one ends the run before there is a call."""


@pytest.mark.parametrize(
    ("driver", "scenario"),
    [
        pytest.param(driver, scenario, id=f"{driver}-{scenario.name}")
        for driver in DRIVERS
        for scenario in SCENARIOS
        if driver in WAYS_V2 or scenario.name not in OF_ONE_CALL
    ],
)
def test_scenario(driver: str, scenario: Scenario) -> None:
    """Each way of running an agent passes the shared scenarios."""
    scenario.run(DRIVERS[driver])


def look(path: str) -> str:
    """Look at something."""
    return f"there is {path}"


def script(*paths: str, name: str = "look", answer: str = "Done.") -> Script:
    return Script([[Ask(name, {"path": path})] for path in paths], answer)


def attribute(recording: Any, name: str) -> list[Any]:
    return [span.attributes.get(name) for span in recording.spans]


def go(way: str, model: Script, *functions: Any) -> Any:
    """Run an agent in one of the ways."""
    start, make_tool = ALL[way]
    return start(model, [make_tool(one) for one in functions])


@over_each
def test_an_aborted_run_reaches_the_caller(way: str) -> None:
    """``except ToolLoopError`` catches an abort in each way of running an agent, and no turn is left."""
    with guarded(Policy(abort_after=1)) as recording:
        with pytest.raises(ToolLoopError) as caught:
            go(way, script(*["a"] * 9), look)
        assert caught.value.tool_name == "look"
        assert caught.value.turn_id == attribute(recording, semconv.TURN_ID)[0]
        assert recording.outcomes[-1] == "aborted"
        assert recording.runtime.guard.live == 0


@over_each
def test_the_answer_is_no_call(way: str) -> None:
    """``finish`` and ``submit`` are neither guarded nor counted."""
    with guarded() as recording:
        assert go(way, script("a"), look).answer == "Done."
        assert [span.name for span in recording.spans] == ["execute_tool look"]
        assert recording.counted(semconv.METRIC_TOOL_CALLS) == 1


def test_a_tool_of_the_program_may_have_that_name() -> None:
    """It is a call as any other."""

    def submit(path: str) -> str:
        """Submit a file."""
        return f"{path} is submitted"

    with guarded() as recording:
        run(script("a", name="submit"), [plain_tool(submit)])
        assert [span.name for span in recording.spans] == ["execute_tool submit"]


@over_each
def test_a_failing_tool_is_observed_as_before(way: str) -> None:
    """The model reads the exception, and a call that fails again and again is refused."""

    def fetch(path: str) -> str:
        """Fetch."""
        raise LookupError(path)

    model = script(*"aaaaa", name="fetch")
    with guarded() as recording:
        go(way, model, fetch)
        assert "LookupError" in model.read[0]
        assert recording.outcomes[0] == "failed"
        assert recording.outcomes[-1] == "blocked"
        assert attribute(recording, semconv.ERROR_TYPE)[0] == "LookupError"


@over_each
def test_made_up_names_and_arguments_are_not_told(way: str) -> None:
    """Spans and counters have neither a made-up name nor an argument or a result. Each call has its id, if any."""

    def fetch(path: str) -> str:
        """Fetch."""
        return f"SECRET row of {path}"

    made_up = [Ask("SECRETTOOL", {"path": "SECRET"})] if way in WAYS_V2 else []
    model = Script([[*made_up, Ask("fetch", {"path": "SECRET"})]] * 4)
    with guarded() as recording:
        go(way, model, fetch)
        names = {"execute_tool fetch", *("execute_tool _unknown" for _ in made_up)}
        assert {span.name for span in recording.spans} == names
        assert any("tool_loop_detected" in text for text in model.read)
        assert len(set(attribute(recording, semconv.TOOL_CALL_ID))) == (8 if made_up else 1)
        exported = [span.to_json() for span in recording.spans]
        for metric in (semconv.METRIC_TRIPS, semconv.METRIC_TOOL_TRIPS, semconv.METRIC_TOOL_CALLS):
            exported += [str(point) for point in recording.points(metric)]
        assert "SECRET" not in "".join(exported)


@pytest.mark.parametrize("way", WAYS)
def test_a_made_up_name_ends_a_react_as_before(way: str) -> None:
    """The adapter rejects it, so that there is no call to judge, and no turn is left."""
    with guarded() as recording:
        with pytest.raises(AdapterParseError):
            go(way, script("a", name="nope"), look)
        assert recording.spans == []
        assert recording.runtime.guard.live == 0


@pytest.mark.parametrize("start", [run, run_async])
def test_an_agent_that_is_a_tool_has_a_turn_of_its_own(start: Any) -> None:
    """Its abort is a failed call of the agent around it, which goes on."""

    def ask_helper(question: str) -> str:
        """Ask the helper."""
        return str(run(script(*["shared"] * 9), [plain_tool(look)]).answer)

    boss = Script([[Ask("ask_helper", {"question": f"question {number}"})] for number in range(2)])
    with guarded(Policy(abort_after=1)) as recording:
        start(boss, [plain_tool(ask_helper)])
        assert len(boss.read) == 2
        assert all("look" in text for text in boss.read)
        turns = set(attribute(recording, semconv.TURN_ID))
        assert len(turns) == 3
        assert all(turn.startswith(min(turns, key=len)) for turn in turns)
        assert recording.outcomes.count("aborted") == 2
        assert recording.runtime.guard.live == 0


def test_an_agent_that_is_streamed_from_a_thread_is_guarded() -> None:
    """``streamify`` runs a plain program in a thread, in the context of its caller."""

    async def main() -> None:
        agent = dspy.streamify(dspy.ReAct("question -> answer", tools=[look]))
        with dspy.context(lm=script(*["a"] * 3).model()):
            async for _ in agent(question="Go on."):
                pass

    with guarded() as recording:
        asyncio.run(main())
        assert recording.outcomes == ["executed", "nudged", "blocked"]
        assert recording.runtime.guard.live == 0


def test_an_agent_inside_of_a_module_is_one_turn_a_run() -> None:
    """The program's own module may run it twice: the second run may read what the first one has read."""

    class Program(dspy.Module):
        def forward(self) -> Any:
            return [run(script("a", "a"), [plain_tool(look)]) for _ in range(2)]

    with guarded() as recording:
        Program()()
        assert recording.outcomes == ["executed", "nudged"] * 2
        assert len(set(attribute(recording, semconv.TURN_ID))) == 2


def test_a_cancelled_run_leaves_no_turn() -> None:
    """A task that is cancelled while a tool runs ends its call and its turn."""

    async def main() -> None:
        started = asyncio.Event()

        async def wait(path: str) -> str:
            """Wait."""
            started.set()
            await asyncio.Event().wait()
            return path

        wait.__annotations__["path"] = str
        agent = dspy.ReAct("question -> answer", tools=[wait])
        with dspy.context(lm=script("a", name="wait").model()):
            task = asyncio.create_task(agent.acall(question="Go on."))
            await started.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

    with guarded() as recording:
        asyncio.run(main())
        assert recording.outcomes == ["cancelled"]
        assert recording.runtime.guard.live == 0


def test_runs_side_by_side_are_turns_of_their_own() -> None:
    """Three agents that make equal calls in parallel are no loop."""

    async def one() -> None:
        with dspy.context(lm=script("a", "b").model()):
            await dspy.ReAct("question -> answer", tools=[async_tool(look)]).acall(question="Go on.")

    async def main() -> None:
        await asyncio.gather(one(), one(), one())

    with guarded() as recording:
        asyncio.run(main())
        assert len(set(attribute(recording, semconv.TURN_ID))) == 3
        assert_no_trip(recording)
