"""A run is concluded and ended by too many refusals, and ended by a mode's ``abort`` limit under ``action="abort"``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from otel_loopguard.engine.modes import Mode
from otel_loopguard.engine.policy.policy import Policy, ToolContract
from otel_loopguard.engine.rule import Rule
from otel_loopguard.engine.vocabulary import Action, Outcome, ToolCall, Trip
from otel_loopguard.guard.guard import Guard

if TYPE_CHECKING:
    from otel_loopguard.engine.history.history import History
    from otel_loopguard.engine.vocabulary import Record
    from otel_loopguard.guard.turn import Turn

RUNS, NUDGE, BLOCK, CONCLUDE, ABORT = None, Action.NUDGE, Action.BLOCK, Action.CONCLUDE, Action.ABORT


def actions(policy: Policy, calls: int, *, never_ends: bool = False) -> list[Action | None]:
    """Return the actions for equal calls with equal results."""
    turn, done = Guard(policy).turn(), []
    if never_ends:
        turn.never_ends()
    for _ in range(calls):
        call = ToolCall("read_file", {"path": "a"})
        decision = turn.begin(call)
        done.append((turn.end(call, Outcome("same")) if decision.runs else decision).action)
    return done


def repeats(action: str, **limits: int) -> Policy:
    """Return a policy with these limits of ``generic_repeat``."""
    return Policy(action=action, modes={Mode.GENERIC_REPEAT: Rule(**limits)})


@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        ({"abort": 5}, [RUNS, NUDGE, BLOCK, BLOCK, ABORT]),
        ({"abort": 3}, [RUNS, NUDGE, ABORT]),
        ({"abort": 2}, [RUNS, ABORT]),
        ({"abort": 4, "block": 0}, [RUNS, NUDGE, RUNS, ABORT]),
    ],
)
def test_an_abort_limit_ends_the_run_at_that_attempt(limits: dict[str, int], expected: list[Action | None]) -> None:
    """Refused attempts count; without a ``block`` limit no call is refused before it."""
    assert actions(repeats("abort", **limits), len(expected)) == expected


def test_an_abort_limit_is_no_more_than_the_ceiling_allows() -> None:
    """Under ``block`` the call is refused and the run continues."""
    assert actions(repeats("block", abort=3), 5) == [RUNS, NUDGE, BLOCK, BLOCK, BLOCK]


@pytest.mark.parametrize("policy", [Policy(), repeats("abort", abort=3)])
def test_a_run_that_nothing_can_end_is_refused_call_by_call(policy: Policy) -> None:
    """Its conclusion is due once, as ever."""
    found = actions(policy, 30, never_ends=True)
    assert found[:3] == [RUNS, NUDGE, BLOCK]
    assert (set(found[2:]), found.count(CONCLUDE)) == ({BLOCK, CONCLUDE}, 1)


def test_without_a_limit_abort_does_what_block_does() -> None:
    """``abort`` is only a ceiling: modes refuse, until ``abort_after`` refusals end the run."""
    assert actions(Policy(action="abort"), 14) == actions(Policy(action="block"), 14)
    assert actions(Policy(action="abort"), 13)[-2:] == [BLOCK, ABORT]


def test_an_abort_limit_ends_no_run_that_gets_anywhere() -> None:
    """An abort limit counts equal runs without news in between, like a ``block`` limit."""
    turn = Guard(repeats("abort", abort=3)).turn()
    for number in range(9):
        for tool, result in (("edit_file", "ok"), ("read_file", "the same")):
            call = ToolCall(tool, {"path": "a"} if tool == "read_file" else {"path": "a", "text": number})
            assert turn.begin(call).runs
            turn.end(call, Outcome(result))


def test_the_seventh_refusal_asks_for_an_answer_and_the_eleventh_ends_the_run() -> None:
    """Where no conclusion is made, the turn goes on as if there were no such step."""
    assert actions(Policy(), 13) == [RUNS, NUDGE, *[BLOCK] * 6, CONCLUDE, *[BLOCK] * 3, ABORT]


@pytest.mark.parametrize("policy", [Policy(conclude_after=0), Policy(abort_after=5), Policy(action="nudge")])
def test_no_conclusion_is_due_where_it_is_off_or_comes_too_late(policy: Policy) -> None:
    """With 0, beyond the end of the run, and under a ceiling that refuses nothing."""
    assert CONCLUDE not in actions(policy, 40)


def message(turn: Turn, *paths: str) -> list[Action | None]:
    """Make the calls of one model message, each with its own equal result. Return their actions."""
    written, done = turn.tick, []
    for path in paths:
        call = ToolCall("read_file", {"path": path}, written=written)
        decision = turn.begin(call)
        done.append((turn.end(call, Outcome(f"text of {path}")) if decision.runs else decision).action)
    return done


def test_several_refused_calls_of_one_message_count_once() -> None:
    """The conclusion is due after seven messages, and only one of their calls has the action."""
    turn = Guard().turn()
    seen = [message(turn, "a", "b") for _ in range(9)]
    assert seen[2:8] == [[BLOCK, BLOCK]] * 6
    assert seen[8] == [CONCLUDE, BLOCK]


def test_calls_after_a_conclusion_end_the_run() -> None:
    """The model was to answer, and makes a call again that brought nothing new."""
    turn = Guard().turn()
    assert [message(turn, "a") for _ in range(9)][-1] == [CONCLUDE]
    assert turn.conclude() is not None
    assert message(turn, "a") == [ABORT]


def test_the_ladder_starts_over_after_news_and_has_one_conclusion() -> None:
    """After a conclusion, news gives the agent ten new refusals, as if there were no such step."""
    turn = Guard().turn()
    for _ in range(9):
        message(turn, "a")
    assert turn.conclude() is not None
    assert message(turn, "b") == [RUNS]
    assert [message(turn, "a")[0] for _ in range(12)][1:] == [*[BLOCK] * 10, ABORT]


def test_an_abort_after_of_0_holds_after_a_conclusion() -> None:
    """It says that no run is ended."""
    turn = Guard(Policy(abort_after=0)).turn()
    for _ in range(9):
        message(turn, "a")
    assert turn.conclude() is not None
    assert {action for _ in range(30) for action in message(turn, "a")} == {BLOCK}


def test_news_withdraws_a_conclusion_that_is_due() -> None:
    """Another call of the same message brought news: the agent gets somewhere."""
    turn = Guard().turn()
    for _ in range(8):
        message(turn, "a")
    assert message(turn, "a", "b") == [CONCLUDE, RUNS]
    assert not turn.conclusion_due
    assert turn.conclude() is None


def test_a_conclusion_is_possible_as_a_verdict_and_as_an_answer_of_on_trip() -> None:
    """The call is refused, and the conclusion is due; under ``block`` a verdict is lowered like any other."""

    def budget(_history: History, record: Record, _rule: Rule) -> Trip:
        return Trip("budget", record.tool, 1, 0, CONCLUDE)

    for policy, action in (
        (Policy(action="conclude", detectors=[budget]), CONCLUDE),
        (Policy(detectors=[budget]), BLOCK),
        (Policy(on_trip=lambda _: "conclude", modes={"generic_repeat": Rule(nudge=0)}), CONCLUDE),
    ):
        turn = Guard(policy).turn()
        seen = [message(turn, "a")[0] for _ in range(3)]
        assert seen[-1] is action
        assert turn.conclusion_due is (action is CONCLUDE)


def test_a_second_conclusion_is_a_refusal() -> None:
    """A detector may ask for one again, but a turn has one."""
    policy = Policy(action="conclude", abort_after=0, detectors=[lambda *_: Trip("budget", "x", 1, 0, CONCLUDE)])
    turn = Guard(policy).turn()
    assert message(turn, "a") == [CONCLUDE]
    assert turn.conclude() is not None
    assert message(turn, "a") == [BLOCK]
    assert not turn.conclusion_due


def test_earlier_results_are_not_given_again_without_end() -> None:
    """A tool declared ``reuse`` has the ladder of refusals, too."""
    turn = Guard(Policy(tools={"read_file": ToolContract(reuse=True)})).turn()
    reuse = Action.REUSE
    assert [message(turn, "a")[0] for _ in range(13)] == [RUNS, NUDGE, *[reuse] * 6, CONCLUDE, *[reuse] * 3, ABORT]


def test_a_call_without_an_earlier_result_is_refused_where_on_trip_wants_to_give_it_again() -> None:
    """Results of tools that are not declared ``reuse`` are not kept, whatever was made before."""
    policy = Policy(
        tools={"read_file": ToolContract(reuse=True)},
        on_trip=lambda trip: Action.REUSE if trip.action is BLOCK and trip.tool == "look_up" else None,
    )
    turn = Guard(policy).turn()
    assert [message(turn, "a") for _ in range(3)] == [[RUNS], [NUDGE], [Action.REUSE]]
    call = ToolCall("look_up", {"name": "a"})
    for _ in range(2):
        turn.begin(call)
        turn.end(call, Outcome("same"))
    assert turn.begin(call).action is BLOCK


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        (Policy(action="reuse"), NUDGE),
        (Policy(action="reuse", modes={Mode.GENERIC_REPEAT: Rule(nudge=0)}), Action.OBSERVE),
        (Policy(action="reuse", detectors=[lambda *_: Trip("budget", "x", 1, 0, Action.REUSE)]), NUDGE),
    ],
    ids=["a mode", "a mode that does not nudge", "a detector of the user"],
)
def test_where_nothing_is_refused_a_call_without_an_earlier_result_runs(policy: Policy, expected: Action) -> None:
    """The model is told instead, unless the mode tells it nothing."""
    assert actions(policy, 3)[-1] is expected


def test_a_ceiling_below_a_refusal_has_no_ladder() -> None:
    """The earlier result is given as often as it is asked for."""
    policy = Policy(action="reuse", tools={"read_file": ToolContract(reuse=True)})
    assert actions(policy, 14) == [RUNS, NUDGE, *[Action.REUSE] * 12]


def test_an_abort_limit_holds_for_results_that_could_be_given_again() -> None:
    """Only a refusal is replaced by the earlier result."""
    policy = Policy(
        action="abort", tools={"read_file": ToolContract(reuse=True)}, modes={Mode.GENERIC_REPEAT: Rule(abort=3)}
    )
    assert actions(policy, 3) == [RUNS, NUDGE, ABORT]


def test_a_nudge_before_a_call_is_given_once_a_limit() -> None:
    """A detector that finds the same count again has nothing to add, and no refusal to log."""
    policy = Policy(detectors=[lambda *_: Trip("budget", "x", 1, 1, NUDGE)])
    turn = Guard(policy).turn()
    decisions = [turn.begin(ToolCall("look_up", {"number": 7})) for _ in range(3)]
    assert [decision.action for decision in decisions] == [NUDGE, RUNS, RUNS]
    assert {decision.record.capped for decision in decisions if decision.record} == {None}
