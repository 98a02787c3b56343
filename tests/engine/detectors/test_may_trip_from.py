"""No detector trips below the numbers that its row says: reading recorded runs skips what is below them."""

from __future__ import annotations

import random
from collections import Counter as Count

import pytest

from otel_loopguard import Guard, Hints, Kind, Outcome, Policy, ToolCall
from otel_loopguard.engine.detectors import DETECTORS
from otel_loopguard.engine.detectors.presets import COUNTED
from otel_loopguard.engine.detectors.row import Counter
from otel_loopguard.engine.modes import ROWS

from .driver import LONG

TOOLS = ("read_page", "update_record", "frobnicate", "get_status", "run_command", "search_docs", "think", "press_key")
RESULTS = (LONG, f"{LONG} id 8f14e45fceea167a", "ok", "[]", "The job is still running.", "3 of 40 are done")
ERRORS = ("503 Service Unavailable", "ValueError: no such key")
CONTRACTS = {
    "read_*": {"cap": 9}, "search_*": {"query": "auto"}, "update_*": {"once": True}, "press_*": {"kind": "step"},
}  # fmt: skip
LOW = {"nudge": 1, "block": 2}
SETTINGS = [
    {},
    {"max_calls": 12},
    {"modes": dict.fromkeys(ROWS, LOW)},
    {
        "modes": {
            "global_circuit_breaker": {"no_news_nudge": 2, "no_news_block": 3},
            "retry_limit": {"nudge_at_share": 0.1},
            "volatile_repeat": {"nudge_any_result": 2},
        }
    },
    {"modes": {"error_repeat": {"nudge": 0, "block": 3}, "same_answer": {"nudge": 0, "block": 4}}},
]


COUNTING = {"results": DETECTORS, "calls": COUNTED}


class Counted:
    """The counters of a turn, as a reader of recorded calls may count them: rather too much than too little."""

    def __init__(self):
        self.made, self.tools, self.calls, self.unknown = Count(), Count(), 0, 0
        self.failed, self.answered, self.vain, self.vain_in_turn = Count(), Count(), 0, 0

    def with_this(self, call, record):
        """Return the counters with the call at hand as one more."""
        tool = call.tool
        return {
            Counter.EQUAL: self.made[record.key] + 1,
            Counter.OF_TOOL: self.tools[tool] + 1,
            Counter.FAILED: self.failed[tool] + 1,
            Counter.ANSWERED_ALIKE: self.answered[tool] + 1,
            Counter.UNKNOWN: self.unknown + 1,
            Counter.VAIN: self.vain + 1,
            Counter.VAIN_IN_TURN: self.vain_in_turn + 1,
            Counter.CALLS: self.calls + 1,
        }

    def add(self, call, record, *, fails):
        """Count a call that ran."""
        repeats = self.made[record.key] > 0
        self.made[record.key] += 1
        self.tools[call.tool] += 1
        self.calls += 1
        self.unknown += record.registered is False
        self.failed[call.tool] = self.failed[call.tool] + 1 if fails else 0
        if not fails:
            self.answered[call.tool] += 1
        elif not repeats:
            self.answered[call.tool] = 0
        if fails or repeats or record.kind is Kind.THINK:
            self.vain, self.vain_in_turn = self.vain + 1, self.vain_in_turn + 1
        elif record.kind.is_evidence:
            self.vain = 0


def trips(policy, seed):
    """Yield the trip of each drawn call that has one, its rule, and the counters at that call."""
    rng, now, counted = random.Random(seed), 0.0, Counted()
    turn = Guard(policy, clock=lambda: now).turn()
    tools, results = rng.sample(TOOLS, rng.randint(1, 4)), rng.sample(RESULTS, rng.randint(1, 3))
    failures, known, new = rng.choice((0, 0.2, 1)), rng.choice((None, None, TOOLS[:4])), rng.choice((0.1, 0.5, 1))
    lap = [(rng.choice(tools), word, rng.choice(results)) for word in "abcdefgh"[: rng.choice((1, 2, 2, 3, 4, 8))]]
    goes_round = rng.random() < 0.6
    for number in range(rng.randint(10, 60)):
        now += rng.choice((0.1, 0.5, 12.0))
        tool, word, result = rng.choice(tools), rng.choice("abc"), rng.choice(results)
        if goes_round:
            tool, word, result = lap[number % len(lap)]
        elif rng.random() < new:
            word = f"number {number}"
        hints = Hints(destructive=True, idempotent=False) if rng.random() < 0.1 else None
        call = ToolCall(tool, {"query": f"title of the book {word}"}, known_tools=known, hints=hints)
        if rng.random() < 0.05:
            turn.lose([turn.key_of(call)])
        fails = rng.random() < (0 if goes_round else failures)
        decision = turn.begin(call)
        record, here = decision.record, counted.with_this(call, decision.record)
        found = decision.trip
        if decision.runs:
            more = "" if rng.random() < 0.5 else f" Request {number if number % 2 else 9_000 - number}."
            outcome = Outcome(error=rng.choice(ERRORS)) if fails else Outcome(result + more * (new == 0.1))
            found = turn.end(call, outcome).trip or found
            counted.add(call, record, fails=fails)
        if found is not None:
            yield found, record.resolved.tool.rules[found.mode], here


@pytest.mark.parametrize(
    ("counting", "mode"),
    [
        (counting, mode)
        for counting, rows in COUNTING.items()
        for mode in dict.fromkeys(row.mode for row in rows if not row.at_request)
        if mode != "nested_repeat"  # no recorded call is known to be inside of another one
    ],
)
def test_no_detector_trips_below_its_numbers(counting, mode):
    """Under the default limits, low ones, and limits of which one is switched off."""
    rows = [row for row in COUNTING[counting] if row.mode == mode]
    seen = 0
    for settings in SETTINGS:
        only = {"order": (mode,), "counting": counting, "conclude_after": 0, "abort_after": 0}
        policy = Policy(**{**only, "tools": CONTRACTS, **settings})
        for seed in range(50):
            for trip, rule, here in trips(policy, seed):
                bounds = [row.may_trip_from(rule) for row in rows if mode == trip.mode]
                reached = [any(here[counter] >= least for counter, least in bound.items()) for bound in bounds]
                assert any(reached) or trip.mode != mode, (trip, bounds, here)
                seen += trip.mode == mode
    assert seen > 10, "the drawn calls never trip it"
