"""The state of a turn is written to bytes and read again, and the turn goes on as if nothing had happened."""

from __future__ import annotations

import tracemalloc

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from otel_loopguard.engine.history.call_stats import pack_line
from otel_loopguard.engine.history.history import MOST_REACHED, History
from otel_loopguard.engine.policy.policy import Policy, ToolContract
from otel_loopguard.engine.rule import Rule
from otel_loopguard.engine.vocabulary import USER_STOP, Action, First, Outcome, ToolCall, Trip
from otel_loopguard.guard.guard import Guard
from otel_loopguard.policy_files.load import load_preset
from tests.engine.judges.worlds import AGENTS, KINDS, TEXTS, world
from tests.engine.test_promises import QUICK

POLICIES = {
    "default": Policy(abort_after=0),
    "strict": Policy(
        modes={"error_repeat": Rule(nudge=1, block=2), "no_novelty": Rule(nudge=2, block=3)},
        tools={"tool_*": ToolContract(cap=30)},
        max_calls=80,
    ),
    **{name: load_preset(name).policy for name in ("typed_window", "turn_nudge", "repeat_abort")},
}


def play(seed, agent, policy, *, stored):
    """Live 120 calls in a world. With ``stored``, each call meets a new turn that continues from bytes.

    No result has a number: numbers are not written, so a turn that goes on sees no progress in the next one.
    """
    now = [0.0]
    guard, lives = Guard(policy, clock=lambda: now[0]), world(seed, KINDS, TEXTS)
    turn = guard.turn("a")
    going, refused, seen = agent(lives.rng, len(lives.calls)), None, []
    for _ in range(120):
        now[0] += lives.rng.choice((0.5, 3.0, 12.0, 90.0))
        try:
            index = going.send(refused)
        except StopIteration:
            break
        if stored:
            state = turn.state()
            turn.close()
            turn = guard.turn("a")
            turn.restore(state)
        call = lives.calls[index]._replace(known_tools=("tool_0", "tool_1", "tool_2"))
        decision = turn.begin(call)
        trip, recovered = decision.trip, ()
        if decision.runs:
            ended = turn.end(call, lives.act(index))
            trip, recovered = ended.trip or trip, ended.recovered
        seen.append((trip, [(str(one.mode), one.action) for one in recovered]))
        refused = not decision.runs
    return seen


@pytest.mark.parametrize("policy", POLICIES)
@settings(QUICK, max_examples=60)
@given(seed=st.integers(0, 10_000), agent=st.sampled_from(AGENTS))
def test_a_turn_continues_from_bytes_as_if_it_had_never_been_written(policy, seed, agent):
    """A turn with its history written and read before each call has the trips of one that is never written."""
    whole = play(seed, agent, POLICIES[policy], stored=False)
    assert play(seed, agent, POLICIES[policy], stored=True) == whole


def test_the_state_of_an_everyday_turn_is_a_few_kilobytes():
    """The state of fifteen calls of six tools, some repeated, is well below four kilobytes."""
    turn = Guard().turn()
    for number in range(15):
        call = ToolCall(f"read_part_{number % 6}", {"path": str(number % 11)})
        if turn.begin(call).runs:
            turn.end(call, Outcome(f"text {number}"))
    assert 500 < len(turn.state()) < 4_096


def test_no_argument_result_or_name_is_in_the_bytes():
    """Only fingerprints, counters and names of modes are written; queries and made-up tools are not."""
    policy = Policy(tools={"search": ToolContract(query="q")})
    turn = Guard(policy).turn()
    for number in range(12):
        call = ToolCall(
            "made_up_SECRET" if number % 3 else "search", {"q": f"SECRET {number % 2}"}, known_tools=("search",)
        )
        if turn.begin(call).runs:
            turn.end(call, Outcome("the SECRET answer") if number % 2 else Outcome(error="no SECRET here"))
    state = turn.state()
    assert b"SECRET" not in state
    assert b"search" not in state
    assert orjson.loads(state)["tools"]


