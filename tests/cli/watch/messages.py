"""OTLP messages of agents that no guard is in, and a report that keeps all that it gets."""

from __future__ import annotations

from base64 import b64decode
from collections import Counter
from threading import Event
from typing import Any, NamedTuple

from google.protobuf.json_format import MessageToDict
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, ScopeSpans, Span, TracesData

SECOND = 1_000_000_000
BEGIN = 1_700_000_000 * SECOND
_IDS = ("traceId", "spanId", "parentSpanId")


def span(
    name: str,
    number: int,
    *,
    trace: int = 1,
    parent: int = 0,
    at: float = 0.0,
    lasts: float = 0.5,
    kind: int = 1,
    failed: bool = False,
    **attributes: Any,
) -> Span:
    """Make a span. Its number is its id; ``at`` is the second at which it starts. Attributes have ``__`` for a dot."""
    made = Span(name=name, kind=kind)
    made.trace_id, made.span_id = trace.to_bytes(16, "big"), number.to_bytes(8, "big")
    made.parent_span_id = parent.to_bytes(8, "big") if parent else b""
    made.start_time_unix_nano = BEGIN + int(at * SECOND)
    made.end_time_unix_nano = BEGIN + int((at + lasts) * SECOND)
    if failed:
        made.status.code = 2
    for key, value in attributes.items():
        added = made.attributes.add(key=key.replace("__", ".")).value
        if isinstance(value, int):
            added.int_value = value
        else:
            added.string_value = value
    return made


def call(number: int, tool: str = "search", arguments: str = '{"q":"x"}', result: str = "nothing", **more: Any) -> Span:
    """Make the span of a tool call, by the conventions of OpenTelemetry."""
    content = {"gen_ai__tool__call__arguments": arguments, "gen_ai__tool__call__result": result}
    more = {"at": number, "gen_ai__operation__name": "execute_tool", "gen_ai__tool__name": tool, **content, **more}
    return span(f"execute_tool {tool}", number, **more)


def vercel_call(number: int, tool: str = "search", arguments: str = '{"q":"x"}', **more: Any) -> Span:
    """Make the span of a tool call, as the AI SDK of Vercel does."""
    content = {"ai__toolCall__args": arguments, "ai__toolCall__result": '"nothing"'}
    more = {"at": number, "ai__operationId": "ai.toolCall", "ai__toolCall__name": tool, **content, **more}
    return span("ai.toolCall", number, **more)


def request(number: int, **more: Any) -> Span:
    """Make the span of a model request."""
    return span("chat", number, **{"gen_ai__operation__name": "chat", **more})


def agent(number: int, **more: Any) -> Span:
    """Make the span of an agent's run."""
    return span("invoke_agent", number, **{"lasts": 100.0, "gen_ai__operation__name": "invoke_agent", **more})


def message(*spans: Span, service: str = "agent", scope: str = "made", namespace: str = "") -> TracesData:
    """Make a message with spans of one service."""
    resource = ResourceSpans(scope_spans=[ScopeSpans(spans=spans)])
    resource.scope_spans[0].scope.name = scope
    resource.resource.attributes.add(key="service.name").value.string_value = service
    if namespace:
        resource.resource.attributes.add(key="service.namespace").value.string_value = namespace
    return TracesData(resource_spans=[resource])


def as_json(data: TracesData) -> dict[str, Any]:
    """Return the message as OTLP JSON, with its ids in hexadecimal digits."""
    found: dict[str, Any] = MessageToDict(data, use_integers_for_enums=True)
    for resource in found.get("resourceSpans", ()):
        for scope in resource.get("scopeSpans", ()):
            for one in scope.get("spans", ()):
                one.update({name: b64decode(one[name]).hex() for name in _IDS if name in one})
    return found


class Told(NamedTuple):
    """A trip, as ``replay`` knows it, too."""

    turn: str
    call: int
    tool: str
    mode: str
    count: int  # type: ignore[assignment]  # hides tuple.count
    limit: int


class Kept:
    """A report that keeps all that it gets."""

    def __init__(self) -> None:
        self.calls: list[Any] = []
        self.trips: list[Told] = []
        self.firsts: list[str] = []
        self.recoveries: list[Any] = []
        self.asked_trips: list[Any] = []
        self.turns: list[tuple[Any, int]] = []
        self.ledgers: list[Any] = []
        self.fates: Counter[str] = Counter()
        self.refusals: Counter[str] = Counter()
        self.all_spans = 0
        self.working, self.go_on = Event(), Event()
        self.go_on.set()

    def hold(self) -> None:
        """Have the judge wait at its next message until ``go_on`` is set."""
        self.go_on.clear()

    def call(self, reported: Any) -> None:
        """Keep a call."""
        self.calls.append(reported)

    def trip(self, reported: Any, trip: Any, first: Any) -> None:
        """Keep a trip."""
        tool = reported.record.resolved.tool.name
        told = Told(reported.turn.id, reported.position, tool, str(trip.mode), trip.count, trip.limit)
        self.trips.append(told)
        self.firsts.append(str(first))

    def asked(self, turn: Any, request: Any, trip: Any, first: Any) -> None:
        """Keep the trip of a request."""
        del request, first
        self.asked_trips.append((turn.id, str(trip.mode), trip.count, str(trip.verdict)))

    def recovery(self, reported: Any, trip: Any) -> None:
        """Keep a recovery."""
        self.recoveries.append(trip)

    def turn(self, turn: Any, calls: int, ledger: Any) -> None:
        """Keep a turn that is over."""
        self.turns.append((turn, calls))
        self.ledgers.append(ledger)

    def spans(self, fate: str, number: int) -> None:
        """Count tool spans."""
        self.fates[fate] += number

    def arrived(self, span: Any) -> None:
        """Do nothing."""

    def received(self, spans: int) -> None:
        """Count all spans."""
        self.all_spans += spans
        self.working.set()
        self.go_on.wait(60)

    def refused(self, reason: str) -> None:
        """Count a refusal."""
        self.refusals[reason] += 1
