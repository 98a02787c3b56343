"""A call that has run already, in a turn that may act: it counts as a refusal, and a sentence comes with its result."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from otel_loopguard.engine.modes import Mode
from otel_loopguard.engine.policy.policy import Policy, ToolContract
from otel_loopguard.engine.rule import Rule
from otel_loopguard.engine.vocabulary import USER_STOP, Action, Decision, Outcome, ToolCall, Trip
from otel_loopguard.guard.guard import Guard

if TYPE_CHECKING:
    from otel_loopguard.guard.turn import Turn

NUDGE, BLOCK, CONCLUDE, ABORT = Action.NUDGE, Action.BLOCK, Action.CONCLUDE, Action.ABORT
LONG = "the text of the file, " * 9
STOP = "Stop calling tools and give your answer with what you know, or say what is missing."


def see(turn: Turn, *paths: str, result: str = LONG, tool: str = "read_file") -> list[Decision]:
    """Observe the calls of one model message. Return their decisions."""
    calls = [ToolCall(tool, {"path": path}, written=turn.tick) for path in paths]
    return [turn.ran(call, Outcome(result)) for call in calls]


def actions(turn: Turn, times: int, *paths: str) -> list[list[Action | None]]:
    """Return the actions of so many model messages with these calls."""
    return [[decision.action for decision in see(turn, *paths)] for _ in range(times)]


def test_the_ladder_of_calls_that_have_run() -> None:
    """They are told instead of refused; the seventh that would have been refused concludes, the eleventh aborts."""
    assert actions(Guard().turn(), 14, "a") == [
        [None], *[[NUDGE]] * 7, [CONCLUDE], *[[NUDGE]] * 3, [ABORT], [ABORT],
    ]  # fmt: skip


def test_the_verdict_stays_and_the_trip_is_that_of_the_executors() -> None:
    """Only the action is another one."""
    turn, other = Guard().turn(), Guard().turn()
    for _ in range(9):
        trip = see(turn, "a")[0].trip
        call = ToolCall("read_file", {"path": "a"})
        decision = other.begin(call)
        at_executor = (other.end(call, Outcome(LONG)) if decision.runs else decision).trip
        assert (trip and trip.mode, trip and trip.verdict) == (
            at_executor and at_executor.mode,
            at_executor and at_executor.verdict,
        )


def test_the_sentence_counts_this_call_and_claims_no_refusal() -> None:
    """From the third on it advises to stop. Nothing is withheld, so there are no seconds to wait."""
    turn = Guard().turn()
    told = [see(turn, "a")[0].message for _ in range(5)][2:]
    counted = [
        f"[loopguard] read_file was called with these arguments {n} times and returned the same each time."
        for n in (3, 4, 5)
    ]
    assert told == [
        f"{counted[0]} Use what you already have, or do something different.",
        f"{counted[1]} Use what you already have, or do something different.",
        f"{counted[2]} {STOP}",
    ]


def test_a_known_result_that_is_another_one_is_not_called_the_same() -> None:
    """A result that comes and goes is nothing new, but it is not the same as the last one."""
    turn, other = Guard().turn(), "another text " * 9
    for result in (LONG, other, other):
        see(turn, "a", result=result)
    assert see(turn, "a")[0].message.startswith("[loopguard] This brought nothing new either.")


@pytest.mark.parametrize("calls", [1, 3])
def test_the_calls_of_one_message_count_once(calls: int) -> None:
    """One conclusion is due, after as many messages as with one call each."""
    turn = Guard().turn()
    paths = "abc"[:calls]
    seen = actions(turn, 9, *paths)
    assert [CONCLUDE in row for row in seen] == [False] * 8 + [True]
    assert sum(row.count(CONCLUDE) for row in seen) == 1


def test_news_makes_a_trip_void_and_resets_the_refusals() -> None:
    """The call would have been refused, but it brought news: nobody is told, and the ladder starts over."""
    turn = Guard().turn()
    actions(turn, 8, "a")
    (decision,) = see(turn, "a", result="another text " * 9)
    assert (decision.action, decision.trip, decision.message) == (None, None, None)
    assert decision.recovered
    assert [CONCLUDE in row for row in actions(turn, 9, "a")][:8] == [False] * 8


def test_a_turn_recovers_with_news_only() -> None:
    """A result that is known already ends no loop."""
    turn = Guard().turn()
    assert not any(see(turn, "a")[0].recovered for _ in range(4))
    assert len(see(turn, "b", result="news " * 40)[0].recovered) == 3


def test_a_declared_cap_holds_though_the_call_brings_news() -> None:
    """The user has said how often the tool may be called: a call beyond it counts, whatever it returns."""
    turn = Guard(Policy(tools={"read_file": ToolContract(cap=2)})).turn()
    seen = [see(turn, str(number), result=f"text {number} " * 9)[0].action for number in range(9)]
    assert seen == [None, NUDGE, *[NUDGE] * 6, CONCLUDE]
    assert turn.conclude() is not None
    assert see(turn, "more", result="more news " * 9)[0].action is ABORT


def test_a_conclusion_that_news_has_withdrawn_is_due_again_with_the_next_call_over_a_cap() -> None:
    """The turn is not given more calls for it."""
    turn = Guard(Policy(tools={"read_file": ToolContract(cap=2)})).turn()
    seen = [see(turn, str(number), result=f"text {number} " * 9)[0].action for number in range(10)]
    assert seen[8:] == [CONCLUDE, CONCLUDE]


@pytest.mark.parametrize(
    "policy",
    [
        Policy(max_calls=2),
        Policy(detectors=[lambda *_: Trip("budget", "x", 1, 0, BLOCK)]),
        Policy(counting="calls", modes={"generic_repeat": Rule(block=3)}),
    ],
    ids=["calls of the turn", "a detector of the user", "a policy that counts calls"],
)
def test_a_declared_limit_holds_though_the_call_brings_news(policy: Policy) -> None:
    """No result can make it void."""
    turn = Guard(policy).turn()
    seen = [see(turn, "a", result=f"text {number} " * 9)[0].trip for number in range(3)]
    assert seen[-1] is not None
    assert seen[-1].verdict is BLOCK


def test_news_makes_a_trip_void_that_a_ceiling_has_lowered() -> None:
    """It is not logged as one that would have been a refusal; without news it is."""
    turn = Guard(Policy(action="nudge")).turn()
    actions(turn, 4, "a")
    assert see(turn, "a")[0].record.capped is not None
    news = see(turn, "a", result="news " * 40)[0]
    assert (news.record.capped, news.record.trip) == (None, None)


def test_news_does_not_make_a_declared_limit_void_that_a_ceiling_has_lowered() -> None:
    """The call is logged as one that would have been refused; one that would have been nudged is not."""
    turn = Guard(Policy(action="nudge", tools={"read_file": ToolContract(cap=2)})).turn()
    seen = [see(turn, "a", result=f"text {number} " * 40)[0].record.capped is None for number in range(3)]
    assert seen == [True, True, False]


def test_what_a_turn_that_only_observes_would_refuse_is_no_less_for_news() -> None:
    """It is reported as it would be where the call is refused before it has a result."""
    turn = Guard().turn(enforced=False)
    actions(turn, 3, "a")
    assert see(turn, "a", result="news " * 40)[0].record.capped is not None


@pytest.mark.parametrize(("action", "highest"), [("observe", Action.OBSERVE), ("nudge", NUDGE)])
def test_under_a_ceiling_nothing_is_concluded_or_ended(action: str, highest: Action) -> None:
    """``observe`` says nothing to the model; ``nudge`` tells it."""
    turn = Guard(Policy(action=action)).turn()
    decisions = [decision for _ in range(40) for decision in see(turn, "a")]
    assert {decision.action for decision in decisions if decision.action} == {highest}
    assert any(decision.message for decision in decisions) is (highest is NUDGE)


def test_a_conclusion_is_made_once_and_then_calls_end_the_run() -> None:
    """``conclude`` gives the sentence once. Without an effect the next such call ends the run."""
    turn = Guard().turn()
    assert turn.conclude() is None
    actions(turn, 9, "a")
    assert turn.conclusion_due
    assert turn.conclude() == (
        "[loopguard] 7 times in a row you repeated calls that brought nothing new, the last time with read_file. "
        "No tool can be called for this answer: give your best answer now with what you know, and say what is missing."
    )
    assert not turn.conclusion_due
    assert turn.conclude() is None
    assert actions(turn, 1, "a") == [[ABORT]]


def test_a_conclusion_that_is_due_or_made_survives_the_bytes() -> None:
    """A turn that goes on in another process neither forgets it nor makes it twice."""
    guard = Guard()
    turn, other = guard.turn(), guard.turn()
    actions(turn, 9, "a")
    other.restore(turn.state())
    assert other.conclude().startswith("[loopguard] 7 times in a row you repeated calls that brought nothing new. ")
    turn.restore(other.state())
    assert turn.conclude() is None
    assert actions(turn, 1, "a") == [[ABORT]]


def test_a_policy_may_have_its_own_sentence_for_the_conclusion() -> None:
    """With the number of refusals and the limit."""
    turn = Guard(Policy(sentences={"conclude": "{tool}: {count} of {limit}, so answer."})).turn()
    actions(turn, 9, "a")
    assert turn.conclude() == "read_file: 7 of 7, so answer."


def test_the_own_sentence_of_a_refusal_is_not_told_about_a_call_that_ran() -> None:
    """It may say that the call was refused. That of a nudge is about a call that ran."""
    turn = Guard(Policy(sentences={"generic_repeat": "Blocked.", "generic_repeat.nudge": "Again {count}."})).turn()
    assert [see(turn, "a")[0].message for _ in range(4)] == [None, "Again 2.", "Again 3.", "Again 4."]


def test_a_user_who_asks_to_stop_gets_an_answer_at_once() -> None:
    """The next result carries the user's words, the next request has no tools, and further calls end the run."""
    turn = Guard().turn()
    message = turn.say("Stop, I have what I need.", stop=True)
    (decision,) = see(turn, "a")
    assert (decision.action, decision.trip.mode, decision.message) == (CONCLUDE, USER_STOP, "Stop, I have what I need.")
    assert message.delivered
    assert turn.conclude().startswith("[loopguard] The user has asked you to stop. No tool can be called")
    assert [decision.action for decision in see(turn, "b", result="news")] == [ABORT]


