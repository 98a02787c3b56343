"""Write the calls and trips of watched services as the guard does inside a program: the same metrics and log records.

Each service has a resource of its own, so dashboards and alert rules need no change: in Prometheus ``job`` is the
service, and ``instance`` this watcher. The watcher's own metrics are under its own name.
"""

from __future__ import annotations

import logging
import os
import uuid
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from opentelemetry.metrics import Observation
from opentelemetry.sdk.resources import Resource
from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags, get_current_span, set_span_in_context

from otel_loopguard import semconv
from otel_loopguard.engine.ledger import NOTHING_SPENT
from otel_loopguard.engine.quoting import clean_name
from otel_loopguard.engine.vocabulary import Action, First, hash_text
from otel_loopguard.shield import Shield
from otel_loopguard.spans.service_name import Service
from otel_loopguard.telemetry.call_span import printable_name
from otel_loopguard.telemetry.log_records import LogRecords
from otel_loopguard.telemetry.loop_event import event_attributes, in_words, where
from otel_loopguard.telemetry.meters import Meters, announced_trips
from otel_loopguard.version import __version__

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from opentelemetry.context import Context
    from opentelemetry.metrics import CallbackOptions

    from otel_loopguard.cli.replay.judge import PolicyJudge
    from otel_loopguard.cli.watch.exports import Exports
    from otel_loopguard.cli.watch.live import LiveJudge
    from otel_loopguard.cli.watch.turns import Reported
    from otel_loopguard.engine.ledger import Ledger
    from otel_loopguard.engine.vocabulary import Trip
    from otel_loopguard.spans.ancestry import InTrace, TurnName
    from otel_loopguard.spans.otlp import ModelSpan, ToolSpan
    from otel_loopguard.telemetry.settings import Settings

logger = logging.getLogger("otel_loopguard")

MOST_SERVICES = 200
"""Services that are told apart."""
FATES = ("judged", "late", "duplicate", "inner", "guarded", "dropped")
OTHER = Service(semconv.OTHER_TOOL)
"""Stands for all services beyond ``MOST_SERVICES``."""
_OWN_NAME = "otel-loopguard-watch"
_MISSING = (
    "The tool spans of %s (instrumentation %s) have no %s: these calls are counted, but %s. Let the instrumentation "
    "record the content of tool calls."
)
_NO_ARGUMENTS = "arguments", "cannot be judged"
_NO_RESULTS = "results", "most of their loops cannot be found: each result is taken as a new one"


class _ServiceTelemetry:
    """The metrics and the log of one service."""

    def __init__(self, service: Service, exports: Exports, shield: Shield, instance: str) -> None:
        attributes = {"service.name": service.name, "service.instance.id": instance}
        if service.namespace:
            attributes["service.namespace"] = service.namespace
        if service.environment:
            attributes["deployment.environment.name"] = service.environment
        pair = exports.pair(attributes)
        self.turns: set[TurnName] = set()
        meter = pair.meters.get_meter(semconv.SCOPE, __version__, semconv.SCHEMA_URL)
        self.meters = Meters(meter, self.turns.__len__)
        self.logs = LogRecords(pair.loggers, shield, wanted=True)


