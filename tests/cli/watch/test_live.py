"""The live judge takes messages from any thread, refuses what is too much, and loses nothing that it took."""

from __future__ import annotations

import json

import pytest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from otel_loopguard.cli.watch.budget import OverBudgetError
from otel_loopguard.cli.watch.otlp_messages import MalformedError

from .messages import as_json, call, message

LOOP = [message(call(number)) for number in range(1, 9)]


@pytest.mark.parametrize("is_json", [False, True])
def test_messages_are_judged_in_protobuf_and_json(make, kept, is_json) -> None:
    """The spans of both formats get the same trips."""
    judge = make()
    for one in LOOP:
        payload = json.dumps(as_json(one)).encode() if is_json else one.SerializeToString()
        assert judge.take(payload, is_json=is_json)
    judge.close()

    assert [(trip.call, trip.mode) for trip in kept.trips] == [(number, "generic_repeat") for number in range(1, 8)]
    assert kept.all_spans == 8


def test_what_was_taken_is_judged_when_the_judge_is_closed(make, kept) -> None:
    """Closing waits neither for the window nor for the tick, and judges all that is queued."""
    judge = make(window=3600.0)
    for one in LOOP:
        assert judge.take(one.SerializeToString())
    judge.close()

    assert len(kept.calls) == 8
    assert not judge.take(LOOP[0].SerializeToString())


def test_a_full_queue_refuses_and_takes_again_when_there_is_room(make, kept) -> None:
    """The bound is in bytes. Nothing that was refused is judged, and nothing that was taken is lost."""
    judge = make(most_bytes=20_000)
    kept.hold()
    assert judge.take(message(call(1)).SerializeToString())
    assert kept.working.wait(30)
    taken = 1
    while judge.take(message(call(taken + 1)).SerializeToString()):
        taken += 1
        assert judge.budget.used <= 20_000
    assert kept.refusals == {"full": 1}
    kept.go_on.set()
    judge.close()

    assert len(kept.calls) == taken
    assert not judge.budget.used


@pytest.mark.parametrize("is_json", [False, True])
def test_a_message_that_can_never_fit_is_refused_for_good(make, kept, is_json) -> None:
    """Its memory counts, not its bytes. The sender learns that it makes no sense to send it again."""
    spans = b'{"resourceSpans":[{"scopeSpans":[{"spans":[' + b"{}," * 1_000 + b"{}]}]}]}"
    payload = spans if is_json else message(*[Span()] * 1_000).SerializeToString()
    judge = make(most_bytes=100_000)
    with pytest.raises(OverBudgetError, match="of memory once they are decoded"):
        judge.take(payload, is_json=is_json)

    assert len(payload) < 4_000
    assert kept.refusals == {"large": 1}
    assert not judge.budget.used


@pytest.mark.parametrize(
    ("payload", "is_json"),
    [(b"no protobuf", False), (b"{", True), (b"[]", True), (b'{"runs":1}', True), (b'{"resourceSpans":[1]}', True)],
)
def test_a_message_that_is_no_otlp_is_refused_for_good(make, kept, payload, is_json) -> None:
    """The sender learns that it makes no sense to send it again."""
    with pytest.raises(MalformedError, match="no OTLP"):
        make().take(payload, is_json=is_json)
    assert kept.refusals == {"malformed": 1}
