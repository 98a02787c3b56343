"""Tool spans of other instrumentations: the spans that get trips, and the calls that are counted once.

The real packages are tested in other files of this directory. This file has the cases that they seldom make.
"""

from __future__ import annotations

import gc
import json
from contextlib import ExitStack
from functools import partial
from typing import Any

import pytest
from opentelemetry.context import Context
from opentelemetry.trace import SpanKind, Status, StatusCode

import otel_loopguard as loopguard
from otel_loopguard import semconv
from otel_loopguard.engine.policy.policy import Policy
from otel_loopguard.guard.guard import Guard
from otel_loopguard.instrumentation.process_start import process_start
from otel_loopguard.testing import Recording, guarded
from otel_loopguard.turns.scope import current_scope
from tests.spans.samples import SAMPLES, Call

from .watching import all_spans, calls, watching, written_trips

UNTOLD = ["__REDACTED__", "{}", "", "None", "<not specified>"]


class Agent:
    """Make tool spans in one of the dialects. All attributes are set at the end."""

    def __init__(self, recording: Recording, dialect: str) -> None:
        self.tracer = recording.tracer_provider.get_tracer(dialect)
        self.sample = SAMPLES[dialect]
        self.count = 0

    def attributes(self, path: str, result: str, number: int) -> dict[str, Any]:
        """The attributes of a call."""
        return self.sample.attributes(Call("look", {"path": path}, result, number))

    def look(self, path: str, result: str = "the same text", error: str | None = None, **more: Any) -> None:
        """Make one call."""
        with self.tracer.start_as_current_span(self.sample.span_name.format("look")) as span:
            self.count += 1
            span.set_attributes({**self.attributes(path, result, self.count), **more})
            if error is not None:
                span.set_status(Status(StatusCode.ERROR, error))

    def message(self, name: str = "message", **attributes: str) -> Any:
        """Make the span around a user's message."""
        return self.tracer.start_as_current_span(name, attributes=attributes)


