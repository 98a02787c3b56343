"""Microsoft Agent Framework: the framework's own features."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

pytest.importorskip("agent_framework", reason="agent-framework is tested in an environment of its own")

import agent_framework
from agent_framework import (
    AgentSession,
    ChatResponse,
    Content,
    FunctionMiddleware,
    Message,
    MiddlewareTermination,
    tool,
)

from otel_loopguard import Policy, ToolLoopError, semconv
from otel_loopguard.policy_files.load import load_preset
from otel_loopguard.testing import Ask, assert_no_trip, guarded
from tests.instrumentation.frameworks.looking import attribute, calls, look
from tests.scripted.agent_framework import WAYS, Script, agent_of, plain_tools, run

pytestmark = pytest.mark.filterwarnings("ignore")
EACH_WAY = pytest.mark.parametrize("go", WAYS)
settles = hasattr(agent_framework, "MiddlewareFailure")
"""True for versions that settle the calls of a message after this exception."""


LOOK = plain_tools({"look": look})


def script(*paths: str, name: str = "look", answer: str = "Done.") -> Script:
    return Script(calls(paths, name), answer)


@pytest.mark.skipif(not settles, reason="an older version settles no calls")
def test_an_abort_leaves_no_open_call_in_a_conversation_that_the_service_keeps() -> None:
    """The framework sends the service a result for each call of the message, so that the session can go on."""

    class Service(Script):
        def _inner_get_response(self, *, messages: Any, stream: bool, options: Any, **_: Any) -> Any:
            self.seen.append(list(messages))

            async def respond() -> ChatResponse:
                number = len(self.seen)
                call = Content.from_function_call(f"call-{number}", "look", arguments={"path": "a"})
                settling = options.get("tool_choice") == "none"
                return ChatResponse(
                    messages=[Message("assistant", ["Well." if settling else call])], conversation_id=f"answer-{number}"
                )

            return respond()

    async def main() -> str | None:
        agent = agent_of(service, LOOK)
        session = agent.create_session()
        with pytest.raises(ToolLoopError):
            await agent.run("Go on.", session=session)
        return session.service_session_id

    service = Service([])
    with guarded(Policy(abort_after=1)) as recording:
        last = asyncio.run(main())
        assert recording.outcomes == ["executed", "nudged", "blocked", "aborted"]
        assert recording.runtime.guard.live == 0
    assert len(service.seen) == 5  # the last one has the result of the call that ended the run
    assert last == "answer-5"
    (result,) = [content for message in service.seen[-1] for content in message.contents]
    assert (result.type, result.call_id) == ("function_result", "call-4")


@pytest.mark.skipif(not settles, reason="an older version has no such exception")
def test_a_middleware_that_ends_the_run_is_no_failure() -> None:
    """``MiddlewareFailure`` is a signal, too: the call is cancelled, and the caller gets the exception."""

    class Fail(FunctionMiddleware):
        async def process(self, context: Any, call_next: Any) -> None:
            raise agent_framework.MiddlewareFailure("no")

    with guarded() as recording:
        with pytest.raises(agent_framework.MiddlewareFailure):
            asyncio.run(agent_of(script("a"), LOOK, middleware=[Fail()]).run("Go on."))
        assert recording.outcomes == ["cancelled"]


@EACH_WAY
def test_refusals_are_results_that_end_no_run(go: Any) -> None:
    """A refusal is no exception of a tool: three of those in a row would end the framework's loop."""
    model = script(*"aaaaaaaa")
    with guarded() as recording:
        asyncio.run(go(model, LOOK))
        assert len(model.returned) == 8
        assert [result.exception for result in model.returned] == [None] * 8
        assert recording.outcomes == ["executed", "nudged", *["blocked"] * 6]
        assert recording.counted(semconv.METRIC_INTERNAL_ERRORS) == 0


