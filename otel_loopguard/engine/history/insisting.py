"""Insisting has a price: the refusals after which a call runs that the model makes all the same.

Some refusals may be wrong: those of calls that have never run. There the model may insist. The first time one refusal
buys one run. The price doubles with each such run that brings nothing new, and is 1 again after news. So an agent that
insists without end is refused more and more often, until its run ends.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from otel_loopguard.engine.history.bounded import EMPTY

if TYPE_CHECKING:
    from otel_loopguard.engine.history.history import History
    from otel_loopguard.engine.vocabulary import Record, Trip

_MOST_DEBTORS = 256
_HIGHEST_PRICE = 1 << 16
_FIRST = (0, 1)


def price_of(history: History, record: Record, trip: Trip) -> int:
    """Return how many refusals buy one run of this call."""
    return history.insisting.get(_debtor(record, trip), _FIRST)[1]


def is_paid(history: History, record: Record, trip: Trip) -> bool:
    """Return True if the call was refused so often that it runs."""
    denied, price = history.insisting.get(_debtor(record, trip), _FIRST)
    return denied >= price


def pay(history: History, record: Record, trip: Trip) -> None:
    """Count the refusal of a call on which the model may insist."""
    debtor = _debtor(record, trip)
    denied, price = history.insisting.pop(debtor, _FIRST)
    if history.insisting is EMPTY:
        history.insisting = {}
    elif len(history.insisting) >= _MOST_DEBTORS:
        history.insisting.pop(next(iter(history.insisting)))
    history.insisting[debtor] = denied + 1, price


def spend(history: History, record: Record) -> None:
    """Note that a call runs: if it was paid for, by its tool or by itself, its end settles the price."""
    if record.stats is not None or not _spend(history, record, record.resolved.tool.digest):
        _spend(history, record, record.key)


def _spend(history: History, record: Record, debtor: int) -> bool:
    denied, price = history.insisting.get(debtor, _FIRST)
    if not denied:
        return False
    history.insisting[debtor] = 0, price
    record.debtor = debtor
    return True


def settle(history: History, record: Record, refusals: int) -> None:
    """Set the price of the next run, at the end of one that the model insisted on.

    News resets it. Nothing new doubles it, and takes back no refusal. ``refusals``: how many there were before the end.
    """
    debtor: int = record.debtor  # type: ignore[assignment]  # it was paid for
    denied, price = history.insisting.pop(debtor, _FIRST)
    if record.news and record.equal_in_row < 2:
        return
    rows = history.tools.get(debtor)
    if rows is not None and rows.empty and rows.answers:  # a list may hold what nobody knows
        rows.waived += 1
        return
    history.refusals = refusals
    history.insisting[debtor] = denied, min(2 * price, _HIGHEST_PRICE)


def _debtor(record: Record, trip: Trip) -> int:
    tool = record.resolved.tool
    digest: int = tool.digest
    return digest if trip.mode in tool.insisted_by_tool else record.key
