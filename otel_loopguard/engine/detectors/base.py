"""The shape of a detector, and the helpers that detectors share."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from otel_loopguard.engine.history.clock import seconds_left
from otel_loopguard.engine.words import Action, Mode, Record, Trip

if TYPE_CHECKING:
    from collections.abc import Callable

    from otel_loopguard.engine.history.state import History
    from otel_loopguard.engine.policy.policy import Policy, Rule
    from otel_loopguard.engine.tools.contracts import Tool

    Check = Callable[[History, Record, Rule], Trip | None]


class Detector(NamedTuple):
    """A mode and its two checks: ``before`` a call may refuse it, ``after`` a call may nudge the model."""

    mode: Mode
    before: Check | None
    after: Check | None
    untried: bool = False
    """``before`` also judges calls that have never run."""
    judges_news: bool = False
    """``after`` also judges first runs that succeeded, as most runs are."""
    concerns: Callable[[Tool, Policy], bool] | None = None
    """True for the tools, under this policy, that the mode has to do with; None means all tools."""


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
    """Make a trip of this call. `decide` lowers its action to the ceiling."""
    stats = record.stats
    first_seen = stats.first_index if stats is not None else record.index
    fields = (
        mode, record.tool, count, limit, verdict, verdict, record.kind, period, first_seen, insistable, reason, wait,
        alone,
    )  # fmt: skip
    return tuple.__new__(Trip, fields)  # a third of the time of the constructor


def refusal(
    history: History, record: Record, mode: str, count: int, limit: int, *, period: int = 1, reason: str = ""
) -> Trip | None:
    """Make the trip of a refusal that time lifts. A call that waited runs: then only mark it as beyond its limit."""
    if record.waited:
        record.beyond = True
        return None
    wait = seconds_left(history, record)
    return trip(record, mode, count, limit, Action.BLOCK, period=period, reason=reason, wait=wait)


def nudge_limit(nudge: int | None, limit: int) -> int:
    """Return the count at which the model is nudged: half of the limit, but not before ``nudge``, which 0 turns off."""
    return max(nudge, (limit + 1) // 2) if nudge else 0


def unchanged(history: History, record: Record) -> bool:
    """Return True if the call has run, and nothing since then may have changed its result.

    The promise of the package is that only such a call is refused.
    """
    return record.stats is not None and not history.changed_since(record.stats)
