"""Replay examined traces, which have times, and real runs: as the guard judges them, with and without the fast path."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from unittest import mock

import pytest

from benchmarks.exam import families, shared
from benchmarks.exam.play import GuardJudge, play
from otel_loopguard.cli.replay import fast_path, runs
from otel_loopguard.cli.replay.judge import PolicyJudge
from otel_loopguard.policy_files.load import load_preset
from tests.engine.judges import corpus
from tests.engine.judges.seed import HINT, SEED

from . import made

if TYPE_CHECKING:
    from benchmarks.exam.trace import Trace

REFUSALS = ("reuse", "block", "abort")
TRACES = [*families.draw(("natural", "opaque"), [SEED]), *shared.draw(("natural",), [SEED])]


def as_run(trace: Trace, *left_out: str) -> dict[str, Any]:
    """Write a trace as a recorded run, without these keys of its calls."""
    calls = [
        {
            "tool": call.tool, "args": call.args, "result": call.result, "is_error": call.is_error,
            "step": call.step, "at": call.begin, "ended": call.begin + call.ran,
        }
        for call in trace.calls
    ]  # fmt: skip
    kept = [{key: value for key, value in call.items() if key not in left_out} for call in calls]
    return made.run(f"{trace.family.name} {trace.naming}", kept, tools=list(trace.tools))


JUDGES = {name: PolicyJudge(load_preset(name).checked()) for name in ("default", "typed_window")}


def replayed(run: dict[str, Any], preset: str = "default") -> list[tuple[int, int, str, str]]:
    """Return the trips of a run."""
    found = runs.replay(runs.read(run), JUDGES[preset])
    return [(trip.turn, trip.call, str(trip.action), trip.mode) for trip in found]


def test_a_trace_is_judged_as_the_guard_judges_it():
    """Up to the first refusal, after which the run would have gone on differently, a replay makes the same trips."""
    for trace in TRACES:
        live = [(0, trip.call - 1, trip.action, trip.mode) for trip in play(trace, GuardJudge())]
        first = next((number for number, trip in enumerate(live) if trip[2] in REFUSALS), len(live))
        found = replayed(as_run(trace))
        assert found[: first + 1] == live[: first + 1], f"{trace.family.name} {trace.naming}; {HINT}"


def without_fast_path(run: dict[str, Any], preset: str) -> list[tuple[int, int, str, str]]:
    """Judge every call."""
    with mock.patch.multiple(fast_path, is_short_and_varied=lambda *_: False, first_to_judge=lambda *_: 0):
        return replayed(run, preset)


@pytest.mark.parametrize("preset", JUDGES)
@pytest.mark.parametrize("left_out", [(), ("at", "ended"), ("step",), ("ended", "step")])
def test_the_fast_path_changes_nothing_for_traces(preset, left_out):
    """Steps and times, or only one of them, lead to the same trips with the fast path and without it."""
    for trace in TRACES:
        run = as_run(trace, *left_out)
        assert replayed(run, preset) == without_fast_path(run, preset), f"{run['run_id']}; {HINT}"


@pytest.mark.skipif(not corpus.files(), reason="the corpora are not here")
def test_the_fast_path_changes_nothing_for_real_runs():
    """Most real runs are left out, or judged in part. Their trips are the same without the fast path."""
    for run in (run for path in corpus.files() for run in corpus.runs(path)):
        assert replayed(run) == without_fast_path(run, "default"), run["run_id"]