@EACH_WAY
def test_beside_its_own_spans_each_call_has_one(go: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each call has one ``execute_tool`` span, theirs or ours: run, refused, unknown or with missing arguments."""
    paths = [{"path": "a"}, {"path": "a"}, {"path": "a"}, {}]
    model = Script([*[[Ask("look", arguments)] for arguments in paths], [Ask("nope", {})]])
    with guarded() as recording:
        monkeypatch.setattr(
            "agent_framework.observability.get_tracer",
            lambda *_, **__: recording.tracer_provider.get_tracer("agent_framework"),
        )
        monkeypatch.setattr("agent_framework.observability.OBSERVABILITY_SETTINGS.enable_instrumentation", True)
        asyncio.run(go(model, LOOK))
        finished = recording._spans.get_finished_spans()
        named = [span for span in finished if span.name.startswith("execute_tool ")]
        assert len(named) == 5
        assert len(recording.spans) == 5
        assert recording.outcomes == ["executed", "nudged", "blocked", "failed", "failed"]
        parents = {span.context.span_id for span in recording.spans}
        theirs = [span for span in named if span not in recording.spans]
        assert [span.parent.span_id in parents for span in theirs] == [True, True]
        assert [span.name.split()[0] for span in recording.spans] == ["loopguard"] * 2 + ["execute_tool"] * 3


@EACH_WAY
def test_a_failing_tool_is_read_by_the_model_as_before(go: Any) -> None:
    """The framework makes a text of the exception, and the call has failed."""

    def fetch(path: str) -> str:
        """Fetch."""
        raise LookupError("no such row")

    model = script("a", name="fetch")
    with guarded() as recording:
        asyncio.run(go(model, plain_tools({"fetch": fetch})))
        assert model.read == ["Error: Function failed."]
        assert recording.outcomes == ["failed"]
        assert recording.runtime.guard.live == 0


def test_the_abort_of_a_sub_agent_is_a_failed_call_of_the_outer_one() -> None:
    """The outer agent reads that its worker failed, and goes on."""
    boss = Script([[Ask("worker", {"task": "Go on."})]])
    with guarded(Policy(abort_after=1)) as recording:
        worker = agent_of(script(*"aaaaa"), LOOK, name="worker", description="Works.")
        assert asyncio.run(run(boss, [worker.as_tool()])).text == "Done."
        (read,) = boss.read
        assert read.startswith("The agent called look again" if settles else "Error: Function failed.")
        assert recording.outcomes[0] == "failed"
        assert recording.runtime.guard.live == 0


def test_a_call_that_waits_for_approval_continues_its_turn() -> None:
    """The run after the approval is the same turn: what the model repeats there is a repeat."""
    ran = []

    @tool(approval_mode="always_require")
    def delete(path: str) -> str:
        """Delete something."""
        ran.append(path)
        return f"{path} is gone"

    async def conversation() -> None:
        session = AgentSession()
        agent = agent_of(Script([[Ask("look", {"path": "a"})], [Ask("delete", {"path": "a"})]]), [*LOOK, delete])
        (request,) = (await agent.run("Go on.", session=session)).user_input_requests
        await agent.run(Message("user", [request.to_function_approval_response(True)]), session=session)

    with guarded() as recording:
        asyncio.run(conversation())
        assert ran == ["a"]
        assert recording.outcomes == ["executed", "executed"]
        assert len(set(attribute(recording, semconv.TURN_ID))) == 1
        assert_no_trip(recording)


def test_a_middleware_that_ends_the_loop_is_no_failure() -> None:
    """``MiddlewareTermination`` is a signal: the call is cancelled, and the run ends as before."""

    class End(FunctionMiddleware):
        async def process(self, context: Any, call_next: Any) -> None:
            raise MiddlewareTermination("enough")

    with guarded() as recording:
        asyncio.run(agent_of(script(*"aaaa"), LOOK, middleware=[End()]).run("Go on."))
        assert recording.outcomes == ["cancelled"]
        assert recording.runtime.guard.live == 0


def test_a_result_with_an_image_is_left_alone() -> None:
    """No sentence is added to other contents than text; it waits for the next text."""

    def shoot(path: str) -> list[Content]:
        """Make an image."""
        return [Content.from_text("an image"), Content.from_data(data=b"1234", media_type="image/png")]

    model = Script([[Ask("shoot", {"path": "a"})]] * 2 + [[Ask("look", {"path": "b"})]])
    with guarded() as recording:
        asyncio.run(run(model, [*plain_tools({"shoot": shoot}), *LOOK]))
        assert [item.type for item in model.returned[1].items] == ["text", "data"]
        assert model.read[1] == "an image"
        assert model.read[2].startswith("there is b\n")
        assert "shoot" in model.read[2]
        assert recording.counted(semconv.METRIC_INTERNAL_ERRORS) == 0


@EACH_WAY
def test_a_refusal_is_marked_in_its_properties(go: Any) -> None:
    """The preset's mark is for the program; the model reads the sentence alone."""
    model = script("a", "a", "a", "a")
    with guarded(load_preset("repeat_hint").policy) as recording:
        asyncio.run(go(model, LOOK))
        marks = [(result.additional_properties or {}).get("loopguard.mark") for result in model.returned]
        assert marks == [None, None, None, "loop-detected"]
        assert "loopguard.mark" not in model.read[3]
        assert recording.counted(semconv.METRIC_INTERNAL_ERRORS) == 0
