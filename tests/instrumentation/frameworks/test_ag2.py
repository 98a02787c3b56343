"""AG2: the shared scenarios, and the framework's own features."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

pytest.importorskip("ag2", reason="ag2 is tested in an environment of its own")

from ag2 import Context, MemoryStream, ToolResult, exceptions, tool
from ag2.middleware.builtin.telemetry import TelemetryMiddleware

from otel_loopguard import Policy, ToolContract, ToolLoopError, semconv
from otel_loopguard.instrumentation.frameworks import ag2
from otel_loopguard.policy_files.load import load_preset
from otel_loopguard.testing import SCENARIOS, Ask, Scenario, assert_no_trip, guarded
from otel_loopguard.turns.scope import current_scope
from tests.scripted.ag2 import DRIVERS, WAYS, Script, agent_of, ask, plain_tools, start

pytestmark = pytest.mark.filterwarnings("ignore")
EACH_WAY = pytest.mark.parametrize("go", WAYS)


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
@pytest.mark.parametrize("driver", DRIVERS)
def test_scenario(driver: str, scenario: Scenario) -> None:
    """Each way of running passes the shared scenarios."""
    scenario.run(DRIVERS[driver])


def look(path: str) -> str:
    """Look at something."""
    return f"there is {path}"


LOOK = plain_tools({"look": look})


def script(*paths: str, name: str = "look", answer: str = "Done.") -> Script:
    return Script([[Ask(name, {"path": path})] for path in paths], answer)


def attribute(recording: Any, name: str) -> list[Any]:
    return [span.attributes.get(name) for span in recording.spans]


@EACH_WAY
def test_an_aborted_run_reaches_the_caller(go: Any) -> None:
    """``except ToolLoopError`` catches an abort in each way of running, and nothing of the turn is left."""
    with guarded(Policy(abort_after=1)) as recording:
        with pytest.raises(ToolLoopError) as caught:
            asyncio.run(go(script(*["a"] * 9), LOOK))
        assert caught.value.tool_name == "look"
        assert caught.value.turn_id == attribute(recording, semconv.TURN_ID)[0]
        assert recording.outcomes[-1] == "aborted"
        assert recording.runtime.guard.live == 0
        assert ag2._turns == {}


@EACH_WAY
def test_an_abort_among_parallel_calls_ends_the_run(go: Any) -> None:
    """An abort ends the run although other calls of the same message have results, and it does not hang."""
    steps = [[Ask("look", {"path": "a"})], *[[Ask("look", {"path": path}) for path in "ab"]] * 8]
    with guarded(Policy(abort_after=1)) as recording:
        with pytest.raises(ToolLoopError):
            asyncio.run(go(Script(steps), LOOK))
        assert recording.runtime.guard.live == 0


def test_after_an_abort_each_call_of_the_stream_has_a_result() -> None:
    """Providers reject calls without a result, so the next question would fail."""
    model = Script([])

    async def main() -> None:
        reply = await agent_of(model, LOOK).ask("Hello.")
        model.steps = [[Ask("look", {"path": "a"})] * 2] * 9
        with pytest.raises(ToolLoopError):
            await reply.ask("Go on.")
        model.steps = []
        await reply.ask("And now?")

    with guarded(Policy(abort_after=1)) as recording:
        asyncio.run(main())
        assert recording.counted(semconv.METRIC_INTERNAL_ERRORS) == 0
    asked = {call.id for one in model.seen[-1] for call in getattr(getattr(one, "tool_calls", None), "calls", ())}
    assert asked == {result.parent_id for result in model.returned}
    assert len(asked) == len(model.returned)


@EACH_WAY
def test_an_abort_cancels_the_other_calls_of_the_message(go: Any) -> None:
    """Nothing is done after the caller has the error."""
    late = []

    async def look(path: str) -> str:
        """Look at something."""
        if path == "b":
            await asyncio.sleep(0.2)
            late.append(path)
        return "there"

    async def main() -> None:
        with pytest.raises(ToolLoopError):
            await go(Script(steps), [tool(look)])
        await asyncio.sleep(0.4)

    steps = [*[[Ask("look", {"path": "a"})]] * 3, [Ask("look", {"path": path}) for path in "ba"]]
    with guarded(Policy(abort_after=1)) as recording:
        asyncio.run(main())
        assert sorted(recording.outcomes) == ["aborted", "blocked", "cancelled", "executed", "nudged"]
        assert recording.runtime.guard.live == 0
    assert late == []


@EACH_WAY
def test_a_refusal_is_the_result_of_its_call(go: Any) -> None:
    """The refusal has the id of its call, and the stream is the conversation."""
    model = script("a", "a", "a")
    with guarded() as recording:
        asyncio.run(go(model, LOOK))
        assert recording.outcomes == ["executed", "nudged", "blocked"]
        assert attribute(recording, semconv.TOOL_CALL_ID) == [result.parent_id for result in model.returned]
        assert len(set(attribute(recording, semconv.CONVERSATION_ID))) == 1
        assert None not in attribute(recording, semconv.CONVERSATION_ID)
        assert recording.counted(semconv.METRIC_INTERNAL_ERRORS) == 0


@EACH_WAY
def test_a_made_up_name_is_not_shown(go: Any) -> None:
    """A name that the agent has not registered is an unknown tool."""
    with guarded() as recording:
        asyncio.run(go(script("a", name="SECRET_name"), LOOK))
        assert [span.name for span in recording.spans] == ["execute_tool _unknown"]
        assert recording.outcomes == ["failed"]
        assert "SECRET" not in "".join(span.to_json() for span in recording.spans)


@EACH_WAY
def test_beside_its_own_spans_each_call_has_one(go: Any) -> None:
    """Each call has one ``execute_tool`` span, theirs or ours: run, refused, with wrong arguments, or unknown."""
    paths = [{"path": "a"}, {"path": "a"}, {"path": "a"}, {"wrong": 1}]
    model = Script([*[[Ask("look", arguments)] for arguments in paths], [Ask("nope", {})]])
    with guarded() as recording:
        telemetry = TelemetryMiddleware(tracer_provider=recording.tracer_provider)
        asyncio.run(go(model, LOOK, middleware=[telemetry]))
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


@EACH_WAY
def test_a_failing_tool_is_read_by_the_model_as_before(go: Any) -> None:
    """The agent makes a text of the exception; a call that repeats the same failure is refused."""

    def fetch(path: str) -> str:
        """Fetch."""
        raise LookupError("no such row")

    model = script(*"aaaa", name="fetch")
    with guarded() as recording:
        asyncio.run(go(model, plain_tools({"fetch": fetch})))
        assert "no such row" in model.read[0]
        assert recording.outcomes[0] == "failed"
        assert attribute(recording, semconv.ERROR_TYPE)[0] == "LookupError"
        assert "tool_loop_detected" in model.read[-1]
        assert recording.runtime.guard.live == 0


def test_an_agent_that_is_a_tool_has_a_turn_of_its_own() -> None:
    """Four calls of a sub-agent that makes the same call each time are no loop of the outer agent."""
    boss = Script([[Ask("task_helper", {"objective": f"question {number}"})] for number in range(4)])
    with guarded() as recording:
        worker = agent_of(script("shared"), LOOK)
        asyncio.run(ask(boss, [worker.as_tool(description="Works.")]))
        assert boss.read == ["Done."] * 4
        turns = attribute(recording, semconv.TURN_ID)
        assert len(turns) == 8
        top = min(turns, key=len)
        assert len(set(turns)) == 5
        assert all(turn.startswith(top) for turn in turns)
        assert_no_trip(recording)
        assert recording.runtime.guard.live == 0


def test_the_abort_of_a_sub_agent_is_read_by_the_outer_one() -> None:
    """The outer agent reads that its worker was stopped, and goes on."""
    boss = Script([[Ask("task_helper", {"objective": "Go on."})]])
    with guarded(Policy(abort_after=1)) as recording:
        worker = agent_of(script(*"aaaaa"), LOOK)
        reply = asyncio.run(ask(boss, [worker.as_tool(description="Works.")]))
        assert reply.body == "Done."
        assert "again and again" in boss.read[0]
        assert recording.outcomes[-1] == "aborted"
        assert recording.runtime.guard.live == 0


def test_each_message_of_a_conversation_is_a_turn_of_its_own() -> None:
    """The second message may read the same file as the first, in the same conversation."""

    async def conversation() -> None:
        reply = await agent_of(script("a", "a"), LOOK).ask("Go on.")
        for _ in range(2):
            reply = await reply.ask("Go on.")

    with guarded() as recording:
        asyncio.run(conversation())
        assert recording.outcomes == ["executed", "nudged"] * 3
        assert len(set(attribute(recording, semconv.TURN_ID))) == 3
        assert len(set(attribute(recording, semconv.CONVERSATION_ID))) == 1
        assert recording.runtime.guard.live == 0


def test_no_sentence_is_added_to_a_final_result() -> None:
    """A result that is the answer of the agent goes to the user, and not to the model."""

    @tool
    def report(path: str) -> ToolResult:
        """Report."""
        return ToolResult(f"all about {path}", final=True)

    model = Script([[Ask("look", {"path": "a"})]] * 2 + [[Ask("report", {"path": "a"})]])
    with guarded() as recording:
        assert asyncio.run(ask(model, [*LOOK, report])).body == "all about a"
        assert recording.outcomes == ["executed", "nudged", "executed"]


def test_a_question_that_nobody_answers_is_no_failure_of_the_tool() -> None:
    """Newer versions end the turn with it: the call is cancelled. In older ones the model reads it as a failure."""

    @tool
    async def confirm(path: str, context: Context) -> str:
        """Ask the user."""
        return await context.input("Is that right?")

    ends_turn = hasattr(exceptions, "HumanInputError")
    with guarded() as recording:
        try:
            asyncio.run(ask(script("a", name="confirm"), [confirm]))
        except exceptions.HumanInputNotProvidedError:
            assert ends_turn
        assert recording.outcomes == (["cancelled"] if ends_turn else ["failed"])
        assert recording.runtime.guard.live == 0


def test_structured_results_stay_what_they_are() -> None:
    """No sentence is added to an object; it waits for the next text."""

    def fetch(path: str) -> dict[str, int]:
        """Fetch."""
        return {"rows": 2}

    model = Script([[Ask("fetch", {"path": "a"})]] * 2 + [[Ask("look", {"path": "b"})]])
    with guarded() as recording:
        asyncio.run(ask(model, [*plain_tools({"fetch": fetch}), *LOOK]))
        assert [part.data for result in model.returned[:2] for part in result.result.parts] == [{"rows": 2}] * 2
        assert model.read[2].startswith("there is b\n")
        assert "fetch" in model.read[2]
        assert recording.counted(semconv.METRIC_INTERNAL_ERRORS) == 0


def test_the_block_around_a_run_is_nobodys() -> None:
    """No scope is bound in ``async with agent.run()``, and a run that is left early leaves nothing."""

    async def leave() -> None:
        started = asyncio.Event()

        async def wait(path: str) -> str:
            """Wait."""
            started.set()
            await asyncio.Event().wait()
            return path

        async with agent_of(script("a", name="wait"), plain_tools({"wait": wait})).run("Go on.") as going:
            going.start()
            await started.wait()
            assert current_scope() is None

    with guarded() as recording:
        asyncio.run(leave())
        assert recording.outcomes == ["cancelled"]
        assert recording.runtime.guard.live == 0
        assert ag2._turns == {}


def test_a_run_that_is_cancelled_leaves_nothing() -> None:
    """The call that ran is cancelled, and its turn is closed."""

    async def cancel() -> None:
        started = asyncio.Event()

        async def wait(path: str) -> str:
            """Wait."""
            started.set()
            await asyncio.Event().wait()
            return path

        task = asyncio.create_task(ask(script("a", name="wait"), plain_tools({"wait": wait})))
        await started.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    with guarded() as recording:
        asyncio.run(cancel())
        assert recording.outcomes == ["cancelled"]
        assert recording.runtime.guard.live == 0
        assert ag2._turns == {}


@EACH_WAY
def test_an_earlier_result_is_given_again(go: Any) -> None:
    """With reuse in the contract, a repeated call gets the earlier result with a note, and nothing runs."""
    model = script("a", "a", "a")
    with guarded(Policy(tools={"look": ToolContract(kind="read", reuse=True)})) as recording:
        asyncio.run(go(model, LOOK))
        assert recording.outcomes[-1] == "reused"
        assert model.read[-1].startswith("there is a\n")


@EACH_WAY
def test_a_refusal_is_marked_in_its_metadata(go: Any) -> None:
    """The preset's mark is for the program; the model reads the sentence alone."""
    model = script("a", "a", "a", "a")
    with guarded(load_preset("repeat_hint").policy) as recording:
        asyncio.run(go(model, LOOK))
        marks = [result.result.metadata.get("loopguard.mark") for result in model.returned]
        assert marks == [None, None, None, "loop-detected"]
        assert "loopguard.mark" not in model.read[3]
        assert recording.counted(semconv.METRIC_INTERNAL_ERRORS) == 0


def test_the_history_of_the_stream_has_what_the_model_read() -> None:
    """A program that reads the stream afterwards finds the refusal with the results of its message."""
    stream, model = MemoryStream(), script("a", "a", "a")
    with guarded():

        async def events() -> list[Any]:
            await agent_of(model, LOOK).ask("Go on.", stream=stream)
            return list(await stream.history.get_events())

        results = [event for event in asyncio.run(events()) if type(event).__name__ == "ToolResultsEvent"]
        assert "tool_loop_detected" in results[2].results[0].result.parts[0].content


def test_runs_side_by_side_are_turns_of_their_own() -> None:
    """Three agents that make equal calls in parallel are no loop."""

    async def together() -> None:
        await asyncio.gather(*(start(script("a", "b"), LOOK) for _ in range(3)))

    with guarded() as recording:
        asyncio.run(together())
        assert len(set(attribute(recording, semconv.TURN_ID))) == 3
        assert_no_trip(recording)
