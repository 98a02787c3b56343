"""``cycle``: three to eight calls in the same order, with the same results each time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from otel_loopguard.engine.detectors import laps
from otel_loopguard.engine.detectors.row import About, Detector, at_a_repeat
from otel_loopguard.engine.rule import Rule
from otel_loopguard.engine.settings import COUNT, Setting

if TYPE_CHECKING:
    from otel_loopguard.engine.history.history import History
    from otel_loopguard.engine.vocabulary import Record, Trip


def before(history: History, record: Record, rule: Rule) -> Trip | None:
    """Refuse the call that begins or continues the third equal lap."""
    period = laps.period_before(history, record, rule.max_period or 8)
    return laps.refuse(history, record, rule, ROW.mode, period) if period > laps.SHORTEST else None


def after(history: History, record: Record, rule: Rule) -> Trip | None:
    """Nudge at the end of the second equal lap."""
    period = laps.period_after(history, record, rule.max_period or 8)
    return laps.nudge(history, record, rule, ROW.mode, period) if period > laps.SHORTEST else None


ROW = Detector(
    "cycle",
    rule=Rule(nudge=2, block=3, max_period=8),
    settings={
        "max_period": Setting(
            "a whole number from 2 to 32",
            lambda value: value if COUNT.parse(value) in range(2, 33) else None,
            meaning="The longest period that is searched for.",
        ),
    },
    before=before,
    after=after,
    untried=False,
    judges_news=False,
    once_per="laps",
    runs_with=("ping_pong",),
    may_trip_from=at_a_repeat,
    refusal="The same {period} calls were made in the same order, {laps} times over, with the same results.",
    nudge="The same {period} calls have now been made {laps} times over with the same results.",
    about=About(
        title="a longer lap: A\N{NON-BREAKING HYPHEN}B\N{NON-BREAKING HYPHEN}C\N{NON-BREAKING HYPHEN}A"
        "\N{NON-BREAKING HYPHEN}B\N{NON-BREAKING HYPHEN}C",
        agent="repeats laps of 3 to 8 calls, with equal results",
        told="2nd lap",
        refused="3rd lap",
        precisely=("3 to 8 calls go round with the same results", "2nd lap", "as of `ping_pong`"),
        cause="two tools contradict each other, or two agents hand over to each other",
    ),
)