def test_a_stop_comes_to_an_end_without_conclusions_too() -> None:
    """The model has read the message, and makes calls in a later message of its own."""
    turn = Guard(Policy(conclude_after=0)).turn()
    turn.say("stop", stop=True)
    assert [[decision.action for decision in see(turn, *paths, result="news")] for paths in ("ab", "c")] == [
        [NUDGE, NUDGE], [ABORT],
    ]  # fmt: skip


def test_a_stop_never_ends_a_run_where_nothing_does() -> None:
    """Without conclusions and aborts the model has the message, and goes on."""
    turn = Guard(Policy(conclude_after=0, abort_after=0)).turn()
    turn.say("stop", stop=True)
    assert [see(turn, path, result="news")[0].action for path in "abc"] == [NUDGE] * 3


def test_a_message_to_stop_is_only_delivered_where_nothing_is_done() -> None:
    """A turn that observes concludes nothing."""
    turn = Guard().turn(enforced=False)
    turn.say("stop", stop=True)
    (decision,) = see(turn, "a")
    assert (decision.trip, decision.message) == (None, "stop")


def test_words_wait_while_a_run_is_ended() -> None:
    """An error that ends the run has no place for them."""
    turn = Guard().turn()
    actions(turn, 12, "a")
    turn.say("try b")
    assert actions(turn, 1, "a") == [[ABORT]]
    assert turn.close() == ["try b"]


