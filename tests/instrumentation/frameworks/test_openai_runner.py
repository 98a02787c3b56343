"""OpenAI's tool runner: the shared scenarios, and its own features."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

pytest.importorskip("openai", reason="the tool runner is tested in an environment of its own")
pytest.importorskip("openai.lib.responses_tool_runner", reason="this version has no tool runner")

from openai.lib.responses_tool_runner import (
    AsyncResponsesToolRunner,
    RegisteredFunction,
    ResponsesToolRunner,
    ToolRunnerCancelledError,
    ToolRunnerError,
)

from otel_loopguard import Policy, ToolLoopError, semconv
from otel_loopguard.testing import SCENARIOS, Ask, Scenario, assert_no_trip, guarded
from otel_loopguard.turns.scope import current_scope
from tests.scripted import openai_runner
from tests.scripted.openai_runner import DRIVERS, WAYS, AsyncUnread, Script, asked, async_tool, plain_tool

pytestmark = pytest.mark.filterwarnings("ignore")

over_each = pytest.mark.parametrize("way", WAYS)


@pytest.mark.parametrize(
    "scenario",
    # The runner ends the run at the first name that does not exist, before it can be refused: see below.
    [scenario for scenario in SCENARIOS if scenario.name != "unknown_tool"],
    ids=lambda scenario: scenario.name,
)
@pytest.mark.parametrize("driver", DRIVERS)
def test_scenario(driver: str, scenario: Scenario) -> None:
    """Each way of running a loop passes the shared scenarios."""
    scenario.run(DRIVERS[driver])


def look(path: str) -> str:
    """Look at something."""
    return f"there is {path}"


def script(*paths: str, name: str = "look", answer: str = "Done.") -> Script:
    return Script([[Ask(name, {"path": path})] for path in paths], answer)


def attribute(recording: Any, name: str) -> list[Any]:
    return [span.attributes.get(name) for span in recording.spans]


def run(way: str, model: Script, *functions: Any, read: bool = False, **options: Any) -> str:
    """Run a loop in one of the ways. ``read``: the requests of its client are read, too."""
    go, make_tool, client = WAYS[way]
    response = go(model, [make_tool(one) for one in functions], **({"kind": client} if read else {}), **options)
    return str(response.output_text)


@over_each
@pytest.mark.parametrize("at_once", [1, 3])
def test_an_aborted_run_reaches_the_caller(way: str, at_once: int) -> None:
    """``except ToolLoopError`` catches an abort, also among calls of one reply, and no turn is left."""
    with guarded(Policy(abort_after=1)) as recording:
        with pytest.raises(ToolLoopError) as caught:
            run(way, Script([[Ask("look", {"path": "a"})] * at_once] * 9), look)
        assert caught.value.tool_name == "look"
        assert caught.value.turn_id == attribute(recording, semconv.TURN_ID)[0]
        assert "aborted" in recording.outcomes
        assert recording.runtime.guard.live == 0


@over_each
def test_a_call_is_judged_once_although_the_requests_are_read(way: str) -> None:
    """The executor judges each call; the reader takes over its judgements, and sends the last request without tools."""
    model = script(*["a"] * 40)
    with guarded(clock=lambda: 0.0) as recording:
        assert run(way, model, look, read=True) == "Done."
    assert model.server.rejected == []
    assert len(model.seen) == 10
    assert recording.outcomes == ["executed", "nudged", *["blocked"] * 7]
    assert recording.counted(semconv.METRIC_TOOL_CALLS) == 9
    assert len(set(attribute(recording, semconv.TURN_ID))) == 1
    assert recording.counted(semconv.METRIC_INTERNAL_ERRORS) == 0
    assert recording.runtime.guard.live == 0


@over_each
def test_a_working_run_sends_the_same_bytes(way: str) -> None:
    """With the guard and without it."""
    steps = [[Ask("look", {"path": "a"})], [Ask("look", {"path": "b"}), Ask("look", {"path": "c"})]]
    alone, under_guard = Script(steps), Script(steps)
    run(way, alone, look, read=True)
    with guarded(clock=lambda: 0.0) as recording:
        run(way, under_guard, look, read=True)
    assert recording.outcomes == ["executed"] * 3
    assert under_guard.server.bodies() == alone.server.bodies()


@over_each
def test_a_made_up_name_ends_the_run_as_before(way: str) -> None:
    """The runner raises its own error. The call has a span, without the made-up name and the arguments."""
    model = Script([[Ask("SECRETTOOL", {"SECRET": 1})]] * 4)
    with guarded() as recording:
        with pytest.raises(ToolRunnerError):
            run(way, model, look)
        assert len(model.seen) == 1
        assert [span.name for span in recording.spans] == ["execute_tool _unknown"]
        assert recording.outcomes == ["failed"]
        exported = [span.to_json() for span in recording.spans]
        exported += [str(point) for point in recording.points(semconv.METRIC_TOOL_CALLS)]
        assert "SECRET" not in "".join(exported)
        assert recording.runtime.guard.live == 0


@over_each
def test_a_failing_function_ends_the_run_as_before(way: str) -> None:
    """The runner raises its own error; the span has the type of the function's."""

    def fetch(path: str) -> str:
        """Fetch."""
        raise LookupError(path)

    with guarded() as recording:
        with pytest.raises(ToolRunnerError):
            run(way, script("a", name="fetch"), fetch)
        assert recording.outcomes == ["failed"]
        assert attribute(recording, semconv.ERROR_TYPE) == ["LookupError"]
        assert recording.runtime.guard.live == 0


