"""Prove the policy on the runs that were held out: bound the share of good runs that it refuses."""

from __future__ import annotations

from math import ceil, exp, lgamma, log, log1p
from typing import TYPE_CHECKING

from otel_loopguard.cli.output import counted
from otel_loopguard.cli.replay.summary import table

if TYPE_CHECKING:
    from collections.abc import Iterator

    from otel_loopguard.cli.calibrate.survey import Survey

CONFIDENCE = 0.95


def figures(survey: Survey, target: float) -> list[str]:
    """Return the lines of the proof: a table of the fitted and the held-out runs, and what they prove."""
    rows = [
        [name, str(one.runs), str(one.before), str(one.after), str(one.withheld_before), str(one.withheld_after)]
        for name, one in (("fitted to", survey.fitted), ("held out", survey.held_out))
    ]
    head = ["", "runs", "refused before", "after", "new results withheld before", "after"]
    return [*table(head, rows).splitlines(), "", *_verdict(survey, target)]


def is_proven(survey: Survey, target: float) -> bool:
    """Return True if the held-out runs prove, with 95 % confidence, that the policy refuses at most this share."""
    held = survey.held_out
    return bool(held.runs) and upper_bound(held.after, held.runs) <= target


def _verdict(survey: Survey, target: float) -> Iterator[str]:
    held = survey.held_out
    if not held.runs:
        yield "NOT PROVEN: no run was held out for the proof. About half of the runs are, by their ids: give more runs."
        return
    bound = upper_bound(held.after, held.runs)
    rule = " (rule of three: 3 / runs)" if not held.after else ""
    yield f"{held.after:,} of {held.runs:,} good runs that were held out are refused: with {CONFIDENCE:.0%} confidence"
    yield f"at most {bound:.2%} of good runs are{rule}. The target is {100 * target:g}%."
    if bound <= target:
        yield "PROVEN: the target is met."
    elif held.after <= target * held.runs:
        yield f"TOO FEW RUNS: {counted(held.runs, 'run')} can prove {upper_bound(0, held.runs):.2%} at best. The target"
        yield f"takes {runs_needed(target):,} held out without a refusal, about {2 * runs_needed(target):,} in all."
    else:
        yield "NOT MET by the runs that were held out: fit to more runs, or choose a higher target."


def upper_bound(refused: int, runs: int) -> float:
    """Return the share of all good runs that may be refused, at most, with 95 % confidence (Clopper and Pearson).

    ``refused`` of ``runs`` held-out runs were refused. Without a refusal it is about 3 / runs: the rule of three.
    """
    if refused >= runs:
        return 1.0
    low, high = refused / runs, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if _at_most(refused, runs, middle) > 1 - CONFIDENCE else (low, middle)
    return high


def runs_needed(share: float) -> int:
    """Return the number of held-out runs that prove this share if none of them is refused."""
    return ceil(log(1 - CONFIDENCE) / log1p(-share))


def _at_most(refused: int, runs: int, share: float) -> float:
    """Return the probability that at most ``refused`` runs are refused, if each is with the probability ``share``."""
    terms = (
        lgamma(runs + 1) - lgamma(k + 1) - lgamma(runs - k + 1) + k * log(share) + (runs - k) * log1p(-share)
        for k in range(refused + 1)
    )
    return sum(map(exp, terms))
