"""LastTurns: turns that only repeat each other are reported, and nothing is ever refused for it."""

from __future__ import annotations

import random
import string
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel_loopguard.engine.conversation_memory import MOST_OUTCOMES, MOST_TURNS, ConversationMemory
from otel_loopguard.engine.modes import Mode
from otel_loopguard.engine.policy.policy import Policy, ToolContract
from otel_loopguard.engine.rule import Rule
from otel_loopguard.engine.vocabulary import OVER_TURNS, Action, Outcome, ToolCall, Trip
from otel_loopguard.guard.conversation_memories import ConversationMemories
from otel_loopguard.guard.guard import Guard
from tests.engine.judges.corpus import Clock
from tests.engine.judges.seed import HINT, SEED
from tests.engine.test_promises import QUICK

REMEMBERS = Policy(scope="conversation")
HALF_AN_HOUR, DAY = 1_800.0, 86_400.0
NO_MAIL = ("check_mail", "There is no new mail.")


def made(turn, tool, result, **arguments):
    """The decision at the end of a call, or the one that refuses it."""
    call = ToolCall(tool, arguments or {"box": "in"})
    decision = turn.begin(call)
    return turn.end(call, Outcome(result)) if decision.runs else decision


def lived(guard, turns, name="a conversation"):
    """Make these turns, each a list of tools with their results. Return the turns with a report, and its count."""
    found = {}
    for number, calls in enumerate(turns):
        with guard.turn(conversation_id=name) as turn:
            for tool, result in calls:
                trip = made(turn, tool, result).trip
                if trip is not None and trip.reason == OVER_TURNS:
                    found[number] = trip.count
    return found


def heartbeats(guard, clock, pause, number, text="There is no new mail."):
    """Turns of one call each, with pauses; ``text`` may have the number of the turn."""
    found = {}
    for beat in range(number):
        found |= {beat + one: count for one, count in lived(guard, [[("check_mail", text.format(beat=beat))]]).items()}
        clock.now += pause
    return found


@pytest.mark.parametrize("pause", [1.0, HALF_AN_HOUR, DAY])
def test_a_heartbeat_of_50_turns_is_reported_once_per_doubling(pause):
    """At ten, twenty and forty turns that brought nothing new, at any pace."""
    clock = Clock()
    guard = Guard(REMEMBERS, clock=clock)
    assert heartbeats(guard, clock, pause, 50) == {11: 10, 21: 20, 41: 40}


def test_a_report_is_an_observation_with_the_words_of_its_mode():
    """The verdict is a nudge, nothing is said to the model, and the mark tells it from a loop of one turn."""
    guard = Guard(REMEMBERS)
    lived(guard, [[NO_MAIL]] * 11)
    decision = made(guard.turn(conversation_id="a conversation"), *NO_MAIL)
    trip = decision.trip
    assert (trip.mode, trip.verdict, trip.action, trip.reason) == (
        Mode.NO_NOVELTY, Action.NUDGE, Action.OBSERVE, OVER_TURNS,
    )  # fmt: skip
    assert (trip.count, trip.limit, decision.runs, decision.message) == (10, 10, True, None)


def test_results_that_differ_in_times_and_ids_are_nothing_new():
    """From the second result on they are compared without them."""
    clock = Clock()
    text = "[2026-11-23T10:{beat:02d}:00Z] no new mail, request 4f2a9c{beat:02d}b7e1"
    assert heartbeats(Guard(REMEMBERS, clock=clock), clock, HALF_AN_HOUR, 50, text) == {12: 10, 22: 20, 42: 40}


def test_errors_of_one_shape_are_nothing_new():
    """A tool that fails in the same way at each turn says nothing, whatever number its error has."""
    guard, reported = Guard(REMEMBERS), {}
    for beat in range(15):
        call = ToolCall("check_mail", {"box": "in"})
        with guard.turn(conversation_id="c") as turn:
            turn.begin(call)
            reported[beat] = turn.end(call, Outcome(error=f"ConnectionError: attempt {beat}")).trip
    assert [beat for beat, trip in reported.items() if trip is not None] == [11]


def test_a_user_who_asks_the_same_question_five_times_gets_five_answers():
    """The read that each answer needs runs each time, and nothing is reported or said."""
    guard = Guard(REMEMBERS)
    for _ in range(5):
        with guard.turn(conversation_id="a chat") as turn:
            for path in ("a", "b"):
                decision = made(turn, "read_file", f"the text of {path}", path=path)
                assert (decision.runs, decision.trip, decision.message) == (True, None, None)


