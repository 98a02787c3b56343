"""Pydantic AI: the shared scenarios, and the framework's own features."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

pytest.importorskip("pydantic_ai", reason="pydantic-ai is tested in an environment of its own")

from pydantic_ai import (
    Agent,
    ApprovalRequired,
    DeferredToolRequests,
    DeferredToolResults,
    ModelRetry,
    RunContext,
    Tool,
    ToolOutput,
    UnexpectedModelBehavior,
)
from pydantic_ai.messages import ToolReturn

import otel_loopguard as loopguard
from otel_loopguard import Policy, ToolContract, ToolLoopError, semconv
from otel_loopguard.policy_files.load import load_preset
from otel_loopguard.testing import SCENARIOS, Ask, Scenario, assert_no_trip, guarded
from otel_loopguard.turns.scope import current_scope
from tests.instrumentation.processes import ROOT, start
from tests.scripted.pydantic_ai import (
    DRIVERS,
    Script,
    agent_of,
    iterate,
    run_async,
    run_stream,
    run_sync,
)
from tests.telemetry.otlp import attributes, receiver

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
@pytest.mark.parametrize("driver", DRIVERS)
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


@pytest.mark.parametrize("go", [run_async, run_sync, run_stream, iterate])
def test_a_made_up_tool_without_retries_left_ends_the_run(go: Any) -> None:
    """An unknown name without retries left ends the run with the framework's error, and has a span."""
    model = script("a", "b", "c", name="nope")
    with guarded() as recording:
        with pytest.raises(UnexpectedModelBehavior):
            go(agent_of(model, [look], retries=1))
        assert 1 <= len(model.seen) <= 2
        assert [span.name for span in recording.spans] == ["execute_tool _unknown"] * len(model.seen)
        assert set(recording.outcomes) == {"failed"}
        assert recording.runtime.guard.live == 0
        assert recording.counted(semconv.METRIC_INTERNAL_ERRORS) == 0


@pytest.mark.parametrize("go", [run_async, run_sync, run_stream, iterate])
def test_an_aborted_run_reaches_the_caller(go: Any) -> None:
    """``except ToolLoopError`` catches an abort in each way of running an agent, and no turn is left."""
    with guarded(Policy(abort_after=1)) as recording:
        with pytest.raises(ToolLoopError) as caught:
            go(agent_of(script(*["a"] * 9), [look]))
        assert caught.value.tool_name == "look"
        assert caught.value.turn_id == attribute(recording, semconv.TURN_ID)[0]
        assert recording.outcomes[-1] == "aborted"
        assert recording.runtime.guard.live == 0


def test_an_abort_among_parallel_calls_ends_the_run() -> None:
    """An abort ends the other calls of the same message, too, and the run does not hang."""
    steps = [[Ask("look", {"path": "a"})], *[[Ask("look", {"path": "a"}), Ask("look", {"path": "b"})]] * 8]
    with guarded(Policy(abort_after=1)) as recording:
        with pytest.raises(ToolLoopError):
            run_async(agent_of(Script(steps), [look]))
        assert recording.runtime.guard.live == 0


def test_a_refusal_is_a_denial_where_a_result_may_be_one() -> None:
    """A refusal is a ``ToolDenied``: it is no success, and uses up no retry."""
    model = script("a", "a", "a")
    with guarded():
        run_async(agent_of(model, [look], retries=0))
        outcomes = [getattr(part, "outcome", "success") for part in model.returned]
        assert outcomes[:2] == ["success", "success"]
        assert outcomes[2] in ("denied", "success")
        assert "tool_loop_detected" in model.read[2]


def is_execution(span: Any) -> bool:
    """Return True for an ``execute_tool`` span of either library; older versions only have the name."""
    is_operation = (span.attributes or {}).get(semconv.OPERATION_NAME) == semconv.OPERATION_EXECUTE_TOOL
    return is_operation or span.name.startswith("execute_tool ")


