"""Make one row for each loop of texts on a turn's span: ``text_repeat: told at the 3rd, run ended at the 5th time``.

Such a loop has no call.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from otel_loopguard import semconv
from otel_loopguard.engine.quoting import clean_name, ordinal
from otel_loopguard.engine.vocabulary import Action

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

_ACTIONS = {str(action): action for action in Action}
_WORDS = {
    Action.OBSERVE: "only observed",
    Action.NUDGE: "told",
    Action.CONCLUDE: "tools withdrawn",
    Action.ABORT: "run ended",
}


def text_rows(trips: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """Yield a row for each mode of the trips on a turn's span, by their attributes; none for what is only reported."""
    by_mode: dict[str, list[Mapping[str, Any]]] = {}
    for trip in trips:
        if trip.get(semconv.TOOL_NAME) == "" and semconv.BUDGET_ACCOUNT not in trip:
            by_mode.setdefault(clean_name(str(trip.get(semconv.MODE))), []).append(trip)
    for mode, of_mode in by_mode.items():
        if any(action_of(trip, semconv.VERDICT) > Action.NUDGE for trip in of_mode):
            first: dict[str, int] = {}
            for trip in of_mode:
                words = _WORDS.get(action_of(trip, semconv.ACTION), "told")
                first.setdefault(words, int(trip.get(semconv.COUNT, 0)))
            parts = (f"{words} at the {ordinal(count)}" for words, count in first.items())
            yield f"{mode}: {', '.join(parts)} time"


def action_of(attributes: Mapping[str, Any], name: str) -> Action:
    """Return the action of this attribute of a span or an event; ``OFF`` if it has none."""
    return _ACTIONS.get(attributes.get(name, ""), Action.OFF)
