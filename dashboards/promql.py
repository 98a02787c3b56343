"""The PromQL expressions that rules and panels share."""

from __future__ import annotations

from typing import Final

STEP: Final = "15s"
"""The interval at which the rules are evaluated."""
MINUTE: Final = "1m"
"""The window of the recorded increases."""
STEPS_A_MINUTE: Final = 4
_MINUTE_AND_STEP: Final = "75s"
"""A series that has ended is seen for one more step than it grows, so that the last growth recorded is 0."""


def equals(label: str, value: str) -> str:
    """A matcher for exactly one value."""
    return f'{label}="{value}"'


def select(metric: str, *matchers: str) -> str:
    """A metric with its matchers."""
    return f"{metric}{{{','.join(matchers)}}}" if matchers else metric


def grown(selected: str, returned: str, back: str = "1h", delay: int = 0) -> str:
    """The growth of each counter in one minute, ``delay`` minutes ago: exact across restarts and gaps.

    ``increase()`` ignores the first value of a series, although a loop's series often begins with its trips, and it
    extrapolates. Here growth is a difference: of the last value and the one a minute before, which may be as old as
    ``back`` after an outage; with a restart in between, of the highest value and the one before, plus the new value.
    A series without a value before has grown by its value. The exception is an instance that ``returned`` after a gap:
    its counters are new to Prometheus, and their values are old.
    """
    ago = f" offset {delay}m" if delay else ""
    last = f"last_over_time({selected}[{_MINUTE_AND_STEP}]{ago})"
    before = f"last_over_time({selected}[{back}] offset {delay + 1}m)"
    restarted = f"clamp_min(max_over_time({selected}[{MINUTE}]{ago}) - {before}, 0) + {last}"
    new = f"{last} unless on (job, instance) {returned}{ago}"
    return f"(\n  {last} - {before} >= 0\n  or {restarted}\n  or ({new})\n)"


def in_range(recorded: str, window: str, by: str | None = None) -> str:
    """The growth in a window, from increases of a minute that were recorded at each step; summed by labels.

    Growth of the last minute is not counted in full yet.
    """
    return f"sum_over_time({_at_each_step(recorded, by)}[{window}:{STEP}]) / {STEPS_A_MINUTE}"


def in_bars(recorded: str, by: str) -> str:
    """The growth since the bar before, for a range query whose steps are ``$__interval``.

    Grafana aligns the steps. Prometheus 2 counts both ends of a window: without the offset the step of the rules at
    the end of a bar would count in the next bar, too.
    """
    return f"sum_over_time({_at_each_step(recorded, by)}[$__interval:{STEP}] offset 1ms) / {STEPS_A_MINUTE}"


def _at_each_step(recorded: str, by: str | None) -> str:
    """The recorded growth at a step; to sum here costs a seventh of a sum of the ranges.

    ``last_over_time`` looks back a minute only: where Prometheus itself was away, a step would otherwise repeat what
    was recorded up to five minutes before.
    """
    last = f"last_over_time({recorded}[{MINUTE}])"
    return last if by is None else total(by, last)


def since(counter: str) -> str:
    """The growth in 5 minutes of a counter of the collector. It begins with its first value, and after a restart."""
    return f"{counter} - (last_over_time({counter}[1h] offset 5m) <= {counter} or {counter} * 0)"


def total(by: str, vector: str) -> str:
    """The sum by labels; ``by`` may be empty."""
    return f"sum by ({by}) ({vector})" if by else f"sum({vector})"


def share(part: str, whole: str) -> str:
    """Part divided by whole: 0 without a part, nothing without a whole."""
    return f"({part} or {whole} * 0) / ({whole} > 0)"


def quantile(level: float, buckets: str, window: str, by: str = "") -> str:
    """A quantile of a recorded histogram over a window."""
    labels = f"le,{by}" if by else "le"
    return f"histogram_quantile({level}, {in_range(buckets, window, labels)})"
