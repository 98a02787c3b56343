"""Read tool calls and model requests from OTLP messages in protobuf, as they are read from lines of JSON.

Most spans of a message are neither, so only the values of the attributes that are read are decoded.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from opentelemetry.proto.logs.v1.logs_pb2 import LogsData
from opentelemetry.proto.trace.v1.trace_pb2 import TracesData

from otel_loopguard import semconv
from otel_loopguard.spans import dialects, model_requests, otlp_logs
from otel_loopguard.spans.dialects import CONTENT, READ, SpanView
from otel_loopguard.spans.otlp import ModelSpan, ToolSpan, add_around
from otel_loopguard.spans.otlp_logs import LogRecord
from otel_loopguard.spans.request_messages import is_of_message, messages_of
from otel_loopguard.spans.service_name import Service

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from otel_loopguard.spans.ancestry import Ancestry

_WANTED = READ | model_requests.READ | {semconv.TURN_ID, semconv.ARGUMENTS_HASH}
_FAILED, _SERVER = 2, 2


def decode(payload: bytes, *, is_logs: bool = False) -> Any:
    """Return the message of these bytes: TracesData or LogsData, or a request of the same encoding."""
    return (LogsData if is_logs else TracesData).FromString(payload)


def read_message(message: Any, ancestry: Ancestry) -> Iterator[ToolSpan | ModelSpan]:
    """Yield the calls of a message: those in its log records, or in its spans, with the model requests there."""
    is_logs = isinstance(message, LogsData)
    return otlp_logs.calls_in(_records(message), ancestry) if is_logs else spans_of(message, ancestry)


def _records(message: Any) -> Iterator[LogRecord]:
    for resource in message.resource_logs:
        service = Service.of(_attributes(resource.resource.attributes))
        for scope in resource.scope_logs:
            for one in scope.log_records:
                time, ids = one.time_unix_nano or one.observed_time_unix_nano, (one.trace_id.hex(), one.span_id.hex())
                yield LogRecord(_attributes(one.attributes), *ids, time, service, scope.scope.name)


def spans_of(message: Any, ancestry: Ancestry) -> Iterator[ToolSpan | ModelSpan]:
    """Yield the tool calls, except the guard's own, and the model requests. Add every span to ``ancestry``."""
    for resource in message.resource_spans:
        service: Service | None = None
        for scope in resource.scope_spans:
            name = scope.scope.name
            for span in scope.spans:
                wanted = {pair.key: pair.value for pair in span.attributes if pair.key in _WANTED}
                if not wanted:
                    ancestry.add(span.trace_id.hex(), span.span_id.hex(), span.parent_span_id.hex())
                    continue
                service = service or Service.of(_attributes(resource.resource.attributes))
                found = _read_span(span, wanted, name, service, ancestry)
                if found is not None:
                    yield found


def _read_span(
    span: Any, wanted: dict[str, Any], scope: str, service: Service, ancestry: Ancestry
) -> ToolSpan | ModelSpan | None:
    attributes = {key: _value(value) for key, value in wanted.items() if key not in CONTENT}
    trace, ids = span.trace_id.hex(), (span.span_id.hex(), span.parent_span_id.hex())
    name, is_server = span.name, span.kind == _SERVER
    tool = dialects.tool_name(name, attributes, is_server=is_server)
    conversation = dialects.conversation(attributes)
    usage = model_requests.usage_of_request(attributes) if tool is None else None
    add_around(ancestry, trace, ids, attributes, conversation, tool, is_request=usage is not None)
    if semconv.ARGUMENTS_HASH in attributes and (scope == semconv.SCOPE or semconv.TURN_ID in attributes):
        ancestry.guard(trace)
        return None
    start, end = span.start_time_unix_nano, span.end_time_unix_nano
    if tool is None:
        if usage is None:
            return None
        of_messages = {pair.key: _value(pair.value) for pair in span.attributes if is_of_message(pair.key)}
        messages = messages_of(of_messages, [(event.name, _attributes(event.attributes)) for event in span.events])
        return ModelSpan(trace, start, end, usage, *ids, conversation, service, messages)
    attributes.update((key, _value(value)) for key, value in wanted.items() if key in CONTENT)
    events = [(event.name, _attributes(event.attributes)) for event in span.events]
    status = span.status
    view = SpanView(name, attributes, events, status.code == _FAILED, status.message or None, is_server)
    return ToolSpan(trace, tool, (0, start), start, end, False, trace, view, *ids, conversation, service, scope)  # noqa: FBT003 - a field


def _attributes(pairs: Iterable[Any]) -> dict[str, Any]:
    return {pair.key: _value(pair.value) for pair in pairs}


def _value(value: Any) -> Any:
    kind = value.WhichOneof("value")
    if kind == "array_value":
        return [_value(one) for one in value.array_value.values]
    if kind == "kvlist_value":
        return _attributes(value.kvlist_value.values)
    return None if kind is None or kind == "bytes_value" else getattr(value, kind)
