"""Calls that the fast path leaves out would have made no trip: compared with a judge that leaves nothing out."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING
from unittest import mock

import orjson
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from otel_loopguard.cli.replay import counted_turn, fast_path, runs
from otel_loopguard.cli.replay.judge import PolicyJudge
from otel_loopguard.engine.policy.policy import Policy, Rule, ToolContract
from otel_loopguard.engine.policy.schema import MODES, OF_MODES
from otel_loopguard.engine.values.canonical import canonical
from otel_loopguard.engine.words import Kind
from otel_loopguard.policy_files.load import load_preset

from . import made

if TYPE_CHECKING:
    import random

THOROUGH = settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck))

TOOLS = (
    "read_file", "search", "write_file", "get_status", "wait", "think", "run_shell", "finish", "transfer_to_sales",
    "call_tool", "thing",
)  # fmt: skip
ARGUMENTS = (
    None, "", " \t", {}, "a", " a ", "{'q': 1}", '{"q": 1.0}', {"q": 1}, {"q": 1.0}, {"q": -0.0}, {"q": 0}, {"q": "1"},
    {"q": "a b"}, {"q": " a \t b"}, {"q": "a\nb"}, {"query": "a\nb"}, {"query": "a b"}, {"q": "[1]"}, {"q": [1]},
    {"q": [1.0]}, {"q": " (1, )"}, {"q": 'say "[1]"'}, {"q": "\x7f"}, {"q": '\x7f","search",{"q": 1}],["\x7f'},
    {"a": 1, "q": 2}, {"q": 2, "a": 1}, {"action": "think"}, {"action": "poll"}, {"command": "ls"},
    {"command": "sleep 5"}, {"query": "select 1"}, {"name": "search", "arguments": {"q": 1}},
)  # fmt: skip
RESULTS = (
    "ok", "ok", "nothing", "queued", "Error: no", "Error: no 2", "Error 503: unavailable", '{"isError": true}',
    "no match for item 1 among " + "all documents " * 5, "no match for item 2 among " + "all documents " * 5,
    '{"isError": false}', "took 3.2s", "took 4.1s", "x" * 2_000, None, {"isError": True}, ["ok"], 3,
)  # fmt: skip
HASHES = (None, None, None, "ab" * 8, "AB" * 8, "0xab", "ab", "ab" * 8 + "cd", "sha 1", "ok")


def run(rng: random.Random) -> dict:
    """A run of arguments that are hard to distinguish, or that all differ, and of results that seldom differ."""
    number, turns = 0, []
    for _ in range(rng.randint(1, 2)):
        tools, results = rng.sample(TOOLS, rng.choice((1, 2, 4))), rng.sample(RESULTS, rng.choice((1, 2, 3, 8)))
        hashes, repeats, timed = rng.choice(((None,), HASHES)), rng.choice((0, 0, 0.1, 1)), rng.random() < 0.5
        calls, now = [], 0
        for index in range(rng.randint(1, 12)):
            number += 1
            arguments = (
                rng.choice(ARGUMENTS) if rng.random() < repeats else {"q": rng.choice((number, f"item {number}"))}
            )
            arguments = (
                {"action": rng.choice(("think", "poll", "read")), "q": number} if rng.random() < 0.1 else arguments
            )
            call = made.call(rng.choice(tools), arguments, "", result_hash=rng.choice(hashes))
            call |= {"result": rng.choice(results), "is_error": rng.choice((False, False, False, None, True))}
            call |= {"step": index // 2} if rng.random() < 0.3 else {}
            if timed:
                now += rng.choice((0, 1, 12, 40, -5))
                call |= rng.choice(
                    ({"at": now}, {"at": now, "ended": now + rng.choice((0, 1, 30, 90, -1))}, {"ended": now}, {})
                )
            calls.append(call)
        turns.append(calls)
    return made.run("drawn", *turns, tools=rng.choice(((), TOOLS, TOOLS[:-1])))


COUNTS = ("nudge", "block", "no_news_nudge", "no_news_block", "abort", "nudge_any_result")


def rule(mode: str, **limits: float | None) -> Rule:
    """The rule of a mode, with those of the limits that the mode has."""
    return Rule(**{name: limit for name, limit in limits.items() if mode in OF_MODES.get(name, (mode,))})


def low(rng: random.Random, mode: str) -> Rule:
    """A rule with low limits, some of them off, some left as they are."""
    return rule(
        mode,
        **{name: rng.choice((None, 0, 1, 2, 3)) for name in COUNTS},
        nudge_at_share=rng.choice((None, 0.0, 0.5, 1.0)),
    )


SILENT = {mode: rule(mode, **dict.fromkeys((*COUNTS, "nudge_at_share"), 0)) for mode in MODES}


def counting(rng: random.Random) -> Policy:
    """A policy that counts calls, as most presets do."""
    order = rng.sample(COUNTING, rng.choice((1, 2, 3)))
    limits = {"nudge": rng.choice((0, 0, 2, 3)), "block": rng.choice((0, 2, 3)), "abort": rng.choice((None, None, 3))}
    contract = ToolContract(
        cap=rng.choice((None, None, 2)), query=rng.choice((None, "auto")), kind=rng.choice((None, None, "step")),
        reuse=rng.choice((None, None, True)),
    )  # fmt: skip
    return Policy(
        counting="calls", conclude_after=rng.choice((0, 0, 2)), abort_after=rng.choice((0, 0, 3)), order=order,
        modes={mode: rule(mode, **limits, nudge_at_share=rng.choice((0.0, 0.5))) for mode in order},
        action=rng.choice(("block", "block", "nudge", "abort", "off")), max_calls=rng.choice((0, 0, 5)),
        tools={rng.choice(("*", *TOOLS)): contract} if rng.random() < 0.7 else {}, window=rng.choice((0.0, 0.0, 60.0)),
        window_calls=rng.choice((0, 3)), records=rng.choice(("ran", "all")),
    )  # fmt: skip


COUNTING = (
    "unknown_tool_repeat", "poll_no_progress", "ping_pong", "generic_repeat", "similar_query", "retry_limit",
    "global_circuit_breaker",
)  # fmt: skip


def policy(rng: random.Random) -> Policy:
    """The default, or a policy with limits that runs come near to; mostly all modes but one are silent."""
    if rng.random() < 0.2:
        return Policy()
    if rng.random() < 0.4:
        return counting(rng)
    often = (*MODES, *("error_repeat", "same_answer") * 4)
    modes, mode, own = SILENT if rng.random() < 0.8 else {}, rng.choice(often), rng.choice(MODES)
    contract = ToolContract(
        cap=rng.choice((None, 1, 3)), query=rng.choice((None, "auto")), kind=rng.choice((None, None, "think", "poll")),
        reuse=rng.choice((None, True)), once=rng.choice((None, True)), modes={own: low(rng, own)},
    )  # fmt: skip
    return Policy(
        modes={**modes, mode: low(rng, mode)},
        tools={rng.choice(("*", *TOOLS)): contract} if rng.random() < 0.4 else {},
        counting=rng.choice(("results", "results", "calls")), max_calls=rng.choice((0, 0, 5)),
        order=rng.choice(((), (), ("generic_repeat", "error_repeat"), ("no_novelty", "global_circuit_breaker"))),
        window=rng.choice((0.0, 60.0)), records=rng.choice(("ran", "all")),
    )  # fmt: skip


@settings(THOROUGH, max_examples=3_000)
@given(st.randoms(use_true_random=True))
def test_leaving_plain_calls_out_changes_nothing(rng):
    """Without the plain calls, and on the straight ways, the trips are those of the general way."""
    drawn, chosen = run(rng), replace(policy(rng), hash_key=b"one")
    judge = PolicyJudge(chosen)
    found = runs.replay(runs.read(drawn), judge)
    assert found == runs.replay(runs.read(drawn), judge)  # the tools are known now
    with (
        mock.patch.multiple(fast_path, is_short_and_varied=_no, first_to_judge=_from_the_first, identities=_canonical),
        mock.patch.object(counted_turn, "replay", _gives_up),
        mock.patch.object(runs, "are_one_by_one", _no),
    ):
        assert found == runs.replay(runs.read(drawn), PolicyJudge(chosen)), f"{drawn} under {chosen}"


def _no(*_):
    return False


def _from_the_first(*_):
    return 0


def _gives_up(*_):
    return None


def _canonical(known, contracts):
    compared = [contracts.compared(limits.tool, arguments, kind) for limits, kind, arguments in known]
    return [canonical(arguments, fold_blanks=folds_blanks) for arguments, folds_blanks in compared]


json_values = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-20, 20),
        st.sampled_from((0.0, -0.0, 1.0, 10.0, 0.1, 1e15, 1e16, 1e300)),
        st.text(alphabet=" \t\n\r\\\"'tnr10.-,[]{}()ab\x7f\xe9", max_size=6),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.sampled_from(("a", "query", "n ")), inner, max_size=3)
    ),
    max_leaves=6,
)


CONTRACTS = PolicyJudge(Policy()).compiled.contracts


@settings(THOROUGH, max_examples=2_000)
@given(st.lists(st.tuples(json_values, st.sampled_from((Kind.READ, Kind.WRITE))), min_size=2, max_size=3))
def test_calls_are_the_same_if_their_canonical_forms_are(calls):
    """The quick check of arguments takes no two different calls for one, and no one call for two."""
    limits = PolicyJudge(Policy()).limits.of("search", CONTRACTS.tool("search", None))
    read = [(limits, kind, orjson.loads(orjson.dumps(arguments))) for arguments, kind in calls]
    found, expected = fast_path.identities(read, CONTRACTS), _canonical(read, CONTRACTS)
    assert [found.index(one) for one in found] == [expected.index(one) for one in expected]


@pytest.mark.parametrize("one", ARGUMENTS)
def test_equal_arguments_are_the_same_in_any_notation(one):
    """Arguments with the same canonical form are one call, however they are written."""
    limits = PolicyJudge(Policy()).limits.of("search", CONTRACTS.tool("search", None))
    for fold in (True, False):
        same = [other for other in ARGUMENTS if canonical(other, fold_blanks=fold) == canonical(one, fold_blanks=fold)]
        for other in same:
            kind = Kind.READ if fold else Kind.WRITE
            found = fast_path.identities([(limits, kind, one), (limits, kind, other)], CONTRACTS)
            assert found[0] == found[1]


def test_what_is_nested_too_deeply_is_looked_at_closely():
    """Arguments that orjson can read and not write are no fault."""
    deep = '{"turns": [{"calls": [' + ", ".join(
        f'{{"tool": "search", "args": {{"q": {"[" * 300}{n}{"]" * 300}}}, "result": "ok"}}' for n in (1, 1, 2)
    )
    found = runs.replay(runs.read(orjson.loads(deep + "]}]}")), PolicyJudge(Policy()))
    assert [trip.call for trip in found] == [1]


def test_a_poll_that_moves_is_no_row_of_polls_with_one_result():
    """Where a policy that counts has a mode for polls, their results matter."""
    judge = PolicyJudge(load_preset("typed_window").checked())
    still = [made.call("get_status", {"job": 1}, "running", step) for step in range(12)]
    moving = [made.call("get_status", {"job": 1}, f"{'abcdefghijkl'[step]} is running", step) for step in range(12)]
    assert [trip.call for trip in runs.replay(runs.read(made.run("still", still)), judge)] == [9, 10, 11]
    assert runs.replay(runs.read(made.run("moving", moving)), judge) == []
    look = {**made.call("read_file", {"path": "log"}, "empty"), "step": None}
    between = [one for poll in moving[:3] for one in (poll, look)]
    assert runs.replay(runs.read(made.run("between", between)), judge) == []


def judged(calls, policy):
    """The indices of the calls that the modes judge, in one turn."""
    asked = []
    judge = PolicyJudge(policy)
    turn = judge.turn

    class Watched:
        def __init__(self, *given):
            self.turn = turn(*given)

        def __getattr__(self, name):
            return getattr(self.turn, name)

        def __setattr__(self, name, value):
            object.__setattr__(self, name, value)
            if name == "asks":
                self.turn.asks = value

        asks = True

        def begin(self, *given, **named):
            asked.append(self.asks)
            return self.turn.begin(*given, **named)

    judge.turn = Watched
    runs.replay(runs.read(made.run("watched", calls)), judge)
    return [index for index, was in enumerate(asked) if was]


def test_modes_are_asked_from_the_first_repeat_on():
    """The calls before the first repeat are recorded, and no mode judges them."""
    calls = [made.call("read_file", {"path": str(n)}, "xyzvw"[n], n) for n in range(5)]
    assert judged(calls, Policy()) == []
    assert judged([*calls, {**calls[0], "step": 5}, *calls[:2]], Policy()) == [5, 6, 7]


def test_modes_are_asked_from_the_third_error_of_a_tool_on():
    """Errors of several tools, with successes between, are no streak."""
    failing = [made.call("read_file", {"path": str(n)}, "Error: no", n) for n in range(3)]
    fine = made.call("read_file", {"path": "there"}, "text", 3)
    assert judged(failing, Policy()) == [2]
    assert judged([*failing[:2], fine, failing[2]], Policy()) == []


def test_a_policy_that_counts_is_asked_from_its_limits_on():
    """A cap is looked at when it is reached; a window, whose memory depends on when one looks, from the beginning."""
    calls = [made.call("read_file", {"path": str(n)}, f"text {n}", n) for n in range(5)]
    capped = Policy(
        counting="calls", tools={"read_file": ToolContract(cap=3)}, modes={"retry_limit": Rule(nudge_at_share=0.0)}
    )
    assert judged(calls, capped) == [3, 4]
    assert judged(calls, Policy(counting="calls", window=60.0)) == []
    assert judged([*calls, calls[0]], Policy(counting="calls", window=60.0)) == [0, 1, 2, 3, 4, 5]


def test_modes_are_asked_from_the_fifth_equal_answer_of_a_tool_on():
    """Answers that differ in ids and in the call's own arguments only are equal; of short ones twice as many count."""
    long = "The search for it has found none of the many documents that the index of this archive knows: "
    answers = [made.call("read_file", {"path": f"path {n}"}, f"{long}path {n}", n) for n in range(6)]
    assert judged(answers, Policy()) == [4, 5]
    other = made.call("read_file", {"path": "x"}, "Something else", 7)
    assert judged([*answers[:4], other, *answers[4:]], Policy()) == []
    short = [made.call("read_file", {"path": n}, "nothing", n) for n in range(11)]
    assert judged(short, Policy()) == [9, 10]
    own = [made.call("read_file", {"path": f"path {n}"}, f"{long}path 3", n) for n in range(6)]
    assert judged(own, Policy()) == [4, 5]


