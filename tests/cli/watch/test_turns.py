"""Spans that come in any order within the window get the verdicts of ``replay``; late ones and copies are counted."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from otel_loopguard.cli.replay.judge import PolicyJudge
from otel_loopguard.cli.replay.span_buffer import JudgedTurn, SpanBuffer
from otel_loopguard.cli.watch.turns import MOST_REQUESTS, WatchedTurns
from otel_loopguard.engine.policy.policy import Policy
from otel_loopguard.shield import Shield
from otel_loopguard.spans import otlp
from otel_loopguard.spans.ancestry import Ancestry
from otel_loopguard.spans.otlp_protobuf import spans_of

from .messages import BEGIN, SECOND, Kept, Told, agent, as_json, call, message, request, span, vercel_call

if TYPE_CHECKING:
    from collections.abc import Iterable

    from opentelemetry.proto.trace.v1.trace_pb2 import Span

WINDOW = 10.0
DEFAULT = Policy()


class Live:
    """Live turns, with the time of a test."""

    def __init__(self, turns_by: str = "conversation", policy: Policy = DEFAULT, **bounds: Any) -> None:
        self.kept = Kept()
        self.ancestry = Ancestry(turns_by)
        self.turns = WatchedTurns(
            PolicyJudge(policy), self.ancestry, self.kept, Shield(), **{"window": WINDOW, **bounds}
        )

    def add(self, *spans: Span, now: float = 0.0) -> None:
        """Add the spans of one message, then judge those whose time is over."""
        found = list(spans_of(message(*spans), self.ancestry))
        self.turns.add(found, now)
        self.turns.advance(now)

    def all(self, *arrivals: tuple[float, Span]) -> Kept:
        """Add each span at its time, and let the time pass between; return the report, after all are judged."""
        for now, one in arrivals:
            self.turns.advance(now)
            self.add(one, now=now)
        self.turns.close_all()
        return self.kept


BUDGETS = Policy(budget={"turn": {"requests": 3, "input_tokens": 4_000}})


def replayed(spans: Iterable[Span], policy: Policy = DEFAULT) -> list[Told]:
    """Return the trips of a replay of these spans."""
    held = SpanBuffer([PolicyJudge(policy)])
    turns: list[JudgedTurn] = []
    for one in otlp.spans_of(as_json(message(*spans)), held.ancestry):
        if isinstance(one, otlp.ModelSpan):
            held.add_request(one)
        else:
            turns += held.add(one)
    turns += held.rest()
    return [
        Told(turn.run_id, trip.call, trip.tool, trip.mode, trip.count, trip.limit)
        for turn in turns
        for trip in turn.trips[0]
    ]


# --- any order --------------------------------------------------------------------------------------------------------

times = st.sampled_from((30, 150)).flatmap(lambda most: st.floats(0, most)).map(lambda second: round(second, 3))


@st.composite
def runs(draw: st.DrawFn) -> list[Span]:
    """Draw the spans of some agents: nested and parallel calls and model requests, with and without conversations."""
    spans, parents = [], [0]
    for number in range(1, 4):
        trace = draw(st.integers(1, 2))
        talk = draw(st.sampled_from(({}, {}, {"gen_ai__conversation__id": "talk"})))
        kind = draw(st.sampled_from((agent, lambda number, **more: span("step", number, **more))))
        spans.append(kind(number, trace=trace, parent=draw(st.sampled_from(parents)), **talk))
        parents.append(number)
    calls = [
        draw(st.sampled_from((call, vercel_call)))(
            number,
            tool=draw(st.sampled_from(("search", "search", "write_file"))),
            arguments=draw(st.sampled_from(('{"q":"x"}', '{"q":"x"}', '{"q":"y"}'))),
            trace=draw(st.integers(1, 2)),
            parent=draw(st.sampled_from((*parents, number - 1))),
            at=draw(times),
            lasts=draw(st.sampled_from((0.0, 0.5, 5.0))),
        )
        for number in range(10, 10 + draw(st.integers(3, 12)))
    ]
    thoughts = [
        request(
            number,
            trace=draw(st.integers(1, 2)),
            parent=draw(st.sampled_from((*parents, 10, 11))),
            at=draw(times),
            lasts=draw(st.sampled_from((0.5, 12.0, 40.0))),
            gen_ai__usage__input_tokens=draw(st.sampled_from((900, 3_000))) + number,  # equal ones may be copies
        )
        for number in range(50, 50 + draw(st.integers(0, 8)))
    ]
    return spans + calls + thoughts


@pytest.mark.parametrize("policy", [DEFAULT, BUDGETS], ids=["default", "budgets"])
@given(data=st.data())
@settings(max_examples=100, deadline=None)
def test_any_order_within_the_window_gives_the_verdicts_of_replay(data: st.DataObject, policy: Policy) -> None:
    """Whatever the order in which spans arrive, live trips are those of a replay, if all arrive within the window."""
    spans = data.draw(runs())
    delays = data.draw(st.lists(st.floats(0, WINDOW * 0.99), min_size=len(spans), max_size=len(spans)))
    live = Live(policy=policy)
    kept = live.all(*sorted(zip(delays, spans, strict=True), key=lambda pair: pair[0]))

    assert Counter(kept.trips) == Counter(replayed(spans, policy))
    assert not kept.fates["late"]


def test_a_loop_that_lasts_longer_than_the_window_is_judged_as_it_goes() -> None:
    """Each trip is reported when the window of its span is over, long before the loop ends."""
    live = Live()
    for number in range(1, 40):
        live.add(call(number), now=float(number))
    live.turns.advance(39.0)

    assert [trip.call for trip in live.kept.trips] == list(range(1, 29))
    live.turns.close_all()
    assert live.kept.trips == replayed([call(number) for number in range(1, 40)])


def test_a_late_span_is_judged_and_counted() -> None:
    """A span that began before one that was judged is judged after it."""
    kept = Live().all((0.0, call(2)), (20.0, call(3)), (40.0, call(1)))

    assert kept.fates == {"judged": 3, "late": 1}
    assert len(kept.calls) == 3
    assert kept.trips[-1].count == 3


# --- spending ---------------------------------------------------------------------------------------------------------


def asked(number: int, **more: Any) -> Span:
    """A model request of 100 tokens, which ends when the call of the next number begins."""
    tokens = {"gen_ai__usage__input_tokens": 90, "gen_ai__usage__output_tokens": 10}
    return request(100 + number, at=number + 0.6, lasts=0.4, **tokens, **more)


def test_a_budget_is_judged_while_the_spans_come() -> None:
    """By the requests that ended before a call. The span of a client inside that of a framework is the same request."""
    spans = [
        one for number in range(1, 6) for one in (asked(number - 1), call(number, arguments=f'{{"q":"{number}"}}'))
    ]
    spans.append(asked(5))
    inner = request(200, parent=100, at=0.7, lasts=0.2, gen_ai__usage__input_tokens=90)
    kept = Live(policy=Policy(budget={"turn": {"tokens": 400}})).all(
        *((one.start_time_unix_nano / 1e9 - BEGIN / 1e9, one) for one in [inner, *spans])
    )

    assert [(trip.call, trip.mode, trip.count) for trip in kept.trips] == [
        (2, "run_budget", 300),
        (3, "run_budget", 400),
        (4, "run_budget", 500),
    ]
    (ledger,) = kept.ledgers
    assert (ledger.requests, ledger.calls, ledger.tokens) == (6, 5, 600)


# --- thought ----------------------------------------------------------------------------------------------------------


def slow(number: int, *, parent: int = 0) -> list[Span]:
    """Make a request of 40 seconds and the call that it writes, which takes a second: in the order of their ends."""
    return [
        request(100 + number, parent=parent, at=number * 41.0, lasts=40.0),
        call(number, parent=parent, at=number * 41.0 + 40, lasts=1.0),
    ]


def ended(*spans: Span) -> list[tuple[float, Span]]:
    """Return each span with its end, in seconds since ``BEGIN``: an exporter sends it then."""
    return [((one.end_time_unix_nano - BEGIN) / SECOND, one) for one in spans]


@pytest.mark.parametrize("parent", [0, 9])
def test_thought_is_no_wait_whenever_its_agent_becomes_known(parent: int) -> None:
    """The third equal call of a model that takes 40 seconds for each is a trip; of an agent that waits it is none."""
    spans = [one for number in range(1, 4) for one in slow(number, parent=parent)]
    spans[-1].end_time_unix_nano += 60 * SECOND  # the window of the request before it is over when it ends
    run = [agent(9, at=40.0, lasts=184.0)] if parent else []
    calls = [one for one in spans if one.name != "chat"]

    kept = Live().all(*ended(*spans, *run))
    assert kept.trips == [trip._replace(turn=kept.trips[0].turn) for trip in replayed([*spans, *run])]
    assert [trip.call for trip in kept.trips] == [1, 2]
    assert [trip.call for trip in Live().all(*ended(*calls, *run)).trips] == [1]


def test_thought_in_a_tool_is_no_thought_of_its_agent() -> None:
    """A tool may ask a model, too."""
    spans = [one for number in range(1, 4) for one in slow(number, parent=7)]
    spans.append(call(7, "ask", lasts=200.0))
    assert [trip.call for trip in Live().all(*((0.0, one) for one in spans)).trips] == [2]
    assert replayed(spans) == Live().all(*((0.0, one) for one in spans)).trips


def test_requests_without_a_turn_make_none() -> None:
    """After the window a request is dropped, unless its turn has a call by then."""
    live = Live()
    live.add(*(request(number, trace=number) for number in range(1, 6)))
    live.add(call(6, trace=6, at=0.0), request(7, trace=6, at=2.0))
    assert len(live.turns) == 1
    live.turns.advance(WINDOW)
    assert (live.turns.waiting, len(live.turns)) == (0, 1)
    assert [len(held) for held in live.turns._requests.values()] == [1]
    live.turns.close_all()
    assert not live.turns._requests


def test_the_number_of_requests_between_two_calls_is_bounded() -> None:
    """The oldest are forgotten."""
    live = Live()
    live.add(call(1, at=0.0))
    live.add(*(request(number, at=float(number)) for number in range(2, MOST_REQUESTS + 9)))
    assert [len(held) for held in live.turns._requests.values()] == [MOST_REQUESTS]
    live.turns.advance(WINDOW)
    assert [len(held) for held in live.turns._requests.values()] == [MOST_REQUESTS]


# --- counted once -----------------------------------------------------------------------------------------------------


def test_a_span_that_comes_twice_is_judged_once() -> None:
    """A span is known by its trace and its id: a copy that comes later is left out."""
    kept = Live().all((0.0, call(1)), (1.0, call(1)), (60.0, call(1)), (60.0, call(1, trace=2)))

    assert kept.fates == {"judged": 2, "duplicate": 2}


def test_a_call_with_two_spans_is_judged_once() -> None:
    """The span inside a span of the same tool is of the same call."""
    kept = Live().all((0.0, call(2, parent=1)), (1.0, call(1, lasts=3.0)))

    assert kept.fates == {"judged": 1, "inner": 1}


def test_traces_of_guarded_programs_are_left_out() -> None:
    """A program with the guard in it reports its own trips: neither its spans are judged nor others of their trace."""
    own = call(1, loopguard__turn__id="t", loopguard__arguments_hash="blake2b-64:00")
    kept = Live().all((0.0, call(2)), (1.0, own), (2.0, call(3)), (2.0, call(4, trace=2)))

    assert kept.fates == {"judged": 1, "guarded": 2}


# --- turns ------------------------------------------------------------------------------------------------------------


def test_an_agents_span_that_comes_after_its_calls_makes_their_turn() -> None:
    """Three calls of two agents each, in one trace, are two turns, though the agents' spans come last."""
    calls = [(0.0, call(number, parent=1 if number % 2 else 2)) for number in range(11, 17)]
    kept = Live().all(*calls, (5.0, agent(1)), (5.0, agent(2)))

    assert sorted(name.source for name, _ in kept.turns) == ["agent_span", "agent_span"]
    assert {trip.turn for trip in kept.trips} == {name.id for name, _ in kept.turns}


