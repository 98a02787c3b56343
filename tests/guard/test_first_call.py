"""The straight way of a first call has the effect of the general way, which is its specification."""

from __future__ import annotations

import gc
import json
import threading
from types import SimpleNamespace

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from otel_loopguard import turn as turn_module
from otel_loopguard.engine.history import update
from otel_loopguard.engine.judge import TurnJudge
from otel_loopguard.engine.policy.policy import Policy, Rule, ToolContract
from otel_loopguard.engine.words import Hints, Outcome, Record, ToolCall
from otel_loopguard.guard.guard import Guard

GENERAL = SimpleNamespace(begin=lambda *_: None, end=lambda *_: None)
"""In place of ``first_call``: every call goes the general way."""

TOOLS = [
    "read_file",
    "write_file",
    "next_page",
    "send_take",
    "bash",
    "get_status",
    "frobnicate",
    "wait",
    "think",
    "ask_agent",
]
ARGUMENTS = [
    {"path": "a.txt"},
    {"path": "b.txt", "start": 1.0},
    {"query": "select 1"},
    {"query": "how to bake"},
    {"command": "ls"},
    {"action": "poll"},
    {"path": "a.txt", "reason": "because"},
    {"parts": ["x", {"y": 2}]},
    "one text",
    None,
    {},
]
LONG = "words that fill the result of a tool until it is no longer brief, because that matters to some modes; "
RESULTS = [
    "ok", "", "[]", LONG, LONG + "id 8f14e45fceea167a", LONG + "id c9f0f895fb98ab91", LONG + "at 10:31",
    "Error: no such file", "still pending", {"done": True}, ["a", 2], LONG * 30, "half a surrogate \ud800", None, 7,
]  # fmt: skip
POLICIES = {
    "default": {},
    "observe": {"action": "observe"},
    "off": {"action": "off"},
    "counts calls": {"counting": "calls"},
    "budget": {"max_calls": 4},
    "concludes": {"conclude_after": 1, "abort_after": 3},
    "early rows": {"modes": {"same_answer": Rule(nudge=2, block=3), "error_repeat": Rule(nudge=1, block=2)}},
    "rows off": {"modes": {"same_answer": Rule(nudge=0, block=0), "error_repeat": Rule(nudge=0, block=0)}},
    "second run": {"modes": {"generic_repeat": Rule(block=2)}},
    "contracts": {
        "tools": {
            "read_*": ToolContract(cap=3),
            "write_*": ToolContract(once=True),
            "bash": ToolContract(reuse=True, kind="read"),
            "next_*": ToolContract(target="path"),
            "frob*": ToolContract(query="query"),
            "get_*": ToolContract(action="off"),
        }
    },
}  # fmt: skip

results = st.sampled_from(RESULTS)
errors = st.sampled_from(["no such file", ValueError("no such file"), TimeoutError("slow")])
outcomes = st.one_of(
    st.tuples(results, st.sampled_from([None, None, None, False, True])).map(lambda of: Outcome(of[0], is_error=of[1])),
    errors.map(lambda error: Outcome(error=error)),
    st.tuples(results, st.booleans(), st.booleans()).map(lambda of: Outcome(of[0], cancelled=of[1], exists=of[2])),
)
begins = st.fixed_dictionaries(
    {
        "pause": st.sampled_from([0.0, 0.0, 0.5, 11.0, 400.0]),
        "tool": st.sampled_from(TOOLS),
        "arguments": st.one_of(st.sampled_from(ARGUMENTS), st.builds(lambda n: {"n": n}, st.integers(0, 40))),
        "known": st.sampled_from([None, None, TOOLS, ["read_file"]]),
        "hints": st.sampled_from([None, None, None, Hints(read_only=True), Hints(destructive=True, idempotent=False)]),
        "written": st.sampled_from([None, None, 0, 1]),
        "may_exist": st.booleans(),
    }
)
steps = st.lists(
    st.one_of(
        st.tuples(st.just("call"), begins, outcomes),
        st.tuples(st.just("begin"), begins, st.none()),
        st.tuples(st.just("end"), st.integers(0, 5), outcomes),
        st.tuples(st.just("row"), begins, outcomes),
        st.tuples(st.just("say"), st.booleans(), st.none()),
        st.tuples(st.just("child"), begins, outcomes),
        st.tuples(st.just("conclude"), st.none(), st.none()),
    ),
    max_size=40,
)
"""``call``: begin and end; ``row``: the same with six arguments, one after the other; ``begin`` leaves a call running,
which ``end`` ends, in any order."""


