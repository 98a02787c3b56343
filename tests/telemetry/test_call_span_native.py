"""A framework's tracer, as its module keeps it: with a provider, without one, or from before there was one."""

from __future__ import annotations

from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.trace import NoOpTracer, ProxyTracer

from otel_loopguard.telemetry.call_span import NativeSpan, if_recorded


def test_a_tracer_of_a_provider_makes_spans() -> None:
    """The framework's span is where its adapter says."""
    assert if_recorded(TracerProvider().get_tracer("a"), NativeSpan.INNER) is NativeSpan.INNER


def test_a_tracer_without_a_provider_makes_none() -> None:
    """Our span is then the only one of the call."""
    for tracer in (ProxyTracer("a"), NoOpTracer(), None):
        assert if_recorded(tracer, NativeSpan.INNER) is NativeSpan.NONE


def test_a_tracer_follows_the_provider_that_was_set_later() -> None:
    """A proxy is asked for the tracer that it stands for at the time of the call."""
    proxy = ProxyTracer("a")
    proxy._real_tracer = TracerProvider().get_tracer("a")
    assert if_recorded(proxy, NativeSpan.BESIDE) is NativeSpan.BESIDE
