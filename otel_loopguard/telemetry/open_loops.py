"""The loops that are open now, as three gauges: the turns, their steps, and the age of the oldest.

A turn is in one series at a time, so that sums count it once: that of its first trip with the strongest action so far.
It leaves with its end or with news, and comes back with its next trip.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from opentelemetry.metrics import Observation

from otel_loopguard import semconv
from otel_loopguard.engine.vocabulary import First

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from opentelemetry.metrics import Meter

    from otel_loopguard.engine.vocabulary import Action, Trip

LONGEST_PAUSE = 300.0
"""The seconds after its last step for which a loop is open, and for which the series of an ended one is 0."""
MOST_LOOPS = 10_000


class _Series(NamedTuple):
    tool: str
    mode: str
    action: str

    def labels(self) -> dict[str, str]:
        return {semconv.TOOL_NAME: self.tool, semconv.MODE: self.mode, semconv.ACTION: self.action}


class _OpenLoop:
    __slots__ = ("began", "counts", "last", "series", "steps", "strength")

    def __init__(self) -> None:
        self.series = _Series("", "", "")
        self.strength: tuple[Action, Action] | None = None
        self.steps = 0
        """The steps since the last news; 0 if the loop is closed."""
        self.began = self.last = 0.0
        self.counts = False
        """True if this process counts the turn: several processes may have a part of its steps."""


class OpenLoops:
    """The open loops of a process, by turn. ``clock`` returns seconds."""

    def __init__(self, meter: Meter, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._loops: dict[str, _OpenLoop] = {}
        self._shown: dict[_Series, float] = {}
        """The time at which each series last had a loop: after that it is 0 for a while, and no last value stays."""
        gauge = meter.create_observable_gauge
        gauge(semconv.METRIC_LOOPS_OPEN, [self._observed(_turns)], "{turn}", "Turns that loop now.")
        gauge(
            semconv.METRIC_LOOPS_OPEN_STEPS, [self._observed(_steps)], "{trip}",
            "Steps of the loops that are open now, since the last news of their turn.",
        )  # fmt: skip
        gauge(
            semconv.METRIC_LOOPS_OPEN_AGE, [self._observed(_age)], "s",
            "Time since the first step of the oldest loop that is open now.",
        )  # fmt: skip

    def step(self, turn_id: str, tool: str, trip: Trip, first: First, *, is_shared: bool) -> None:
        """Add a step of a turn's loop. Of a shared turn, the process counts it that saw its first trip."""
        if not trip.is_loop:
            return
        loop = self._loops.pop(turn_id, None) or _OpenLoop()
        now, strength = self._clock(), (trip.action, trip.verdict)
        if not loop.steps or now - loop.last > LONGEST_PAUSE:
            loop.steps, loop.began, loop.strength = 0, now, None
        if loop.strength is None or strength > loop.strength:
            loop.series, loop.strength = _Series(tool, str(trip.mode), str(trip.action)), strength
        loop.steps, loop.last = loop.steps + 1, now
        loop.counts = loop.counts or not is_shared or first is First.ACTION
        self._loops[turn_id] = loop  # the last one
        if len(self._loops) > MOST_LOOPS:
            self._loops.pop(next(iter(self._loops)), None)

    def recovered(self, turn_id: str) -> None:
        """Close the loop of a turn that has brought news."""
        loop = self._loops.get(turn_id)
        if loop is not None:
            loop.steps = 0

    def over(self, turn_id: str) -> None:
        """Forget the loop of a turn that has ended."""
        self._loops.pop(turn_id, None)

    def clear(self) -> None:
        """Forget all loops, as in a forked child."""
        self._loops.clear()
        self._shown.clear()

    def _observed(self, measure: Callable[[list[_OpenLoop], float], float]) -> Callable[[Any], Iterable[Observation]]:
        def observe(_: Any) -> Iterator[Observation]:
            now = self._clock()
            for series, loops in self._by_series(now).items():
                yield Observation(measure(loops, now), series.labels())

        return observe

    def _by_series(self, now: float) -> dict[_Series, list[_OpenLoop]]:
        found: dict[_Series, list[_OpenLoop]] = {}
        for turn_id, loop in list(self._loops.items()):
            if now - loop.last > LONGEST_PAUSE:
                self._loops.pop(turn_id, None)
            elif loop.steps:
                found.setdefault(loop.series, []).append(loop)
                self._shown[loop.series] = now
        for series, last in list(self._shown.items()):
            if now - last > LONGEST_PAUSE:
                self._shown.pop(series, None)
            else:
                found.setdefault(series, [])
        return found


def _turns(loops: list[_OpenLoop], _: float) -> float:
    return sum(loop.counts for loop in loops)


def _steps(loops: list[_OpenLoop], _: float) -> float:
    return sum(loop.steps for loop in loops)


def _age(loops: list[_OpenLoop], now: float) -> float:
    return max((now - loop.began for loop in loops), default=0.0)
