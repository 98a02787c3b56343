"""Bound the share of good runs that are refused, by the number refused among the runs that were held out."""

from __future__ import annotations

from math import ceil, exp, lgamma, log, log1p

CONFIDENCE = 0.95


def upper_bound(refused: int, runs: int) -> float:
    """Return the share that is exceeded with a probability of 5 % at most (Clopper and Pearson, one-sided).

    Without a refusal it is about 3 / runs: the rule of three.
    """
    if refused >= runs:
        return 1.0
    low, high = refused / runs, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if _at_most(refused, runs, middle) > 1 - CONFIDENCE else (low, middle)
    return high


def runs_needed(share: float) -> int:
    """Return the number of runs that prove a share if none of them is refused."""
    return ceil(log(1 - CONFIDENCE) / log1p(-share))


def _at_most(refused: int, runs: int, share: float) -> float:
    """Return the probability that at most this number of runs is refused, if each is with this probability."""
    terms = (
        lgamma(runs + 1) - lgamma(k + 1) - lgamma(runs - k + 1) + k * log(share) + (runs - k) * log1p(-share)
        for k in range(refused + 1)
    )
    return sum(map(exp, terms))