class WatchReport:
    """Counts and logs what the live judge finds. All methods but ``refused`` are called on the judge's thread."""

    def __init__(self, judge: PolicyJudge, exports: Exports, settings: Settings) -> None:
        self._exports = exports
        self._settings = settings
        self._policy = judge.compiled.policy
        self._fingerprinter = judge.compiled.fingerprinter
        self._announced = announced_trips(replace(self._policy, action=Action.OBSERVE))
        self._services: dict[Service, _ServiceTelemetry] = {}
        self._turns: dict[TurnName, tuple[_ServiceTelemetry, str | None]] = {}
        """The service of each turn with calls, and the name of its agent."""
        self._logged: set[tuple[str, str]] = set()
        self.shield = Shield(self._count_error)
        own = Resource.create({"service.name": os.environ.get("OTEL_SERVICE_NAME") or _OWN_NAME}).attributes
        self._instance = str(own.get("service.instance.id") or f"loopguard-watch-{uuid.uuid4().hex[:12]}")
        attributes = {**{key: str(value) for key, value in own.items()}, "service.instance.id": self._instance}
        meter = exports.pair(attributes).meters.get_meter(semconv.SCOPE, __version__, semconv.SCHEMA_URL)
        self._meter = meter
        self._own = Meters(meter, lambda: 0)
        self._received = 0
        self._fates: Counter[str] = Counter()
        """Tool spans by fate, read at each export: to count with the SDK takes as long as to judge a call."""
        counter = meter.create_observable_counter
        counter(semconv.METRIC_WATCH_SPANS, [self._observe_received], "{span}", "Spans that were received.")
        counter(
            semconv.METRIC_WATCH_TOOL_SPANS,
            [self._observe_fates],
            "{span}",
            "Tool spans that were received, by their fate.",
        )
        self._refused = meter.create_counter(
            semconv.METRIC_WATCH_REFUSED,
            "{message}",
            "Messages that were not taken; their sender has to send them again.",
        )
        self.calls = self.trips = self.loops = 0
        self.currency = self._policy.currency or ""
        """That of the policy's prices."""
        self.spent = NOTHING_SPENT
        """By the turns that are over."""
        self.agent_of: Callable[[InTrace], tuple[str | None, str | None]] = lambda span: (span.conversation, None)

    def watch(self, judge: LiveJudge) -> None:
        """Export the memory and the waiting spans of this judge, too, and ask it for the agents of calls."""
        self.agent_of = judge.ancestry.agent_of

        def queue(_: CallbackOptions) -> Iterable[Observation]:
            yield Observation(judge.budget.used)

        def waiting(_: CallbackOptions) -> Iterable[Observation]:
            yield Observation(judge.turns.waiting)

        gauge = self._meter.create_observable_gauge
        gauge(semconv.METRIC_WATCH_QUEUE, [queue], "By", "Memory of the messages that are read, or wait to be judged.")
        gauge(
            semconv.METRIC_WATCH_WAITING, [waiting], "{span}", "Tool spans that wait for those that began before them."
        )

    # --- messages -----------------------------------------------------------------------------------------------------

    def received(self, spans: int) -> None:
        """Count the spans of a message that was taken."""
        self._received += spans

    def refused(self, reason: str) -> None:
        """Count a message that was not taken, by the reason."""
        self._refused.add(1, {semconv.WATCH_REASON: reason})

    def spans(self, fate: str, number: int) -> None:
        """Count tool spans by their fate."""
        self._fates[fate] += number

    def _observe_received(self, _: CallbackOptions) -> Iterable[Observation]:
        yield Observation(self._received)

    def _observe_fates(self, _: CallbackOptions) -> Iterable[Observation]:
        for fate in FATES:
            yield Observation(self._fates[fate], {semconv.WATCH_FATE: fate})

    def arrived(self, span: ToolSpan) -> None:
        """Note a tool span that will be judged. The counters of a new service begin at zero before that."""
        if span.service not in self._services:
            self._service(span.service)

    # --- calls and turns ----------------------------------------------------------------------------------------------

    def call(self, reported: Reported) -> None:
        """Count a call that is over, and log once what its span lacks."""
        self.calls += 1
        call, span = reported.call, reported.call.span
        service = self._service(span.service)
        if reported.turn not in self._turns:
            self._turns[reported.turn] = service, self.agent_of(span)[1]
            service.turns.add(reported.turn)
        if not call.has_arguments:
            self._log_missing(span, *_NO_ARGUMENTS)
        elif not call.has_result:
            self._log_missing(span, *_NO_RESULTS)
        ending = "failed" if reported.record.error else "executed"
        service.meters.tool_call(_shown(reported), ending, _context_of(span))

    def trip(self, reported: Reported, trip: Trip, first: First) -> None:
        """Count a trip, and write its log record. ``first``: whether it is the first of its kind in the turn."""
        span, name = reported.call.span, _shown(reported)
        service, context = self._service(span.service), _context_of(span)
        self.trips += 1
        self.loops += first is First.ACTION
        service.meters.trip(repr(reported.turn), trip, name, first, context)
        attributes = {**self._identity(reported), **event_attributes(trip, name, first, reported.record)}
        self._log_first(span, trip, name, attributes)
        service.logs.emit(trip, name, attributes, context, at=span.end or None)

    def asked(self, turn: TurnName, request: ModelSpan, trip: Trip, first: First) -> None:
        """Count a trip of a model request, and write its log record. ``first``: as in ``trip``."""
        service, context = self._service(request.service), _context_of(request)
        self.trips += 1
        self.loops += first is First.ACTION
        service.meters.trip(repr(turn), trip, semconv.UNKNOWN_TOOL, first, context)
        attributes = {
            **self._identity_of(turn, self.agent_of(request)), **event_attributes(trip, semconv.UNKNOWN_TOOL, first)
        }  # fmt: skip
        self._log_first(request, trip, "", attributes)
        service.logs.emit(trip, "", attributes, context, at=request.end or None)

    def recovery(self, reported: Reported, trip: Trip) -> None:
        """Count a trip after which the turn brought news again."""
        span = reported.call.span
        self._service(span.service).meters.recovery(repr(reported.turn), trip, _context_of(span))

    def turn(self, turn: TurnName, calls: int, ledger: Ledger) -> None:
        """Count a turn that is over, and what it spent."""
        self.spent = self.spent.plus(ledger)
        service, agent = self._turns.pop(turn, (None, None))
        if service is not None:
            service.turns.discard(turn)
            service.meters.turn(repr(turn), calls)
            service.meters.turn_spent(ledger, agent, self.currency)

    def _identity(self, reported: Reported) -> dict[str, Any]:
        """Return the attributes that name the call and its turn."""
        span, record = reported.call.span, reported.record
        identity = {
            **self._identity_of(reported.turn, self.agent_of(span)),
            semconv.CALL_INDEX: record.index,
            semconv.ARGUMENTS_HASH: record.arguments_hash,
        }
        call_id = None if reported.call.foreign is None else reported.call.foreign.call.call_id
        if call_id is not None:
            identity[semconv.TOOL_CALL_ID] = call_id
        return identity

    def _identity_of(self, name: TurnName, agent_of: tuple[str | None, str | None]) -> dict[str, Any]:
        """Return the attributes that name a turn, its conversation and its agent."""
        conversation, agent = agent_of
        # The id of a conversation may name a user, and that of another service may be equal: both are in the hash.
        turn = self._hash(f"{name.service} {name.id}") if name.source == "conversation" else name.id
        identity: dict[str, Any] = {
            semconv.TURN_ID: turn,
            semconv.TURN_SOURCE: name.source,
            **self._settings.conversation_attributes(conversation, self._hash),
        }
        if agent is not None:
            identity[semconv.AGENT_NAME] = agent
        return identity

    def _hash(self, text: str) -> str:
        return hash_text(self._fingerprinter.of(text.encode("utf-8", "surrogatepass")))

    def _log_first(self, span: ToolSpan | ModelSpan, trip: Trip, tool: str, attributes: dict[str, Any]) -> None:
        """Log the first call or request of a service and mode that would not have been let through as it was.

        Later ones are only exported.
        """
        if trip.verdict < Action.BLOCK:
            return
        key = clean_name(span.service.name), clean_name(str(trip.mode))
        if key not in self._logged and len(self._logged) < MOST_SERVICES:
            self._logged.add(key)
            ids = get_current_span(_context_of(span)).get_span_context()
            logger.warning(
                "%s: would have %s %s %s. It ran. More of this service and mode are only exported.",
                key[0],
                "refused" if tool else "stopped",
                in_words(trip, tool, self._policy),
                where(attributes[semconv.TURN_ID], ids, attributes.get(semconv.TOOL_CALL_ID)),
            )

    def _log_missing(self, span: ToolSpan, missing: str, effect: str) -> None:
        key = span.scope, missing
        if key not in self._logged and len(self._logged) < MOST_SERVICES:
            self._logged.add(key)
            logger.warning(_MISSING, clean_name(span.service.name), clean_name(span.scope), missing, effect)

    # --- services -----------------------------------------------------------------------------------------------------

    def _service(self, service: Service) -> _ServiceTelemetry:
        found = self._services.get(service)
        if found is not None:
            return found
        if len(self._services) >= MOST_SERVICES and service != OTHER:
            return self._service(OTHER)
        found = self._services[service] = _ServiceTelemetry(service, self._exports, self.shield, self._instance)
        found.meters.announce(self._announced)
        self._exports.export_soon()
        return found

    def _count_error(self, site: str) -> None:
        self._own.error(site)


def _shown(reported: Reported) -> str:
    """Return the tool's name as it may be shown in labels and logs."""
    foreign = reported.call.foreign
    return printable_name(foreign.call) if foreign is not None else reported.call.span.tool


def _context_of(span: ToolSpan | ModelSpan) -> Context:
    """Return a context with the span's ids, which links counts and logs to its trace."""
    try:
        ids = int(span.trace, 16), int(span.span, 16)
    except ValueError:  # ids of OTLP JSON that are none: linked to nothing
        ids = 0, 0
    return set_span_in_context(NonRecordingSpan(SpanContext(*ids, is_remote=True, trace_flags=TraceFlags(1))))
