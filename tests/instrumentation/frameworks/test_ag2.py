"""AG2: the framework's own features."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

pytest.importorskip("ag2", reason="ag2 is tested in an environment of its own")

from ag2 import Context, MemoryStream, ToolResult, exceptions, tool
from ag2.middleware.builtin.telemetry import TelemetryMiddleware

from otel_loopguard import Policy, ToolLoopError, semconv
from otel_loopguard.instrumentation.frameworks import ag2
from otel_loopguard.policy_files.load import load_preset
from otel_loopguard.testing import Ask, guarded
from otel_loopguard.turns.scope import current_scope
from tests.instrumentation.frameworks.looking import attribute, calls, look
from tests.scripted.ag2 import WAYS, Script, agent_of, ask, plain_tools

pytestmark = pytest.mark.filterwarnings("ignore")
EACH_WAY = pytest.mark.parametrize("go", WAYS)


LOOK = plain_tools({"look": look})


def script(*paths: str, name: str = "look", answer: str = "Done.") -> Script:
    return Script(calls(paths, name), answer)


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
        assert ag2._turns == {}
    asked = {call.id for one in model.seen[-1] for call in getattr(getattr(one, "tool_calls", None), "calls", ())}
    assert asked == {result.parent_id for result in model.returned}
    assert len(asked) == len(model.returned)


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