def test_a_run_that_lasts_longer_than_the_window_is_one_turn_and_the_next_run_another() -> None:
    """Its calls are judged before the agent's span comes, and go on with it. The next run of the trace begins anew."""
    live = Live()
    first = [(20.0 * number, call(10 + number, parent=1)) for number in range(6)]
    second = [(200.0 + 20 * number, call(20 + number, parent=2)) for number in range(2)]
    kept = live.all(*first, (105.0, agent(1)), *second)

    assert [trip.call for trip in kept.trips] == [1, 2, 3, 4, 5, 1]
    assert [calls for _, calls in kept.turns] == [6, 2]


def test_calls_without_an_agent_are_not_those_of_a_later_agent() -> None:
    """Their trace was known to its root: an agent that comes later has a turn of its own."""
    live = Live()
    live.add(span("request", 9), call(10, parent=9), call(11, parent=9), now=0.0)
    live.turns.advance(20.0)
    live.add(agent(1, parent=9), call(12, parent=1), now=50.0)
    live.turns.close_all()

    assert sorted((name.source, calls) for name, calls in live.kept.turns) == [("agent_span", 1), ("trace", 2)]


@pytest.mark.parametrize(
    ("turns_by", "turns"),
    [("conversation", ["conversation"]), ("agent_span", ["agent_span"] * 2), ("trace", ["trace"] * 2)],
)
def test_the_widest_source_of_turns_can_be_chosen(turns_by: str, turns: list[str]) -> None:
    """One conversation over two traces is one turn, unless turns are asked for by agent or by trace."""
    spans = [
        one
        for trace in (1, 2)
        for one in (agent(1, trace=trace, gen_ai__conversation__id="talk"), call(2, trace=trace, parent=1))
    ]
    kept = Live(turns_by).all(*((0.0, one) for one in spans))

    assert [name.source for name, _ in kept.turns] == turns


