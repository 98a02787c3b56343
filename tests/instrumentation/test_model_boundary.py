"""A request at a framework's boundary is counted once: there, or by the client below it that is read."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

import otel_loopguard as loopguard
from otel_loopguard import Ledger, semconv
from otel_loopguard.engine.vocabulary import Usage
from otel_loopguard.instrumentation.model_boundary import async_boundary, boundary, note_read
from otel_loopguard.instrumentation.targets import Original
from otel_loopguard.testing import guarded

if TYPE_CHECKING:
    from collections.abc import Callable

ONE = Ledger(1, 0, 7, 2, unpriced=1)


def hear(_model: Any, reply: Any) -> Usage:
    """Read a reply that is its own usage."""
    return Usage("m", *reply)


def asked(below: Callable[[], Any]) -> Ledger:
    """Ask a model through a boundary, with this below it. Return what the turn has spent."""
    ask = boundary(hear)(Original(below, None))
    with loopguard.turn() as turn:
        ask()
    return turn.ledger


def test_a_request_that_no_client_is_read_for_is_counted_at_the_boundary() -> None:
    """With the tokens that the reply tells."""
    with guarded():
        assert asked(lambda: (7, 2)) == ONE


def test_a_request_that_a_client_has_read_is_the_clients() -> None:
    """Nothing is added to what that one counts."""

    def read() -> Any:
        note_read()
        return 7, 2

    with guarded():
        assert asked(read) == Ledger()


def test_a_boundary_below_another_one_is_the_same_request() -> None:
    """A model that hands its request on to another model."""
    with guarded():
        assert asked(boundary(hear)(Original(lambda: (7, 2), None))) == ONE


def test_a_request_that_fails_was_sent() -> None:
    """Its usage is unknown, and its exception comes out."""
    with guarded(), loopguard.turn() as turn:
        with pytest.raises(ZeroDivisionError):
            boundary(hear)(Original(lambda: 1 / 0, None))()
        assert turn.ledger == Ledger(1, unmetered=1, unpriced=1)


def test_a_reply_of_another_form_is_left_alone() -> None:
    """The fault is ours: the program gets its reply, and the request stays unknown."""
    with guarded() as recording, loopguard.turn() as turn:
        assert boundary(hear)(Original(lambda: None, None))() is None
        assert turn.ledger == Ledger(1, unmetered=1, unpriced=1)
        assert recording.counted(semconv.METRIC_INTERNAL_ERRORS) == 1


def test_requests_at_the_same_time_are_each_counted() -> None:
    """Tasks have boundaries of their own."""

    async def below() -> Any:
        await asyncio.sleep(0)
        return 7, 2

    async def main() -> Ledger:
        ask = async_boundary(hear)(Original(below, None))
        with loopguard.turn() as turn:
            await asyncio.gather(*[ask() for _ in range(20)])
        return turn.ledger

    with guarded():
        assert asyncio.run(main()) == Ledger(20, 0, 140, 40, unpriced=20)