@pytest.mark.parametrize("include_content", [True, False])
def test_beside_its_own_spans_each_call_has_one(include_content: bool) -> None:
    """Each call has one ``execute_tool`` span, theirs or ours: run, refused, unknown or with wrong arguments."""
    from pydantic_ai.models.instrumented import InstrumentationSettings

    paths = [{"path": "a"}, {"path": "a"}, {"path": "a"}, {"wrong": 1}]
    model = Script([*[[Ask("look", arguments)] for arguments in paths], [Ask("nope", {})]])
    with guarded() as recording:
        settings = InstrumentationSettings(
            tracer_provider=recording.tracer_provider, include_content=include_content, version=3
        )
        Agent.instrument_all(settings)
        try:
            run_async(agent_of(model, [look]))
        finally:
            Agent.instrument_all(False)
        executions = [span for span in recording._spans.get_finished_spans() if is_execution(span)]
        assert len(executions) == 5
        assert len(recording.spans) == 5
        assert recording.outcomes == ["executed", "nudged", "blocked", "failed", "failed"]
        assert [span.name.split()[0] for span in recording.spans][:3] == ["loopguard", "loopguard", "execute_tool"]
        parents = {span.context.span_id: span for span in recording.spans}
        inner = [span for span in executions if span not in recording.spans and span.parent.span_id in parents]
        assert len(inner) >= 2


def test_output_tools_are_the_answer_and_no_calls() -> None:
    """The output tool of a structured answer is neither guarded nor counted."""
    model = Script([[Ask("look", {"path": "a"})]], answer="it is there")
    with guarded() as recording:
        assert run_async(agent_of(model, [look], output_type=ToolOutput(str))).output == "it is there"
        assert [span.name for span in recording.spans] == ["execute_tool look"]


def test_a_retry_that_a_tool_asks_for_is_a_failure() -> None:
    """``ModelRetry`` reaches the model, and a call that repeats the same mistake is refused."""

    def fetch(path: str) -> str:
        """Fetch."""
        raise ModelRetry("give the full path")

    model = script("a", "b", "b", "b", name="fetch")
    with guarded() as recording:
        run_async(agent_of(model, [fetch]))
        assert "give the full path" in model.read[0]
        assert recording.outcomes[:3] == ["failed"] * 3
        assert "tool_loop_detected" in model.read[-1]
        assert attribute(recording, semconv.ERROR_TYPE)[0] == "ToolRetryError"


def test_a_failing_tool_ends_the_run_as_before() -> None:
    """Our wrappers pass a tool's exception on to the caller."""

    def fetch(path: str) -> str:
        """Fetch."""
        raise LookupError(path)

    with guarded() as recording:
        with pytest.raises(LookupError):
            run_async(agent_of(script("a", name="fetch"), [fetch]))
        assert recording.outcomes == ["failed"]
        assert recording.runtime.guard.live == 0


def test_an_agent_that_is_a_tool_has_a_turn_of_its_own() -> None:
    """Four calls of a sub-agent that makes the same call each time are no loop of the outer agent."""

    async def ask_helper(question: str) -> str:
        """Ask the helper."""
        return str((await agent_of(script("shared"), [look]).run(question)).output)

    boss = Script([[Ask("ask_helper", {"question": f"question {number}"})] for number in range(4)])
    with guarded() as recording:
        run_async(agent_of(boss, [ask_helper]))
        assert boss.read == ["Done."] * 4
        assert len(recording.spans) == 8
        turns = set(attribute(recording, semconv.TURN_ID))
        assert len(turns) == 5
        top = min(turns, key=len)
        assert all(turn.startswith(top) for turn in turns)
        assert_no_trip(recording)
        assert recording.runtime.guard.live == 0


def test_each_message_of_a_conversation_is_a_turn_of_its_own() -> None:
    """The second message may read the same file as the first, with the same history."""
    with guarded() as recording:
        agent = agent_of(script("a", "a"), [look])
        history: Any = None
        for _ in range(3):
            history = run_async(agent, message_history=history).all_messages()
        assert recording.outcomes == ["executed", "nudged"] * 3
        assert len(set(attribute(recording, semconv.TURN_ID))) == 3
        assert len(set(attribute(recording, semconv.CONVERSATION_ID))) == 1
        assert set(attribute(recording, semconv.AGENT_NAME)) <= {"helper", None}
        assert recording.runtime.guard.live == 0