# --- bounds -----------------------------------------------------------------------------------------------------------


def test_the_number_of_turns_is_bounded() -> None:
    """The turn without spans for the longest time is closed first, and begins again with its next span."""
    live = Live(most_turns=3)
    for number, trace in enumerate((1, 2, 3, 1, 4, 5)):
        live.add(call(number, trace=trace), now=number * 100.0)
        live.turns.advance(number * 100.0 + WINDOW)
        assert len(live.turns) <= 3
    assert [int(name.id, 16) for name, _ in live.kept.turns] == [2, 3]


def test_the_number_of_waiting_spans_is_bounded() -> None:
    """The oldest span is judged before its time if too many wait: none is dropped."""
    live = Live(most_waiting=5)
    for number in range(1, 21):
        live.add(call(number, trace=number))
        assert live.turns.waiting <= 5
    live.turns.close_all()

    assert live.kept.fates == {"judged": 20}


def test_the_number_of_remembered_spans_is_bounded() -> None:
    """The spans around calls are forgotten, the oldest first."""
    ancestry = Ancestry(most=10)
    for number in range(1, 101):
        list(spans_of(message(call(number)), ancestry))
        assert len(ancestry) <= 10


def test_a_span_that_cannot_be_judged_is_dropped_and_the_others_are_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    """A fault with one span is counted, and other spans are judged."""
    live = Live()
    read = otlp.ToolSpan.read
    monkeypatch.setattr(otlp.ToolSpan, "read", lambda one: 1 / 0 if one.tool == "bad" else read(one))
    kept = live.all((0.0, call(1)), (1.0, call(2, tool="bad")), (2.0, call(3)))

    assert kept.fates == {"judged": 2, "dropped": 1}