def test_a_turn_that_only_repeats_itself_ends():
    """The limits of a turn hold in each turn of a conversation, also after many that repeated each other."""
    guard = Guard(REMEMBERS)
    lived(guard, [[NO_MAIL]] * 30)
    turn = guard.turn(conversation_id="a conversation")
    actions = [made(turn, *NO_MAIL).action for _ in range(13)]
    assert actions[:3] == [None, Action.NUDGE, Action.BLOCK]
    assert Action.CONCLUDE in actions
    assert actions[-1] is Action.ABORT


def test_a_call_that_is_nudged_does_not_report_its_turns():
    """The report waits for a call that has nothing else to tell."""
    own = [lambda *_: Trip("budget", "x", 1, 0, Action.NUDGE)]
    guard = Guard(replace(REMEMBERS, detectors=own, modes={"budget": Rule(nudge=1)}))
    assert lived(guard, [[NO_MAIL]] * 15) == {}


def test_runs_that_begin_again_within_one_task_are_seen():
    """An agent whose context is compacted begins a new run, and its row of equal calls begins anew each time."""
    clock = Clock()
    guard = Guard(REMEMBERS, clock=clock)
    runs = [[("get_status", "The build is broken.")] * 2] * 124
    assert list(lived(guard, runs).values()) == [10, 20, 40, 80]


def test_news_of_any_call_ends_the_row():
    """Also if the same call goes on as before, and another turn repeats both."""
    guard = Guard(REMEMBERS)
    lived(guard, [[NO_MAIL]] * 11)
    news = [NO_MAIL, ("read_news", "The library has a new version.")]
    assert lived(guard, [news, *[[NO_MAIL]] * 10]) == {0: 10}
    assert lived(guard, [[NO_MAIL], [NO_MAIL]]) == {0: 10}


def test_a_new_row_is_reported_again():
    """News sets the doubling back: an agent that gets stuck twice is reported twice."""
    guard = Guard(REMEMBERS)
    news = [("check_mail", "A letter from the bank.")]
    assert lived(guard, [*[[NO_MAIL]] * 30, news, *[[NO_MAIL]] * 12]) == {11: 10, 21: 20, 41: 10}


def test_each_turn_that_repeats_counts_whatever_its_calls_are():
    """Turns that go round among outcomes that were seen before bring nothing new either."""
    rounds = [[("check_mail", "none")], [("check_queue", "empty")], [("check_mail", "none"), ("check_queue", "empty")]]
    assert lived(Guard(REMEMBERS), rounds * 5) == {12: 10}


def test_turns_without_a_known_conversation_are_not_connected():
    """Nothing is guessed: two users must never share a memory."""
    guard = Guard(REMEMBERS)
    for _ in range(30):
        with guard.turn() as turn:
            assert made(turn, *NO_MAIL).trip is None
    assert len(guard.memory) == 0


def test_conversations_do_not_share_anything():
    """The row of one begins with its own first turn."""
    guard = Guard(REMEMBERS)
    assert lived(guard, [[NO_MAIL]] * 9, "one") == lived(guard, [[NO_MAIL]] * 9, "other") == {}


@pytest.mark.parametrize(
    "policy",
    [
        Policy(),
        Policy(scope="conversation", action="off"),
        Policy(scope="conversation", order=("generic_repeat",)),
        Policy(scope="conversation", modes={"no_novelty": Rule(action="off")}),
        Policy(scope="conversation", modes={"no_novelty": Rule(turns=0)}),
        Policy(scope="conversation", tools={"check_*": ToolContract(kind="step")}),
        Policy(scope="conversation", tools={"check_*": ToolContract(kind="think")}),
        Policy(scope="conversation", tools={"check_*": ToolContract(modes={"no_novelty": Rule(turns=0)})}),
    ],
)
def test_a_policy_that_does_not_ask_for_it_reports_nothing(policy):
    """The default, a mode that is off, and tools whose repetition is work or proves nothing."""
    guard = Guard(policy)
    assert lived(guard, [[NO_MAIL]] * 30) == {}
    assert len(guard.memory) == 0


def test_the_number_of_turns_is_a_setting_of_the_mode_and_of_a_tool():
    """The tool's own is for the call that is reported."""
    tools = {"check_mail": ToolContract(modes={"no_novelty": Rule(turns=3)})}
    guard = Guard(Policy(scope="conversation", modes={"no_novelty": Rule(turns=5)}, tools=tools))
    assert lived(guard, [[NO_MAIL]] * 9, "one") == {4: 3, 7: 6}
    assert lived(guard, [[("check_queue", "empty")]] * 9, "other") == {6: 5}


