"""Helpers of detectors: make a trip of a call, and ask the history about the call."""

from __future__ import annotations

from typing import TYPE_CHECKING

from otel_loopguard.engine.history.clock import seconds_left
from otel_loopguard.engine.vocabulary import Action, Record, Trip

if TYPE_CHECKING:
    from otel_loopguard.engine.history.history import History


def trip(
    record: Record,
    mode: str,
    count: int,
    limit: int,
    verdict: Action,
    *,
    period: int = 1,
    insistable: bool = False,
    reason: str = "",
    wait: int = 0,
    alone: bool = False,
) -> Trip:
    """Make a trip of this call, whose action is the verdict. ``decide`` lowers it to the ceiling."""
    stats = record.stats
    first_seen = stats.first_index if stats is not None else record.index
    return Trip(
        mode, record.tool, count, limit, verdict, verdict, record.kind, period, first_seen, insistable, reason, wait,
        alone,
    )  # fmt: skip


def refusal(
    history: History,
    record: Record,
    mode: str,
    count: int,
    limit: int,
    *,
    period: int = 1,
    insistable: bool = False,
    reason: str = "",
) -> Trip | None:
    """Make the trip of a refusal that ends after some seconds (``wait``).

    If the call has waited already, mark it as beyond its limit and return None: it runs.
    """
    if record.waited:
        record.beyond = True
        return None
    wait = seconds_left(history, record)
    return trip(
        record, mode, count, limit, Action.BLOCK, period=period, insistable=insistable, reason=reason, wait=wait
    )


def nudge_limit(nudge: int | None, limit: int) -> int:
    """Return the count at which the model is told: half of ``limit``, but not below ``nudge``; 0 if that is 0."""
    return max(nudge, (limit + 1) // 2) if nudge else 0


def is_doubled(count: int, limit: int) -> bool:
    """Return True if the count is the limit, or the limit doubled once or more: 3, 6, 12, 24."""
    times, rest = divmod(count, max(limit, 1))
    return not rest and not times & (times - 1)


def unchanged(history: History, record: Record) -> bool:
    """Return True if the call has run, and nothing since then may have changed its result."""
    return record.stats is not None and not history.changed_since(record.stats)


_ENOUGH = 1 - 1e-9


def is_proven(record: Record) -> bool:
    """Return True if one more equal result would complete the evidence of a call that ran before."""
    limit = record.limit
    return bool(limit.weight and record.stats.evidence + record.haste * limit.weight >= _ENOUGH)


def judges_untried(record: Record) -> bool:
    """Return True for a call that has not run yet. A detector may be wrong about it, so the model may insist on it."""
    return record.stats is None and record.kind.is_evidence
