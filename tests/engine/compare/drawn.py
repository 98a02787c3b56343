"""The policies, calls and outcomes that traces are drawn from. Imports public names only, as two layouts have them."""

from __future__ import annotations

import asyncio
import tempfile
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from otel_loopguard import Action, Hints, Kind, Outcome, Policy, Rule, ToolContract, Trip, load_policy

if TYPE_CHECKING:
    from collections.abc import Callable
    from random import Random

KEY = b"k" * 16
MEANWHILE: list[Callable[[], None]] = []
"""Run by the next function of a policy that is called: what happens while code of the user runs."""


def user_code() -> None:
    """Let happen what is to happen meanwhile, once."""
    if MEANWHILE:
        MEANWHILE.pop()()


def odd_calls(history, record, rule):
    """Refuse, nudge or observe by the number of the call, as a custom detector."""
    user_code()
    if (history.calls + (record.stats is None)) % 5 != 4:
        return None
    verdict = (Action.BLOCK, Action.NUDGE, Action.OBSERVE)[history.calls % 3]
    return Trip("mine", record.tool, history.calls, 3, verdict, kind=Kind.READ, insistable=history.calls % 2 == 0)


def faulty(history, record, rule):
    """Raise, or return what is no trip, now and then."""
    if history.calls % 7 == 5:
        raise ValueError("a fault of the detector")
    return "no trip" if history.calls % 7 == 6 else odd_calls(history, record, rule)


def answer(trip):
    """Answer by the count of the trip."""
    user_code()
    return (None, "nudge", "observe", "block")[trip.count % 4]


def faulty_answer(trip):
    """Raise, or answer with no action, now and then."""
    if trip.count % 4 == 3:
        raise ValueError("a fault of on_trip")
    return "blok" if trip.count % 4 == 0 else None


async def slow_answer(trip):
    """Answer after other tasks have had their turn."""
    await asyncio.sleep(0)
    return answer(trip)


AGAIN = {"*": ToolContract(reuse=True)}
EARLY_ROWS = {"same_answer": Rule(nudge=2, block=3), "error_repeat": Rule(nudge=1, block=2)}
SETTINGS: dict[str, dict[str, Any]] = {
    "default": {},
    "observe": {"action": "observe"},
    "nudge": {"action": "nudge"},
    "off": {"action": "off"},
    "counts calls": {"counting": "calls", "window_calls": 12},
    "counts all": {"counting": "calls", "records": "all", "window": 30.0},
    "budget": {"max_calls": 6},
    "concludes": {"conclude_after": 1, "abort_after": 3},
    "aborts": {"action": "abort", "conclude_after": 0, "abort_after": 2},
    "early rows": {"modes": EARLY_ROWS},
    "early breaker": {"modes": {
        "global_circuit_breaker": Rule(nudge=2, block=3, no_news_nudge=4, no_news_block=8),
        "no_novelty": Rule(nudge=2),
    }},
    "contracts": {"tools": {
        "read_*": ToolContract(cap=3), "write_*": ToolContract(once=True), "get_*": ToolContract(patience=20.0),
        "wait": ToolContract(action="nudge"), "bash": ToolContract(target="path", volatile=("id",)),
        "search": ToolContract(query="auto"), "next_page": ToolContract(interval=2.0),
    }},
    "gateway": {"tools": {
        "call_tool": ToolContract(route={"tool": "name", "args": "input"}), "read_*": ToolContract(cap=3)},
    },
    "on_trip": {"on_trip": answer},
    "async on_trip": {"on_trip": slow_answer},
    "on_trip, reuse": {"on_trip": answer, "tools": AGAIN, "conclude_after": 2},
    "reuse": {"tools": AGAIN},
    "conversation": {"scope": "conversation", "modes": {"no_novelty": Rule(turns=2)}},
    "conversation, on_trip": {"scope": "conversation", "modes": {"no_novelty": Rule(turns=1)}, "on_trip": answer},
    "custom": {"detectors": (odd_calls,), "sentences": {"mine": "No, {tool}."}},
    "custom, on_trip": {"detectors": (odd_calls,), "on_trip": answer, "modes": EARLY_ROWS},
    "faulty": {"detectors": (faulty, odd_calls), "on_trip": faulty_answer},
}  # fmt: skip
PRESETS = ("chat_turn", "local_reads", "recipe_step", "repeat_abort", "repeat_hint", "turn_nudge", "typed_window")
POLICIES = (*SETTINGS, *PRESETS)