def plain(tool, arguments):
    """Return a call as ``begins`` draws it, without anything unusual."""
    call = {"pause": 0.0, "tool": tool, "arguments": arguments}
    return call | {"known": None, "hints": None, "written": None, "may_exist": False}


class Session:
    """One turn that is driven by drawn steps; notes everything that can be observed."""

    def __init__(self, policy: Policy, key: bytes) -> None:
        self.now = 0.0
        guard = Guard(policy, clock=lambda: self.now)
        for tool in TOOLS:  # the first call of a tool in a process goes the general way
            guard.turn().begin(ToolCall(tool))
        self.turn = guard.turn("one")
        self.running: list[ToolCall] = []
        self.observed: list[object] = []

    def run(self, steps):
        """Run the steps, and return all that was observed."""
        for number, (step, what, outcome) in enumerate(steps):
            if step == "say":
                if number % 7 == 0:  # seldom, because it ends the straight way for the rest of the turn
                    self.turn.say("a message", stop=what)
            elif step == "conclude":
                self.observed.append(self.turn.conclude())
            elif step == "end":
                if self.running:
                    self.end(self.turn, self.running.pop(what % len(self.running)), outcome)
            elif step == "row":
                for place in range(6):
                    self.make(step, self.call(what | {"arguments": {"place": place}}, number), outcome)
            else:
                self.make(step, self.call(what, number), outcome)
        return self.observed

    def make(self, step, call, outcome):
        """Begin a call, and end it if it runs and is not left running."""
        if not self.note(self.turn.begin(call)).runs:
            return
        if step == "begin":
            self.running.append(call)
            return
        if step == "child":
            inner = self.turn.child(call)
            if self.note(inner.begin(call)).runs:
                self.end(inner, call, outcome)
        self.end(self.turn, call, outcome)

    def call(self, what, number):
        """Return a drawn call, after its pause."""
        self.now += 0.01 + what["pause"]
        written = None if what["written"] is None else max(0, self.turn.tick - what["written"])
        return ToolCall(
            what["tool"], what["arguments"], f"id-{number}", what["known"], what["hints"], written, what["may_exist"]
        )

    def end(self, turn, call, outcome):
        """End a call a moment later."""
        self.now += 0.02
        self.note(turn.end(call, outcome))

    def note(self, decision):
        """Note a decision, its record and the history after it."""
        record = decision.record
        names = [name for name in Record.__annotations__ if record is not None and name != "is_first"]
        fields = [(name, shown(getattr(record, name, "unset"))) for name in names]
        history = self.turn.judge.history
        slots = [(name, shown(getattr(history, name))) for name in type(history).__slots__]
        tools = [[getattr(rows, name) for name in type(rows).__slots__] for rows in history.tools.values()]
        self.observed.append((decision._replace(record=None, notes=str(decision.notes)), fields, slots, tools))
        return decision


def shown(value):
    """Return a value that can be compared: two turns have two objects of the same state."""
    if type(value).__name__ in {"CallStats", "CallWindow"}:
        return value.to_list()
    if type(value).__name__ == "ResolvedCall":
        return value.tool.name, value.arguments, value.kind
    if type(value) is dict:
        return [(key, shown(item)) for key, item in value.items() if type(item).__name__ != "ToolStats"]
    return repr(value) if type(value).__name__ == "Losses" else value


def different(one, other):
    """Return the parts of two notes that are not equal."""
    if type(one) is not tuple or one[1:] == other[1:] == ():
        return [] if one == other else [(one, other)]
    pairs = [(one[0], other[0]), *zip(one[1], other[1], strict=True), *zip(one[2], other[2], strict=True)]
    return [pair for pair in (*pairs, (one[3], other[3])) if pair[0] != pair[1]]


