"""The sums of a ledger: unknown usage is counted as unknown, and no number spoils a sum."""

from __future__ import annotations

import pytest

from otel_loopguard.engine.ledger import CHILD_STARTED, NOTHING_SPENT, REQUEST_SENT, Ledger, of_reply
from otel_loopguard.engine.vocabulary import Usage


def after(usage: Usage, cost: float | None) -> Ledger:
    """The ledger after one request with this reply."""
    return REQUEST_SENT.plus(of_reply(usage, cost))


def test_a_request_is_unknown_until_its_reply_tells_its_usage() -> None:
    """A stream that was left, or a reply without usage, leaves it unknown."""
    assert (REQUEST_SENT.requests, REQUEST_SENT.unmetered, REQUEST_SENT.unpriced) == (1, 1, 1)
    assert after(Usage("m", 100, 20, 60), 0.5) == Ledger(1, 0, 100, 20, 60, 0, 0.5)
    assert after(Usage("m", 100, 20), None) == Ledger(1, 0, 100, 20, unpriced=1)
    assert after(Usage("m"), None) == REQUEST_SENT


def test_half_of_a_usage_is_added_and_still_unknown() -> None:
    """A reply that tells one of the two numbers counts with it, and as unmetered."""
    assert after(Usage("m", 100), 0.5) == Ledger(1, 0, 100, unmetered=1, cost=0.5, unpriced=1)


@pytest.mark.parametrize("number", [-1, "12", 10**30, True, None, 1.5, float("nan")])
def test_what_is_no_number_of_tokens_is_unknown(number: object) -> None:
    """A provider may send anything."""
    assert after(Usage.of("m", number, number, number), None) == REQUEST_SENT


def test_cached_tokens_are_a_part_of_the_input() -> None:
    """More of them than of the input is a mistake of the provider."""
    assert after(Usage("m", 10, 1, 50), None).cached_tokens == 10


def test_depth_is_no_sum() -> None:
    """Two agents beside each other are one level, and the turn around them counts one more."""
    both = NOTHING_SPENT.plus(CHILD_STARTED).plus(CHILD_STARTED)
    assert (both.children, both.depth, both.around().depth) == (2, 1, 2)
    assert REQUEST_SENT.around() == REQUEST_SENT
