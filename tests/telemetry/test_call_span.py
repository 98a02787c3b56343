"""One call, one span: its attributes, its names, its place among the spans of others."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest
from opentelemetry import context as otel_context
from opentelemetry import trace
from opentelemetry.context import _SUPPRESS_INSTRUMENTATION_KEY
from opentelemetry.trace import StatusCode

import otel_loopguard as loopguard
from otel_loopguard import Policy, ToolContract, ToolLoopError, semconv
from otel_loopguard.engine.vocabulary import Outcome, ToolCall, Usage
from otel_loopguard.instrumentation.call import GuardedCall
from otel_loopguard.instrumentation.functions.decorator import FUNCTION
from otel_loopguard.instrumentation.model_reader import ReadCall
from otel_loopguard.instrumentation.targets import Reading
from otel_loopguard.telemetry.call_span import CallSpan, InContext, NativeSpan, printable_name
from otel_loopguard.telemetry.settings import Settings
from otel_loopguard.testing import assert_trips, guarded
from otel_loopguard.turns.scope import Scope
from tests.telemetry.agents import attributes, look, stuck

if TYPE_CHECKING:
    from collections.abc import Mapping

    from opentelemetry.sdk.trace import ReadableSpan


def test_what_a_span_says() -> None:
    """Names and hashes, as the conventions and the documentation have them; never a value."""
    with guarded() as recording:
        with loopguard.turn("conversation", agent_name="helper"):
            loopguard.call("look", {"path": "a"}, look, call_id="call-1", known_tools=["look"])
            loopguard.call("look", {"path": "a"}, look, call_id="call-2", known_tools=["look"])
        first, second = map(attributes, recording.spans)
        assert recording.spans[0].name == "execute_tool look"
        assert recording.spans[0].kind is trace.SpanKind.INTERNAL
        expected = {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": "look",
            "gen_ai.tool.type": "function",
            "gen_ai.tool.call.id": "call-1",
            "gen_ai.agent.name": "helper",
            "gen_ai.conversation.id": "conversation",
            "loopguard.tool.kind": "read",
            "loopguard.tool.registered": True,
            "loopguard.turn.source": "explicit",
            "loopguard.turn.call_index": first[semconv.CALL_INDEX],
            "loopguard.result_sameness": "first",
            "loopguard.result_brief": True,
            "loopguard.outcome": "executed",
        }
        hashes = {semconv.TURN_ID, semconv.ARGUMENTS_HASH, semconv.RESULT_HASH}
        assert {name: value for name, value in first.items() if name not in hashes} == expected
        assert hashes <= set(first)
        assert first[semconv.ARGUMENTS_HASH] == second[semconv.ARGUMENTS_HASH]
        assert first[semconv.RESULT_HASH] == second[semconv.RESULT_HASH]
        assert second[semconv.RESULT_SAMENESS] == "same"
        assert second[semconv.CALL_INDEX] == first[semconv.CALL_INDEX] + 1
        assert second[semconv.OUTCOME] == "nudged"
        assert (second[semconv.MODE], second[semconv.VERDICT], second[semconv.ACTION]) == (
            "generic_repeat",
            "nudge",
            "nudge",
        )


def test_sorting_by_the_index_gives_the_turn_as_it_was() -> None:
    """Every span of a turn has its own index, those of refused calls included."""
    with guarded() as recording:
        with loopguard.turn("conversation"):
            for path in "aaaab":
                loopguard.call("look", {"path": path}, look)
        assert [attributes(span)[semconv.CALL_INDEX] for span in recording.spans] == [0, 1, 2, 3, 4]
        assert recording.outcomes == ["executed", "nudged", "blocked", "blocked", "executed"]


def test_a_nudge_counts_when_the_model_gets_it() -> None:
    """A sentence without a place is ``undelivered``; the call whose result carries it later is the one ``nudged``."""
    with guarded() as recording:
        with loopguard.turn():
            for _ in range(2):
                loopguard.call("fetch", {}, lambda: {"color": "green", "size": "a long and steady description " * 5})
            assert "About the earlier call of fetch" in loopguard.call("look", {"path": "a"}, look)
        assert recording.outcomes == ["executed", "executed", "nudged"]
        assert [attributes(span).get(semconv.UNDELIVERED) for span in recording.spans] == [None, True, None]
        assert recording.counted(semconv.METRIC_TOOL_CALLS, loopguard__outcome="nudged") == 1
        assert_trips(recording, "generic_repeat", action="nudge", times=1)


def test_a_failure_is_told_also_where_it_was_nudged() -> None:
    """Outcome, ``error.type`` and status of a failed call stay as they are if its error carries a nudge.

    The event and the line at exit tell of that.
    """

    @loopguard.tool(name="look")
    def broken(path: str) -> str:
        return f"Error: cannot read {path}"

    with guarded() as recording:
        with loopguard.turn():
            for _ in range(2):
                broken("a")
        second = recording.spans[1]
        attributes = dict(second.attributes or {})
        assert recording.outcomes == ["failed", "failed"]
        assert recording.counted(semconv.METRIC_TOOL_CALLS, loopguard__outcome="failed") == 2
        assert attributes[semconv.ERROR_TYPE] == "tool_error"
        assert [str((event.attributes or {})[semconv.ACTION]) for event in second.events] == ["nudge"]
        assert semconv.UNDELIVERED not in attributes
        assert recording.runtime.providers.summary.nudges == 1
        assert second.status.status_code is StatusCode.ERROR
        assert second.status.description is None


def refused_span(policy: Policy, calls: int) -> ReadableSpan:
    """The span of the last of so many equal calls."""
    with guarded(policy) as recording, loopguard.turn():
        for _ in range(calls):
            with suppress(ToolLoopError):
                loopguard.call("look", {"path": "a"}, lambda path: f"a file with many lines {path} " * 10)
    return recording.spans[-1]


@pytest.mark.parametrize(
    ("policy", "calls", "outcome", "action"),
    [
        (Policy(), 3, "blocked", "block"),
        (Policy(tools={"look": ToolContract(reuse=True)}), 3, "reused", "reuse"),
        (Policy(), 9, "blocked", "conclude"),
        (Policy(abort_after=1), 4, "aborted", "abort"),
    ],
)
def test_a_refused_call_is_no_quick_success(policy: Policy, calls: int, outcome: str, action: str) -> None:
    """Dashboards of GenAI spans tell it from one by ``error.type``. Its status is unset: the tool did not fail."""
    span = refused_span(policy, calls)
    assert (attributes(span)[semconv.OUTCOME], attributes(span)[semconv.ACTION]) == (outcome, action)
    assert attributes(span)[semconv.ERROR_TYPE] == "tool_loop_detected"
    assert span.status.status_code is StatusCode.UNSET


def test_a_call_that_runs_has_the_error_of_its_tool_alone() -> None:
    """A nudged call succeeded; a failed one has the class of its own error, nudged or not."""

    def fail() -> None:
        raise FileNotFoundError("secret.txt")

    with guarded() as recording, loopguard.turn():
        for _ in range(2):
            loopguard.call("look", {"path": "a"}, look)
        for _ in range(2):
            with suppress(FileNotFoundError):
                loopguard.call("open", {}, fail)
    assert [attributes(span).get(semconv.ERROR_TYPE) for span in recording.spans] == [
        None,
        None,
        "FileNotFoundError",
        "FileNotFoundError",
    ]


def test_the_event_says_why() -> None:
    """The event has mode, verdict, action, kind and tool as text, because they become labels, and counts as numbers."""
    with guarded() as recording:
        stuck()
        (event,) = recording.spans[2].events
        assert event.name == "tool_loop_detected"
        assert dict(event.attributes or {}) == {
            "loopguard.mode": "generic_repeat",
            "loopguard.verdict": "block",
            "loopguard.action": "block",
            "loopguard.tool.kind": "read",
            "gen_ai.tool.name": "look",
            "loopguard.count": 3,
            "loopguard.limit": 3,
            "loopguard.limit_reason": "repeat",
            "loopguard.period": 1,
            "loopguard.first_seen_index": event.attributes["loopguard.first_seen_index"],  # type: ignore[index]
            "loopguard.turn.first": "action",
        }


def test_where_instrumentation_is_suppressed_there_is_no_span() -> None:
    """Suppressed instrumentation makes no span, and the loop is stopped and counted."""
    with guarded() as recording:
        token = otel_context.attach(otel_context.set_value(_SUPPRESS_INSTRUMENTATION_KEY, True))
        try:
            assert stuck() == [2]
        finally:
            otel_context.detach(token)
        assert recording.spans == []
        assert recording.counted(semconv.METRIC_TRIPS, loopguard__action="block") == 1


def test_a_call_that_has_run_is_not_logged_as_refused_where_there_is_no_span(caplog: pytest.LogCaptureFixture) -> None:
    """A call that was read in a model request has run, whether or not instrumentation is suppressed."""
    with guarded(Policy(action="observe")) as recording:
        runtime, call = recording.runtime, ToolCall("look", {"path": "a"}, None, ("look",))
        assert runtime is not None
        scope = Scope(runtime.guard.turn())
        token = otel_context.attach(otel_context.set_value(_SUPPRESS_INSTRUMENTATION_KEY, True))
        for _ in range(3):
            span = CallSpan(runtime.providers, call, scope, NativeSpan.NONE)
            decision = scope.turn.ran(call, Outcome("there is a"))
            read = ReadCall(span, decision, 0.0)
            span.start(read, 0)
            read.decide(span.otel_span)
            span.finish("executed", Outcome("there is a"), decision)
        otel_context.detach(token)
    assert recording.spans == []
    assert "Would have told the model of look" in caplog.text


def test_a_span_made_by_the_tool_is_a_child_of_the_call() -> None:
    """A span that the tool makes is a child of the call's span, and is not counted as a call."""
    with guarded() as recording:
        tracer = recording.tracer_provider.get_tracer("app")
        inner: list[Any] = []

        @loopguard.tool
        def traced(path: str) -> str:
            """Trace something."""
            with tracer.start_as_current_span("inside") as span:
                inner.append(span)
            return path

        with loopguard.turn():
            traced("a")
        (span,) = recording.spans
        assert inner[0].parent.span_id == span.context.span_id
        assert recording.counted(semconv.METRIC_TOOL_CALLS) == 1