def test_calls_of_nested_turns_are_those_of_their_turn():
    """A sub-agent's news is news of the conversation, and its repeats do not count as turns."""
    guard, reported = Guard(REMEMBERS), []
    for beat in range(24):
        turn = guard.turn(conversation_id="c")
        call = ToolCall("run_agent", {"task": "look"})
        turn.begin(call)
        for _ in range(3):
            with turn.child(call) as child:
                trip = made(child, "check_mail", "A letter." if beat == 11 else "none").trip
                reported += [] if trip is None else [(beat, trip.count)]
        assert turn.end(call, Outcome("There is nothing to do.")).trip is None
        turn.close()
    assert reported == [(22, 10)]


def test_calls_that_have_run_already_count_alike():
    """Those that are read in a model request, or in spans of others."""
    guard, reported = Guard(REMEMBERS), []
    for beat in range(25):
        turn = guard.turn(conversation_id="c", enforced=bool(beat % 2))
        decision = turn.ran(ToolCall("check_mail", {}), Outcome("none"))
        reported += [beat] if decision.trip is not None else []
    assert reported == [11, 21]


def test_on_trip_is_asked_and_may_have_the_model_told():
    """It sees the count and the mark; the sentence does not say that looking is wrong."""
    seen = []
    guard = Guard(Policy(scope="conversation", on_trip=lambda trip: seen.append(trip) or "nudge"))
    lived(guard, [[NO_MAIL]] * 11)
    decision = made(guard.turn(conversation_id="a conversation"), *NO_MAIL)
    assert [(trip.reason, trip.count) for trip in seen] == [(OVER_TURNS, 10)]
    assert "The last 10 turns of this conversation brought nothing new. If there is nothing to do" in decision.message
    assert "different" not in decision.message


def test_news_of_a_turn_is_no_recovery_from_a_loop_over_turns():
    """The first run of a call is news in its turn, and nothing new in the conversation."""
    guard, turns = Guard(REMEMBERS), [[NO_MAIL, ("check_queue", "empty")]] * 11
    lived(guard, turns)
    with guard.turn(conversation_id="a conversation") as turn:
        assert made(turn, *NO_MAIL).trip is not None
        assert made(turn, "check_queue", "empty").recovered == ()


def test_a_report_waits_for_a_call_without_another_trip():
    """One trip a call: that of the turn comes first, and the report is not lost."""
    guard = Guard(Policy(scope="conversation", tools={"check_mail": ToolContract(cap=1)}))
    lived(guard, [[NO_MAIL]] * 11)
    with guard.turn(conversation_id="a conversation") as turn:
        first, second = made(turn, *NO_MAIL), made(turn, "check_queue", "empty")
        assert first.trip.mode == Mode.RETRY_LIMIT
        assert second.trip is None  # it is news
    guard = Guard(Policy(scope="conversation", tools={"check_mail": ToolContract(cap=1)}))
    both = [NO_MAIL, ("check_queue", "empty")]
    lived(guard, [both] * 11)
    with guard.turn(conversation_id="a conversation") as turn:
        assert made(turn, *both[0]).trip.mode == Mode.RETRY_LIMIT
        assert made(turn, *both[1]).trip.reason == OVER_TURNS


# --- time and bounds -----------------------------------------------------------------------------------------------


def test_a_conversation_is_forgotten_when_it_was_idle_for_too_long():
    """A weekly job keeps its row by default; after more than eight days it begins again."""
    clock = Clock()
    assert 11 in heartbeats(Guard(REMEMBERS, clock=clock), clock, 7 * DAY, 12)
    assert heartbeats(Guard(REMEMBERS, clock=clock), clock, 9 * DAY, 30) == {}
    short = Guard(replace(REMEMBERS, conversation_idle=HALF_AN_HOUR), clock=clock)
    assert heartbeats(short, clock, HALF_AN_HOUR + 1, 30) == {}


def test_the_least_recently_used_conversation_is_forgotten_first():
    """The number of conversations is bounded."""
    guard = Guard(REMEMBERS)
    guard.memory = ConversationMemories(most=3)
    for name in ("a", "b", "a", "c", "d"):
        lived(guard, [[NO_MAIL]] * 4, name)
    assert len(guard.memory) == 3
    assert lived(guard, [[NO_MAIL]] * 4, "a") == {3: 10}
    assert lived(guard, [[NO_MAIL]] * 10, "b") == {}


