"""Custom detectors: their trips are handled like all others, and their faults let the call run."""

from __future__ import annotations

import json
import threading
from dataclasses import replace

import pytest

from otel_loopguard.engine.detectors.row import Detector
from otel_loopguard.engine.policy.policy import Policy
from otel_loopguard.engine.rule import Rule
from otel_loopguard.engine.vocabulary import Action, Outcome, ToolCall, Trip
from otel_loopguard.guard.guard import Guard


def guard_with(answer, **settings):
    """Return a guard with a detector that always gives this answer, and the list of reported faults."""
    guard, faults = Guard(Policy(detectors=[lambda *_: answer], **settings)), []
    guard.faults.report_to = lambda site, error: faults.append((site, type(error).__name__))
    return guard, faults


async def a_coroutine(*_):
    """Stand for a detector that is async by mistake."""


@pytest.mark.parametrize(
    "answer",
    [
        "block",
        4,
        ("own", "x", 1, 0, Action.BLOCK),
        Trip("own", "x", 1, 0, "blok"),
        Trip("own", "x", 1, 0, 4),
        Trip("own", "x", 1, 0, None),
        Trip(None, "x", 1, 0, Action.BLOCK),
        Trip("own", None, 1, 0, Action.BLOCK),
        Trip("own", "x", 1.5, 0, Action.BLOCK),
        Trip("own", "x", 1, None, Action.BLOCK),
        Trip("own", "x", 1, 0, Action.BLOCK, reason=["x"]),
        Trip("own", "x", 1, 0, Action.BLOCK, kind="write"),
    ],
)
def test_an_answer_that_is_no_trip_is_a_fault_and_the_call_runs(answer):
    """Such an answer is reported like an exception of the detector; begin and end do not raise."""
    guard, faults = guard_with(answer)
    turn, call = guard.turn(), ToolCall("x", {})
    assert turn.begin(call).runs
    assert turn.end(call, Outcome("fine")).action is None
    assert faults == [("detector", "NotATripError" if "blok" not in repr(answer) else "KeyError")]


def test_an_async_detector_is_a_fault():
    """The coroutine of the detector is closed, so that Python prints no warning."""
    guard, faults = guard_with(None)
    guard.use(Policy(detectors=[a_coroutine]))
    assert guard.turn().begin(ToolCall("x")).runs
    assert faults == [("detector", "NotATripError")]


def test_a_verdict_may_be_the_name_of_an_action():
    """The name is converted to the action."""
    guard, faults = guard_with(Trip("own", "x", 1, 0, "block"))
    decision = guard.turn().begin(ToolCall("x", {}))
    assert (decision.action, decision.trip.verdict, faults) == (Action.BLOCK, Action.BLOCK, [])


def test_a_fault_of_one_detector_leaves_the_others_working():
    """The trip of a second detector counts though the first one gave a wrong answer."""
    policy = Policy(detectors=[lambda *_: "block", lambda _h, call, _r: Trip("own", call.tool, 1, 0, Action.BLOCK)])
    assert Guard(policy).turn().begin(ToolCall("x")).action is Action.BLOCK


def test_a_trip_that_can_be_insisted_on_runs_when_it_is_insisted_on():
    """The refusal says that the same call will run, and it does."""
    guard, _ = guard_with(Trip("own", "x", 1, 0, Action.BLOCK, insistable=True))
    turn = guard.turn()
    assert [turn.begin(ToolCall("x", {})).runs for _ in range(2)] == [False, True]


def test_values_that_json_cannot_hold_are_still_refused_in_json():
    """A number beyond 64 bits does not keep the refusal from being JSON, and a lone surrogate is no part of a name."""
    guard, _ = guard_with(Trip("own", "\ud800", 2**80, 0, Action.BLOCK))
    refusal = json.loads(guard.turn().begin(ToolCall("\ud800", {})).message)
    assert (refusal["tool"], refusal["count"]) == ("_", 2**80)


# --- rows --------------------------------------------------------------------------------------------------------


def row_of(**checks):
    """Return a detector of a mode of its own, which nudges at 2 of one call."""
    return Detector("often", rule=Rule(nudge=2), nudge="{tool} again, {count}.", advice="none", **checks)


def nudge_each(history, record, rule):
    """Nudge at each call of a tool from the limit on, in a mode that the row corrects."""
    count = history.calls_of(record)
    return Trip("x", record.tool, count, rule.nudge, Action.BLOCK) if count >= rule.nudge else None


def messages(policy, calls, faults=None):
    """Return what the model reads with each of these calls, all of which bring something new."""
    guard = Guard(policy)
    if faults is not None:
        guard.faults.report_to = lambda site, error: faults.append((site, type(error).__name__))
    turn, read = guard.turn(), []
    for number in range(calls):
        call = ToolCall("look", {"at": number})
        decision = turn.begin(call)
        read.append(turn.end(call, Outcome(f"text {number}, a new one")) if decision.runs else decision)
    return read