def test_a_tools_return_object_keeps_what_is_beside_its_text() -> None:
    """A sentence goes into the value that the model reads; metadata and structured values are left alone."""

    def fetch(path: str) -> ToolReturn:
        """Fetch."""
        return ToolReturn(return_value=f"2 rows of {path}", metadata={"rows": 2})

    model = script("a", "a", name="fetch")
    with guarded() as recording:
        run_async(agent_of(model, [fetch]))
        assert [part.metadata for part in model.returned] == [{"rows": 2}] * 2
        assert model.read[1].startswith("2 rows of a\n")
        assert recording.outcomes == ["executed", "nudged"]


def test_structured_results_stay_what_they_are() -> None:
    """No sentence is added to an object that a program may read; the model reads it in its request."""

    def fetch(path: str) -> dict[str, int]:
        """Fetch."""
        return {"rows": 2}

    model = Script([[Ask("fetch", {"path": "a"})]] * 2)
    with guarded():
        result = run_async(agent_of(model, [fetch]))
    parts = [part for message in result.all_messages() for part in message.parts if part.part_kind == "tool-return"]
    assert [part.content for part in parts] == [{"rows": 2}] * 2
    assert model.returned[0].content == {"rows": 2}
    assert "fetch" in model.returned[1].content["loopguard"]


def test_an_earlier_result_is_given_again() -> None:
    """With reuse in the contract, a repeated call gets the earlier result with a note, and nothing runs."""
    model = script("a", "a", "a")
    with guarded(Policy(tools={"look": ToolContract(kind="read", reuse=True)})) as recording:
        run_async(agent_of(model, [look]))
        assert recording.outcomes[-1] == "reused"
        assert model.read[-1].startswith("there is a\n")


def test_a_call_that_waits_for_approval_is_one_call() -> None:
    """A call that ran once is counted once, in one turn, although another run continued after the approval."""
    ran = []

    def delete(context: RunContext[None], path: str) -> str:
        """Delete something."""
        if not context.tool_call_approved:
            raise ApprovalRequired
        ran.append(path)
        return f"{path} is gone"

    model = script("a", name="delete")
    with guarded() as recording:
        agent = agent_of(model, [delete], output_type=[str, DeferredToolRequests])
        first = run_async(agent)
        (request,) = first.output.approvals
        results = DeferredToolResults(approvals={request.tool_call_id: True})

        async def resumed() -> Any:
            return await agent.run(message_history=first.all_messages(), deferred_tool_results=results)

        assert asyncio.run(resumed()).output == "Done."
        assert ran == ["a"]
        assert recording.outcomes == ["cancelled", "executed"]
        if attribute(recording, semconv.CONVERSATION_ID)[0] is not None:  # older versions know no conversations
            assert len(set(attribute(recording, semconv.TURN_ID))) == 1
        assert_no_trip(recording)


def test_the_block_around_a_run_is_nobodys() -> None:
    """No scope is bound in ``async with agent.iter()``, and a run that is left early leaves no turn."""

    async def nodes() -> None:
        async with agent_of(script(*"abcdefgh"), [look]).iter("Go on.") as going:
            number = 0
            async for _ in going:
                assert current_scope() is None
                number += 1
                if number > 4:
                    break

    with guarded() as recording:
        asyncio.run(nodes())
        assert recording.spans
        assert recording.runtime.guard.live == 0


def test_runs_side_by_side_are_turns_of_their_own() -> None:
    """Three agents that make equal calls in parallel are no loop."""

    async def together() -> None:
        await asyncio.gather(*(agent_of(script("a", "b"), [look]).run("Go on.") for _ in range(3)))

    with guarded() as recording:
        asyncio.run(together())
        assert len(set(attribute(recording, semconv.TURN_ID))) == 3
        assert_no_trip(recording)