def test_a_call_without_a_trip_is_described_when_it_ends() -> None:
    """Its span has one write after the start. A trip is on the span before the tool runs."""
    inside: list[Mapping[str, Any]] = []

    def read(path: str) -> str:
        inside.append(dict(attributes(trace.get_current_span())))  # type: ignore[arg-type]  # a span of the SDK
        return path

    with guarded(Policy(action="observe")) as recording, loopguard.turn():
        for _ in range(3):
            loopguard.call("read", {"path": "a"}, read, known_tools=["read"])
        first, _, third = map(attributes, recording.spans)
    assert semconv.TURN_ID in inside[0]
    assert semconv.CALL_INDEX not in inside[0]
    assert semconv.CALL_INDEX in first
    assert inside[2][semconv.MODE] == third[semconv.MODE] == "generic_repeat"
    assert semconv.CALL_INDEX in inside[2]


def test_the_registered_tools_are_searched_once_for_a_span() -> None:
    """A list of them may be long. The guard itself searches it once, too."""

    class Known(list[str]):
        searches = 0

        def __contains__(self, name: object) -> bool:
            self.searches += 1
            return super().__contains__(name)

    known = Known(["look"])
    with guarded(), loopguard.turn():
        loopguard.call("look", {"path": "a"}, look, known_tools=known)
    assert known.searches == 2


