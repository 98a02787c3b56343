"""Ask a framework's tracer if it makes the ``execute_tool`` spans that its code starts."""

from __future__ import annotations

from typing import Any

from opentelemetry.trace import NoOpTracer

from otel_loopguard.telemetry.call_span import NativeSpan


def if_recorded(tracer: Any, place: NativeSpan) -> NativeSpan:
    """Return the place of the framework's span, or ``NONE`` if its tracer makes no spans.

    Then our span is the only one of the call, and has to be its ``execute_tool`` span. A tracer from before the program
    has set its provider is a proxy, which starts none until then.
    """
    real = getattr(tracer, "_tracer", tracer)
    if real is None or isinstance(real, NoOpTracer):
        return NativeSpan.NONE
    return place