def test_the_memory_of_a_conversation_is_bounded():
    """However many calls and turns it has; a call that is made in each turn stays known."""
    guard, clock = Guard(REMEMBERS, clock=Clock()), 0.0
    for number in range(2 * MOST_OUTCOMES):
        lived(guard, [[NO_MAIL, (f"look_at_{number}", "a thing")]])
    conversation = guard.memory.use("a conversation", clock, DAY)
    assert len(conversation.outcomes) == MOST_OUTCOMES
    assert lived(guard, [[NO_MAIL]] * 3 * MOST_TURNS) == {10: 10, 20: 20, 40: 40, 80: 80, 160: 160}
    assert len(conversation.turns) == MOST_TURNS


def test_turns_at_the_same_time_count_once_each():
    """Two turns whose calls alternate are two turns, not one for each change between them."""
    guard = Guard(REMEMBERS)
    both = [NO_MAIL, ("check_queue", "The queue is empty.")]
    lived(guard, [both])
    turns = [guard.turn(conversation_id="a conversation") for _ in range(9)]
    for call in both:
        assert [made(turn, *call).trip for turn in turns] == [None] * 9
    assert lived(guard, [[NO_MAIL], [NO_MAIL]]) == {1: 10}


def test_a_child_process_begins_without_memory():
    """Parent and child do not see each other's turns, and a thread that is gone may hold the lock."""
    guard = Guard(REMEMBERS)
    lived(guard, [[NO_MAIL]] * 11)
    turn = guard.turn(conversation_id="a conversation")
    guard.memory.lock.acquire()
    guard.after_fork()
    assert made(turn, *NO_MAIL).trip is None
    assert len(guard.memory) == 1


def test_the_state_can_be_written_and_read():
    """As plain numbers, so that a store can keep it."""
    conversation = ConversationMemory()
    conversation.outcomes.extend([1, 2**64 - 1])
    conversation.count(5, is_news=True)
    conversation.count(6, is_news=False)
    assert conversation.is_due(20, 10)
    again = ConversationMemory.from_list(conversation.to_list())
    assert again.to_list() == conversation.to_list()
    assert not again.is_due(39, 10)
    assert again.is_due(40, 10)


# --- against a naive judge -----------------------------------------------------------------------------------------

CALLS = st.lists(st.tuples(st.sampled_from("abcd"), st.sampled_from("xyz")), max_size=4, unique_by=lambda call: call[0])


def naive(turns, limit):
    """All reports, found by looking at all calls again for each call."""
    made_calls = [(turn, call) for turn, calls in enumerate(turns) for call in calls]
    found, begun = {}, []
    for place, (turn, call) in enumerate(made_calls):
        earlier = made_calls[:place]
        if call not in [one for _, one in earlier]:
            begun = []
            last_news = turn
            continue
        quiet = {one for one, _ in earlier if last_news < one < turn}
        due = [limit * 2**power for power in range(8) if limit * 2**power <= len(quiet)]
        if due and due[-1] not in begun:
            begun.append(due[-1])
            found[turn] = len(quiet)
    return found


@given(turns=st.lists(CALLS, max_size=12).flatmap(lambda some: st.lists(st.sampled_from(some or [[]]), max_size=60)))
@QUICK
def test_reports_are_those_of_a_naive_judge(turns):
    """In conversations whose turns are drawn from a few, so that many of them bring nothing new."""
    guard = Guard(Policy(scope="conversation", modes={"no_novelty": Rule(turns=2)}))
    real = [[(f"check_{tool}", f"the {tool} says {result}") for tool, result in calls] for calls in turns]
    assert lived(guard, real) == naive(turns, 2)


def test_the_memory_changes_no_decision():
    """In drawn conversations the same calls run, and the model reads the same, with it and without it."""
    rng = random.Random(SEED)
    for _ in range(60):
        policies = Policy(), REMEMBERS
        clock = Clock()
        guards = [Guard(policy, clock=clock) for policy in policies]
        tools = rng.sample(["read_file", "write_file", "check_mail", "run_command", "frobnicate", "think"], 3)
        for _ in range(15):
            turns = [guard.turn(conversation_id="c") for guard in guards]
            for _ in range(rng.randint(0, 8)):
                tool, result = rng.choice(tools), rng.choice([*string.ascii_lowercase[:3], "Error: the disk is full"])
                clock.now += rng.choice([0.1, 5.0, 60.0])
                plain, remembering = [made(turn, tool, f"a text with {result}") for turn in turns]
                assert (plain.action, plain.message) == (
                    remembering.action if remembering.action is not Action.OBSERVE else plain.action,
                    remembering.message,
                ), HINT
                assert plain.trip in (None, remembering.trip), HINT
