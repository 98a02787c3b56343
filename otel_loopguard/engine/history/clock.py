"""The idle clock: a repeat after some time proves less than a hasty one.

The clock of a turn moves by pauses: seconds before a call in which no call of the turn started or ended. Pauses below
``min_interval`` (10 s) are left out. A call *waited* if the clock moved by its *pace* since its last run: 10 s, doubled
by each run in vain. A call that waited is not refused, and its *haste* (0 to 1) multiplies the weight of its run.

Thinking is not waiting: seconds in which the model thought (``Turn.thought``) are no part of a pause. There is one
exception, what changes by itself: the time of a poll, and of a call whose last result was pending, goes on meanwhile.
"""

from __future__ import annotations

import math
from statistics import median
from typing import TYPE_CHECKING

from otel_loopguard.engine.history.call_stats import PENDING

if TYPE_CHECKING:
    from otel_loopguard.engine.history.call_stats import CallStats
    from otel_loopguard.engine.history.history import History
    from otel_loopguard.engine.vocabulary import Record

_FEWEST_PAUSES = 3
_MOST_DOUBLINGS = 20
_SLOW = 3
"""A pause of up to so many times ``min_interval`` is taken for a slow model."""
_ENOUGH = 0.9
"""The share of the time to wait that a result names after which its call has waited."""
_POLL = "poll_no_progress"


def compare_times(history: History, record: Record, stats: CallStats) -> None:
    """Set ``waited`` and ``haste`` of a record, if its call ran before and has waited since."""
    if record.at is None:
        return
    if stats.retry_after and max(record.gap, record.wall - stats.wall) >= _ENOUGH * stats.retry_after:
        record.waited, record.haste = True, 0.0  # as long as the last result asked for
        return
    idle = _idle_since(record, record, stats)
    if not (idle or stats.lifted_at):
        return
    lifted = 0 < stats.lifted_at <= time_of(history, record, stats)
    if lifted or idle >= _pace(record, stats):
        record.waited = True
        calls = max(1, record.index - stats.last_index - stats.refused)  # this one, and others since its last run
        record.haste = _haste(history, record, idle / calls, (record.idle - stats.idle) / calls)


def time_of(history: History, record: Record, stats: CallStats) -> float:
    """Return the time, in seconds, by which a refused call runs again; thought is left out unless it counts."""
    at: float = record.at  # type: ignore[assignment]  # of a call whose time was recorded
    thought: float = history.thought
    return at if _changes_by_itself(record, stats) else at - thought


def _changes_by_itself(record: Record, stats: CallStats) -> bool:
    return record.kind.polls or stats.flags & PENDING > 0


def _idle_since(clocks: Record | History, record: Record, stats: CallStats) -> float:
    """Return the idle seconds since the last run of a call, with thought for one that changes by itself.

    ``clocks``: those of the record stand at the start of the call, those of the history at the last start before it.
    """
    wall: float = clocks.wall - stats.wall
    return wall if _changes_by_itself(record, stats) else clocks.idle - stats.idle


def _pace(record: Record, stats: CallStats) -> float:
    """Return the seconds that a call has to wait after its last run so that it is not refused."""
    tool = record.resolved.tool
    share: float = tool.rules[_POLL].min_interval_share or 0
    stood: float = record.wall - stats.same_since
    interval: float = tool.min_interval
    return max(interval * 2.0 ** min(stats.vain, _MOST_DOUBLINGS), stood * share)


def _haste(history: History, record: Record, mean: float, without_thought: float) -> float:
    """Return the haste of a run that waited.

    ``mean``: the seconds of its wait, divided by the calls made meanwhile. ``without_thought``: those in which the
    model did not think.
    """
    if len(history.pauses) >= _FEWEST_PAUSES and without_thought and without_thought >= 2 * median(history.pauses):
        return 0.0  # longer than this agent takes for a call: it waits on purpose
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
    gap = record.gap if _changes_by_itself(record, stats) else record.gap - record.thinking
    # A pause that is shorter than the interval does not move the clock.
    needed: float = max(shortest, _pace(record, stats) - _idle_since(history, record, stats)) - max(0.0, gap)
    if stats.lifted_at:
        needed = min(needed, stats.lifted_at - time_of(history, record, stats))
    return max(1, math.ceil(needed))