@pytest.mark.parametrize(("ran", "waits", "verdict"), [(60, 1, "block"), (1, 60, "nudge")])
def test_the_time_that_a_tool_runs_is_no_pause(ran: float, waits: float, verdict: str, now: list[float]) -> None:
    """A call that is judged when its span ends began when the span began. A pause of the agent lifts a refusal."""
    with watching() as recording:
        agent = Agent(recording, "opentelemetry")
        with agent.message():
            for _ in range(3):
                now[0] += waits
                with agent.tracer.start_as_current_span(agent.sample.span_name.format("look")) as span:
                    now[0] += ran
                    agent.count += 1
                    span.set_attributes(agent.attributes("a.txt", "the same text", agent.count))
        assert verdicts(recording)[-1] == verdict


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time of the program and its spans, in seconds; it passes where a test lets it."""
    time = [1_000.0]
    monkeypatch.setattr("otel_loopguard.instrumentation.runtime.Guard", partial(Guard, clock=lambda: time[0]))
    monkeypatch.setattr("opentelemetry.sdk.trace.time_ns", lambda: int(time[0] * 1e9))
    return time


CHAT = {"gen_ai.operation.name": "chat"}


def think(agent: Agent, now: list[float], seconds: float = 40, context: Context | None = None) -> None:
    """Make a model request, by the instrumentation of a client."""
    with agent.tracer.start_as_current_span("chat", context, attributes=CHAT):
        now[0] += seconds


def verdicts(recording: Recording) -> list[Any]:
    """Return the verdicts of the trips on all spans."""
    return [event.attributes[semconv.VERDICT] for one in all_spans(recording) for event in one.events]


@pytest.mark.parametrize(("thought", "last"), [(40, "block"), (0, "nudge")])
def test_the_time_of_a_model_request_is_no_pause(thought: float, last: str, now: list[float]) -> None:
    """The third equal call in a watched turn would be refused if the model thought, and not if the agent waited."""
    with watching() as recording:
        agent = Agent(recording, "opentelemetry")
        with agent.message("invoke_agent", **{"gen_ai.operation.name": "invoke_agent"}):
            for _ in range(3):
                now[0] += 40 - thought
                think(agent, now, thought)
                agent.look("a.txt")
        assert verdicts(recording)[-1] == last


@pytest.mark.parametrize("inner", ["step", "invoke_agent"])
def test_a_request_in_a_tool_is_no_thought_of_its_agent(inner: str, now: list[float]) -> None:
    """It is of the agent in the tool, if there is one: that has a turn of its own."""
    with watching() as recording:
        agent = Agent(recording, "opentelemetry")
        tool = agent.message("execute_tool ask")
        with agent.message(), tool, agent.message(inner, **{"gen_ai.operation.name": inner}):
            for _ in range(3):
                think(agent, now)
                agent.look("a.txt")
        assert verdicts(recording)[-1] == ("block" if inner == "invoke_agent" else "nudge")


@pytest.mark.parametrize(("thought", "runs"), [(40, 2), (0, 3)])
def test_a_guarded_turn_is_told_by_the_spans_of_any_client(thought: float, runs: int, now: list[float]) -> None:
    """Its third equal call is refused if the model thought, and not if the agent waited."""
    ran = []
    with guarded(clock=lambda: now[0]) as recording, loopguard.turn():
        agent = Agent(recording, "opentelemetry")
        for _ in range(3):
            now[0] += 40 - thought
            think(agent, now, thought)
            loopguard.call("look", {"path": "a"}, lambda **_: ran.append("it") or "text")
    assert len(ran) == runs


def test_the_watched_calls_beside_a_turn_are_told_too(now: list[float]) -> None:
    """They are judged in a turn of their own."""
    with guarded(clock=lambda: now[0]) as recording, loopguard.turn():
        agent = Agent(recording, "opentelemetry")
        for _ in range(3):
            think(agent, now)
            with agent.message():
                agent.look("a.txt")
        assert verdicts(recording)[-1] == "block"


def test_a_request_of_a_tool_is_no_thought_of_the_guarded_turn(now: list[float]) -> None:
    """The tool may ask a model, too: in a guarded call, also in a trace of its own, and in a watched one."""
    with guarded(clock=lambda: now[0]) as recording, loopguard.turn():
        agent, scope = Agent(recording, "opentelemetry"), current_scope()
        loopguard.call("ask", {}, lambda **_: think(agent, now, context=Context()))
        with agent.message("execute_tool ask"):
            think(agent, now)
        assert scope.turn.current.history.thought == 0
        think(agent, now)
        assert scope.turn.current.history.thought == 40


def test_a_request_that_ends_under_the_garbage_collector_tells_nothing(now: list[float]) -> None:
    """The thread may hold a lock of the turn there."""
    with guarded(clock=lambda: now[0]) as recording, loopguard.turn():
        agent, scope = Agent(recording, "opentelemetry"), current_scope()
        loopguard.call("look", {}, lambda **_: "text")

        class Abandoned:
            def __del__(self) -> None:
                think(agent, now)

        one: Any = Abandoned()
        one.itself = one
        del one
        gc.collect()
        assert now[0] == 1_040
        assert scope.turn.current.history.thought == 0


def test_a_request_makes_no_turn() -> None:
    """A program that only asks a model has no agent."""
    with watching() as recording:
        agent = Agent(recording, "opentelemetry")
        with agent.message():
            think(agent, [0.0])
        assert recording.runtime.watcher.live == 0


def test_a_repeat_is_written_on_the_span_around_it() -> None:
    """The third call without a new result has a trip."""
    with watching() as recording:
        agent = Agent(recording, "opentelemetry")
        with agent.message():
            for _ in range(3):
                agent.look("a.txt")
        assert [trip[:3] for trip in written_trips(recording)] == [("message", "generic_repeat", "look")] * 2
        assert calls(recording) == 3
        assert recording.counted(semconv.METRIC_TRIPS, loopguard__verdict="block", loopguard__action="observe") == 1


def test_each_step_of_a_watched_loop_is_counted() -> None:
    """The events on spans become rarer; the metrics have all, and the loop is open until news."""
    with watching() as recording:
        agent = Agent(recording, "opentelemetry")
        with agent.message():
            for _ in range(100):
                agent.look("a.txt")
            assert recording.counted(semconv.METRIC_TRIPS, loopguard__verdict="block") == 98
            assert recording.counted(semconv.METRIC_LOOPS_OPEN_STEPS) == 99
            assert len(written_trips(recording)) < 20
            agent.look("b.txt", "something new")
            assert recording.counted(semconv.METRIC_LOOPS_OPEN) == 0
            assert recording.counted(semconv.METRIC_RECOVERIES) > 0


def test_a_watched_turn_that_loops_is_counted_once() -> None:
    """Two messages of ten equal calls each are two looping turns, and the first trip of each says so."""
    with watching() as recording:
        agent = Agent(recording, "opentelemetry")
        for _ in range(2):
            with agent.message():
                for _ in range(10):
                    agent.look("a.txt")
        firsts = [event.attributes[semconv.TURN_FIRST] for one in all_spans(recording) for event in one.events]
        assert firsts[:2] == ["action", "no"]
        assert firsts.count("action") == recording.counted(semconv.METRIC_TURNS_LOOPING) == 2
        assert recording.counted(semconv.METRIC_TURNS_TRIPPED, loopguard__mode="generic_repeat") == 2


@pytest.mark.parametrize("value", UNTOLD)
@pytest.mark.parametrize("key", ["gen_ai.tool.call.arguments", "gen_ai.tool.call.result"])
def test_what_is_kept_back_equals_nothing(key: str, value: str) -> None:
    """Arguments or results that an exporter hides never make a call a repeat."""
    with watching() as recording:
        agent = Agent(recording, "opentelemetry")
        with agent.message():
            for number in range(7):
                agent.look("a.txt", f"result {'abcdefg'[number]}" if "arguments" in key else "same", **{key: value})
        assert [trip for trip in written_trips(recording) if trip[1] == "generic_repeat"] == []
        assert calls(recording) == 7


def test_errors_of_a_tool_are_errors() -> None:
    """One shape of error on untried arguments is an error loop; the calls are counted as failed."""
    with watching() as recording:
        agent = Agent(recording, "opentelemetry")
        with agent.message():
            for name in ("one", "two", "three", "four"):
                agent.look(name, error=f"no such file: {name!r}")
        assert [trip[1] for trip in written_trips(recording)] == ["error_repeat"]
        assert recording.counted(semconv.METRIC_TOOL_CALLS, loopguard__outcome="failed") == 4


def test_each_message_is_a_turn() -> None:
    """A call may be repeated for the next message, also if one session span is around both."""
    with watching() as recording:
        agent = Agent(recording, "openinference-langchain")
        app = recording.tracer_provider.get_tracer("app")
        with app.start_as_current_span("session"):
            for _ in range(4):
                with agent.message():
                    agent.look("a.txt")
        with agent.message("outer", **{"gen_ai.operation.name": "invoke_agent"}):
            for _ in range(2):
                with agent.message("inner"):
                    agent.look("b.txt")
        assert [trip[0] for trip in written_trips(recording)] == ["inner"]
        assert recording.runtime is not None
        assert recording.runtime.guard.live == 0
        assert recording.counted(semconv.METRIC_TURN_TOOL_CALLS) == 5
        assert not recording.runtime.watcher.marks
        assert not len(recording.runtime.open_spans)


def test_the_calls_of_an_agent_that_is_a_tool_are_its_own() -> None:
    """Four calls of a sub-agent that makes the same call each time are four turns within one."""
    with watching() as recording:
        agent, tool = Agent(recording, "openinference-langchain"), {"gen_ai.operation.name": "execute_tool"}
        with agent.message():
            for number in range(4):
                with agent.message("execute_tool ask", **tool) as span:
                    span.set_attribute("gen_ai.tool.call.arguments", f'{{"q": "{number}"}}')
                    agent.look("shared.txt")
        assert written_trips(recording) == []
        assert calls(recording) == 8


@pytest.mark.parametrize("inner_says_it_at_once", [True, False])
def test_several_spans_of_one_call_are_counted_once(inner_says_it_at_once: bool) -> None:
    """Nested spans of a framework, an instrumentation and a protocol are one call."""
    with watching() as recording:
        agent = Agent(recording, "opentelemetry")
        with agent.message():
            for _ in range(3):
                with agent.tracer.start_as_current_span("execute_tool look") as outer:
                    if inner_says_it_at_once:
                        outer.set_attributes({"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "look"})
                    agent.look("a.txt")
                    mcp = {"mcp.method.name": "tools/call"}
                    with agent.tracer.start_as_current_span(
                        "MCP send tools/call look", kind=SpanKind.CLIENT, attributes=mcp
                    ):
                        pass
                    outer.set_attributes(agent.attributes("a.txt", "the same text", 0))
        assert calls(recording) == 3
        assert [trip[1] for trip in written_trips(recording)] == ["generic_repeat"] * 2


def test_a_server_is_no_agent() -> None:
    """The server's span of a call is not counted, because the client's is."""
    with watching() as recording:
        tracer = recording.tracer_provider.get_tracer("mcp")
        for _ in range(5):
            attributes = {"mcp.method.name": "tools/call", "gen_ai.operation.name": "execute_tool"}
            with tracer.start_as_current_span("tools/call look", kind=SpanKind.SERVER, attributes=attributes):
                pass
        assert calls(recording) == 0


def test_a_call_that_is_guarded_is_not_counted_again() -> None:
    """A guarded call is counted once if another instrumentation's span is around it or inside it."""
    with guarded() as recording:
        agent = Agent(recording, "openinference-langchain")

        @loopguard.tool
        def look(path: str) -> str:
            agent.look(path)
            return "the same text"

        with loopguard.turn():
            for _ in range(3):
                with agent.tracer.start_as_current_span("look") as outer:
                    look("a.txt")
                    outer.set_attributes(agent.attributes("a.txt", "x", 0))
        assert calls(recording) == 3
        assert len(recording.spans) == 3
        assert recording.counted(semconv.METRIC_TRIPS) == len(recording.trips) == 2
        assert recording.outcomes == ["executed", "nudged", "blocked"]


