"""Replay examined traces, which have times: as the guard judges them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from benchmarks.exam import families, shared
from benchmarks.exam.play import GuardJudge, play
from otel_loopguard.cli.replay import recorded_runs
from otel_loopguard.cli.replay.judge import PolicyJudge
from otel_loopguard.engine.policy.policy import Policy
from tests.engine.judges.seed import HINT, SEED

from . import made

if TYPE_CHECKING:
    from benchmarks.exam.trace import Trace

REFUSALS = ("reuse", "block", "abort")
TRACES = [*families.draw(("natural", "opaque"), [SEED]), *shared.draw(("natural",), [SEED])]


def as_run(trace: Trace) -> dict[str, Any]:
    """Write a trace as a recorded run."""
    calls = [
        {
            "tool": call.tool, "args": call.args, "result": call.result, "is_error": call.is_error,
            "step": call.step, "at": call.begin, "ended": call.begin + call.ran,
        }
        for call in trace.calls
    ]  # fmt: skip
    return made.run(f"{trace.family.name} {trace.naming}", calls, tools=list(trace.tools))


JUDGE = PolicyJudge(Policy())


def replayed(run: dict[str, Any]) -> list[tuple[int, int, str, str]]:
    """Return the trips of a run."""
    found, _ = recorded_runs.replay(recorded_runs.read(run), JUDGE)
    return [(trip.turn, trip.call, str(trip.action), trip.mode) for trip in found]


def test_a_trace_is_judged_as_the_guard_judges_it():
    """Up to the first refusal, after which the run would have gone on differently, a replay makes the same trips."""
    for trace in TRACES:
        live = [(0, trip.call - 1, trip.action, trip.mode) for trip in play(trace, GuardJudge()).trips]
        first = next((number for number, trip in enumerate(live) if trip[2] in REFUSALS), len(live))
        found = replayed(as_run(trace))
        assert found[: first + 1] == live[: first + 1], f"{trace.family.name} {trace.naming}; {HINT}"
