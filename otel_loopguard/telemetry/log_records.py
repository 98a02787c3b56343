"""Trips as log records of OpenTelemetry. A record is complete without its span, which may be sampled out."""

from __future__ import annotations

import inspect
import logging
from time import time_ns
from typing import TYPE_CHECKING, Any, Final

from opentelemetry._logs import LogRecord, NoOpLogger, SeverityNumber, get_logger_provider

from otel_loopguard import semconv
from otel_loopguard.engine.quoting import clean_name
from otel_loopguard.engine.vocabulary import Action
from otel_loopguard.version import __version__

if TYPE_CHECKING:
    from collections.abc import Mapping

    from opentelemetry._logs import Logger, LoggerProvider
    from opentelemetry.context import Context

    from otel_loopguard.engine.vocabulary import Trip
    from otel_loopguard.shield import Shield

logger = logging.getLogger("otel_loopguard")

LOG_EVENTS: Final = "event_name" in inspect.signature(NoOpLogger.emit).parameters
"""True from OpenTelemetry 1.38 on. Before, a record of ours makes exporters lose a batch of the program's logs (1.35,
1.36), or print a warning (1.37)."""

_SEVERITIES: Final = {
    Action.BLOCK: SeverityNumber.WARN,
    Action.CONCLUDE: SeverityNumber.WARN,
    Action.ABORT: SeverityNumber.ERROR,
}
"""The severity by the action. After other actions the agent goes on: INFO."""


class LogRecords:
    """Write trips to the logger provider that is current at the time: programs set it late, and replace it."""

    def __init__(self, provider: LoggerProvider | None, shield: Shield, *, wanted: bool | None) -> None:
        """``provider`` None is the global one. ``wanted`` None means: if a provider is set."""
        self._given = provider
        self._shield = shield
        self._on = LOG_EVENTS and wanted is not False
        self._current: tuple[LoggerProvider | None, Logger | None] = None, None
        if wanted and not LOG_EVENTS:
            logger.warning("OpenTelemetry before 1.38 has no log events: trips are written on spans only.")

    def emit(
        self, trip: Trip, tool: str, attributes: Mapping[str, Any], context: Context, at: int | None = None
    ) -> bool:
        """Write the record of a trip. Return False if it was not written: it is not wanted, or there is no provider.

        ``at`` is the time of the trip in nanoseconds since 1970; None for now.
        """
        if not self._on:
            return False
        written = False
        with self._shield("events.log"):
            otel_logger = self._logger()
            if otel_logger is not None:
                severity, now = _SEVERITIES.get(trip.action, SeverityNumber.INFO), time_ns()
                record = LogRecord(
                    timestamp=now if at is None else at,
                    observed_timestamp=now,
                    context=context,
                    severity_number=severity,
                    severity_text=severity.name,
                    body=f"{clean_name(tool)}: {clean_name(str(trip.mode))}, count {trip.count}, limit {trip.limit}, "
                    f"action {trip.action}",
                    attributes=attributes,
                    event_name=semconv.LOG_TRIP,
                )
                otel_logger.emit(record)
                written = True
        return written

    def _logger(self) -> Logger | None:
        """Return a logger of the current provider; None if no provider is set, or it raised."""
        provider = self._given if self._given is not None else get_logger_provider()
        known, found = self._current
        if provider is not known:
            found = None
            with self._shield("provider.logger"):
                found = provider.get_logger(semconv.SCOPE, __version__, semconv.SCHEMA_URL)
            # The API returns a proxy until a provider is set.
            if isinstance(found, NoOpLogger) or type(found).__name__ == "ProxyLogger":
                found = None
            self._current = provider, found
        return found