def test_calls_that_end_in_another_order_are_judged_from_the_first():
    """Three errors of a tool end in a row, although a call between them succeeds: it ends later."""
    ends = ((0, 1, "Error: no"), (2, 3, "Error: no"), (4, 20, "fine"), (5, 6, "Error: no"), (30, 31, "well"))
    calls = [made.call("read_file", {"path": at}, text, at=at, ended=end) for at, end, text in ends]
    assert judged(calls, Policy()) == [0, 1, 2, 3, 4]
    (found,) = runs.replay(runs.read(made.run("errors", calls)), PolicyJudge(Policy()))
    assert (found.call, found.mode) == (3, "error_repeat")
    assert judged([{**call, "ended": call["at"] + 1} for call in calls], Policy()) == []


@pytest.mark.parametrize("other", ["write", "think"])
def test_other_kinds_between_do_not_end_a_streak(other):
    """A declared step ends no streak of errors, and neither an act nor a thought a row of equal answers."""
    steps = Policy(tools={"press": ToolContract(kind="step")})
    failing = [made.call(f"thing_{n}", {"q": n}, "Error: no") for n in range(5)]
    asked = [call for n, one in enumerate(failing) for call in (made.call("press", {"q": n}, "done"), one)]
    (found,) = runs.replay(runs.read(made.run("errors", asked)), PolicyJudge(steps))
    assert (found.call, found.mode) == (9, "global_circuit_breaker")
    results = [
        made.call("thing", {"q": n, "action": action}, text * 30)
        for n in range(5)
        for action, text in (("read", "same"), (other, "done"))
    ]
    (found,) = runs.replay(runs.read(made.run("results", results)), PolicyJudge(Policy()))
    assert (found.call, found.mode) == (8, "same_answer")


def test_hashes_are_equal_in_any_notation():
    """A hash is a number: in capitals, and with more digits than are compared, it is the same one."""
    hashes = ("ab" * 8, "AB" * 8, "ab" * 12, "AB" * 16)
    calls = [made.call("read_file", {"q": 1}, f"text {'abcd'[n]}", result_hash=one) for n, one in enumerate(hashes)]
    found = runs.replay(runs.read(made.run("hashes", calls)), PolicyJudge(Policy()))
    assert [(trip.call, trip.mode) for trip in found] == [(n, "generic_repeat") for n in (1, 2, 3)]
