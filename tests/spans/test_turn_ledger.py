"""The ledger on the span of a turn: what is written is read."""

from __future__ import annotations

from typing import Any

import pytest

from otel_loopguard import Ledger, semconv
from otel_loopguard.spans.turn_ledger import attributes_of, ledger_of


@pytest.mark.parametrize(
    "ledger",
    [
        Ledger(),
        Ledger(3, 0, 900, 80, 500, 1, 0.25, 1, 2, 1, 1),
        Ledger(2, 0, 0, 0, unmetered=2, unpriced=2),
        Ledger(2, 0, 5, 6, unpriced=2, loop_calls=3, loop_tokens=11, seconds=2.5, model_seconds=1.25, tool_seconds=1.0),
    ],
)
def test_what_is_written_is_read(ledger: Ledger) -> None:
    """All but the calls, which have spans of their own."""
    assert ledger_of(attributes_of(ledger._replace(calls=7))) == ledger


@pytest.mark.parametrize(
    "value",
    [-1, "3", 3.5, True, None, 10**30, float("nan"), [3]],
)
def test_what_is_no_number_is_not_known(value: Any) -> None:
    """A span of another program may have anything there: without its requests it has no ledger."""
    assert ledger_of({semconv.TURN_REQUESTS: value}) is None
    assert ledger_of({semconv.TURN_REQUESTS: 1, semconv.TURN_OUTPUT_TOKENS: value}) == Ledger(1, unpriced=1)


@pytest.mark.parametrize("value", [-1.0, "1", float("inf"), float("nan"), 1e300, True])
def test_a_cost_that_is_none_is_not_known(value: Any) -> None:
    """A sum with it would be none, either."""
    assert ledger_of({semconv.TURN_REQUESTS: 1, semconv.TURN_COST: value}) == Ledger(1, unpriced=1)


def test_a_span_of_no_turn_has_none() -> None:
    """Most spans of agents are those of other instrumentations."""
    assert ledger_of({}) is None
