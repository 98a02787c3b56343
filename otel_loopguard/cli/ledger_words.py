"""Say what turns spent, in a few words: only what is known, as ``41 requests, 120 calls, 1.2 M tokens, 3.10 USD``."""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING, Final

from otel_loopguard.cli.output import counted
from otel_loopguard.engine.ledger import NOTHING_SPENT

if TYPE_CHECKING:
    from collections.abc import Iterator

    from otel_loopguard.engine.ledger import Ledger

MOST_TURNS: Final = 10
"""Turns that a list of the most expensive ones has."""


def spent_in_words(ledger: Ledger, currency: str = "", calls: str = "call") -> str:
    """Return what was spent. ``currency``: that of the prices; ``calls``: the noun for one."""
    parts = [counted(ledger.requests, "request")] if ledger.requests else []
    parts.append(counted(ledger.calls, calls))
    if ledger.tokens:
        notes = [f"{rounded(ledger.loop_tokens)} in loops"] if ledger.loop_tokens else []
        notes += [f"{counted(ledger.unmetered, 'request')} unknown"] if ledger.unmetered else []
        parts.append(f"{rounded(ledger.tokens)} tokens" + (f" ({', '.join(notes)})" if notes else ""))
    if ledger.cost:
        cost = f"{ledger.cost:,.2f}" if ledger.cost >= 1 else f"{ledger.cost:.2g}"
        parts.append(f"{cost} {currency or 'of cost'}")
    if ledger.children:
        parts.append(counted(ledger.children, "agent"))
    return ", ".join(parts)


def rounded(tokens: int) -> str:
    """Return a number of tokens, such as ``940``, ``12 k`` or ``1.2 M``."""
    if tokens < 10_000:
        return f"{tokens:,}"
    return f"{tokens / 1e3:,.0f} k" if tokens < 999_500 else f"{tokens / 1e6:,.1f} M"


class TurnsSpent:
    """The sum of many turns, and the most expensive ones."""

    def __init__(self) -> None:
        self.total = NOTHING_SPENT
        """With nested turns, which the turns around them have."""
        self._most: list[tuple[float, int, int, str, Ledger]] = []
        self._turns = 0

    def add(self, name: str, ledger: Ledger) -> None:
        """Add a turn that is not nested."""
        self.total = self.total.plus(ledger)
        self._turns += 1
        cost = ledger.cost, ledger.tokens, -self._turns
        heapq.heappush(self._most, (*cost, name, ledger))
        if len(self._most) > MOST_TURNS:
            heapq.heappop(self._most)

    def __len__(self) -> int:
        return self._turns

    @property
    def left(self) -> int:
        """The number of turns that ``most_expensive`` does not have."""
        return self._turns - len(self._most)

    def most_expensive(self) -> Iterator[tuple[str, Ledger]]:
        """Yield the names and ledgers of the most expensive turns; without prices, of those with most tokens."""
        return ((name, ledger) for *_, name, ledger in sorted(self._most, reverse=True))