@cache
def policy(name: str) -> Policy:
    """Return the policy of that name."""
    if name in SETTINGS:
        return Policy(hash_key=KEY, **SETTINGS[name])
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "policy.toml")
        file.write_text(f'preset = "{name}"\n', "utf-8")
        # The old package has no such setting: it compared the arguments of `local_reads` as they are, by mistake.
        as_before = {"arguments": "identical"} if hasattr(Policy, "arguments") else {}
        return replace(load_policy(str(file)), hash_key=KEY, **as_before)


LONG = "words that fill the result of a tool until it is no longer brief, because that matters to some modes; "
TOOLS = (
    "read_file", "write_file", "next_page", "bash", "get_status", "frobnicate", "wait", "think", "run_agent", "search",
    "submit_answer", "call_tool", "a_very_long_name_" * 20,
)  # fmt: skip
RESULTS: tuple[Any, ...] = (
    "ok", "", "[]", LONG, LONG + "id 8f14e45fceea167a", LONG + "id c9f0f895fb98ab91", LONG + "at 10:31",
    "No file matches 'x'", "Error: no such file", "still pending", {"done": True}, ["a", 2], "half a surrogate \ud800",
    {"id": "a000001f", "text": "same"}, {"id": "a000002f", "text": "same"}, None,
)  # fmt: skip
ERRORS = ("no such file", TimeoutError("slow"), "HTTP 503 service unavailable", "denied 7", "denied 8")
QUERIES = ("what is the refund policy", "what is the refund rule", "delete the refund policy", "weather in Rome")
ARGUMENTS: dict[str, tuple[Any, ...]] = {
    "two": ({"path": "a.txt"}, {"path": "b.txt"}),
    "some": ({"path": "a"}, {"path": "b", "why": "x"}, {"path": "b", "why": "y"}, {"query": "q"}, None),
    "queries": tuple({"query": text} for text in QUERIES),
    "routed": ({"name": "read_file", "input": {"path": "a"}}, {"name": "bash", "input": {"path": "a"}}, {"name": 7}),
    "many": tuple({"path": f"{number}.txt"} for number in range(40)),
}
KNOWN = (None, None, TOOLS, ("read_file",))
HINTS = (None, None, Hints(read_only=True), Hints(destructive=True, idempotent=True), Hints(read_only=False))


