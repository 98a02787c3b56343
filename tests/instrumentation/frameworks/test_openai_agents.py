"""The OpenAI Agents SDK: the shared scenarios, and the SDK's own features."""

from __future__ import annotations

import asyncio
import dataclasses
import functools
from contextlib import suppress
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("agents", reason="openai-agents is tested in an environment of its own")

from agents import (
    Agent,
    AgentsException,
    GuardrailFunctionOutput,
    InputGuardrailTripwireTriggered,
    MaxTurnsExceeded,
    ModelBehaviorError,
    Runner,
    SQLiteSession,
    ToolGuardrailFunctionOutput,
    function_tool,
    input_guardrail,
    set_trace_processors,
    set_tracing_disabled,
    tool_input_guardrail,
    trace,
)
from agents.items import ToolCallOutputItem
from agents.tracing import TracingProcessor
from agents.tracing.span_data import FunctionSpanData
from openai.types.responses import ResponseFunctionToolCall

import otel_loopguard as loopguard
from otel_loopguard import Policy, ToolContract, ToolLoopError, semconv
from otel_loopguard.policy_files.load import load_preset
from otel_loopguard.testing import SCENARIOS, Ask, Scenario, assert_no_trip, assert_trips, guarded
from otel_loopguard.turns.scope import current_scope
from tests.instrumentation.processes import ROOT, start
from tests.scripted.openai_agents import (
    DRIVERS,
    TELLS_UNKNOWN,
    ScriptedModel,
    _text,
    config,
    run_async,
    run_streamed,
    run_sync,
    text_message,
)
from tests.telemetry.otlp import attributes, receiver

pytestmark = pytest.mark.filterwarnings("ignore")
HAS_CUSTOM_DATA = any(field.name == "custom_data" for field in dataclasses.fields(ToolCallOutputItem))


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
@pytest.mark.parametrize("driver", DRIVERS)
def test_scenario(driver: str, scenario: Scenario) -> None:
    """Each way of running an agent passes the shared scenarios."""
    if scenario.name == "unknown_tool" and not TELLS_UNKNOWN:
        pytest.skip("in this version the first call of an unknown tool ends the run")
    scenario.run(DRIVERS[driver])


@function_tool
def look(path: str) -> str:
    """Look at something."""
    return f"there is {path}"


def script(*paths: str, name: str = "look", answer: str = "Done.") -> ScriptedModel:
    return ScriptedModel([[Ask(name, {"path": path})] for path in paths], answer)


def attribute(recording: Any, name: str) -> list[Any]:
    return [span.attributes.get(name) for span in recording.spans]


@pytest.mark.parametrize("go", [run_async, run_sync, run_streamed])
def test_a_made_up_tool_that_ends_the_run_is_one_failed_call(go: Any) -> None:
    """By default the SDK ends the run with an error of its own: the caller gets it, and the call has its span."""
    with guarded() as recording:
        with pytest.raises(ModelBehaviorError, match="nope"):
            go(Agent(name="a", model=script("a", name="nope"), tools=[look]), run_config=None)
        assert [span.name for span in recording.spans] == ["execute_tool _unknown"]
        assert recording.outcomes == ["failed"]
        assert attribute(recording, semconv.ERROR_TYPE) == ["ModelBehaviorError"]
        assert recording.runtime.guard.live == 0
        assert recording.counted(semconv.METRIC_INTERNAL_ERRORS) == 0


@pytest.mark.skipif(not TELLS_UNKNOWN, reason="in this version the first call of an unknown tool ends the run")
def test_unknown_and_known_tools_in_one_answer_are_a_call_each() -> None:
    """Unknown and known names in one message have a span for each call, and the model reads the nearest names."""
    steps = [[Ask("lok", {"path": "a"}), Ask("look", {"path": "a"}), Ask("lookk", {"path": "a"})]]
    model = ScriptedModel([*steps, *[[Ask("lok", {"path": "a"})]] * 3])
    with guarded() as recording:
        run_async(Agent(name="a", model=model, tools=[look]))
        assert sorted(span.name for span in recording.spans[:3]) == ["execute_tool _unknown"] * 2 + [
            "execute_tool look"
        ]
        assert len(recording.spans) == 6
        assert "look" in model.read[-1]
        assert "tool_loop_detected" in model.read[-1]