def test_calls_beside_a_turn_of_ours_are_watched_together() -> None:
    """In ``loopguard.turn`` root spans of other instrumentations belong to one message, and no call is refused."""
    with guarded() as recording:
        agent = Agent(recording, "langfuse")
        with loopguard.turn():
            for _ in range(4):
                agent.look("a.txt")
        assert {trip[1:] for trip in written_trips(recording)} == {("generic_repeat", "look", "observe")}
        # No span was open for the trip: loopguard makes a span for it, which is no tool call.
        assert {trip[0] for trip in written_trips(recording)} == {"loopguard look"}
        assert calls(recording) == 4


def test_a_loop_at_top_level_is_seen_without_any_span_around_it() -> None:
    """Tool calls of a script, each in its own trace, belong to the thread that makes them."""
    with watching() as recording:
        agent = Agent(recording, "openllmetry-langchain")
        for _ in range(3):
            agent.look("a.txt")
        assert [trip[1] for trip in written_trips(recording)] == ["generic_repeat"] * 2


def test_nothing_is_told_but_names_and_numbers() -> None:
    """Arguments, results and errors of other instrumentations are not written anywhere."""
    with watching() as recording:
        agent = Agent(recording, "langfuse")
        for _ in range(4):
            agent.look("secret-path", "secret-result")
            agent.look("secret-path", error="secret-error")
        ours = [span.to_json() for span in recording.spans]
        events = [str(event.attributes) for span in all_spans(recording) for event in span.events]
        assert ours
        assert not any("secret" in text for text in (*ours, *events))