def test_state_of_another_version_is_not_read():
    """The turn begins with an empty history instead of a wrong one."""
    guard = Guard()
    turn, other = guard.turn(), guard.turn()
    call = ToolCall("read_file", {"path": "a"})
    turn.begin(call)
    turn.end(call, Outcome("text"))
    state = orjson.loads(turn.state())
    state["version"] += 1
    other.restore(orjson.dumps(state))
    assert other.calls == 0


def test_every_field_is_written_or_named_as_not_written():
    """A field that is added to the history must be added to its bytes, too."""
    written = set(orjson.loads(History().to_bytes())) - {"version"}
    assert written == set(History.__slots__) - {"most_calls", "few", "few_lines"}  # the policy's; in "run_once"


def test_a_trip_of_a_custom_detector_never_keeps_the_state_from_being_written():
    """The count of such a trip may be beyond 64 bits, and its mode may contain half a surrogate."""

    def odd(_history, call, _rule):
        return Trip("m\ud800", call.tool, 2**80, 2, Action.NUDGE)

    guard = Guard(Policy(detectors=(odd,)))
    turn, other = guard.turn(), guard.turn()
    call = ToolCall("read_file", {"path": "a"})
    assert turn.begin(call).trip.count == 2**80
    other.restore(turn.state())
    assert other.calls == 1


def test_the_bytes_take_no_more_memory_than_their_length():
    """The store keeps thousands of states, so none may hold on to the larger buffer that it was written into."""
    turn = Guard().turn()
    call = ToolCall("read_file", {"path": "a"})
    turn.begin(call)
    turn.end(call, Outcome("text"))
    states = [turn.state()]
    tracemalloc.start()
    states += [turn.state() for _ in range(100)]
    kept, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert kept < 1.5 * sum(map(len, states))


TRIPS = st.tuples(st.sampled_from(["cycle", "ping_pong", USER_STOP]), st.sampled_from(list(Action)))


@given(trips=st.lists(TRIPS, max_size=40), stored=st.booleans())
def test_the_first_trip_of_each_mode_and_action_is_told_from_the_others(trips, stored):
    """A list of all earlier trips gives the same answers, also if the state is written after each trip."""
    history, earlier, answers, expected = History(), [], [], []
    for mode, action in trips:
        answers.append(history.reach(mode, action, loops=mode != USER_STOP))
        if stored:
            state = history.to_bytes()
            history = History()
            history.restore(state)
        is_first = (mode, action) not in earlier
        if mode != USER_STOP and action not in [done for name, done in earlier if name != USER_STOP]:
            expected.append(First.ACTION)
        else:
            expected.append(First.MODE if is_first else First.NO)
        earlier.append((mode, action))
    assert answers == expected


def test_the_modes_that_a_turn_reached_are_bounded():
    """A detector that invents modes counts as new for the first of them, and each action counts once all the same."""
    history = History()
    answers = [history.reach(f"mode {number % 500}", Action.BLOCK, loops=True) for number in range(1_000)]
    assert answers.count(First.ACTION) == 1
    assert answers.count(First.MODE) < MOST_REACHED
    assert history.reach("another mode", Action.ABORT, loops=True) is First.ACTION
    assert history.reach("another mode", Action.ABORT, loops=True) is First.NO
    assert len(history.reached) <= MOST_REACHED + len(Action)


@given(made=st.lists(st.tuples(st.integers(0, 80), st.booleans()), max_size=200))
def test_calls_are_found_as_in_a_dictionary_of_all_that_ran(made):
    """Few or many, once or again, written to bytes in between or not: each call is found with its own first result."""
    history, ran = History(), {}
    for key, stored in made:
        if stored:
            state, history = history.to_bytes(), History()
            history.restore(state)
        assert (key in history) == (key in ran)
        stats = history.find(key)
        assert (None if stats is None else stats.result) == ran.get(key)
        if stats is None:
            ran[key] = len(ran)
            history.keep_once(key, pack_line(ran[key], 0.0, 0.0, 0, 0, 0, 0, 0, 0))
    written = orjson.loads(history.to_bytes())
    assert sorted(written["run_once"][0] + [key for key, _ in written["repeated"]]) == sorted(ran)
