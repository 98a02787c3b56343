"""The instruments. Every measurement takes the span's context, so that an exemplar links it to its trace."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from opentelemetry.metrics import Observation

from otel_loopguard import semconv
from otel_loopguard.telemetry.names import Labels
from otel_loopguard.telemetry.tally import BatchedCounter

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from opentelemetry.context import Context
    from opentelemetry.metrics import CallbackOptions, Histogram, Meter

    from otel_loopguard.core.model import Trip

CHECK_SECONDS = (1e-6, 2.5e-6, 5e-6, 1e-5, 2.5e-5, 5e-5, 1e-4, 2.5e-4, 5e-4, 1e-3, 1e-2, 1e-1)
CHECKS_PER_SAMPLE = 16
TURN_CALLS = (0, 1, 2, 3, 5, 8, 13, 21, 34, 55, 89, 144, 233)


def _histogram(meter: Meter, name: str, unit: str, description: str, bounds: Sequence[float]) -> Histogram:
    try:
        return meter.create_histogram(name, unit, description, explicit_bucket_boundaries_advisory=bounds)
    except TypeError:  # OpenTelemetry before 1.30 has no say in this
        return meter.create_histogram(name, unit, description)


class Meters:
    """All instruments of the package, made from one meter."""

    def __init__(self, meter: Meter, live: Callable[[], int]) -> None:
        self._label = Labels().__call__  # the method costs less to call than the object
        self._tally = BatchedCounter(self._add_calls)
        self._checks = itertools.count()
        self._live = live
        counter = meter.create_counter
        self._trips = counter(semconv.METRIC_TRIPS, "{trip}", "Loops that were seen, by what was done about them.")
        self._recoveries = counter(
            semconv.METRIC_RECOVERIES, "{trip}", "Trips after which the agent brought something new again."
        )
        self._tool_trips = counter(semconv.METRIC_TOOL_TRIPS, "{trip}", "Loops that were seen, by tool.")
        self._tool_calls = counter(semconv.METRIC_TOOL_CALLS, "{call}", "Tool calls, by how they ended.")
        self._errors = counter(
            semconv.METRIC_INTERNAL_ERRORS, "{error}", "Faults of otel_loopguard itself; no call was affected."
        )
        self._turn_calls = _histogram(
            meter, semconv.METRIC_TURN_TOOL_CALLS, "{call}", "Tool calls of a turn.", TURN_CALLS
        )
        self._check = _histogram(
            meter, semconv.METRIC_CHECK_DURATION, "s", "Time that judging a call took.", CHECK_SECONDS
        )
        meter.create_observable_gauge(semconv.METRIC_TURNS_LIVE, [self._observe_live], "{turn}", "Turns in memory.")

    def _observe_live(self, _: CallbackOptions) -> Iterable[Observation]:
        self._tally.flush()  # somebody is about to read the counters
        yield Observation(self._live())

    def _add_calls(self, number: int, key: tuple[str, str], context: Context) -> None:
        self._tool_calls.add(number, {semconv.TOOL_NAME: key[0], semconv.OUTCOME: key[1]}, context)

    def announce(self, combinations: Iterable[tuple[str, str, str]]) -> None:
        """Count every possible trip zero times: ``increase()`` does not see a series that begins at one."""
        for mode, verdict, action in combinations:
            self._trips.add(0, {semconv.MODE: mode, semconv.VERDICT: verdict, semconv.ACTION: action})

    def trip(self, trip: Trip, tool: str, context: Context) -> None:
        """A loop was seen."""
        mode = str(trip.mode)
        attributes = {semconv.MODE: mode, semconv.VERDICT: str(trip.verdict), semconv.ACTION: str(trip.action)}
        self._trips.add(1, attributes, context)
        self._tool_trips.add(1, {semconv.TOOL_NAME: self._label(tool), semconv.MODE: mode}, context)

    def recovery(self, trip: Trip, context: Context) -> None:
        """The turn brought news again after this trip."""
        self._recoveries.add(1, {semconv.MODE: str(trip.mode), semconv.ACTION: str(trip.action)}, context)

    def tool_call(self, tool: str, outcome: str, context: Context) -> None:
        """A call is over."""
        self._tally.count((self._label(tool), outcome), context)

    def turn(self, calls: int) -> None:
        """A turn is over."""
        self._turn_calls.record(calls)

    def checks(self) -> bool:
        """Whether this call's time is one of those that are told: one in sixteen tells as much as all."""
        return next(self._checks) % CHECKS_PER_SAMPLE == 0

    def check(self, seconds: float, context: Context) -> None:
        """A call was judged in that time."""
        self._check.record(seconds, None, context)

    def after_fork(self) -> None:
        """The parent tells its own calls."""
        self._tally.clear()

    def error(self, site: str) -> None:
        """A fault of ours."""
        self._errors.add(1, {semconv.SITE: site})