@pytest.mark.parametrize("go", [run_async, run_sync, run_streamed])
def test_an_aborted_run_is_caught_by_either_name(go: Any) -> None:
    """``except ToolLoopError`` and ``except AgentsException`` both catch an abort, also from a stream."""
    with guarded(Policy(abort_after=1)) as recording:
        with pytest.raises(ToolLoopError) as caught:
            go(Agent(name="a", model=script(*["a"] * 9), tools=[look]))
        assert isinstance(caught.value, AgentsException)
        assert caught.value.tool_name == "look"
        assert caught.value.turn_id == attribute(recording, semconv.TURN_ID)[0]
        assert recording.outcomes[-1] == "aborted"
        assert recording.runtime.guard.live == 0


def test_an_abort_among_parallel_calls_ends_the_run() -> None:
    """An abort ends the other calls of the same message, too, and the run does not hang."""
    steps = [[Ask("look", {"path": "a"})], *[[Ask("look", {"path": "a"}), Ask("look", {"path": "b"})]] * 8]
    with guarded(Policy(abort_after=1)) as recording:
        with pytest.raises(ToolLoopError):
            run_async(Agent(name="a", model=ScriptedModel(steps), tools=[look]))
        assert recording.runtime.guard.live == 0


def test_a_hand_off_is_a_call_of_the_same_turn() -> None:
    """After a hand-off the calls have the new agent's name, and the turn's history continues."""
    # Its script goes on where the first one's ends, because it reads the whole conversation.
    second = Agent(name="second", model=script("-", "-", "a", "a"), tools=[look])
    first = Agent(
        name="first",
        model=ScriptedModel([[Ask("look", {"path": "a"})], [Ask("transfer_to_second", {})]]),
        tools=[look],
        handoffs=[second],
    )
    with guarded() as recording:
        run_async(first)
        assert recording.outcomes == ["executed", "executed", "executed", "nudged"]
        assert attribute(recording, semconv.AGENT_NAME) == ["first", "first", "second", "second"]
        assert len(set(attribute(recording, semconv.TURN_ID))) == 1


def test_an_agent_that_is_a_tool_has_a_turn_of_its_own() -> None:
    """Four calls of a sub-agent that makes the same call each time are no loop of the outer agent."""
    helper = Agent(name="helper", model=script("shared"), tools=[look])
    ask = helper.as_tool("ask_helper", "Ask the helper.")
    model = ScriptedModel([[Ask("ask_helper", {"input": f"question {number}"})] for number in range(4)])
    with guarded() as recording:
        run_async(Agent(name="boss", model=model, tools=[ask]))
        assert model.read == ["Done."] * 4
        assert len(recording.spans) == 8
        turns = set(attribute(recording, semconv.TURN_ID))
        assert len(turns) == 5
        boss = min(turns, key=len)
        assert all(turn.startswith(boss) for turn in turns)
        assert_no_trip(recording)


@pytest.mark.parametrize("go", [run_async, run_streamed])
def test_a_helper_that_is_ended_is_a_failed_tool_of_its_boss(go: Any) -> None:
    """An aborted sub-agent is a failed call of the outer agent, which reads that and continues."""
    helper = Agent(name="helper", model=script(*["a"] * 20), tools=[look])
    ask = helper.as_tool("ask_helper", "Ask the helper.")
    model = ScriptedModel([[Ask("ask_helper", {"input": "q"})], [Ask("look", {"path": "b"})]])
    with guarded(Policy(abort_after=2)) as recording:
        go(Agent(name="boss", model=model, tools=[ask, look]))
        assert model.read[1] == "there is b"
        assert recording.outcomes[0] == "failed"
        assert "aborted" in recording.outcomes
        assert recording.runtime.guard.live == 0


