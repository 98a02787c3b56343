"""The PromQL expressions that rules and panels share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

STEP: Final = "15s"
"""The interval at which the rules are evaluated."""
MINUTE: Final = "1m"
"""The window of the recorded increases."""
STEPS_A_MINUTE: Final = 4
MINUTE_AND_STEP: Final = "75s"
"""One step more than a minute: of a series that has ended, the last growth that is recorded is 0."""


COUNTER: Final = "counter"
"""The label with a counter's name in the series of counters that are gone."""


@dataclass(frozen=True)
class Memory:
    """The series that tell what a counter without an earlier value is. An empty name: there is no such series."""

    returned: str
    """Instances that are back after a gap, whose new series are old ones."""
    gone: str = ""
    """The last value of each counter that was gone for up to a day."""
    restarted: str = ""
    """Instances whose earlier values, if any, are those of another process."""


def equals(label: str, value: str) -> str:
    """Return a matcher for one value of a label."""
    return f'{label}="{value}"'


def select(metric: str, *matchers: str) -> str:
    """Return a selector of a metric with these matchers."""
    return f"{metric}{{{','.join(matchers)}}}" if matchers else metric


def grown(metric: str, matchers: tuple[str, ...], memory: Memory, back: str = "1h", delay: int = 0) -> str:
    """Return the growth of each counter in one minute, ``delay`` minutes ago: exact across restarts and gaps.

    ``increase()`` extrapolates, and ignores the first value of a series, which often has a loop's trips. So growth is

    * the last value minus the value a minute before, or up to ``back`` before after an outage, or that of a series that
      was ``gone`` for up to a day;
    * after a restart in that minute, the highest value minus the value before, plus the new value;
    * the value itself if there was none before, or of another process, which ``restarted``; but not for an instance
      that ``returned`` after a gap.
    """
    selected, ago = select(metric, *matchers), f" offset {delay}m" if delay else ""
    last = f"last_over_time({selected}[{MINUTE_AND_STEP}]{ago})"
    before = f"last_over_time({selected}[{back}] offset {delay + 1}m)"
    if memory.gone:
        gone = select(memory.gone, equals(COUNTER, metric), *matchers)
        kept = f'label_replace(last_over_time({gone}[5m] offset {delay + 1}m), "{COUNTER}", "", "", "")'
        before = f"({before} or {kept})"
    if memory.restarted:
        before = f"({before} unless on (job, instance) {memory.restarted})"
    restarted = f"clamp_min(max_over_time({selected}[{MINUTE}]{ago}) - {before}, 0) + {last}"
    new = f"{last} unless on (job, instance) {memory.returned}{ago}"
    return f"(\n  {last} - {before} >= 0\n  or {restarted}\n  or ({new})\n)"


def in_range(recorded: str, window: str, by: str | None = None) -> str:
    """Return the growth in a window, summed by labels, from the series of growth in a minute that the rules record.

    Growth of the last minute is not counted in full yet.
    """
    return f"sum_over_time({_at_each_step(recorded, by)}[{window}:{STEP}]) / {STEPS_A_MINUTE}"


def in_bars(recorded: str, by: str) -> str:
    """Return the growth since the bar before, for a range query whose steps are ``$__interval``.

    Prometheus 2 counts both ends of a window. Without the offset, the value at the end of a bar would count twice.
    """
    return f"sum_over_time({_at_each_step(recorded, by)}[$__interval:{STEP}] offset 1ms) / {STEPS_A_MINUTE}"


def _at_each_step(recorded: str, by: str | None) -> str:
    """Return the recorded growth at a step, summed by labels. A sum at each step costs a seventh of a sum of ranges.

    ``last_over_time`` looks back a minute only; else a step would repeat a value of up to five minutes before, if
    Prometheus was away.
    """
    last = f"last_over_time({recorded}[{MINUTE}])"
    return last if by is None else total(by, last)


def since(counter: str) -> str:
    """Return the growth of a counter of the collector in 5 minutes: of a new or restarted one, all of its value."""
    return f"{counter} - (last_over_time({counter}[1h] offset 5m) <= {counter} or {counter} * 0)"


def total(by: str, vector: str) -> str:
    """Return the sum by labels, separated by commas; of all series if ``by`` is empty."""
    return f"sum by ({by}) ({vector})" if by else f"sum({vector})"


def share(part: str, whole: str) -> str:
    """Return the part divided by the whole: 0 without a part, no value without a whole."""
    return f"({part} or {whole} * 0) / ({whole} > 0)"


def quantile(level: float, buckets: str, window: str) -> str:
    """Return a quantile of a recorded histogram over a window."""
    return f"histogram_quantile({level}, {in_range(buckets, window, 'le')})"
