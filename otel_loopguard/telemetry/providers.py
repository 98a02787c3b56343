"""The program's OpenTelemetry providers, and the tracer and the instruments that are made from them.

A provider may be set after the guard has started, or be replaced (as by MLflow). So each call asks
``Providers.outlets`` for the current ones, which costs two reads and two comparisons.
"""

from __future__ import annotations

import logging
import sys
import time
from dataclasses import dataclass, replace
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from opentelemetry import metrics, trace

from otel_loopguard import semconv
from otel_loopguard.interrupts import pass_interrupt
from otel_loopguard.telemetry.exit_summary import ExitSummary
from otel_loopguard.telemetry.log_records import LogRecords
from otel_loopguard.telemetry.loop_event import Events
from otel_loopguard.telemetry.meters import Meters
from otel_loopguard.version import __version__

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from opentelemetry._logs import LoggerProvider
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.trace import Tracer, TracerProvider

    from otel_loopguard.engine.vocabulary import Usage
    from otel_loopguard.shield import Shield
    from otel_loopguard.telemetry.attachments import Attachments
    from otel_loopguard.telemetry.settings import Settings

logger = logging.getLogger("otel_loopguard")

_LAUNCHER = "opentelemetry.instrumentation.auto_instrumentation"
"""The module that `opentelemetry-instrument` loads into each program."""
_DISTRO = "opentelemetry.distro"
_MEASURED = (
    semconv.OPERATION_EXECUTE_TOOL,
    semconv.OPERATION_INVOKE_AGENT,
    semconv.OPERATION_CHAT,
    semconv.OPERATION_GENERATE_CONTENT,
)
"""The operations of which we record the metrics of the GenAI conventions."""
SPANS_ALONE = frozenset({"com.anthropic.sdk.python"})
"""The scopes of clients that make spans of their requests by themselves, and record no metrics."""


@dataclass(frozen=True, slots=True)  # its fields are read faster than those of a tuple
class Instruments:
    """The tracer and the instruments that are made from a pair of providers."""

    tracer_provider: TracerProvider
    meter_provider: MeterProvider
    tracer: Tracer
    meters: Meters


def _nowhere() -> Instruments:
    """Return outlets that export nothing, for the time before a provider is known."""
    tracers, meters = trace.NoOpTracerProvider(), metrics.NoOpMeterProvider()
    no_meters = Meters(meters.get_meter(semconv.SCOPE), lambda: 0)
    return Instruments(tracers, meters, tracers.get_tracer(semconv.SCOPE), no_meters)


class Providers:
    """Find the current providers, and add our span processor to each tracer provider.

    It also has what the span of a call needs: the settings, the shield, and ``fingerprint``, which hides a name or id.
    """

    def __init__(
        self,
        settings: Settings,
        shield: Shield,
        attachments: Attachments,
        *,
        fingerprint: Callable[[str], str],
        announced: Iterable[tuple[str, str, str]] = (),
        clock: Callable[[], float] = time.monotonic,
        tracer_provider: TracerProvider | None = None,
        meter_provider: MeterProvider | None = None,
        logger_provider: LoggerProvider | None = None,
    ) -> None:
        self.settings = settings
        self.shield = shield
        self.fingerprint = fingerprint
        self._attachments = attachments
        self._announced = tuple(announced)
        self._given = (tracer_provider, meter_provider)
        self.summary = attachments.summary if settings.summary else ExitSummary()
        log_records = LogRecords(logger_provider, shield, wanted=settings.log_events)
        self.events = Events(log_records, self.summary, on_spans=settings.span_events, clock=clock)
        self._outlets = _nowhere()
        self._warned = False
        self.usage_of: Callable[[str, str], Usage | None] | None = None
        """Returns the tokens of the response with a call, by turn id and call id, if the call is its first; else None.

        Not set until a request to a model was read.
        """
        self.unmeasured: set[str] = set() if settings.genai_metrics else set(_MEASURED)
        """The operations that we do not measure: the settings say so, or another instrumentation measures them."""
        self.first_call_seen = False
        self.greet: Callable[[], object] | None = None
        """Logs the policy, at the first call. None if it was logged at the start."""

    def conversation_attributes(self, conversation_id: str | None) -> dict[str, str]:
        """Return the attribute with a conversation's id, raw or hashed; no attribute if it is hidden or None."""
        return self.settings.conversation_attributes(conversation_id, self.fingerprint)

    def outlets(self) -> Instruments:
        """Return the tracer and the instruments of the current providers."""
        outlets = self._outlets
        try:
            tracer_provider = self._given[0] or trace.get_tracer_provider()
            meter_provider = self._given[1] or metrics.get_meter_provider()
        except Exception as error:  # noqa: BLE001 - the environment names a provider that cannot be loaded
            pass_interrupt(error)
            if not self._warned:
                self._warned = True
                logger.warning(
                    "There are no usable OpenTelemetry providers (%s): calls are guarded, and nothing is exported. "
                    "Correct OTEL_PYTHON_TRACER_PROVIDER or OTEL_PYTHON_METER_PROVIDER.",
                    type(error).__name__,
                )
            return outlets
        if outlets.tracer_provider is not tracer_provider or outlets.meter_provider is not meter_provider:
            outlets = self._renew(tracer_provider, meter_provider)
        return outlets

    def _renew(self, tracer_provider: TracerProvider, meter_provider: MeterProvider) -> Instruments:
        """Make the outlets anew. If a provider raises, its part stays as it was: no call depends on telemetry.

        The providers are set first, because the shield counts a fault by these outlets.
        """
        old = self._outlets
        self._outlets = replace(old, tracer_provider=tracer_provider, meter_provider=meter_provider)
        with self.shield("provider.attach"):
            self.attach(tracer_provider)
        with self.shield("provider.meter"):
            self._outlets = replace(self._outlets, meters=self._attachments.meters(meter_provider))
        with self.shield("provider.tracer"):
            tracer = tracer_provider.get_tracer(semconv.SCOPE, __version__, schema_url=semconv.SCHEMA_URL)
            self._outlets = replace(self._outlets, tracer=tracer)
        if self._outlets.meters is not old.meters:
            with self.shield("meters.announce"):
                self._outlets.meters.announce(self._announced)
        return self._outlets

    def attach(self, provider: Any) -> bool:
        """Add our span processor to this provider, once. Return False if the provider takes no processors."""
        return self._attachments.add_processor(provider, self.shield)

    def after_fork(self) -> None:
        """Begin the time series again in a forked child, whose counts begin at zero."""
        self._outlets.meters.announce(self._announced)

    def see_first_call(self) -> None:
        """Log the policy, if it was not logged at the start, and a hint if nothing is exported."""
        self.first_call_seen = True
        if self.greet is not None:
            self.greet()
        if type(self.outlets().tracer_provider).__name__ == "ProxyTracerProvider":
            level, remedy = _without_sdk()
            logger.log(level, "No OpenTelemetry SDK is set up: calls are guarded, and nothing is exported. %s", remedy)

    def count_turn(self, turn_id: str, calls: int) -> None:
        """Count a turn that is over."""
        with self.shield("turn.end"):
            self.outlets().meters.turn(turn_id, calls)


def _without_sdk() -> tuple[int, str]:
    """Return the level and the remedy for the line that no SDK is set up: INFO if code started the guard."""
    if _LAUNCHER not in sys.modules:
        return logging.INFO, "To export, set up the SDK, or give providers to otel_loopguard.instrument()."
    if find_spec(_DISTRO) is None:
        return logging.WARNING, "pip install opentelemetry-distro"
    return logging.WARNING, "`otel-loopguard doctor -- COMMAND` names the reason."