class Talker(ScriptedModel):
    """Hands over at each request until ``most``, with the text of ``says`` before it."""

    def __init__(self, to: str, requests: list[int], says: Any = None, most: int = 30) -> None:
        super().__init__([])
        self._to, self._requests, self._says, self._most = to, requests, says, most

    def _output(self, given: Any) -> list[Any]:
        self.seen.append(given)
        self._requests.append(1)
        number = len(self._requests)
        if number > self._most:
            return [text_message("Done.")]
        call = ResponseFunctionToolCall(
            type="function_call", name=f"transfer_to_{self._to}", arguments="{}", call_id=f"handoff-{number}"
        )
        return [call] if self._says is None else [text_message(self._says(number)), call]


def team(**options: Any) -> tuple[Agent[Any], list[int]]:
    """Make two agents that can only hand over to each other. Return the first, and the requests of both."""
    requests: list[int] = []
    alice: Agent[Any] = Agent(name="alice", model=Talker("bob", requests, **options))
    bob: Agent[Any] = Agent(name="bob", model=Talker("alice", requests, **options), handoffs=[alice])
    alice.handoffs = [bob]
    return alice, requests


@pytest.mark.parametrize("go", [run_async, run_streamed])
def test_agents_that_only_hand_over_to_each_other_are_stopped(go: Any) -> None:
    """The third lap of hand-offs without a new word is refused; the agent that made the call goes on and reads that.

    Its model goes on without tools, too.
    """
    alice, requests = team()
    with guarded() as recording:
        with pytest.raises(ToolLoopError):
            go(alice)
        assert_trips(recording, "ping_pong", action="block")
        assert recording.outcomes == ["executed"] * 3 + ["nudged"] + ["blocked"] * 7 + ["aborted"]
        assert set(attribute(recording, semconv.TOOL_KIND)) == {"handoff"}
        assert len(requests) == 12
        texts = [_text(item["output"]) for item in alice.model.seen[-1] if item.get("type") == "function_call_output"]  # type: ignore[union-attr]  # as above
        assert sum("[loopguard]" in text for text in texts) == 2  # a lap is told, and an answer is asked for
        assert sum("tool_loop_detected" in text for text in texts) == 7


@pytest.mark.parametrize("go", [run_async, run_streamed])
def test_agents_that_write_in_turns_are_left_alone(go: Any) -> None:
    """A new text before each hand-off is work."""
    alice, requests = team(says=lambda number: f"draft {'of rivers ' * number}")
    with guarded() as recording:
        go(alice)
        assert_no_trip(recording)
        assert len(requests) == 31


def test_after_a_refused_hand_off_the_agent_may_answer() -> None:
    """A run whose model stops after a refusal ends as any other, and its session goes on."""
    alice, _ = team(most=5)
    with guarded() as recording:
        session = SQLiteSession("session-2")
        assert run_async(alice, session=session).final_output == "Done."
        assert recording.outcomes == ["executed"] * 3 + ["nudged", "blocked"]
        assert run_async(alice, session=session).final_output == "Done."


def test_each_message_of_a_session_is_a_turn_of_its_own() -> None:
    """The second message of a session may read the same file as the first."""
    with guarded() as recording:
        agent = Agent(name="a", model=script("a", "a"), tools=[look])
        session = SQLiteSession("session-1")
        for _ in range(3):
            run_async(agent, session=session)
        assert recording.outcomes == ["executed", "nudged"] * 3
        assert len(set(attribute(recording, semconv.TURN_ID))) == 3
        assert set(attribute(recording, semconv.CONVERSATION_ID)) == {"session-1"}


def test_a_group_id_is_a_conversation() -> None:
    """The group id of the run's configuration, or of the trace around it, is the conversation id."""
    agent = Agent(name="a", model=script("a"), tools=[look])
    set_trace_processors([])
    set_tracing_disabled(False)
    try:
        with guarded() as recording:
            run_async(agent, run_config=config(group_id="group-1"))
            with trace("workflow", group_id="group-2"):
                run_async(agent)
            assert attribute(recording, semconv.CONVERSATION_ID) == ["group-1", "group-2"]
    finally:
        set_tracing_disabled(True)


