"""Tool spans that come twice are found, and the memory of them is bounded."""

from __future__ import annotations

from otel_loopguard.cli.watch.turns import SeenSpans
from otel_loopguard.spans.ancestry import Ancestry
from otel_loopguard.spans.otlp_protobuf import spans_of

from .messages import call, message


def spans(*numbers, trace=1):
    return list(spans_of(message(*(call(number, trace=trace) for number in numbers)), Ancestry()))


def test_a_span_is_added_once():
    """It is known by its trace and its own id."""
    seen = SeenSpans()
    assert [seen.add(one) for one in spans(1, 2, 1)] == [True, True, False]
    assert [seen.add(one) for one in spans(1, trace=2)] == [True]


def test_the_oldest_spans_are_forgotten():
    """The last ones are known."""
    seen = SeenSpans(most=10)
    for one in spans(*range(1, 101)):
        assert seen.add(one)
        assert len(seen) <= 10
    assert [seen.add(one) for one in spans(100, 1)] == [False, True]
