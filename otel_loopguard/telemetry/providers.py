"""The providers that the program uses at the moment, and what we made from them.

A provider may be set after we started, or be replaced under us (MLflow writes over the global one), so who needs a
tracer asks here each time. The question is two reads and two comparisons.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, NamedTuple

from opentelemetry import metrics, trace
from opentelemetry._logs import get_logger_provider

from otel_loopguard import semconv
from otel_loopguard.telemetry.events import Events
from otel_loopguard.version import __version__

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from opentelemetry._logs import LoggerProvider
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.trace import Tracer, TracerProvider

    from otel_loopguard.shield import Shield
    from otel_loopguard.telemetry.attached import Attachments
    from otel_loopguard.telemetry.meters import Meters
    from otel_loopguard.telemetry.settings import Settings

logger = logging.getLogger("otel_loopguard")


def _nothing() -> None:
    """There is nothing to say."""


class Outlets(NamedTuple):
    """What we made from a set of providers."""

    tracer_provider: TracerProvider
    meter_provider: MeterProvider
    tracer: Tracer
    meters: Meters
    events: Events


class Providers:
    """Finds the providers, and has our processor added to each tracer provider."""

    def __init__(
        self,
        settings: Settings,
        shield: Shield,
        attached: Attachments,
        *,
        combinations: Iterable[tuple[str, str, str]] = (),
        tracer_provider: TracerProvider | None = None,
        meter_provider: MeterProvider | None = None,
        logger_provider: LoggerProvider | None = None,
    ) -> None:
        self.settings = settings
        self._shield = shield
        self._attached = attached
        self._combinations = tuple(combinations)
        self._given = (tracer_provider, meter_provider, logger_provider)
        self._outlets: Outlets | None = None
        self._said = False
        self.greet: Callable[[], object] = _nothing
        """Called once, when the first call is judged."""

    def outlets(self) -> Outlets:
        """The tracer, the instruments and the events of now."""
        tracer_provider = self._given[0] or trace.get_tracer_provider()
        meter_provider = self._given[1] or metrics.get_meter_provider()
        outlets = self._outlets
        if (
            outlets is None
            or outlets.tracer_provider is not tracer_provider
            or outlets.meter_provider is not meter_provider
        ):
            outlets = self._renew(tracer_provider, meter_provider, outlets)
        return outlets

    def _renew(self, tracer_provider: TracerProvider, meter_provider: MeterProvider, old: Outlets | None) -> Outlets:
        self.attach(tracer_provider)
        meters = self._attached.meters(meter_provider)
        otel_logger = (self._given[2] or get_logger_provider()).get_logger(
            semconv.SCOPE, __version__, semconv.SCHEMA_URL
        )
        tracer = tracer_provider.get_tracer(semconv.SCOPE, __version__, semconv.SCHEMA_URL)
        events = Events(otel_logger, self.settings)
        outlets = self._outlets = Outlets(tracer_provider, meter_provider, tracer, meters, events)
        if old is None or old.meters is not meters:
            # After the outlets are there: a fault has to be counted somewhere.
            with self._shield("meters.announce"):
                meters.announce(self._combinations)
        return outlets

    def attach(self, provider: Any) -> bool:
        """Have this provider's spans seen by our processor; whether that can be."""
        return self._attached.add_processor(provider, self._shield)

    def after_fork(self) -> None:
        """In the child, which begins to count at nothing."""
        if self._outlets is not None:
            self._outlets.meters.announce(self._combinations)

    def remind(self) -> None:
        """Say once, when the first call is judged, what was not heard before, and if nothing will be exported."""
        if self._said:
            return
        self._said = True
        self.greet()
        if type(self.outlets().tracer_provider).__name__ == "ProxyTracerProvider":
            logger.warning(
                "No OpenTelemetry SDK is set up: loops are stopped, but nothing is exported. "
                "For opentelemetry-instrument: pip install opentelemetry-distro"
            )