class Seen(TracingProcessor):
    """Keeps the SDK's own spans of function tools."""

    def __init__(self) -> None:
        self.functions: list[FunctionSpanData] = []

    def on_span_end(self, span: Any) -> None:
        """A span of any sort has ended."""
        if isinstance(span.span_data, FunctionSpanData):
            self.functions.append(span.span_data)

    def _nothing(self, *_: Any) -> None: ...

    on_trace_start = on_trace_end = on_span_start = shutdown = force_flush = _nothing


def test_its_own_tracing_sees_every_call_as_before() -> None:
    """The SDK's tracing has a span of each call, refused calls included, and so have we."""
    seen = Seen()
    set_trace_processors([seen])
    set_tracing_disabled(False)
    try:
        with guarded() as recording:
            run_async(Agent(name="a", model=script("a", "a", "a"), tools=[look]))
    finally:
        set_tracing_disabled(True)
        set_trace_processors([])
    assert [data.name for data in seen.functions] == ["look"] * 3
    assert seen.functions[0].output == "there is a"
    assert [span.name for span in recording.spans] == ["execute_tool look"] * 3


def test_guardrails_end_and_refuse_as_before() -> None:
    """A tripwire reaches the caller as itself and leaves no turn behind."""

    @input_guardrail
    def never(context: Any, agent: Any, given: Any) -> GuardrailFunctionOutput:
        return GuardrailFunctionOutput(output_info=None, tripwire_triggered=True)

    with guarded() as recording:
        with pytest.raises(InputGuardrailTripwireTriggered):
            run_async(Agent(name="a", model=script("a"), tools=[look], input_guardrails=[never]))
        with pytest.raises(InputGuardrailTripwireTriggered):
            run_streamed(Agent(name="a", model=script("a"), tools=[look], input_guardrails=[never]))
        assert recording.runtime.guard.live == 0


@tool_input_guardrail
def no_secrets(data: Any) -> ToolGuardrailFunctionOutput:
    if "secret" in data.context.tool_arguments:
        return ToolGuardrailFunctionOutput.reject_content("not that one")
    return ToolGuardrailFunctionOutput.allow()


def test_what_a_tools_guardrail_turns_down_is_a_call_that_failed() -> None:
    """The model reads the guardrail's message; a repeated call is refused as any other."""
    ran = []

    @function_tool(tool_input_guardrails=[no_secrets])
    def peek(path: str) -> str:
        """Look at something."""
        ran.append(path)
        return f"there is {path}"

    model = script("a", "secret", "secret", "secret", name="peek")
    with guarded() as recording:
        run_async(Agent(name="a", model=model, tools=[peek]))
        assert ran == ["a"]
        assert model.read[:2] == ["there is a", "not that one"]
        assert model.read[2].startswith("not that one\n")
        assert recording.outcomes == ["executed", "failed", "failed", "blocked"]
        assert recording.counted(semconv.METRIC_INTERNAL_ERRORS) == 0


def test_a_flaky_tool_may_be_tried_again() -> None:
    """The model reads the same sentence for every failure; the guard sees the exception, and tolerates timeouts."""
    tries = []

    @function_tool
    def fetch(path: str) -> str:
        """Fetch."""
        tries.append(path)
        if len(tries) < 5:
            raise TimeoutError("upstream timed out")
        return "got it"

    model = script(*["a"] * 5, name="fetch")
    with guarded() as recording:
        run_async(Agent(name="a", model=model, tools=[fetch]))
        assert model.read[-1] == "got it"
        assert recording.outcomes[:4] == ["failed"] * 4
        assert recording.outcomes[4] == "executed"
        assert attribute(recording, semconv.ERROR_TYPE)[0] == "TimeoutError"
        assert attribute(recording, semconv.ERROR_TRANSIENT)[:4] == [True] * 4


class Search:
    """Search for a text."""

    def __call__(self, path: str, most: int = 3) -> str:
        """Search now."""
        return f"there is nothing in {path} among {most}"


class SearchLater(Search):
    """Search for a text, asynchronously."""

    async def __call__(self, path: str, most: int = 3) -> str:  # type: ignore[override]
        """Search later."""
        await asyncio.sleep(0)
        return f"there is nothing in {path} among {most}"


