"""The idle clock: a repeat after some time proves less than a hasty one.

The clock of a turn moves by pauses: seconds before a call in which no call of the turn started or ended. Pauses below
``min_interval`` (10 s) are left out. A call *waited* if the clock moved by its *pace* since its last run: 10 s, doubled
by each run in vain. A call that waited is not refused, and its *haste* (0 to 1) multiplies the weight of its run.
"""

from __future__ import annotations

import math
from statistics import median
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from otel_loopguard.engine.history.call_stats import CallStats
    from otel_loopguard.engine.history.history import History
    from otel_loopguard.engine.vocabulary import Record

_FEWEST_PAUSES = 3
_MOST_DOUBLINGS = 20
_SLOW = 3
"""A pause of up to so many times ``min_interval`` is taken for a slow model."""
_POLL = "poll_no_progress"


def compare_times(history: History, record: Record, stats: CallStats) -> None:
    """Set ``waited`` and ``haste`` of a record, if its call ran before and has waited since."""
    idle = record.idle - stats.idle
    if record.at is None or not (idle or stats.lifted_at):
        return
    lifted = 0 < stats.lifted_at <= record.at
    if lifted or idle >= _pace(record, stats):
        record.waited = True
        calls = record.index - stats.last_index - stats.refused  # this one, and those of others since its last run
        record.haste = _haste(history, record, idle / max(1, calls))


def _pace(record: Record, stats: CallStats) -> float:
    """Return the seconds that a call has to wait after its last run so that it is not refused."""
    tool = record.resolved.tool
    share: float = tool.rules[_POLL].min_interval_share or 0
    stood: float = record.idle - stats.same_since
    interval: float = tool.min_interval
    return max(interval * 2.0 ** min(stats.vain, _MOST_DOUBLINGS), stood * share)


def _haste(history: History, record: Record, mean: float) -> float:
    """Return the haste of a run that waited. ``mean``: the seconds of its wait, divided by the calls made meanwhile."""
    if len(history.pauses) >= _FEWEST_PAUSES and mean >= 2 * median(history.pauses):
        return 0.0  # longer than this model thinks: it waits on purpose
    most, slow = slow_haste(record), _SLOW * record.resolved.tool.min_interval
    return most if mean <= slow else most * (slow / mean) ** 2


def slow_haste(record: Record) -> float:
    """Return the most that the haste of a run can be which waited: 2/7, so that a limit of 3 runs becomes 8."""
    block: int = record.resolved.tool.rules[_POLL].block_if_slow or 0
    return min(1.0, 2 / (block - 1)) if block > 1 else float(block)


def seconds_left(history: History, record: Record) -> int:
    """Return the whole seconds after which a refused call runs again, at least 1; 0 if time does not count."""
    stats, shortest = record.stats, record.resolved.tool.min_interval
    if stats is None or record.at is None or shortest == math.inf:
        return 0
    # A pause that is shorter than the interval does not move the clock.
    needed: float = max(shortest, _pace(record, stats) - (history.idle - stats.idle)) - max(0.0, record.gap)
    if stats.lifted_at:
        needed = min(needed, stats.lifted_at - record.at)
    return max(1, math.ceil(needed))