def test_turns_that_repeat_each_other_are_reported_where_conversations_are_remembered():
    """The run of an agent is a turn then, and the reports are those of replay."""
    policy, spans = Policy(scope="conversation"), []
    for beat in range(25):
        where: dict[str, Any] = {"trace": beat + 1, "at": 60.0 * beat}
        spans += [agent(1, **where, lasts=2.0, gen_ai__conversation__id="a heartbeat"), call(2, parent=1, **where)]
    live = Live(PolicyJudge(policy).turns_by, policy)
    found = live.all(*((one.end_time_unix_nano / 1e9 - 1_700_000_000, one) for one in spans)).trips
    assert [(trip.mode, trip.count) for trip in found] == [("no_novelty", 10), ("no_novelty", 20)]
    assert found == replayed(spans, policy)
    assert live.kept.firsts == ["no", "no"]


ANSWER = "I have run the tests, and everything is done as you asked me to."
HOOK = "The tests still fail, go on."


def stuck_requests(rounds: int, answer: str = ANSWER) -> list[Span]:
    """Requests of a harness whose hook and model answer each other, with messages as the conventions have them."""
    messages, found = [{"role": "user", "parts": [{"type": "text", "content": "Run the tests."}]}], []
    for number in range(1, rounds + 1):
        of_request = {"gen_ai__input__messages": json.dumps(messages), "gen_ai__usage__input_tokens": 9}
        found.append(request(number, at=float(number), **of_request))
        messages += [
            {"role": "assistant", "parts": [{"type": "text", "content": answer.format(number)}]},
            {"role": "user", "parts": [{"type": "text", "content": HOOK}]},
        ]
    return found


def test_loops_of_words_are_found_as_in_replay() -> None:
    """The turn has no call. What would have been done is told; nothing was."""
    spans = stuck_requests(8)
    kept = Live().all(*((float(number), one) for number, one in enumerate(spans)))
    in_replay = [(one.mode, one.count) for one in replayed(spans)]
    assert [(mode, count) for _, mode, count, _ in kept.asked_trips] == in_replay != []
    assert {verdict for *_, verdict in kept.asked_trips} == {"nudge", "abort"}


def test_answers_that_differ_are_no_loop_of_words() -> None:
    """Nor are requests inside of another one, which is the same request."""
    assert Live().all(*((0.0, one) for one in stuck_requests(8, ANSWER + " {}"))).asked_trips == []
    inner = [request(100 + n, parent=n, at=n + 0.1, lasts=0.1) for n in range(1, 9)]
    spans = [*stuck_requests(2), *inner]
    assert Live().all(*((0.0, one) for one in spans)).asked_trips == []


def test_a_fault_in_the_texts_keeps_no_call_from_being_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is counted."""
    live = Live()
    monkeypatch.setattr(live.turns._judge.texts, "asked", lambda *_: 1 / 0)
    kept = live.all(*((0.0, one) for one in (*stuck_requests(3), *(call(number) for number in range(10, 14)))))
    assert len(kept.calls) == 4
