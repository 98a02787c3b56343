"""Processors and instruments that stay with their providers for the life of the process."""

from __future__ import annotations

import gc
from typing import Any

from opentelemetry import trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider

import otel_loopguard as loopguard
from otel_loopguard import semconv
from otel_loopguard.shield import Shield
from otel_loopguard.telemetry.attachments import Attachments, WeakByIdentity
from otel_loopguard.testing import guarded


def test_attach_adds_one_processor_to_each_provider() -> None:
    """``attach`` adds one processor to a provider, and returns False for a provider without processors."""
    added: list[Any] = []

    class Provider(TracerProvider):
        def add_span_processor(self, span_processor: Any) -> None:
            added.append(span_processor)

    with guarded():
        one, two = Provider(), Provider()
        assert [loopguard.attach(provider) for provider in (one, one, two, one)] == [True] * 4
        assert len(added) == 2
        assert loopguard.attach(trace.NoOpTracerProvider()) is False


def test_a_processor_that_cannot_be_made_is_a_fault_and_no_more() -> None:
    """As where the provider is no SDK's and the SDK is missing. It is tried once, and counted."""
    faults: list[str] = []

    def no_sdk() -> SpanProcessor:
        raise ImportError

    attachments, provider = Attachments(no_sdk, lambda: 0), TracerProvider()
    for _ in range(2):
        assert attachments.add_processor(provider, Shield(faults.append))
    assert faults == ["provider.attach"]


def test_a_provider_has_one_set_of_instruments_with_the_live_turns() -> None:
    """The SDK would drop the callback of a second gauge. The number of turns is asked at each collection."""
    live, reader = iter([3, 5]), InMemoryMetricReader()
    provider = MeterProvider([reader])
    attachments = Attachments(SpanProcessor, lambda: next(live))
    assert attachments.meters(provider) is attachments.meters(provider)
    assert attachments.meters(MeterProvider()) is not attachments.meters(provider)
    values = []
    for _ in range(2):
        data: Any = reader.get_metrics_data()
        metrics = data.resource_metrics[0].scope_metrics[0].metrics
        values += [one.data.data_points[0].value for one in metrics if one.name == semconv.METRIC_TURNS_LIVE]
    assert values == [3, 5]


def test_a_provider_without_a_hash_is_served_as_any_other() -> None:
    """As that of Logfire, which is a dataclass."""

    class Tracers(TracerProvider):
        __hash__ = None  # type: ignore[assignment]

        def __eq__(self, other: object) -> bool:
            return True

    class Meters(MeterProvider):
        __hash__ = None  # type: ignore[assignment]

    faults: list[str] = []
    attachments = Attachments(SpanProcessor, lambda: 0)
    one, two = Tracers(), Tracers()
    for provider in (one, two, one):
        assert attachments.add_processor(provider, Shield(faults.append))
    assert [len(each._active_span_processor._span_processors) for each in (one, two)] == [1, 1]
    meters = Meters()
    assert attachments.meters(meters) is attachments.meters(meters)
    assert faults == []


class Equal:
    """An object that equals all others, and has no hash."""

    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        return True


def test_each_object_has_its_own_value_until_it_is_gone() -> None:
    """Equal objects are not mixed up, and one that is gone is forgotten."""
    found: WeakByIdentity[str] = WeakByIdentity()
    one, two = Equal(), Equal()
    found.put(one, "one")
    assert (found.get(one), found.get(two)) == ("one", None)
    found.put(two, "two")
    assert sorted(value for _, value in found.pairs()) == ["one", "two"]
    del one
    gc.collect()
    assert [value for _, value in found.pairs()] == ["two"]