@pytest.mark.parametrize("policy", POLICIES)
@settings(max_examples=40, deadline=None)
@given(steps=steps)
@example(
    steps=[
        ("row", plain("read_file", {}), Outcome("Error: no such file")),
        ("call", plain("read_file", {"place": 0}), Outcome(LONG)),
        ("call", plain("read_file", {"n": 1}), Outcome(LONG)),
    ]
)
def test_both_ways_have_the_same_effect(policy, steps):
    """Each decision, each field of a record and the whole history are equal after every step, under any policy."""
    policy = Policy(hash_key=b"k" * 16, **POLICIES[policy])
    straight = Session(policy, b"k").run(steps)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(turn_module, "first_call", GENERAL)
        general = Session(policy, b"k").run(steps)
    for one, other in zip(straight, general, strict=True):
        assert different(one, other) == []


@pytest.mark.parametrize("tool", ["read_file", "write_file", "bash", "get_status", "frobnicate"])
def test_first_calls_do_not_take_the_general_way(tool, monkeypatch):
    """Fifteen first calls with texts as results need nothing of it, once the guard has met the tool."""
    guard = Guard()
    guard.turn().begin(ToolCall(tool))
    monkeypatch.delattr(update, "open_record")
    monkeypatch.delattr(TurnJudge, "end")
    turn = guard.turn()
    for number in range(15):
        call = ToolCall(tool, {"path": f"{number}.txt"}, known_tools=[tool])
        assert turn.begin(call).runs
        assert turn.end(call, Outcome(f"{number} {LONG}")).record.news
    assert json.loads(turn.state())["news"] == 15


def turn_that_met(*tools, most_live=1_000):
    """Return a turn whose guard has met the tools, and the guard."""
    guard = Guard()
    guard._turns._most = most_live
    for tool in tools:
        guard.turn().begin(ToolCall(tool))
    return guard.turn("one"), guard


def meanwhile(turn, act):
    """Have another thread do something while a call waits for the lock of its turn, for the first time."""
    lock = turn.lock

    class BusyLock:
        def __enter__(self):
            turn.lock = lock
            other = threading.Thread(target=act)
            other.start()
            other.join()
            lock.acquire()

        def __exit__(self, *_):
            lock.release()

    turn.lock = BusyLock()


def test_a_call_that_two_threads_end_takes_no_other_call_with_it():
    """One thread cancels it while the other counts its result: the call beside it still ends as one that ran."""
    turn, _ = turn_that_met("read_file")
    one, beside = (ToolCall("read_file", {"path": path}) for path in "ab")
    turn.begin(one)
    turn.begin(beside)
    meanwhile(turn, lambda: turn.end(one, Outcome(cancelled=True)))
    turn.end(one, Outcome("text"))
    assert turn.end(beside, Outcome("other text")).record.news


def test_a_call_counts_in_the_history_that_has_just_begun():
    """Another thread finds a change that was cut short, and begins a new history."""
    turn, _ = turn_that_met("read_file")
    call = ToolCall("read_file", {"path": "a"})
    meanwhile(turn, turn.judge.start_over)
    turn.begin(call)
    assert turn.calls == 1
    meanwhile(turn, turn.judge.start_over)
    turn.end(call, Outcome("text"))
    assert turn.judge.history.news == 1


def test_a_turn_that_is_stored_while_a_call_begins_is_live_again():
    """Otherwise the call is lost when the turn is asked for again."""
    turn, guard = turn_that_met("read_file", most_live=1)
    call = ToolCall("read_file", {"path": "a"})
    meanwhile(turn, lambda: [guard.turn() for _ in range(3)])
    turn.begin(call)
    turn.end(call, Outcome("text"))
    del turn
    gc.collect()  # the lock of the test held it
    assert guard.turn("one").calls == 1


def test_a_call_whose_message_is_not_known_belongs_to_the_last_batch():
    """It is interrupted and resumed with it: it is still one call."""
    turn, _ = turn_that_met("read_file")
    turn.begin(ToolCall("read_file", {"path": "a"}, "a", written=turn.tick))
    call = ToolCall("read_file", {"path": "b"}, "b")
    turn.begin(call)
    turn.end(call, Outcome(cancelled=True))
    turn.begin(call._replace(written=turn.tick))
    assert turn.calls == 2
