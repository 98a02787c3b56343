"""Parts of all instruments: one measurement at a time in each thread, bounded labels, the bounds of histograms."""

from __future__ import annotations

import threading
from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Any

from otel_loopguard import semconv
from otel_loopguard.interrupts import pass_interrupt

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from opentelemetry.metrics import Histogram, Meter

MOST_LABELS = 200


class Records(threading.local):
    """Pass measurements to the SDK, one at a time in each thread.

    The SDK's locks do not let their own thread in. So a measurement that a signal handler or a finaliser makes, where
    it interrupts another one of its thread, waits for that one's end.
    """

    def __init__(self) -> None:
        super().__init__()
        self._lock = threading.RLock()
        self._late: deque[Callable[[], None]] = deque()

    def __call__(self, record: Callable[..., None], *arguments: Any) -> None:
        """Call the SDK's function with these arguments, now or after the call that this one interrupts."""
        if self._lock._is_owned():  # type: ignore[attr-defined]  # noqa: SLF001 - threading.Condition asks it, too
            self._late.append(partial(record, *arguments))
            return
        with self._lock:
            record(*arguments)
            while self._late:
                self._late.popleft()()


class Labels(dict[str, str]):
    """Names as metric labels: the first ones, then ``_other``. Prometheus keeps every label value."""

    def __init__(self, most: int = MOST_LABELS) -> None:
        super().__init__({semconv.UNKNOWN_TOOL: semconv.UNKNOWN_TOOL})
        self._most = most

    def __missing__(self, name: str) -> str:
        return semconv.OTHER_TOOL if len(self) > self._most else self.setdefault(name, name)


def histogram(meter: Meter, name: str, unit: str, description: str, bounds: Sequence[float]) -> Histogram:
    """Make a histogram with these bounds."""
    try:
        return meter.create_histogram(name, unit, description, explicit_bucket_boundaries_advisory=bounds)
    except TypeError as error:  # OpenTelemetry before 1.30 does not take the bounds
        pass_interrupt(error)
        return meter.create_histogram(name, unit, description)