def test_a_message_of_the_user_comes_with_the_result() -> None:
    """Before the sentence about a repeat, as with a call that an executor ran."""
    turn = Guard().turn()
    see(turn, "a")
    turn.say("The file is b.")
    (decision,) = see(turn, "a")
    assert decision.message.startswith("The file is b.\n[loopguard] This returned the same")
    turn.redeliver(decision)
    assert see(turn, "c", result="news")[0].message.startswith("The file is b.\nAbout the earlier call of read_file:")


@pytest.mark.parametrize(
    ("answer", "expected"),
    [("observe", Action.OBSERVE), ("nudge", NUDGE), ("block", NUDGE), ("conclude", CONCLUDE), ("abort", ABORT)],
)
def test_on_trip_chooses_the_action(answer: str, expected: Action) -> None:
    """Sync and async alike. A call that has run cannot be refused: its refusal is a sentence."""

    async def later(_: Trip) -> str:
        return answer

    turn = Guard(Policy(on_trip=lambda _: answer, modes={"generic_repeat": Rule(nudge=0)})).turn()
    assert actions(turn, 3, "a")[-1] == [expected]
    assert turn.conclusion_due is (expected is CONCLUDE)
    turn = Guard(Policy(on_trip=later, modes={"generic_repeat": Rule(nudge=0)})).turn()
    call = ToolCall("read_file", {"path": "a"})

    async def observed() -> list[Action | None]:
        return [(await turn.aran(call, Outcome(LONG))).action for _ in range(3)]

    assert asyncio.run(observed())[-1] is expected