@pytest.mark.parametrize(
    "inner", [Search(), SearchLater(), functools.partial(Search().__call__)], ids=["", "async", "partial"]
)
def test_a_guarded_object_is_a_tool_with_a_schema(inner: Any) -> None:
    """The SDK makes the schema of the object's call, runs it in a thread or awaits it, and the calls count once."""
    tool = function_tool(loopguard.tool(inner, name="search"), name_override="search")
    assert tool.params_json_schema["properties"]["most"] == {"default": 3, "title": "Most", "type": "integer"}
    model = script(*["a"] * 3, name="search")
    with guarded() as recording:
        run_async(Agent(name="a", model=model, tools=[tool]))
        assert recording.outcomes == ["executed", "nudged", "blocked"]
    assert model.read[0] == "there is nothing in a among 3"


def test_an_own_word_for_failures_is_a_failure() -> None:
    """With the program's ``failure_error_function`` the model reads its text, and the call counts as failed."""

    def sorry(context: Any, error: Exception) -> str:
        return "sorry"

    @function_tool(failure_error_function=sorry)
    def fetch(path: str) -> str:
        """Fetch."""
        raise ValueError(path)

    model = script("a", "a", "a", name="fetch")
    with guarded() as recording:
        run_async(Agent(name="a", model=model, tools=[fetch]))
        assert model.read[0] == "sorry"
        assert recording.outcomes == ["failed", "failed", "blocked"]
        assert attribute(recording, semconv.ERROR_TYPE)[0] == "ValueError"


def test_a_failing_tool_that_ends_the_run_does_so() -> None:
    """``failure_error_function=None`` lets the exception out, and our wrappers pass it on."""

    @function_tool(failure_error_function=None)
    def fetch(path: str) -> str:
        """Fetch."""
        raise ValueError("no " + path)

    with guarded() as recording:
        with pytest.raises(Exception, match="no a"):
            run_async(Agent(name="a", model=script("a", name="fetch"), tools=[fetch]))
        assert recording.outcomes == ["failed"]
        assert recording.runtime.guard.live == 0


def test_a_direct_answer_is_for_the_user() -> None:
    """An output that ends the run as its answer gets no sentence for the model."""
    ran = []

    @function_tool
    def twice(path: str) -> str:
        """Look."""
        ran.append(path)
        return f"there is {path}"

    agent = Agent(
        name="a",
        model=ScriptedModel([[Ask("twice", {"path": "a"})], [Ask("twice", {"path": "a"})]]),
        tools=[twice],
        tool_use_behavior=lambda context, results: _final(len(ran) == 2, results),
    )
    with guarded() as recording:
        assert run_async(agent).final_output == "there is a"
        assert len(recording.spans) == 2


def _final(final: bool, results: Any) -> Any:
    from agents import ToolsToFinalOutputResult

    return ToolsToFinalOutputResult(is_final_output=final, final_output=results[-1].output if final else None)


def test_json_stays_json() -> None:
    """No sentence is added to JSON, which a program may parse; the model reads it in its request."""

    @function_tool
    def fetch(path: str) -> dict[str, int]:
        """Fetch."""
        return {"rows": 2}

    model = ScriptedModel([[Ask("fetch", {"path": "a"})]] * 2)
    with guarded():
        result = run_async(Agent(name="a", model=model, tools=[fetch]))
    assert [item.output for item in result.new_items if isinstance(item, ToolCallOutputItem)] == [{"rows": 2}] * 2
    assert model.read[0] == "{'rows': 2}"
    assert model.read[1].startswith("{'rows': 2}\n")
    assert "fetch" in model.read[1]


def test_an_earlier_result_is_given_again() -> None:
    """With reuse in the contract, a repeated call gets the earlier result with a note, and nothing runs."""
    model = script("a", "a", "a")
    with guarded(Policy(tools={"look": ToolContract(kind="read", reuse=True)})) as recording:
        run_async(Agent(name="a", model=model, tools=[look]))
        assert recording.outcomes[-1] == "reused"
        assert model.read[-1].startswith("there is a\n")