def test_after_uninstrument_nothing_is_looked_at() -> None:
    """After ``uninstrument`` the processor stays with its provider, and does nothing."""
    with watching() as recording:
        agent = Agent(recording, "langfuse")
        assert recording.runtime is not None
        process_start.watcher = None
        for _ in range(3):
            agent.look("a.txt")
        assert calls(recording) == 0
        process_start.watcher = recording.runtime.watcher
        agent.look("a.txt")
        assert calls(recording) == 1


def test_others_calls_do_not_change_what_is_done_about_ours() -> None:
    """An observed call is no reason to refuse a guarded call of the same turn."""
    with guarded() as recording:
        agent = Agent(recording, "langfuse")

        @loopguard.tool
        def fetch(path: str) -> str:
            return "text"

        with loopguard.turn(), ExitStack() as spans:
            spans.enter_context(agent.message())
            for _ in range(9):
                agent.look("a.txt")
            fetch("a.txt")
        assert recording.outcomes == ["executed"]


def test_a_batch_is_no_repeat() -> None:
    """Equal calls that run in parallel are counted, and are no repeats."""
    with watching() as recording:
        agent = Agent(recording, "opentelemetry")
        with agent.message():
            batch = [agent.tracer.start_span("execute_tool look") for _ in range(4)]
            for number, span in enumerate(batch):
                span.set_attributes(agent.attributes("a.txt", "the same text", number))
                span.end()
        assert calls(recording) == 4
        assert written_trips(recording) == []