@pytest.mark.parametrize("where", [NativeSpan.INNER, NativeSpan.OUTER, NativeSpan.NONE])
def test_one_call_has_one_execute_tool_span(where: NativeSpan) -> None:
    """If the framework has an ``execute_tool`` span, around ours or inside it, there is no second one."""
    with guarded() as recording:
        tracer = recording.tracer_provider.get_tracer("framework")
        names: list[str] = []
        runtime = recording.runtime
        assert runtime is not None

        def framework(run: Any) -> Any:
            with tracer.start_as_current_span("execute_tool look") as span:
                result = run()
                names.append(getattr(span, "name", ""))
                theirs.append(attributes(span))
                return result

        theirs: list[Mapping[str, Any]] = []

        def run() -> Any:
            reading = Reading(ToolCall("look", {"path": "a"}, None, ("look",)), native_span=where)
            call = GuardedCall(runtime, FUNCTION, reading, runtime.attribution.find(), None)
            with call:
                if call.answered:
                    return call.answer
                return call.result(framework(lambda: "text") if where is NativeSpan.INNER else "text")

        with loopguard.turn():
            for _ in range(3):
                if where is NativeSpan.OUTER:
                    framework(run)
                else:
                    run()
        ours = [(span.name, attributes(span).get(semconv.OPERATION_NAME)) for span in recording.spans]
        if where is NativeSpan.OUTER:
            assert ours == []
            assert [one.get(semconv.OUTCOME) for one in theirs] == ["executed", "nudged", "blocked"]
            assert theirs[2][semconv.ACTION] == "block"
        elif where is NativeSpan.INNER:
            assert ours == [("loopguard look", None), ("loopguard look", None), ("execute_tool look", "execute_tool")]
            assert len(names) == 2
        else:
            assert ours == [("execute_tool look", "execute_tool")] * 3