def test_a_stream_that_nobody_reads_to_its_end_leaves_nothing_behind() -> None:
    """The consumer's code is outside of the turn, which is closed when the run is cancelled."""

    async def stream() -> None:
        result = Runner.run_streamed(Agent(name="a", model=script(*"abcdefgh"), tools=[look]), "Go on.")
        assert current_scope() is None
        async for event in result.stream_events():
            assert current_scope() is None
            if event.type == "run_item_stream_event" and event.name == "tool_output":
                break
        result.cancel()
        await asyncio.gather(result.run_loop_task, return_exceptions=True)
        await asyncio.sleep(0)

    ended: list[Any] = []
    with guarded(Policy(on_end=ended.append)) as recording:
        asyncio.run(stream())
        assert recording.runtime.guard.live == 0
    assert [turn.ended_as for turn in ended] == ["cancelled"]


def test_a_stream_that_runs_out_of_turns_has_failed() -> None:
    """Its loop returns; the reader of the stream gets the exception."""

    async def stream() -> None:
        result = Runner.run_streamed(Agent(name="a", model=script(*"abcd"), tools=[look]), "Go on.", max_turns=2)
        async for _ in result.stream_events():
            pass

    ended: list[Any] = []
    with guarded(Policy(on_end=ended.append)), pytest.raises(MaxTurnsExceeded):
        asyncio.run(stream())
    assert [turn.ended_as for turn in ended] == ["failed"]


def test_runs_side_by_side_are_turns_of_their_own() -> None:
    """Three agents that make equal calls in parallel are no loop."""

    async def together() -> None:
        await asyncio.gather(
            *(Runner.run(Agent(name="a", model=script("a", "b"), tools=[look]), "Go on.") for _ in range(3))
        )

    with guarded() as recording:
        asyncio.run(together())
        assert len(set(attribute(recording, semconv.TURN_ID))) == 3
        assert_no_trip(recording)


@pytest.mark.parametrize("nested", [False, True], ids=["own", "of-a-helper"])
def test_a_call_that_waits_for_approval_is_one_call(nested: bool) -> None:
    """A call that ran once is counted once, although its run was interrupted and resumed."""
    ran = []

    @function_tool(needs_approval=True)
    def delete(path: str) -> str:
        """Delete something."""
        ran.append(path)
        return f"{path} is gone"

    agent = Agent(name="a", model=script("a", name="delete"), tools=[delete])
    if nested:
        ask = agent.as_tool("ask_helper", "Ask the helper.")
        agent = Agent(name="boss", model=ScriptedModel([[Ask("ask_helper", {"input": "q"})]]), tools=[ask])

    async def approved(session: Any) -> Any:
        result = await Runner.run(agent, "Go on.", session=session)
        state = result.to_state()
        for item in result.interruptions:
            state.approve(item)
        return await Runner.run(agent, state, session=session)

    with guarded() as recording:
        assert asyncio.run(approved(SQLiteSession("s"))).final_output == "Done."
        assert ran == ["a"]
        tools = attribute(recording, semconv.TOOL_NAME)
        executed = [tool for tool, outcome in zip(tools, recording.outcomes, strict=True) if outcome == "executed"]
        assert sorted(executed) == (["ask_helper", "delete"] if nested else ["delete"])
        assert set(recording.outcomes) <= {"executed", "cancelled"}
        assert len({turn.partition("/")[0] for turn in attribute(recording, semconv.TURN_ID)}) == 1
        assert_no_trip(recording)


def test_a_turn_around_several_runs_is_one_turn() -> None:
    """With ``turn()`` around several runs, repeats are counted across the runs, none of which sees the ones before."""
    import otel_loopguard as loopguard

    with guarded() as recording, loopguard.turn():
        for _ in range(4):
            run_async(Agent(name="a", model=script("a"), tools=[look]))
        assert recording.outcomes == ["executed"] * 3 + ["nudged"]


