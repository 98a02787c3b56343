"""What loops now is a gauge: a turn is in it from its first trip until it ends or brings news."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader

import otel_loopguard as loopguard
from otel_loopguard import ToolLoopError, semconv
from otel_loopguard.engine.policy.policy import Policy
from otel_loopguard.engine.vocabulary import Action, First, Trip
from otel_loopguard.telemetry.measurements import MOST_LABELS
from otel_loopguard.telemetry.open_loops import LONGEST_PAUSE, MOST_LOOPS, OpenLoops
from otel_loopguard.testing import Recording, guarded

NAMES = (semconv.METRIC_LOOPS_OPEN, semconv.METRIC_LOOPS_OPEN_STEPS, semconv.METRIC_LOOPS_OPEN_AGE)


class Loops(OpenLoops):
    """Open loops with a clock that the test sets."""

    def __init__(self) -> None:
        self.now = 0.0
        self._reader = InMemoryMetricReader()
        self._provider = MeterProvider([self._reader])
        super().__init__(self._provider.get_meter("test"), lambda: self.now)

    def add(  # noqa: PLR0917 - a table of steps
        self, turn: str = "a", tool: str = "look", action: Action = Action.OBSERVE, verdict: Action = Action.BLOCK,
        mode: str = "generic_repeat", first: First = First.ACTION, *, is_shared: bool = False,
    ) -> None:  # fmt: skip
        """Add a step."""
        self.step(turn, tool, Trip(mode, tool, 3, 3, verdict, action), first, is_shared=is_shared)

    def shown(self) -> dict[tuple[str, ...], tuple[float, ...]]:
        """The turns, steps and age of each series."""
        data: Any = self._reader.get_metrics_data()
        found: dict[tuple[str, ...], dict[str, float]] = {}
        for one in data.resource_metrics[0].scope_metrics[0].metrics if data is not None else ():
            for point in one.data.data_points:
                found.setdefault(tuple(point.attributes.values()), {})[one.name] = point.value
        return {series: tuple(values[name] for name in NAMES) for series, values in found.items()}


@pytest.fixture
def loops() -> Loops:
    """Open loops, none yet."""
    return Loops()


OBSERVED = ("look", "generic_repeat", "observe")


def test_a_loop_of_three_hours_is_one_turn_with_all_its_steps_and_its_age(loops: Loops) -> None:
    """Nothing fades: each read shows how long, and how often."""
    for at in range(0, 10_801, 10):
        loops.now = float(at)
        loops.add()
    assert loops.shown() == {OBSERVED: (1, 1_081, 10_800)}
    loops.now += 60
    assert loops.shown() == {OBSERVED: (1, 1_081, 10_860)}


def test_of_several_turns_the_steps_are_added_and_the_oldest_has_the_age(loops: Loops) -> None:
    """Two turns in one series."""
    loops.add("a")
    loops.now = 30.0
    loops.add("b")
    loops.add("b")
    assert loops.shown() == {OBSERVED: (2, 3, 30)}


def test_news_close_a_loop_and_the_next_trip_opens_a_new_one(loops: Loops) -> None:
    """Its steps and its age begin again."""
    loops.add()
    loops.add()
    assert loops.shown() == {OBSERVED: (1, 2, 0)}
    loops.recovered("a")
    assert loops.shown() == {OBSERVED: (0, 0, 0)}
    loops.now = 100.0
    loops.add()
    loops.now = 105.0
    assert loops.shown() == {OBSERVED: (1, 1, 5)}


def test_a_closed_series_is_zero_for_a_while_and_then_gone(loops: Loops) -> None:
    """So no last value stays in Prometheus, and no label stays for ever."""
    loops.add()
    assert loops.shown()[OBSERVED][0] == 1
    loops.over("a")
    loops.now = LONGEST_PAUSE
    assert loops.shown() == {OBSERVED: (0, 0, 0)}
    loops.now += 1
    assert loops.shown() == {}


def test_a_turn_without_a_step_for_long_does_not_loop_now(loops: Loops) -> None:
    """It may wait for a person, or its program is gone. A later step is a new loop."""
    loops.add()
    loops.now = LONGEST_PAUSE + 1
    assert loops.shown() == {}
    loops.add()
    assert loops.shown() == {OBSERVED: (1, 1, 0)}


def test_a_turn_is_in_the_series_of_its_strongest_action(loops: Loops) -> None:
    """A sum over the series counts each turn once. Of equal ones the first stays."""
    loops.add(action=Action.NUDGE, verdict=Action.NUDGE)
    loops.add("a", "read", Action.BLOCK, Action.BLOCK, "ping_pong")
    loops.add("a", "look", Action.BLOCK, Action.BLOCK, "cycle")
    shown = {series: values[0] for series, values in loops.shown().items()}
    assert shown == {("read", "ping_pong", "block"): 1}


@pytest.mark.parametrize(("mode", "verdict"), [("user_stop", Action.BLOCK), ("poll_no_progress", Action.NUDGE)])
def test_a_users_stop_and_the_nudge_of_a_poll_are_no_loop(mode: str, verdict: Action, loops: Loops) -> None:
    """A slow poll may rightly wait on."""
    loops.add(mode=mode, verdict=verdict)
    assert loops.shown() == {}
    loops.add(mode="poll_no_progress", verdict=Action.BLOCK)
    assert sum(values[0] for values in loops.shown().values()) == 1


def test_of_the_processes_of_a_shared_turn_one_counts_it(loops: Loops) -> None:
    """That which saw its first trip, also after news. Each has the steps that it saw."""
    other = Loops()
    loops.add(is_shared=True)
    other.add(is_shared=True, first=First.NO)
    other.add(is_shared=True, first=First.NO)
    assert (loops.shown()[OBSERVED][:2], other.shown()[OBSERVED][:2]) == ((1, 1), (0, 2))
    loops.recovered("a")
    loops.add(is_shared=True, first=First.NO)
    assert loops.shown()[OBSERVED][:2] == (1, 1)


def test_the_loops_in_memory_are_bounded(loops: Loops) -> None:
    """Those without a step for the longest time are forgotten first."""
    for number in range(MOST_LOOPS + 10):
        loops.add(str(number))
    assert loops.shown()[OBSERVED][0] == MOST_LOOPS


# --- of programs ---------------------------------------------------------------------------------------------------


def open_turns(recording: Recording) -> float:
    """The turns that loop now, in all series."""
    return recording.counted(semconv.METRIC_LOOPS_OPEN)


def text(path: str) -> str:
    """Return a text."""
    return f"there is {path}"


def repeat(times: int, tool: str = "look") -> None:
    """Make equal calls."""
    for _ in range(times):
        loopguard.call(tool, {"path": "a"}, text)


def test_each_step_that_runs_unhindered_is_one() -> None:
    """600 equal calls: all but the first are steps, and the turn that has ended loops no more."""
    with guarded(Policy(action="observe")) as recording:
        with loopguard.turn():
            repeat(600)
            assert recording.counted(semconv.METRIC_LOOPS_OPEN, loopguard__action="observe") == 1
            assert recording.counted(semconv.METRIC_LOOPS_OPEN_STEPS) == 599
        assert open_turns(recording) == 0


def test_news_of_the_program_close_its_loop() -> None:
    """Another result is news."""
    with guarded() as recording, loopguard.turn():
        repeat(3)
        assert open_turns(recording) == 1
        loopguard.call("look", {"path": "b"}, text)
        assert open_turns(recording) == 0


def test_a_run_that_the_guard_ended_loops_no_more() -> None:
    """The turn has ended with it."""
    with guarded(Policy(action="abort")) as recording:
        with pytest.raises(ToolLoopError), loopguard.turn():
            repeat(40)
        assert recording.counted(semconv.METRIC_TRIPS) > 3
        assert open_turns(recording) == 0


def test_tools_beyond_the_bound_are_one_series() -> None:
    """As on the counters."""
    with guarded(Policy(action="observe")) as recording, ExitStack() as turns:
        for number in range(MOST_LABELS + 5):
            turns.enter_context(loopguard.turn())
            repeat(3, f"read_{number}")
        assert open_turns(recording) == MOST_LABELS + 5
        tools = {point.attributes[semconv.TOOL_NAME] for point in recording.points(semconv.METRIC_LOOPS_OPEN)}
    assert len(tools) == MOST_LABELS + 1
    assert semconv.OTHER_TOOL in tools
