"""The few PromQL shapes that rules and panels are made of."""

from __future__ import annotations


def equals(label: str, value: str) -> str:
    """A matcher for exactly one value."""
    return f'{label}="{value}"'


def select(metric: str, *matchers: str) -> str:
    """A metric with its matchers."""
    return f"{metric}{{{','.join(matchers)}}}" if matchers else metric


def grown(selected: str, window: str) -> str:
    """By how much each counter grew in a window, also one that was born in it.

    ``increase()`` sees nothing of a series' first value, and a loop's series is often born with its first trips. A
    series counts as born if it was not there before the window nor in the hour before that: one that comes back after
    an outage has its old value, which is no growth.
    """
    born = f"{selected} unless last_over_time({selected}[1h] offset {window})"
    return f"(\n  {born}\n  or increase({selected}[{window}])\n)"


def total(by: str, vector: str) -> str:
    """The sum by labels; ``by`` may be empty."""
    return f"sum by ({by}) ({vector})" if by else f"sum({vector})"


def share(part: str, whole: str) -> str:
    """Part of whole; 0 where nothing of the part happened, nothing where there is no whole."""
    return f"({part} or {whole} * 0) / ({whole} > 0)"


def quantile(level: float, buckets: str, window: str, by: str = "") -> str:
    """A quantile of a histogram over a window."""
    labels = f"le,{by}" if by else "le"
    return f"histogram_quantile({level}, {total(labels, grown(buckets, window))})"