class Values:
    """The values of one trace: often few, so that calls repeat."""

    def __init__(self, rng: Random) -> None:
        few = rng.random() < 0.7
        self.tools = rng.sample(TOOLS, rng.randint(1, 3)) if few else TOOLS
        self.results = rng.sample(RESULTS, rng.randint(1, 3)) if few else RESULTS
        self.arguments = ARGUMENTS[rng.choice(["two", "two", "two", "some", "queries", "routed", "many"])]
        self.pauses = rng.choice([[0], [0, 0, 0.5], [0, 0, 0.5, 11.0, 400.0], [0, 0, 0, 0, 31.0, 4_000.0]])
        self.failures = rng.choice([0, 0.1, 0.3, 0.7])
        self.cancels = rng.choice([0.02, 0.06, 0.2])
        self.hidden = rng.choice([0, 0, 0.3])
        """The share of calls beside tools that are not registered."""
        self.stops = rng.choice([0, 0, 0.05, 0.3])
        """The share of messages that stop the turn."""
        self.hints = rng.random() < 0.2
        self.moves = rng.random() < 0.15
        """Results move in one direction."""
        shown = [*self.results, *ERRORS] if self.failures else self.results
        self.have_numbers = self.moves or any(char.isdigit() for one in shown for char in str(one))
        self.repeats = rng.choice([0, 0.3, 0.6])
        """The share of calls and outcomes that are those of before."""
        self.last_call: dict[str, Any] = {}
        self.last_outcome: Outcome | None = None

    def call(self, rng: Random) -> dict[str, Any]:
        """Draw the parts of a call."""
        if not self.last_call or rng.random() >= self.repeats:
            self.last_call = self._call(rng)
        return self.last_call

    def _call(self, rng: Random) -> dict[str, Any]:
        return {
            "tool": rng.choice(self.tools),
            "arguments": rng.choice(self.arguments),
            "known_tools": rng.choice(KNOWN),
            "may_exist": rng.random() < self.hidden,
            "hints": rng.choice(HINTS) if self.hints else None,
        }

    def outcome(self, rng: Random, number: int) -> Outcome:
        """Draw an outcome."""
        if rng.random() < self.cancels:
            return Outcome("ok", cancelled=True)
        if self.last_outcome is None or rng.random() >= self.repeats:
            self.last_outcome = self._outcome(rng, number)
        return self.last_outcome

    def recorded_outcome(self, rng: Random, number: int) -> dict[str, Any]:
        """Draw an outcome as a recording has it."""
        outcome = self.outcome(rng, number)
        if outcome.cancelled:
            return {}
        if outcome.error is not None:
            return {"result": str(outcome.error), "is_error": True}
        hashed = {"result_hash": f"{outcome.digest:016x}"} if outcome.digest is not None else {}
        return {"result": outcome.result, "is_error": outcome.is_error, **hashed}

    def _outcome(self, rng: Random, number: int) -> Outcome:
        if rng.random() < self.failures:
            return Outcome(error=rng.choice(ERRORS))
        if self.moves:
            return Outcome(f"{number} of 90 done")
        result, odd = rng.choice(self.results), rng.random()
        if odd < 0.03 and result:
            return Outcome(result, digest=len(str(result)))
        if odd < 0.06:
            return Outcome(result, keep=[result])
        return Outcome(result, exists=odd > 0.97, is_error=rng.choice([None, None, None, False, True]))


def recorded(rng: Random, values: Values, of_calls: list[Random]) -> dict[str, Any]:
    """Draw a recorded run: a generator for each call. Calls may overlap, and times and steps may be missing.

    No name is so long that it is cut: the old replay did not know such a tool.
    """
    with_times, with_steps, now = rng.random() < 0.7, rng.random() < 0.7, 5_000.0
    turns: list[dict[str, Any]] = [{"calls": []}]
    row: dict[str, Any] | None = None
    for number, own in enumerate(of_calls):
        if own.random() < 0.03:
            turns.append({"calls": []})
        if row is None or own.random() < 0.3:
            row = {"args": {"place": number}, **values.recorded_outcome(own, number)} if own.random() < 0.3 else None
        parts = values.call(own)
        call = {"tool": parts["tool"][:100], "args": parts["arguments"], "call_id": f"id-{number}"}
        call |= values.recorded_outcome(own, number) | ({**row, "args": {"place": number}} if row else {})
        now += own.choice([0, 1 / 128, *values.pauses])
        if with_times and own.random() < 0.95:
            call |= {"at": now, "ended": now + own.choice([0, 1 / 64, 3.0, 30.0])}
        if with_steps:
            call["step"] = number // own.choice([1, 1, 2, 3])
        turns[-1]["calls"].append(call)
    tools = rng.choice([None, [name[:100] for name in TOOLS], ["read_file"]])
    return {"run_id": "r", "success": None, "tools": tools, "turns": turns}