def test_a_span_that_is_thrown_away_leaves_the_current_one_alone() -> None:
    """A generator may be closed in any context. Elsewhere, whatever was current before is current again."""
    span, before = InContext(), otel_context.get_current()
    span.context = otel_context.set_value("place", "inside")
    span.enter()
    other = otel_context.attach(otel_context.set_value("place", "other"))
    span.leave(thrown_away=True)
    assert otel_context.get_value("place") == "other"
    otel_context.detach(other)
    assert otel_context.get_value("place") == "inside"
    span.around = before
    span.restore()
    assert otel_context.get_current() is before


@pytest.mark.parametrize(
    ("call", "shown"),
    [
        (ToolCall("look", known_tools=["look"]), "look"),
        (ToolCall("lok", known_tools=["look"]), "_unknown"),
        (ToolCall("server.look-up:v2", known_tools=None), "server.look-up:v2"),
        (ToolCall("look at this: hunter2", known_tools=None), "_unknown"),
        (ToolCall("x" * 65, known_tools=None), "_unknown"),
        (ToolCall("look at this", known_tools=["look at this"]), "look at this"),
    ],
)
def test_names_that_nobody_registered_are_not_shown(call: ToolCall, shown: str) -> None:
    """A name that is not registered is model output, and is not shown."""
    assert printable_name(call) == shown


def test_an_unknown_tools_name_is_a_hash() -> None:
    """Calls of the same unknown name have the same hash, and the name is not shown."""
    with guarded() as recording:
        stuck("drop everything", known=False)
        spans = [span.attributes or {} for span in recording.spans]
        assert {span[semconv.TOOL_NAME] for span in spans} == {"_unknown"}
        assert len({span[semconv.TOOL_NAME_HASH] for span in spans}) == 1
        assert str(spans[0][semconv.TOOL_NAME_HASH]).startswith("blake2b-64:")
        assert spans[0][semconv.TOOL_REGISTERED] is False


def test_a_conversation_id_can_be_hashed_or_left_out() -> None:
    """Turns of the same conversation have the same hash."""
    shown: dict[str, set[Any]] = {}
    for how in ("raw", "hash", "off"):
        with guarded(settings=Settings(conversation_id=how)) as recording:
            for _ in range(2):
                with loopguard.turn("ada@example.com"):
                    loopguard.call("look", {}, lambda: "x")
            shown[how] = {(span.attributes or {}).get(semconv.CONVERSATION_ID) for span in recording.spans}
    assert shown["raw"] == {"ada@example.com"}
    assert shown["off"] == {None}
    (hashed,) = shown["hash"]
    assert str(hashed).startswith("blake2b-64:")


@pytest.mark.parametrize(
    ("usage", "shown"),
    [
        (
            Usage("gpt-5", 900, 80, 500),
            {
                semconv.MODEL_NAME: "gpt-5",
                semconv.MODEL_INPUT_TOKENS: 900,
                semconv.MODEL_CACHED_TOKENS: 500,
                semconv.MODEL_OUTPUT_TOKENS: 80,
            },
        ),
        (Usage("a secret", 900), {semconv.MODEL_NAME: "_unknown", semconv.MODEL_INPUT_TOKENS: 900}),
        (Usage("gpt-5"), {}),
        (None, {}),
    ],
)
def test_a_span_carries_the_tokens_of_its_model_request(usage: Usage | None, shown: dict[str, Any]) -> None:
    """Numbers and a plain name, as far as they are known, so that ``replay`` can add them up."""
    with guarded() as recording:
        runtime = recording.runtime
        assert runtime is not None
        reading = Reading(ToolCall("look", {"path": "a"}))
        call = GuardedCall(runtime, FUNCTION, reading, runtime.attribution.find(), None)
        call.span.usage = usage
        with call:
            call.result("text")
        (span,) = recording.spans
        found = {name: value for name, value in attributes(span).items() if name.startswith("loopguard.model.")}
        assert found == shown