@pytest.mark.skipif(not hasattr(look, "mcp_annotations"), reason="this version keeps no annotations")
def test_what_a_tools_server_says_of_it_is_heard() -> None:
    """The annotations of an MCP tool decide its kind if its name does not."""
    tool = dataclasses.replace(look, name="zap")
    tool._mcp_annotations = SimpleNamespace(readOnlyHint=True)  # type: ignore[assignment]
    with guarded() as recording:
        run_async(Agent(name="a", model=script("a", name="zap"), tools=[tool]))
        assert attribute(recording, semconv.TOOL_KIND) == ["read"]


def test_nothing_of_a_call_is_told() -> None:
    """Spans, events and counters have no argument, result, exception text or unknown name."""

    @function_tool
    def fetch(path: str) -> str:
        """Fetch."""
        if "FAIL" in path:
            raise ValueError(f"SECRET of {path}")
        return f"SECRET row of {path}"

    paths = ["SECRET1"] * 4 + ["SECRETFAIL"] * 4
    model = ScriptedModel([*[[Ask("fetch", {"path": path})] for path in paths], [Ask("SECRETTOOL", {"SECRET": 1})]])
    with guarded() as recording:
        with suppress(ModelBehaviorError):
            run_async(Agent(name="a", model=model, tools=[fetch]))
        assert len(recording.spans) == 9
        exported = [span.to_json() for span in recording.spans]
        for metric in (semconv.METRIC_TRIPS, semconv.METRIC_TOOL_TRIPS, semconv.METRIC_TOOL_CALLS):
            exported += [str(point) for point in recording.points(metric)]
        assert "SECRET" not in "".join(exported)


def test_at_process_start_each_call_is_counted_once() -> None:
    """A wrapped function that another module imports by name is not wrapped again there."""
    with receiver() as received:
        ended = start(ROOT / "examples" / "openai_agents_agent.py", "--streamed", environment=received.environment)
        assert "The file was read 2 times." in ended.stdout, ended.stderr
        assert "I already know" in ended.stdout
        assert [attributes(span)[semconv.OUTCOME] for span in received.spans] == ["executed", "nudged", "blocked"]
        assert {span.name for span in received.spans} == {"execute_tool read_file"}
        assert "fault of its own" not in ended.stderr
        assert "found nothing to patch" not in ended.stderr


def test_at_process_start_a_stubborn_agent_is_ended() -> None:
    """The program catches ``ToolLoopError`` and continues."""
    ended = start(ROOT / "examples" / "openai_agents_agent.py", "--stubborn")
    assert "(no answer: ToolLoopError: " in ended.stdout, ended.stderr
    assert "The file was read 2 times." in ended.stdout


def marks(run: Any) -> list[Any]:
    """The custom data of the run's tool results."""
    return [item.custom_data for item in run.new_items if item.type == "tool_call_output_item"]


@pytest.mark.skipif(not HAS_CUSTOM_DATA, reason="in this version a result has no field for programs")
@pytest.mark.parametrize("go", [run_async, run_sync, run_streamed])
@pytest.mark.parametrize("name", ["look", "made_up"])
def test_a_refusal_is_marked_in_the_custom_data_of_its_item(go: Any, name: str) -> None:
    """The preset's mark is for the program, also for a tool that does not exist."""
    model = script(*["a"] * 4, name=name)
    with guarded(load_preset("repeat_hint").policy) as recording:
        run = go(Agent(name="a", model=model, tools=[look]))
        assert marks(run) == [None, None, None, {"loopguard.mark": "loop-detected"}]
        assert model.read[3].startswith("[loop-detected]")
        assert "loopguard.mark" not in str(model.seen)
        assert recording.counted(semconv.METRIC_INTERNAL_ERRORS) == 0


def test_a_mark_that_has_no_field_is_in_the_text_alone() -> None:
    """In every version the sentence of the preset begins with the mark."""
    model = script(*["a"] * 4)
    with guarded(load_preset("repeat_hint").policy) as recording:
        run_async(Agent(name="a", model=model, tools=[look]))
        assert model.read[:3] == ["there is a"] * 3
        assert model.read[3].startswith("[loop-detected]")
        assert recording.counted(semconv.METRIC_INTERNAL_ERRORS) == 0
