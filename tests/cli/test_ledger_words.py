"""What turns spent, in words: only what is known."""

from __future__ import annotations

import pytest

from otel_loopguard import Ledger
from otel_loopguard.cli.ledger_words import MOST_TURNS, TurnsSpent, rounded, spent_in_words


@pytest.mark.parametrize(
    ("ledger", "words"),
    [
        (Ledger(calls=1), "1 call"),
        (Ledger(2, 3, unmetered=2), "2 requests, 3 calls"),
        (Ledger(41, 1_200, 1_000_000, 200_000, cost=3.1), "41 requests, 1,200 calls, 1.2 M tokens, 3.10 USD"),
        (Ledger(2, 1, 50, 8, unmetered=1), "2 requests, 1 call, 58 tokens (1 request unknown)"),
        (
            Ledger(2, 1, 50, 8, unmetered=1, loop_tokens=9, children=2),
            "2 requests, 1 call, 58 tokens (9 in loops, 1 request unknown), 2 agents",
        ),
    ],
)
def test_only_what_is_known_is_said(ledger: Ledger, words: str) -> None:
    """A cost of nothing would read as if it were free."""
    assert spent_in_words(ledger, "USD") == words


def test_a_currency_that_is_not_named_is_none() -> None:
    """The policy may have prices without one."""
    assert spent_in_words(Ledger(1, 0, cost=0.126)) == "1 request, 0 calls, 0.13 of cost"


@pytest.mark.parametrize(
    ("tokens", "words"),
    [(0, "0"), (9_999, "9,999"), (10_000, "10 k"), (999_499, "999 k"), (999_500, "1.0 M"), (49_700_000, "49.7 M")],
)
def test_tokens_are_rounded(tokens: int, words: str) -> None:
    """Few are not."""
    assert rounded(tokens) == words


def test_the_most_expensive_turns_come_first() -> None:
    """By their cost, then by their tokens, then as they came; the sum has all."""
    spent = TurnsSpent()
    for number in range(12):
        spent.add(f"turn {number}", Ledger(1, 0, number % 6, cost=0.5 * (number == 3)))
    spent.add("last", Ledger(1, 0, 5))
    names = [name for name, _ in spent.most_expensive()]
    assert names[:5] == ["turn 3", "turn 5", "turn 11", "last", "turn 4"]
    assert (len(names), len(spent), spent.left) == (MOST_TURNS, 13, 3)
    assert (spent.total.requests, spent.total.cost) == (13, 0.5)