def test_a_row_nudges_with_the_result_at_its_limit_and_at_twice_and_four_times_it():
    """Its trips have its mode and are never stronger than a nudge, because the call has run."""
    read = messages(Policy(detectors=[row_of(after=nudge_each, once_per="tool")]), 8)
    assert [place for place, decision in enumerate(read, 1) if decision.message] == [2, 4, 8]
    assert (read[1].message, read[1].trip.mode, read[1].action) == ("[loopguard] look again, 2.", "often", Action.NUDGE)
    assert read[1].trip.verdict is Action.NUDGE


def test_once_per_says_what_shares_a_count():
    """Of each call alone nothing is due twice here; in the turn as a whole it is due at 2, 4 and 8."""
    for per, places in (("call", [2, 3, 4, 5, 6, 7, 8]), ("tool", [2, 4, 8]), ("turn", [2, 4, 8])):
        read = messages(Policy(detectors=[row_of(after=nudge_each, once_per=per)]), 8)
        assert [place for place, decision in enumerate(read, 1) if decision.message] == places, per


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"action": "observe"}, []),
        ({"modes": {"often": Rule(action="observe")}}, []),
        ({"modes": {"often": {"nudge": 3}}}, [3, 6]),
        ({"modes": {"often": {"nudge": 3, "once": True}}}, [3]),
        ({"tools": {"look": {"modes": {"often": {"nudge": 5}}}}}, [5]),
        ({"order": ["cycle"]}, []),
        ({"order": ["often", "cycle"]}, [2, 4, 8]),
    ],
)
def test_a_row_heeds_the_policy(settings, expected):
    """Ceilings, limits of the mode and of a tool, ``once`` and ``order``, as for every mode."""
    read = messages(Policy(detectors=[row_of(after=nudge_each, once_per="tool")], **settings), 8)
    assert [place for place, decision in enumerate(read, 1) if decision.message] == expected


def test_a_row_is_asked_only_about_what_it_says():
    """Not about tools that do not concern it, nor about untried calls or news if it says so."""
    asked = []

    def check(name):
        return lambda _history, record, _rule: asked.append((name, record.tool))

    row = row_of(before=check("before"), after=check("after"), untried=False, judges_news=False)
    other = row_of(before=check("other"), concerns=lambda tool, _policy: tool.name == "look")
    turn = Guard(Policy(detectors=[row, replace(other, mode="other")])).turn()
    for number, tool in enumerate(("look", "look", "listen")):
        turn.begin(ToolCall(tool))
        turn.end(ToolCall(tool), Outcome(f"text {number}, which another call does not have"))
    assert asked == [("other", "look"), ("before", "look"), ("other", "look"), ("after", "look")]


@pytest.mark.parametrize("check", ["before", "after"])
@pytest.mark.parametrize("answer", [lambda *_: 1 / 0, lambda *_: "block"])
def test_a_row_that_raises_is_counted_and_skipped(check, answer):
    """The call runs, and the others are asked."""
    faults, good = [], replace(row_of(after=nudge_each, once_per="tool"), mode="good")
    read = messages(Policy(detectors=[row_of(**{check: answer}), good]), 2, faults)
    assert [decision.trip and decision.trip.mode for decision in read] == [None, "good"]
    assert {site for site, _ in faults} == {"detector"}
    assert len(faults) == 2


def test_a_fault_of_a_row_is_said_once(caplog):
    """Without a counter it is logged, without the text of the exception."""
    messages(Policy(detectors=[row_of(after=lambda *_: 1 / 0)]), 5)
    assert [one.getMessage() for one in caplog.records] == [
        "detector of the policy raised ZeroDivisionError: the program goes on"
    ]


def test_a_row_is_asked_outside_of_the_lock():
    """Another thread can use the turn meanwhile."""
    turn = None

    def is_free(_history, _record, _rule):
        free = []
        thread = threading.Thread(target=lambda: free.append(turn.lock.acquire(timeout=5) and not turn.lock.release()))
        thread.start()
        thread.join()
        assert free == [True]
        called.append(1)

    called = []
    turn = Guard(Policy(detectors=[row_of(before=is_free, after=is_free)])).turn()
    turn.begin(ToolCall("look"))
    turn.end(ToolCall("look"), Outcome("a text"))
    assert called == [1, 1]


def test_a_row_nudges_a_call_that_is_observed():
    """A call of the program's own loop is judged with its result in hand."""
    turn = Guard(Policy(detectors=[row_of(after=nudge_each, once_per="tool")])).turn()
    read = [turn.ran(ToolCall("look", {"at": n}), Outcome(f"text {n}, a new one")).message for n in range(2)]
    assert read == [None, "[loopguard] look again, 2."]


def test_a_nudge_of_a_built_in_mode_comes_first():
    """A result has one nudge; that of the row is due at the next one."""
    policy = Policy(detectors=[row_of(after=nudge_each, once_per="tool")])
    turn, modes = Guard(policy).turn(), []
    for at in (0, 0, 1):
        turn.begin(ToolCall("look", {"at": at}))
        decision = turn.end(ToolCall("look", {"at": at}), Outcome(f"text {at}, a long one that is no acknowledgement"))
        modes.append(decision.trip and str(decision.trip.mode))
    assert modes == [None, "generic_repeat", "often"]