def test_a_turn_around_several_runs_is_one_turn() -> None:
    """With ``turn()`` around several runs, repeats are counted across the runs, none of which sees the ones before."""
    with guarded() as recording, loopguard.turn():
        for _ in range(4):
            run_async(agent_of(script("a"), [look]))
        assert recording.outcomes == ["executed"] * 3 + ["nudged"]


def test_arguments_that_are_json_text_and_objects_are_the_same() -> None:
    """Arguments as JSON text (streamed) and as an object are equal; blanks in the text do not count."""
    steps: Any = [[Ask("look", {"path": "a"})], [Ask("look", '{ "path":"a" }')]]  # type: ignore[arg-type]
    with guarded() as recording:
        run_async(agent_of(Script(steps), [look]))
        assert len(set(attribute(recording, semconv.ARGUMENTS_HASH))) == 1


def test_what_a_tools_server_says_of_it_is_heard() -> None:
    """The annotations of an MCP toolset decide the kind of a tool whose name does not."""
    tool = Tool(look, name="zap", metadata={"annotations": {"readOnlyHint": True}})
    with guarded() as recording:
        run_async(agent_of(script("a", name="zap"), [tool]))
        assert attribute(recording, semconv.TOOL_KIND) == ["read"]


def test_nothing_of_a_call_is_told() -> None:
    """Spans, events and counters have no argument, result, exception text or unknown name."""

    def fetch(path: str) -> str:
        """Fetch."""
        if "FAIL" in path:
            raise ModelRetry(f"SECRET of {path}")
        return f"SECRET row of {path}"

    paths = ["SECRET1"] * 4 + ["SECRETFAIL"] * 4
    model = Script([*[[Ask("fetch", {"path": path})] for path in paths], *[[Ask("SECRETTOOL", {"SECRET": 1})]] * 3])
    with guarded() as recording:
        run_async(agent_of(model, [fetch]))
        assert len(recording.spans) == 11
        exported = [span.to_json() for span in recording.spans]
        for metric in (semconv.METRIC_TRIPS, semconv.METRIC_TOOL_TRIPS, semconv.METRIC_TOOL_CALLS):
            exported += [str(point) for point in recording.points(metric)]
        assert "SECRET" not in "".join(exported)


def test_at_process_start_the_stuck_agent_is_stopped() -> None:
    """Each call is counted once, the third one is refused, and the agent ends."""
    with receiver() as received:
        ended = start(ROOT / "examples" / "pydantic_ai_agent.py", "--streamed", environment=received.environment)
        assert "The file was read 2 times." in ended.stdout, ended.stderr
        assert "I already know" in ended.stdout
        assert [attributes(span)[semconv.OUTCOME] for span in received.spans] == ["executed", "nudged", "blocked"]
        assert {span.name for span in received.spans} == {"execute_tool read_file"}
        assert "fault of its own" not in ended.stderr
        assert "found nothing to patch" not in ended.stderr


def test_at_process_start_a_stubborn_agent_is_ended() -> None:
    """The program catches ``ToolLoopError`` and continues."""
    ended = start(ROOT / "examples" / "pydantic_ai_agent.py", "--stubborn")
    assert "(no answer: ToolLoopError: " in ended.stdout, ended.stderr
    assert "The file was read 2 times." in ended.stdout


@pytest.mark.parametrize("go", [run_async, run_sync, run_stream, iterate])
@pytest.mark.parametrize("name", ["look", "made_up"])
def test_a_refusal_is_marked_in_the_metadata_of_its_part(go: Any, name: str) -> None:
    """The preset's mark is for the program; the model reads the sentence alone."""
    model = script("a", "a", "a", "a", name=name)
    with guarded(load_preset("repeat_hint").policy) as recording:
        go(agent_of(model, [look]))
        marks = [getattr(part, "metadata", None) for part in model.returned]
        assert marks == [None, None, None, {"loopguard.mark": "loop-detected"}]
        assert model.read[3].startswith("[loop-detected]")
        assert "loopguard.mark" not in model.read[3]
        assert recording.outcomes[3] == "blocked"
        assert recording.counted(semconv.METRIC_INTERNAL_ERRORS) == 0