def test_a_sentence_leaves_json_as_it_is() -> None:
    """The sentence is a part of its own, so that the first part can be parsed."""

    def read_rows(path: str) -> str:
        """Read the rows."""
        return json.dumps({"rows": [path]})

    model = script("a", "a", name="read_rows")
    with guarded() as recording:
        openai_runner.run(model, [plain_tool(read_rows)])
        assert recording.outcomes == ["executed", "nudged"]
        parts = model.server.exchanges[-1].json["input"][-1]["output"]
        assert json.loads(parts[0]["text"]) == {"rows": ["a"]}
        assert len(parts) == 2


def test_an_output_that_the_program_supplies_is_no_call_of_the_runner() -> None:
    """The function does not run, so no executor judges the call; the reader finds it in the next request."""
    tool = plain_tool(look)
    model = script("a", "b")
    with guarded(clock=lambda: 0.0) as recording:
        runner = ResponsesToolRunner(
            functions=[RegisteredFunction(tool.tool, tool.execute, allow_output_override=True)]
        )
        for turn in runner.iterate(model.client(openai_runner.openai.OpenAI), asked(), max_steps=9):
            calls = [item for item in turn.response.output if item.type == "function_call"]
            turn.supply_outputs(
                [{"type": "function_call_output", "call_id": one.call_id, "output": "yes"} for one in calls]
            )
        assert model.read == ["yes", "yes"]
        assert recording.outcomes == ["executed"] * 2
        assert len(set(attribute(recording, semconv.TURN_ID))) == 1


def test_an_agent_that_is_a_tool_has_a_turn_of_its_own() -> None:
    """Its abort is a failed call of the agent around it, which goes on."""

    def ask_helper(question: str) -> str:
        """Ask the helper."""
        return str(openai_runner.run(script(*["shared"] * 9), [plain_tool(look)]).output_text)

    boss = Script([[Ask("ask_helper", {"question": f"question {number}"})] for number in range(2)])
    with guarded(Policy(abort_after=1)) as recording:
        openai_runner.run(boss, [plain_tool(ask_helper)])
        assert len(boss.read) == 2
        assert all("look" in text for text in boss.read)
        turns = set(attribute(recording, semconv.TURN_ID))
        assert len(turns) == 3
        assert all(turn.startswith(min(turns, key=len)) for turn in turns)
        assert recording.outcomes.count("aborted") == 2
        assert recording.runtime.guard.live == 0


def test_the_block_around_a_run_is_nobodys() -> None:
    """No scope is bound in the loop's body, and a run that is left early leaves no turn."""
    with guarded() as recording:
        runner = ResponsesToolRunner(functions=[plain_tool(look)])
        turns = runner.iterate(script(*"abcdefgh").client(), asked(), max_steps=99)
        for turn in turns:
            assert current_scope() is None
            if turn.step == 4:
                break
        assert len(recording.spans) == 3
        turns.close()
        assert recording.runtime.guard.live == 0


def test_a_cancelled_run_leaves_no_turn() -> None:
    """A task that is cancelled while a function runs ends its call and its turn."""

    async def main() -> None:
        started = asyncio.Event()

        async def wait(path: str) -> str:
            """Wait."""
            started.set()
            await asyncio.Event().wait()
            return path

        async with script("a", name="wait").client(AsyncUnread) as client:
            runner = AsyncResponsesToolRunner(functions=[async_tool(wait)])
            task = asyncio.create_task(runner.run(client, asked(), max_steps=9))
            await started.wait()
            task.cancel()
            with pytest.raises(ToolRunnerCancelledError):
                await task

    with guarded() as recording:
        asyncio.run(main())
        assert recording.outcomes == ["cancelled"]
        assert recording.runtime.guard.live == 0


def test_runs_side_by_side_are_turns_of_their_own() -> None:
    """Three loops that make equal calls in parallel are no loop."""

    async def one() -> None:
        async with script("a", "b").client(AsyncUnread) as client:
            await AsyncResponsesToolRunner(functions=[async_tool(look)]).run(client, asked(), max_steps=9)

    async def main() -> None:
        await asyncio.gather(one(), one(), one())

    with guarded() as recording:
        asyncio.run(main())
        assert len(set(attribute(recording, semconv.TURN_ID))) == 3
        assert_no_trip(recording)