def test_tools_with_similar_names_are_two_tools() -> None:
    """A sub-agent's call and the call inside it are two calls; a server's prefix on a name is the same call."""
    with watching() as recording:
        tracer = recording.tracer_provider.get_tracer("app")

        def call(name: str) -> Any:
            operation = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": name}
            return tracer.start_as_current_span(f"execute_tool {name}", attributes=operation)

        with call("ask_search"), call("search"):
            pass
        assert calls(recording) == 2
        with call("docs__search"), call("search"):
            pass
        assert calls(recording) == 3


def test_arguments_and_results_in_events() -> None:
    """Arguments and results are read from events of the span, where Strands has them."""
    with watching() as recording:
        tracer = recording.tracer_provider.get_tracer("strands.telemetry.tracer")
        with tracer.start_as_current_span("invoke_agent", attributes={"gen_ai.operation.name": "invoke_agent"}):
            for path in ("a.txt", "b.txt", "a.txt", "a.txt"):
                with tracer.start_as_current_span("execute_tool look") as span:
                    span.set_attributes({"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "look"})
                    span.add_event("gen_ai.tool.message", {"role": "tool", "content": json.dumps({"path": path})})
                    span.add_event("gen_ai.choice", {"message": json.dumps([{"text": f"the text of {path}"}])})
        assert [trip[:3] for trip in written_trips(recording)][:1] == [("invoke_agent", "generic_repeat", "look")]


def test_turns_of_a_conversation_that_repeat_each_other_are_reported() -> None:
    """The span of an agent's run names the conversation; the report counts no looping turn."""
    with guarded(Policy(scope="conversation")) as recording:
        agent = Agent(recording, "opentelemetry")
        for _ in range(22):
            with agent.message("invoke_agent", **{semconv.CONVERSATION_ID: "a heartbeat"}):
                agent.look("a.txt")
        found = [event.attributes for one in all_spans(recording) for event in one.events]
    assert [(each[semconv.MODE], each[semconv.COUNT]) for each in found] == [("no_novelty", 10), ("no_novelty", 20)]
    assert {each[semconv.TRIP_SCOPE] for each in found} == {"conversation"}
    assert {each[semconv.TURN_FIRST] for each in found} == {"no"}


def test_calls_that_are_watched_in_a_turn_of_ours_count_in_its_conversation() -> None:
    """Together with the guarded calls they are one turn."""
    with guarded(Policy(scope="conversation")) as recording:
        agent = Agent(recording, "opentelemetry")
        for _ in range(12):
            with loopguard.turn("a heartbeat"):
                agent.look("a.txt")
                loopguard.call("fetch", {"path": "b.txt"}, lambda **_: "the same text")
        found = [event.attributes for one in all_spans(recording) for event in one.events]
    assert [(each[semconv.TOOL_NAME], each[semconv.COUNT]) for each in found] == [("look", 10)]
