"""Replay runs of real agents in a guard: one JSON line a run, plain or gzipped, as `replay` reads them."""

from __future__ import annotations

import gzip
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from otel_loopguard.engine.vocabulary import Outcome, ToolCall
from tests.engine.reference import plain

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

CORPORA = Path(__file__).resolve().parents[4] / "shared" / "corpora"
NAMES = ("tau", "hotpot", "livemcp")
REFUSALS = ("reuse", "block", "conclude", "abort")


class Judged(Protocol):
    """A turn that only reports its decisions: (mode, action, count) or None. Every recorded call is run."""

    def begin(self, call: ToolCall) -> tuple[str, str, int] | None:
        """Return the action that would replace this call."""

    def end(self, call: ToolCall, outcome: Outcome) -> tuple[str, str, int] | None:
        """Return the nudge that would be added to its result."""


class Tripped(NamedTuple):
    """A trip on one call of a run."""

    turn: int
    call: int
    mode: str
    action: str


@dataclass
class Replayed:
    """A run with its trips."""

    run: dict[str, Any]
    trips: list[Tripped] = field(default_factory=list)

    @property
    def run_id(self) -> str:
        """The name of the run."""
        return str(self.run["run_id"])

    @property
    def refusals(self) -> list[Tripped]:
        """The calls that would not have run."""
        return [trip for trip in self.trips if trip.action in REFUSALS]


class Clock:
    """A clock that moves only if a test sets it."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        """Return the time that was set."""
        return self.now


def runs(path: Path) -> Iterator[dict[str, Any]]:
    """The runs of one file."""
    data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    for line in data.decode().split("\n"):
        if line.strip():
            yield json.loads(line)


def labels(folder: Path = CORPORA) -> list[dict[str, Any]]:
    """The hand-judged repeats."""
    return list(runs(folder / "labels.jsonl"))


def files(folder: Path = CORPORA) -> list[Path]:
    """The corpora that exist."""
    return [path for name in NAMES for path in [folder / f"{name}.jsonl.gz"] if path.exists()]


def batches(calls: list[dict[str, Any]]) -> Iterator[list[int]]:
    """Yield the positions of calls that were issued together."""
    batch: list[int] = []
    for index, call in enumerate(calls):
        if batch and call.get("step") != calls[batch[-1]].get("step"):
            yield batch
            batch = []
        batch.append(index)
    if batch:
        yield batch


def replay(run: dict[str, Any], new_turn: Callable[[Callable[[], float]], Judged]) -> Replayed:
    """Replay one run: each of its turns in a new turn."""
    replayed = Replayed(run)
    tools = frozenset(run.get("tools") or ()) or None
    for number, turn in enumerate(run["turns"]):
        clock = Clock()
        judged = new_turn(clock)
        for batch in batches(turn["calls"]):
            called = [(index, to_call(turn["calls"][index], tools)) for index in batch]
            for index, call in called:
                clock.now = turn["calls"][index].get("at", clock.now)
                note(replayed, number, index, judged.begin(call))
            for index, call in called:
                note(replayed, number, index, judged.end(call, to_outcome(turn["calls"][index])))
    return replayed


def note(replayed: Replayed, turn: int, call: int, trip: tuple[str, str, int] | None) -> None:
    """Keep a trip, if there is one; a call that was refused is not nudged as well."""
    refused = any((seen.turn, seen.call) == (turn, call) for seen in replayed.trips)
    if trip and not refused:
        replayed.trips.append(Tripped(turn, call, trip[0], trip[1]))


def to_call(recorded: dict[str, Any], tools: frozenset[str] | None) -> ToolCall:
    """The call that was recorded."""
    return ToolCall(recorded["tool"], recorded["args"], recorded.get("call_id"), tools)


def to_outcome(recorded: dict[str, Any]) -> Outcome:
    """The outcome that was recorded; results are equal if their hashes are."""
    hashed = recorded.get("result_hash")
    digest = int(hashed, 16) if hashed else None
    return Outcome(result=recorded["result"], is_error=bool(recorded.get("is_error")), digest=digest)


def key(call: dict[str, Any]) -> tuple[str, str]:
    """The exact tool and arguments of a recorded call."""
    return call["tool"], plain.canonical(call["args"])


def withheld(run: dict[str, Any], trip: Tripped) -> bool:
    """Return True if this call had not shown the refused call's recorded result before in its turn.

    Results are compared by hash and, if that differs, with timestamps, ids and durations masked.
    """
    calls = run["turns"][trip.turn]["calls"]
    refused = calls[trip.call]
    earlier = [call for call in calls[: trip.call] if key(call) == key(refused)]
    return not any(shown(call) & shown(refused) for call in earlier)


def shown(call: dict[str, Any]) -> set[tuple[str, str]]:
    """The exact and the masked form of a recorded result: two results are equal if they share one."""
    text = call["result"] or ""
    exact = call.get("result_hash") or text
    masked = plain.view(text, masked=True, durations=True, volatile=frozenset())
    return {("exact", exact), ("masked", masked.text)} if masked.has_values else {("exact", exact)}


def caught(label: dict[str, Any], replayed: Replayed, actions: tuple[str, ...]) -> bool:
    """Return True if a trip is between the labelled call's second occurrence and three calls after the labelled one."""
    turn, position = label.get("turn", 0), label["call"]
    calls = replayed.run["turns"][turn]["calls"]
    same = [index for index, call in enumerate(calls) if key(call) == key(calls[position])]
    start = same[1] if len(same) > 1 else position
    return any(t.turn == turn and start <= t.call <= position + 3 and t.action in actions for t in replayed.trips)
