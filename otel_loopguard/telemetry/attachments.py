"""The span processors and the instruments of this process, which stay for its life.

Nothing can be removed from a provider again. So there is one span processor for each tracer provider and one set of
instruments for each meter provider, however often the guard is switched on and off. They pass everything to the current
runtime, and do nothing while there is none. (The SDK returns the first one of two equal observable instruments and
drops the second callback: a second set would get no calls.)
"""

from __future__ import annotations

import threading
import weakref
from typing import TYPE_CHECKING, Any

from otel_loopguard import semconv
from otel_loopguard.telemetry.exit_summary import ExitSummary
from otel_loopguard.version import __version__

if TYPE_CHECKING:
    from collections.abc import Callable

    from opentelemetry.metrics import MeterProvider

    from otel_loopguard.shield import Shield
    from otel_loopguard.telemetry.meters import Meters


class Attachments:
    """The processors and instruments of this process."""

    def __init__(self, new_processor: Callable[[], Any], live: Callable[[], int]) -> None:
        """Take the maker of a span processor, which imports the SDK, and the number of live turns for the gauge."""
        self.summary = ExitSummary()
        self._new_processor = new_processor
        self._live = live
        self._lock = threading.RLock()
        self._with_processor: weakref.WeakSet[Any] = weakref.WeakSet()
        self._meters: weakref.WeakKeyDictionary[MeterProvider, Meters] = weakref.WeakKeyDictionary()

    def add_processor(self, provider: Any, shield: Shield) -> bool:
        """Add our processor to this provider, once. Return False if it takes none."""
        add = getattr(provider, "add_span_processor", None)
        if add is None:
            return False
        with self._lock:
            is_new = provider not in self._with_processor
            self._with_processor.add(provider)
        if is_new:
            with shield("provider.attach"):
                add(self._new_processor())
        return True

    def meters(self, provider: MeterProvider) -> Meters:
        """Return the instruments that are made from this provider."""
        with self._lock:
            found = self._meters.get(provider)
            if found is None:
                from otel_loopguard.telemetry.meters import Meters  # noqa: PLC0415 - a process without a call has none

                found = Meters(provider.get_meter(semconv.SCOPE, __version__, semconv.SCHEMA_URL), self._live)
                self._meters[provider] = found
            return found

    def after_fork(self) -> None:
        """Start from zero in a child: the parent exports its own counts. A thread that is gone may hold the lock."""
        self._lock = threading.RLock()
        self.summary.after_fork()
        for provider, meters in list(self._meters.items()):
            _forget_counts(provider)
            meters.after_fork()


def _forget_counts(meter_provider: Any) -> None:
    """Reset the SDK's sums of our instruments.

    In a forked child the SDK's counters continue from the parent's values, and every worker of a prefork server would
    export the parent's trips again. The SDK has no public reset, so its table of our instruments is emptied, and the
    lock of that table is renewed: a thread that is gone may hold it. With another SDK, or another version that keeps
    them elsewhere, nothing is done.
    """
    consumer = getattr(meter_provider, "_measurement_consumer", None)
    for storage in dict(getattr(consumer, "_reader_storages", None) or {}).values():
        table = getattr(storage, "_instrument_view_instrument_matches", None)
        for instrument in list(table or ()):
            if getattr(getattr(instrument, "instrumentation_scope", None), "name", None) == semconv.SCOPE:
                table.pop(instrument, None)  # type: ignore[union-attr]  # the SDK's private table
        renew = getattr(getattr(storage, "_lock", None), "_at_fork_reinit", None)
        if renew is not None:
            renew()
