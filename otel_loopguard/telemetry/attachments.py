"""The span processors and the instruments of this process, which stay for its life.

Nothing can be removed from a provider again. So there is one span processor for each tracer provider and one set of
instruments for each meter provider, however often the guard is switched on and off. They serve the current runtime, and
do nothing while there is none. A second set would not work: the SDK never calls the second of two equal gauges.
"""

from __future__ import annotations

import threading
import weakref
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from otel_loopguard import semconv
from otel_loopguard.telemetry.exit_summary import ExitSummary
from otel_loopguard.version import __version__

if TYPE_CHECKING:
    from collections.abc import Callable

    from opentelemetry.metrics import MeterProvider

    from otel_loopguard.shield import Shield
    from otel_loopguard.telemetry.meters import Meters


_Value = TypeVar("_Value")


class WeakByIdentity(Generic[_Value]):
    """A value for each of some objects, by their identity. An object that is gone is forgotten.

    Logfire's provider has no hash, which the weak dictionaries of the standard library ask for.
    """

    def __init__(self) -> None:
        self._found: dict[int, tuple[weakref.ref[Any], _Value]] = {}

    def get(self, key: object) -> _Value | None:
        """Return the value of this object; None if it has none."""
        found = self._found.get(id(key))
        return None if found is None or found[0]() is not key else found[1]

    def put(self, key: object, value: _Value) -> None:
        """Set the value of this object."""
        number = id(key)
        self._found[number] = weakref.ref(key, lambda _: self._found.pop(number, None)), value

    def pairs(self) -> list[tuple[Any, _Value]]:
        """Return the objects that are there, each with its value."""
        return [(key, value) for ref, value in list(self._found.values()) if (key := ref()) is not None]


class Attachments:
    """The span processors, the instruments and the exit summary of this process."""

    def __init__(self, new_processor: Callable[[], Any], live: Callable[[], int]) -> None:
        """``new_processor`` makes a span processor, and imports the SDK. ``live`` returns the number of live turns."""
        self.summary = ExitSummary()
        self._new_processor = new_processor
        self._live = live
        self._lock = threading.RLock()
        self._with_processor: WeakByIdentity[bool] = WeakByIdentity()
        self._meters: WeakByIdentity[Meters] = WeakByIdentity()

    def add_processor(self, provider: Any, shield: Shield) -> bool:
        """Add our span processor to this provider, once. Return False if the provider takes no processors."""
        add = getattr(provider, "add_span_processor", None)
        if add is None:
            return False
        with self._lock:
            is_new = self._with_processor.get(provider) is None
            self._with_processor.put(provider, value=True)
        if is_new:
            with shield("provider.attach"):
                add(self._new_processor())
        return True

    def meters(self, provider: MeterProvider) -> Meters:
        """Return the instruments of this provider, which are made at the first call."""
        with self._lock:
            found = self._meters.get(provider)
            if found is None:
                from otel_loopguard.telemetry.meters import Meters  # noqa: PLC0415 - a process without a call has none

                found = Meters(provider.get_meter(semconv.SCOPE, __version__, semconv.SCHEMA_URL), self._live)
                self._meters.put(provider, found)
            return found

    def after_fork(self) -> None:
        """Start from zero in a forked child: the parent exports its own counts."""
        self._lock = threading.RLock()
        self.summary.after_fork()
        for provider, meters in self._meters.pairs():
            _forget_counts(provider)
            meters.after_fork()


def _forget_counts(meter_provider: Any) -> None:
    """Reset the SDK's sums of our instruments in a forked child; else each child exports the parent's counts again.

    The SDK has no public reset, so its private table of our instruments is emptied. The lock of the table is renewed: a
    thread of the parent may hold it. Nothing is done if an SDK has no such table.
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
