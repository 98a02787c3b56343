"""``ping_pong``: two calls in turn, with the same results each time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from otel_loopguard.engine.detectors import laps
from otel_loopguard.engine.detectors.row import About, Detector, at_a_repeat
from otel_loopguard.engine.rule import Rule

if TYPE_CHECKING:
    from otel_loopguard.engine.history.history import History
    from otel_loopguard.engine.vocabulary import Record, Trip

_PERIOD = 2


def before(history: History, record: Record, rule: Rule) -> Trip | None:
    """Refuse the call that begins or continues the third equal lap of two calls."""
    if laps.period_before(history, record, _PERIOD) != _PERIOD:
        return None
    return laps.refuse(history, record, rule, ROW.mode, _PERIOD)


def after(history: History, record: Record, rule: Rule) -> Trip | None:
    """Nudge at the end of the second equal lap of two calls."""
    if laps.period_after(history, record, _PERIOD) != _PERIOD:
        return None
    return laps.nudge(history, record, rule, ROW.mode, _PERIOD)


ROW = Detector(
    "ping_pong",
    rule=Rule(nudge=2, block=3),
    before=before,
    after=after,
    untried=False,
    judges_news=False,
    once_per="laps",
    runs_with=("cycle",),
    may_trip_from=at_a_repeat,
    refusal="The same two calls were made in turn, {laps} times over, with the same results each time.",
    nudge="The same two calls have now been made in turn {laps} times with the same results.",
    about=About(
        title="two calls in turn: A\N{NON-BREAKING HYPHEN}B\N{NON-BREAKING HYPHEN}A\N{NON-BREAKING HYPHEN}B",
        agent="makes two calls in turn, with equal results",
        told="2nd lap",
        refused="3rd lap",
        precisely=(
            "two calls go round with the same results",
            "2nd lap",
            "3rd lap; 20th if a result waits, 9th or 4th if all are one acknowledgement, 9th if it is one call whose "
            "results go round",
        ),
        cause="two tools contradict each other, or two agents hand over to each other",
    ),
)
