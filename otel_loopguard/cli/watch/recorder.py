"""The recorder: it runs inside the watched program, and appends each span that ends to a file of OTLP JSON lines.

Two entry points start it. Each line is written in one piece at the end of its span:
several processes can share the file, and a program that is killed loses only its open spans.
"""

from __future__ import annotations

import atexit
import os
from base64 import b64decode
from contextlib import suppress
from functools import wraps
from importlib.metadata import entry_points
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson
from google.protobuf.json_format import MessageToDict  # type: ignore[import-untyped]  # the package has no type hints
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.instrumentation.version import __version__
from opentelemetry.sdk._configuration import _OTelSDKConfigurator
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExporter, SpanExportResult

from otel_loopguard.instrumentation.process_start import process_start
from otel_loopguard.instrumentation.runtime import active_runtime
from otel_loopguard.shield import logger
from otel_loopguard.telemetry.attachments import WeakByIdentity
from otel_loopguard.telemetry.exit_summary import is_helper
from otel_loopguard.telemetry.loop_event import Events
from otel_loopguard.telemetry.shown_calls import PIPE, pipe_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from opentelemetry.sdk.trace import ReadableSpan

FILE = "_OTEL_LOOPGUARD_WATCH"
"""The environment variable with the path of the file. Without it the recorder does nothing.

Each process that is recorded makes a file beside it, with its number as the suffix. At its end it writes there what it
did not see.
"""
QUIET = "_OTEL_LOOPGUARD_QUIET"
"""The environment variable of a program whose loops are not logged, because a summary has them."""
ENTRY_POINTS = {
    "opentelemetry_pre_instrument": "otel_loopguard.cli.watch.recorder:configure",
    "opentelemetry_post_instrument": "otel_loopguard.cli.watch.recorder:start",
}
"""The functions of the recorder, by the groups that load them."""
_IDS = ("traceId", "spanId", "parentSpanId")


class JsonLines(SpanExporter):
    """Appends spans to an existing file, in the format of a collector's file exporter."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._has_failed = False

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Append one line. The file is opened each time: a fork, or a program that closes all files, does no harm."""
        try:
            file = os.open(self._path, os.O_WRONLY | os.O_APPEND)
        except OSError:  # `watch` has ended, and removed it
            return SpanExportResult.FAILURE
        try:
            os.write(file, _line(spans))
        except OSError as error:  # the disk is full, most likely
            if not self._has_failed:
                self._has_failed = True
                logger.warning("A call cannot be recorded (%s), so the report lacks it.", error.strerror)
            return SpanExportResult.FAILURE
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


def configure() -> None:
    """Set up the SDK, as the configurator of opentelemetry-distro does, if no such package is installed."""
    if not entry_points(group="opentelemetry_configurator"):
        _OTelSDKConfigurator().configure(auto_instrumentation_version=__version__)  # type: ignore[no-untyped-call,unused-ignore]  # older versions have no type hints


def start() -> None:
    """Record the spans of every provider that the guard attaches to, now and later. The entry point's target."""
    path = os.environ.get(FILE)
    if not path:
        return
    _note_process(path)
    show = pipe_of(os.environ.get(PIPE, ""))
    Events.is_silent = QUIET in os.environ
    Events.show = None if show is None else staticmethod(show)
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


def _note_process(path: str) -> None:
    """Make the file of this process, and of each forked one, and write to it at the end."""

    def note(text: str = "") -> None:
        with suppress(OSError):  # the disk is full, or `otel-loopguard` has ended
            Path(f"{path}.{os.getpid()}").write_text(text, "utf-8")

    def note_end() -> None:
        runtime = active_runtime.instrumented
        if runtime is not None:
            note("\n".join(runtime.unseen().sentences(process_start.attachments.summary.calls)))

    if is_helper():
        return
    note()
    atexit.register(note_end)
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=note)