def test_a_cancelled_call_is_no_run() -> None:
    """It has no outcome that could be judged."""
    turn = Guard().turn()
    for _ in range(5):
        assert turn.ran(ToolCall("read_file", {"path": "a"}), Outcome(cancelled=True)).action is None


def test_untried_calls_of_a_failing_tool_count_more_and_more_often() -> None:
    """As at an executor, where insisting has a price."""
    turn, seen = Guard().turn(), []
    for number in range(14):
        call = ToolCall("read_file", {"path": f"{number}.txt"}, written=turn.tick)
        seen.append(turn.ran(call, Outcome(error="no such file")).trip)
    counted = [place for place, trip in enumerate(seen, 1) if trip and trip.verdict is BLOCK]
    assert counted == [10, 12, 13]
    assert {trip.mode for trip in seen if trip and trip.verdict is BLOCK} == {Mode.ERROR_REPEAT}


@pytest.mark.parametrize("kind", ["read", "write", "shell", "unknown", "poll", "handoff", "final"])
def test_every_call_that_is_repeated_without_end_comes_to_an_abort(kind: str) -> None:
    """Whatever the kind of the tool and however short the result; also where an earlier result would be given again."""
    for result in (LONG, "ok"):
        for reuse in (False, True):
            turn = Guard(Policy(tools={"t": ToolContract(kind=kind, reuse=reuse)})).turn()
            seen: list[Action | None] = []
            while ABORT not in seen:
                seen += [decision.action for decision in see(turn, "a", tool="t", result=result)]
                assert len(seen) < 60
            assert seen.index(CONCLUDE) < seen.index(ABORT)


def test_the_key_of_a_call_is_that_of_its_record() -> None:
    """Also of a call behind a gateway, whose tool and arguments are within its own."""
    policy = Policy(tools={"call_tool": ToolContract(route={"tool": "name", "args": "arguments"})})
    turn = Guard(policy).turn()
    call = ToolCall("call_tool", {"name": "read_file", "arguments": {"path": "a"}})
    assert turn.key_of(call) == turn.ran(call, Outcome(LONG)).record.key
    assert turn.key_of(call) == turn.key_of(ToolCall("read_file", {"path": "a"}))


def test_the_time_of_a_cancelled_call_is_no_pause() -> None:
    """As for a call that an executor cancels."""
    seconds = [0.0]
    turn = Guard(clock=lambda: seconds[0]).turn()
    for _ in range(3):
        (decision,) = see(turn, "a")
        seconds[0] += 600
        turn.ran(ToolCall("look_up", {}), Outcome(cancelled=True), took=600)
    assert decision.trip is not None
    assert decision.trip.verdict is BLOCK
