"""The idle clock: a repeat after some time proves less than a hasty one.

The clock of a turn moves while the agent waits or thinks, and stands still while tools run. It moves by the seconds
before a call in which no call of the turn started or ended, if they are at least ``min_interval`` (10 s); shorter
pauses are the usual time of a model's step. A call *waited* if the clock moved by its *pace* since its last run. A call
that waited is not refused; the weight of its run is multiplied by its *haste*.
"""

from __future__ import annotations

import math
from statistics import median
from typing import TYPE_CHECKING

from otel_loopguard.core.history.call_stats import ACTED, SUCCESS, TRANSIENT
from otel_loopguard.core.model import Kind, Mode, Record

if TYPE_CHECKING:
    from otel_loopguard.core.history.call_stats import CallStats
    from otel_loopguard.core.history.state import History

LONGEST_PAUSES = 15
SHORTEST_PAUSE = 0.1
_FEWEST_PAUSES = 3
_MOST_DOUBLINGS = 20
_LONGER_AFTER_FAILURE = 3
_SLOW = 3
"""A pause of up to this many intervals is that of a slow model."""
_WAIT, _POLL = Kind.WAIT, Mode.POLL_NO_PROGRESS


def compare_times(history: History, record: Record, stats: CallStats) -> None:
    """Compare the pause of a call that ran before with the pace that is asked of it."""
    interval = _interval(record, stats)
    share: float = record.resolved.tool.rules[_POLL].min_interval_share or 0
    stood: float = record.idle - stats.same_since
    record.pace = pace = max(interval * 2.0 ** min(stats.vain, _MOST_DOUBLINGS), stood * share) if interval else 0.0
    idle = record.idle - stats.idle
    lifted = record.at is not None and 0 < stats.lifted_at <= record.at
    record.waited = pace > 0 and (idle >= pace or lifted)
    if record.waited:
        calls = record.index - stats.last_index - stats.refused  # this one, and those of others since its last run
        record.haste = _haste(history, record, interval, idle / max(1, calls))


def _interval(record: Record, stats: CallStats) -> float:
    """Return the shortest pause that counts; 0 if time changes nothing: the tool waits by itself, or it has acted."""
    interval: float = record.resolved.tool.min_interval
    if record.kind is _WAIT or stats.flags & ACTED or interval == math.inf:
        return 0.0
    return interval if stats.flags & (SUCCESS | TRANSIENT) else _LONGER_AFTER_FAILURE * interval


def _haste(history: History, record: Record, interval: float, mean: float) -> float:
    """Return the weight of a run that waited. ``mean``: its pause, shared among the calls since its last run."""
    if len(history.pauses) >= _FEWEST_PAUSES and mean >= 2 * median(history.pauses):
        return 0.0  # longer than this model thinks: it waits on purpose
    most = slow_haste(record)
    return most if mean <= _SLOW * interval else most * (_SLOW * interval / mean) ** 2


def slow_haste(record: Record) -> float:
    """Return the haste of a slow model: with it a call that is refused at the 3rd run is so at the 8th."""
    block: int = record.resolved.tool.rules[_POLL].block_if_slow or 0
    return min(1.0, 2 / (block - 1)) if block > 1 else float(block)


def seconds_left(history: History, record: Record) -> int:
    """Return the seconds after which a call that did not wait long enough runs again; 0 if time does not lift it."""
    stats = record.stats
    if stats is None or record.pace <= 0 or record.at is None:
        return 0
    shortest: float = record.resolved.tool.min_interval  # a shorter pause does not move the clock
    needed: float = max(shortest, record.pace - (history.idle - stats.idle)) - max(0.0, record.gap)
    if stats.lifted_at:
        needed = min(needed, stats.lifted_at - record.at)
    return max(1, math.ceil(needed))
