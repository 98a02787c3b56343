"""The recorder: it runs inside the watched program, and appends each span that ends to a file of OTLP JSON lines.

The entry point ``opentelemetry_post_instrument`` starts it. Each line is written in one piece at the end of its span:
several processes can share the file, and a program that is killed loses only its open spans.
"""

from __future__ import annotations

import os
from base64 import b64decode
from functools import wraps
from typing import TYPE_CHECKING, Any

import orjson
from google.protobuf.json_format import MessageToDict  # type: ignore[import-untyped]  # the package has no type hints
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExporter, SpanExportResult

from otel_loopguard.instrumentation.process_start import process_start
from otel_loopguard.telemetry.attachments import WeakByIdentity

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from opentelemetry.sdk.trace import ReadableSpan

FILE = "_OTEL_LOOPGUARD_WATCH"
"""The environment variable with the path of the file. Without it the recorder does nothing."""
_IDS = ("traceId", "spanId", "parentSpanId")


class JsonLines(SpanExporter):
    """Appends spans to an existing file, in the format of a collector's file exporter."""

    def __init__(self, path: str) -> None:
        self._path = path

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Append one line. The file is opened each time: a fork, or a program that closes all files, does no harm."""
        try:
            file = os.open(self._path, os.O_WRONLY | os.O_APPEND)
        except OSError:  # `watch` has ended, and removed it
            return SpanExportResult.FAILURE
        try:
            os.write(file, _line(spans))
        finally:
            os.close(file)
        return SpanExportResult.SUCCESS


def _line(spans: Sequence[ReadableSpan]) -> bytes:
    message = MessageToDict(encode_spans(spans), use_integers_for_enums=True)
    for one in _with_ids(message):
        # The JSON of protobuf has ids in base64, the JSON of OTLP in hexadecimal digits.
        one.update({name: b64decode(one[name]).hex() for name in _IDS if name in one})
    return orjson.dumps(message, option=orjson.OPT_APPEND_NEWLINE)


def _with_ids(message: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the spans of a message and their links: these have ids."""
    for resource in message.get("resourceSpans", ()):
        for scope in resource.get("scopeSpans", ()):
            for span in scope.get("spans", ()):
                yield span
                yield from span.get("links", ())


def start() -> None:
    """Record the spans of every provider that the guard attaches to, now and later. The entry point's target."""
    path = os.environ.get(FILE)
    if not path:
        return
    attachments = process_start.attachments
    recorded: WeakByIdentity[bool] = WeakByIdentity()
    attach = attachments.add_processor

    def record(provider: Any) -> None:
        if recorded.get(provider) is None:
            recorded.put(provider, value=True)
            provider.add_span_processor(SimpleSpanProcessor(JsonLines(path)))

    @wraps(attach)
    def attach_and_record(provider: Any, shield: Any) -> bool:
        attached = attach(provider, shield)
        if attached:
            with shield("watch.record"):
                record(provider)
        return attached

    attachments.add_processor = attach_and_record  # type: ignore[method-assign]  # as the probe of the doctor does
    for provider, _ in attachments._with_processor.pairs():  # noqa: SLF001 - those of the start, before this function
        record(provider)
