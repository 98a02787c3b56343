"""Exported spans are replayed to the same trips: ours from fingerprints, those of others from arguments and results."""

from __future__ import annotations

import json
import random
from asyncio import CancelledError
from contextlib import suppress
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Any

import pytest
from google.protobuf.json_format import MessageToDict
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans

import otel_loopguard as loopguard
from otel_loopguard import semconv
from otel_loopguard.cli.main import main
from otel_loopguard.cli.replay.judge import PolicyJudge
from otel_loopguard.cli.replay.span_buffer import SpanBuffer
from otel_loopguard.engine.policy.policy import Policy
from otel_loopguard.errors import ToolLoopError
from otel_loopguard.guard.guard import Guard
from otel_loopguard.policy_files.load import load_preset
from otel_loopguard.spans import otlp
from otel_loopguard.testing import guarded
from otel_loopguard.turns.scope import current_scope
from tests.engine.judges.seed import HINT, SEED
from tests.instrumentation.test_model_reader import READ, Agent
from tests.models.scripts import Looping
from tests.models.server import Server

from . import made

if TYPE_CHECKING:
    from collections.abc import Callable

SECOND = 1_000_000_000
ACTION = "loopguard.action"


class Clock:
    """The time of a program, which passes only where the program waits, and while its tools run."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1_700_000_000.0
        monkeypatch.setattr("otel_loopguard.instrumentation.runtime.Guard", partial(Guard, clock=lambda: self.now))
        for module in ("opentelemetry.sdk.trace", "otel_loopguard.telemetry.call_span"):
            monkeypatch.setattr(f"{module}.time_ns", lambda: int(self.now * SECOND))

    def wait(self, seconds: float) -> None:
        """Let time pass."""
        self.now += seconds


def exported(
    policy: Policy, run: dict[str, Any], wait: Callable[[float], None] = lambda _: None
) -> tuple[list[dict[str, Any]], dict[str, list[Any]]]:
    """Run a guarded program; return its spans as OTLP, and the trips of the guard by turn."""
    trips: dict[str, list[Any]] = {}

    def tool(call: dict[str, Any]) -> Any:
        wait(call.get("runs", 0))
        if call.get("cancelled"):
            raise CancelledError
        return call["result"]

    with guarded(policy) as recording:
        for turn in run["turns"]:
            with suppress(ToolLoopError), loopguard.turn():
                for call in turn["calls"]:
                    wait(call.get("waits", 0))
                    wait(call.get("thought", 0))
                    current_scope().turn.thought(call.get("thought", 0))
                    with suppress(CancelledError):
                        loopguard.call(call["tool"], call["args"], lambda one=call, **_: tool(one))
        spans = recording.spans
        for span in spans:
            said = span.attributes or {}
            found = trips.setdefault(str(said["loopguard.turn.id"]), [])
            for event in span.events:
                found.append((said["gen_ai.tool.name"], *map(event.attributes.get, ("loopguard.mode", ACTION))))
    return MessageToDict(encode_spans(spans))["resourceSpans"], trips


def judged(lines: list[Any], policy: Policy, **window: int) -> dict[str, list[Any]]:
    """Replay lines; return the trips by turn."""
    held = SpanBuffer([PolicyJudge(policy)], **window)
    turns = []
    for span in (span for line in lines for span in otlp.spans_of(line, held.ancestry)):
        if isinstance(span, otlp.ModelSpan):
            held.add_request(span)
        else:
            turns += held.add(span)
    turns += held.rest()
    found: dict[str, list[Any]] = {}
    for turn in turns:
        found.setdefault(turn.run_id, []).extend((t.tool, t.mode, str(t.action)) for t in turn.trips[0])
    return found


def one_by_one(resource_spans: list[Any]) -> list[Any]:
    """Return a line for each span."""
    return [
        {"resourceSpans": [{"scopeSpans": [{"scope": scope["scope"], "spans": [span]}]}]}
        for resource in resource_spans
        for scope in resource["scopeSpans"]
        for span in scope["spans"]
    ]


POLICIES = [Policy(), *(load_preset(name).policy for name in ("repeat_hint", "typed_window", "local_reads"))]


@pytest.mark.parametrize("policy", POLICIES, ids=["default", "repeat_hint", "typed_window", "local_reads"])
def test_our_own_spans_replay_to_the_same_trips(policy):
    """A replay under the same policy makes the trips of the guard, in whatever order the spans arrive."""
    rng = random.Random(SEED)
    for seed in range(SEED, SEED + 12):
        spans, trips = exported(policy, made.drawn(seed, length=30))
        lines = one_by_one(spans)
        rng.shuffle(lines)
        assert judged(lines, policy) == trips, f"seed {seed}; {HINT}"


@pytest.mark.parametrize("policy", POLICIES, ids=["default", "repeat_hint", "typed_window", "local_reads"])
def test_our_own_spans_tell_the_times(policy, monkeypatch):
    """Pauses and thought between calls, and the time that tools run, lead to the trips of the guarded program."""
    clock = Clock(monkeypatch)
    for seed in range(SEED, SEED + 25):
        rng, run = random.Random(seed), made.drawn(seed, length=60)
        paces = rng.choice(((0.5, 1), (0.5, 4, 12), (12, 25, 40), (0.5, 70, 700)))
        for call in (call for turn in run["turns"] for call in turn["calls"]):
            call |= {"waits": rng.choice(paces), "runs": rng.choice((0.5, 0.5, 2, 60))}
            call["cancelled"] = rng.random() < 0.05
            call["thought"] = rng.choice((0, *paces))
        spans, trips = exported(policy, run, clock.wait)
        assert judged(one_by_one(spans), policy) == trips, f"seed {seed}; {HINT}"


@pytest.mark.parametrize("pauses", [(0.5,), (12,), (0.5, 0.5, 25), (1, 700)])
def test_a_stubborn_agent_is_replayed_to_its_end(pauses, monkeypatch):
    """An agent that waits after some refusals has heeded these. The others end its turn, live and in the replay."""
    calls = [made.call("read_file", {"path": "a"}, "same", waits=pauses[n % len(pauses)]) for n in range(120)]
    spans, trips = exported(Policy(), made.run("stubborn", calls), Clock(monkeypatch).wait)
    (found,) = trips.values()
    assert {action for *_, action in found} >= {"nudge", "block"}
    assert judged(one_by_one(spans), Policy()) == trips


@pytest.mark.parametrize(("waits", "thought", "actions"), [(0, 40, ["nudge", "block"]), (40, 0, ["nudge"])])
def test_the_spans_of_a_slow_model_are_those_of_a_quick_one(waits, thought, actions, monkeypatch):
    """The third equal read is refused, live and in the replay, if its model thinks for 40 seconds and does not wait."""
    calls = [made.call("read_file", {"path": "a"}, "same", waits=waits, thought=thought) for _ in range(3)]
    spans, trips = exported(Policy(), made.run("slow", calls), Clock(monkeypatch).wait)
    (found,) = trips.values()
    assert [action for *_, action in found] == actions
    assert judged(one_by_one(spans), Policy()) == trips


def test_thought_before_a_refusal_counts_once_in_a_replay(monkeypatch):
    """A call that is refused ends no thought, so the next call has these seconds, too; the wait after it is one."""
    call = made.call("read_file", {"path": "a"}, "same")
    calls = [call, call, {**call, "thought": 40}, {**call, "waits": 40}]
    spans, trips = exported(Policy(), made.run("waits", calls), Clock(monkeypatch).wait)
    (found,) = trips.values()
    assert [action for *_, action in found] == ["nudge", "block"]
    assert judged(one_by_one(spans), Policy()) == trips


def test_a_cancelled_call_ran_for_its_time(monkeypatch):
    """A call that a time limit cuts off is no pause, live and in the replay."""
    slow = [made.call("look_up", {"q": n}, "", runs=60, cancelled=True) for n in range(4)]
    calls = [call for one in slow for call in (made.call("read_file", {"path": "a"}, "same"), one)]
    spans, trips = exported(Policy(), made.run("cut off", calls), Clock(monkeypatch).wait)
    (found,) = trips.values()
    assert "block" in {action for *_, action in found}
    assert judged(one_by_one(spans), Policy()) == trips


def test_a_call_that_was_resumed_is_one_call():
    """A call that was interrupted has a second span with its index when it is resumed. It counts once."""
    policy = Policy(max_calls=3)
    spans, trips = exported(
        policy, made.run("resumed", [made.call("read_file", {"q": n}, "xyzvw"[n]) for n in range(5)])
    )
    found = spans[0]["scopeSpans"][0]["spans"]
    wanted = {semconv.OUTCOME: {"stringValue": "cancelled"}}
    interrupted = [
        {"key": pair["key"], "value": wanted.get(pair["key"], pair["value"])} for pair in found[1]["attributes"]
    ]
    started = str(int(found[1]["startTimeUnixNano"]) - 1)
    found.append({**found[1], "attributes": interrupted, "startTimeUnixNano": started})
    assert judged(one_by_one(spans), policy) == trips
    assert any(trips.values())


def test_a_long_turn_is_judged_in_parts(monkeypatch):
    """A turn that is too long to be held makes the same trips, part by part."""
    monkeypatch.setattr("otel_loopguard.cli.replay.span_buffer.MOST_OF_A_TURN", 20)
    calls = [made.call("read_file", {"q": n % 40}, f"text {n % 40 + 100}", n) for n in range(200)]
    spans, trips = exported(Policy(), made.run("long", calls))
    assert sum(map(len, trips.values())) > 10
    assert judged(one_by_one(spans), Policy()) == trips


def test_the_parts_of_a_long_turn_are_one_run(tmp_path, capfd, monkeypatch):
    """It is one run, one nudged run and one turn of the report, in however many parts it is judged."""
    monkeypatch.setattr("otel_loopguard.cli.replay.span_buffer.MOST_OF_A_TURN", 20)
    spans, _ = exported(Policy(conclude_after=0, abort_after=0), made.stuck(times=50))
    path, page = tmp_path / "spans.jsonl", tmp_path / "report.html"
    path.write_text("".join(json.dumps(line) + "\n" for line in one_by_one(spans)))
    assert main(["replay", str(path), "--html", str(page)]) == 0
    out = capfd.readouterr().out
    assert out.startswith("1 run, 50 calls\n")
    (row,) = [line.split() for line in out.splitlines() if line.startswith("unlabelled")]
    assert row[1:6] == ["1", "1", "1", "1", "1"]
    assert '"totals":{"turns":1,"calls":50,"looping":1,"kept_out":48}' in page.read_text()


def test_what_is_held_is_bounded():
    """The number of held spans is bounded, however many turns are open. Late spans are counted."""
    spans, _ = exported(Policy(), made.run("many", *[made.stuck(times=2)["turns"][0]["calls"] for _ in range(50)]))
    lines = one_by_one(spans)
    window = SpanBuffer([PolicyJudge(Policy())], most_held=10)
    for line in [*lines[::2], *lines[1::2]]:
        for span in otlp.spans_of(line, window.ancestry):
            list(window.add(span))
            assert window._held <= 10
    assert window.late > 0


def test_the_command_reads_a_collectors_file(tmp_path, capfdbinary):
    """Each turn is one JSON line. The notes name the modes that cannot be judged from fingerprints."""
    spans, _ = exported(Policy(), made.stuck())
    path = tmp_path / "traces.jsonl"
    path.write_text(json.dumps({"resourceSpans": spans}) + "\n")
    assert main(["replay", "--json", str(path)]) == 0
    out, err = capfdbinary.readouterr()
    (line,) = map(json.loads, out.splitlines())
    found = [(trip["call"], trip["action"]) for trip in line["trips"]]
    assert found == [(1, "nudge"), (2, "block"), (3, "block")]
    assert b"similar_query: not judged where spans hold fingerprints and no queries (turns: 1)." in err
    assert b"judged by the comparisons that the guard recorded" in err


def span(attributes: dict[str, Any], name: str = "tool", at: int = 0, **more: Any) -> dict[str, Any]:
    """Make a span as JSON."""
    pairs = [{"key": key, "value": {"stringValue": value}} for key, value in attributes.items()]
    times = {"startTimeUnixNano": str(at * SECOND), "endTimeUnixNano": str(at * SECOND + 1)}
    return {"traceId": "t1", "spanId": f"s{at}", "name": name, "attributes": pairs, **times, **more}


def lines_of(*spans: dict[str, Any]) -> list[Any]:
    return [{"resourceSpans": [{"scopeSpans": [{"scope": {"name": "other"}, "spans": list(spans)}]}]}]


def openinference(at: int, result: str = "same", **more: Any) -> dict[str, Any]:
    message = json.dumps({"content": result, "tool_call_id": f"call-{at}", "type": "tool"})
    said = {
        "openinference.span.kind": "TOOL",
        "tool.name": "search",
        "input.value": '{"q": "x"}',
        "output.value": message,
    }
    return span(said, "search", at, **more)


def openllmetry(at: int, result: str = "same") -> dict[str, Any]:
    given = json.dumps({"inputs": {"q": "x"}, "kwargs": {"tool_call_id": f"call-{at}"}, "tags": []})
    came = json.dumps({"output": result, "kwargs": {"name": f"run {at}"}})
    said = {"traceloop.span.kind": "tool", "traceloop.entity.name": "search"}
    return span({**said, "traceloop.entity.input": given, "traceloop.entity.output": came}, "search.tool", at)


def genai(at: int, result: str = "same") -> dict[str, Any]:
    said = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "search"}
    return span({**said, "gen_ai.tool.call.arguments": '{"q": "x"}', "gen_ai.tool.call.result": result}, "x", at)


def request(at: int, lasts: int = 40, **more: Any) -> dict[str, Any]:
    """Make the span of a model request that ends at this second."""
    times = {"startTimeUnixNano": str((at - lasts) * SECOND), "endTimeUnixNano": str(at * SECOND)}
    return {**span({"gen_ai.operation.name": "chat"}, "chat", at), "spanId": f"m{at}", **times, **more}


@pytest.mark.parametrize(
    ("requests", "actions"),
    [
        ([request(141), request(182)], ["nudge", "block"]),
        ([request(141)], ["nudge"]),
        ([request(141), request(182, 20)], ["nudge"]),  # the agent waited for 20 seconds besides
        ([request(141), request(172, 30)], ["nudge"]),
        ([request(141), request(182), request(181, 39)], ["nudge", "block"]),  # of a framework and of its client
        ([request(141), {**request(182), "startTimeUnixNano": "0"}], ["nudge"]),
        ([request(141), {**request(182), "endTimeUnixNano": "0"}], ["nudge"]),
        ([request(141), {**request(182), "traceId": "t2"}], ["nudge"]),  # of another turn
    ],
)
@pytest.mark.parametrize("shuffled", [False, True])
def test_requests_of_others_are_no_wait(requests, actions, shuffled):
    """The third equal call is refused if the model thought since the one before, in whatever order spans arrive."""
    spans = [*(genai(at) for at in (100, 141, 182)), *requests]
    if shuffled:
        random.Random(SEED).shuffle(spans)
    assert [action for *_, action in judged(lines_of(*spans), Policy())["t1"]] == actions


@pytest.mark.parametrize(("agent", "actions"), [({}, ["nudge"]), ({"gen_ai.agent.name": "a"}, ["nudge", "block"])])
def test_the_requests_of_a_tool_are_no_thought_of_its_agent(agent, actions):
    """They are if an agent is around them: then its calls are of the same conversation."""
    talk = {"gen_ai.conversation.id": "talk", "gen_ai.operation.name": "invoke_agent" if agent else "step"}
    spans = [
        {**span(talk, at=10), "spanId": "run"},
        {**span({"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "ask"}, at=20), "parentSpanId": "run"},
        {**span({**talk, **agent}, at=30), "spanId": "inner", "parentSpanId": "s20"},
        request(141, parentSpanId="inner"),
        request(182, parentSpanId="inner"),
        *({**genai(at), "parentSpanId": "inner"} for at in (100, 141, 182)),
    ]
    (found,) = judged(lines_of(*spans), Policy()).values()
    assert [action for *_, action in found] == actions


def test_a_request_counts_in_the_part_of_its_turn_that_it_is_in(monkeypatch):
    """A long trace is judged in parts, and a request that came before is held until then."""
    monkeypatch.setattr("otel_loopguard.cli.replay.span_buffer.MOST_OF_A_TURN", 4)
    soon, after_a_wait = (141, 182, 223, 264), 4_000
    spans = [*map(request, (*soon, after_a_wait + 41)), *map(genai, (100, *soon, after_a_wait, after_a_wait + 41))]
    (found,) = judged(lines_of(*spans), Policy()).values()
    assert [action for *_, action in found] == ["nudge", "block", "block", "block", "nudge", "block"]


@pytest.mark.parametrize("make", [openinference, openllmetry, genai])
def test_tool_spans_of_others(make):
    """Their arguments and results are judged without the envelope, whose ids differ each time."""
    assert judged(lines_of(*map(make, range(3))), Policy()) == {
        "t1": [("search", "generic_repeat", "nudge"), ("search", "generic_repeat", "block")]
    }
    assert judged(lines_of(*(make(at, f"text {at} {'abc'[at]}") for at in range(3))), Policy()) == {"t1": []}


def test_spans_that_overlap_are_one_try():
    """A call that began before an equal one ended is no repeat of it. Without an end it is one."""
    spans = [{**genai(at), "endTimeUnixNano": str(9 * SECOND)} for at in (1, 2, 3)]
    assert judged(lines_of(*spans), Policy()) == {"t1": []}
    for end in ("0", str(SECOND // 2)):  # not recorded; before the begin
        found = judged(lines_of(*({**one, "endTimeUnixNano": end} for one in spans)), Policy())
        assert [action for *_, action in found["t1"]] == ["nudge", "block"]


def test_the_order_of_our_spans_counts_if_clocks_differ():
    """A turn of several processes is judged by the index of its calls, although one clock is an hour behind."""
    spans, trips = exported(Policy(), made.stuck())
    for position, one in enumerate(spans[0]["scopeSpans"][0]["spans"]):
        at = 3_600 * SECOND * (position % 2 == 0) + position * SECOND
        one |= {"startTimeUnixNano": str(at + 1), "endTimeUnixNano": str(at + SECOND // 2)}
    assert judged(one_by_one(spans), Policy()) == trips
    assert any(trips.values())


@pytest.mark.parametrize("hidden", ["__REDACTED__", None])
def test_unknown_arguments_are_never_equal(hidden):
    """A call whose arguments are redacted or missing is not judged."""
    said = {"openinference.span.kind": "TOOL", "tool.name": "search", "output.value": "same"}
    said |= {"input.value": hidden} if hidden else {}
    found = judged(lines_of(*(span(said, "search", at) for at in range(4))), Policy())
    assert not any(mode == "generic_repeat" for _, mode, _ in found["t1"])


@pytest.mark.parametrize("hidden", ["__REDACTED__", None])
@pytest.mark.parametrize("differ", [False, True])
def test_unknown_results_are_never_equal(hidden, differ):
    """A result that is missing equals no other, whether the arguments are equal or not."""
    said = {"openinference.span.kind": "TOOL", "tool.name": "search"} | ({"output.value": hidden} if hidden else {})
    asked = [{**said, "input.value": json.dumps({"q": at if differ else "x"})} for at in range(12)]
    found = judged(lines_of(*(span(one, "search", at) for at, one in enumerate(asked))), Policy())
    assert not any(action == "block" for _, _, action in found["t1"])
    assert not any(mode in ("generic_repeat", "error_repeat") for _, mode, _ in found["t1"])


def test_a_time_beyond_64_bits_is_a_broken_line(tmp_path, capfd):
    """The line is named, and the rest is read."""
    path = tmp_path / "spans.jsonl"
    far = {**openinference(0), "startTimeUnixNano": str(10**400)}
    path.write_bytes(
        b"".join(json.dumps(line).encode() + b"\n" for line in [*lines_of(far), *lines_of(openinference(1))])
    )
    assert main(["replay", "--json", str(path)]) == 3
    said = capfd.readouterr()
    assert "spans.jsonl:1: not of the right shape" in said.err
    assert len(said.out.splitlines()) == 1


def test_failed_spans_are_errors():
    """A span with the status error is a call that failed."""
    failing = [openinference(at, f"no such thing {at}", status={"code": 2}) for at in range(3)]
    for at, one in enumerate(failing):
        one["attributes"][2]["value"]["stringValue"] = json.dumps({"q": "abc"[at]})
    assert judged(lines_of(*failing), Policy()) == {"t1": [("search", "error_repeat", "nudge")]}


def test_a_call_is_counted_once():
    """A span inside one of the same tool is left out, and so are spans of others if ours are in the trace."""
    outer = [openinference(at) for at in (0, 3, 6)]
    inner = [{**genai(at + 1), "parentSpanId": f"s{at}"} for at in (0, 3, 6)]
    assert len(judged(lines_of(*outer, *inner), Policy())["t1"]) == 2
    own, trips = exported(Policy(), made.stuck())
    trace = own[0]["scopeSpans"][0]["spans"][0]["traceId"]
    theirs = [{**openinference(at), "traceId": trace} for at in range(3)]
    found = judged([{"resourceSpans": own}, *lines_of(*theirs)], Policy())
    assert found.pop(trace) == []
    assert found == trips


def test_a_trace_whose_calls_the_guard_has_is_no_run(tmp_path, capfd):
    """Spans of other instrumentations around the calls of the guard are neither counted nor called undecided."""
    own, _ = exported(Policy(), made.stuck())
    ids = {span["traceId"] for span in own[0]["scopeSpans"][0]["spans"]}
    theirs = [{**openinference(at), "traceId": trace} for at, trace in enumerate(ids)]
    path = tmp_path / "spans.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in ({"resourceSpans": own}, *lines_of(*theirs))))
    assert main(["replay", str(path)]) == 0
    out = capfd.readouterr().out
    assert out.startswith("1 run, 4 calls\n")
    assert "of other instrumentations" not in out


@pytest.mark.parametrize("conclude_after", [7, 0])
def test_calls_read_in_model_requests_are_never_refused_in_a_replay(conclude_after):
    """Of a loop that was only observed, the replay has the nudges, the conclusion and the end of the live guard."""
    live, watched = Policy(conclude_after=conclude_after), Policy(action="observe")
    with guarded(live) as recording, Server(Looping(READ, stubborn=True)).running() as server:
        agent = Agent(server)
        with agent.client, suppress(ToolLoopError):  # the error refers to the frames, and these to the client's sockets
            agent.ask()
        actions = [str(trip.action) for trip in recording.trips]
    with guarded(watched) as recording, Server(Looping(READ, rounds=40)).running() as server:
        Agent(server).ask()
        spans = MessageToDict(encode_spans(recording.spans))["resourceSpans"]
    (found,) = judged(one_by_one(spans), live).values()
    assert [action for *_, action in found] == actions + ["abort"] * (len(found) - len(actions))
    assert actions[-1] == "abort"


# --- conversations ---------------------------------------------------------------------------------------------------


def over_turns(lines: list[Any], policy: Policy) -> list[tuple[str, str, int]]:
    """Replay lines; return the mode, the action and the count of each trip, in the order of the turns."""
    held = SpanBuffer([PolicyJudge(policy)])
    found = [span for line in lines for span in otlp.spans_of(line, held.ancestry)]
    turns = [turn for span in found for turn in held.add(span)] + list(held.rest())
    return [(trip.mode, str(trip.action), trip.count) for turn in turns for trip in turn.trips[0]]


@pytest.mark.parametrize("shuffled", [False, True])
def test_our_spans_of_a_conversation_replay_to_its_reports(shuffled):
    """Results that differ in a time have other fingerprints, and a sub-agent's turn is none: the guard says so."""
    policy, seconds = Policy(scope="conversation"), count(10)

    def look(path: str) -> str:
        return f"{path}: all is well at 2026-11-23T10:00:{next(seconds):02d}Z"

    def task() -> str:
        with loopguard.turn():
            return loopguard.call("look", {"path": "b"}, look) and "done"

    reported = []
    with guarded(policy) as recording:
        for _ in range(26):
            with loopguard.turn("a heartbeat"):
                loopguard.call("look", {"path": "a"}, look)
                loopguard.call("run_agent", {"task": "b"}, lambda **_: task())
        for one in recording.spans:
            found = [event.attributes for event in one.events]
            reported += [(each["loopguard.mode"], each[ACTION], each["loopguard.count"]) for each in found]
            assert all(each["loopguard.trip.scope"] == "conversation" for each in found)
        lines = one_by_one(MessageToDict(encode_spans(recording.spans))["resourceSpans"])
    if shuffled:
        random.Random(SEED).shuffle(lines)
    assert reported == [("no_novelty", "observe", 10), ("no_novelty", "observe", 20)]
    assert over_turns(lines, policy) == reported
    assert over_turns(lines, Policy()) == []


def beats(number: int) -> list[dict[str, Any]]:
    """The spans of a heartbeat by another instrumentation: each beat is a trace, whose agent names the conversation."""
    found = []
    for beat in range(number):
        of_agent = {"gen_ai.operation.name": "invoke_agent", "gen_ai.conversation.id": "a heartbeat"}
        ids = {"traceId": f"t{beat:02d}"}
        found += [
            {**genai(60 * beat), **ids, "parentSpanId": f"agent{beat}"},
            span(of_agent, "invoke_agent", 60 * beat, **ids, spanId=f"agent{beat}"),
        ]
    return found


@pytest.mark.parametrize("shuffled", [False, True])
def test_the_turns_of_a_conversation_are_told_apart_where_it_is_remembered(shuffled):
    """The run of an agent is a turn, and a conversation has many."""
    spans = beats(25)
    if shuffled:
        random.Random(SEED).shuffle(spans)
    reports = [("no_novelty", "observe", 10), ("no_novelty", "observe", 20)]
    assert over_turns(lines_of(*spans), Policy(scope="conversation")) == reports
    assert ("generic_repeat", "nudge", 2) in over_turns(lines_of(*spans), Policy())
