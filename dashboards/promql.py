"""The PromQL expressions that rules and panels share."""

from __future__ import annotations


def equals(label: str, value: str) -> str:
    """A matcher for exactly one value."""
    return f'{label}="{value}"'


def select(metric: str, *matchers: str) -> str:
    """A metric with its matchers."""
    return f"{metric}{{{','.join(matchers)}}}" if matchers else metric


def grown(selected: str, window: str) -> str:
    """The growth of each counter in a window, also of series that are new in it.

    ``increase()`` ignores the first value of a series, and a loop's series often begins with its first trips. A series
    is new if it did not exist in the hour before the window. A series that returns after an outage has its old value,
    which is no growth.
    """
    new = f"{selected} unless last_over_time({selected}[1h] offset {window})"
    return f"(\n  {new}\n  or increase({selected}[{window}])\n)"


def total(by: str, vector: str) -> str:
    """The sum by labels; ``by`` may be empty."""
    return f"sum by ({by}) ({vector})" if by else f"sum({vector})"


def share(part: str, whole: str) -> str:
    """Part divided by whole: 0 without a part, nothing without a whole."""
    return f"({part} or {whole} * 0) / ({whole} > 0)"


def quantile(level: float, buckets: str, window: str, by: str = "") -> str:
    """A quantile of a histogram over a window."""
    labels = f"le,{by}" if by else "le"
    return f"histogram_quantile({level}, {total(labels, grown(buckets, window))})"
