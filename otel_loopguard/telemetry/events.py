"""The event ``tool_loop_detected``: on the span, as a log record, or both; and the warning in the program's own log."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Final

from otel_loopguard import semconv
from otel_loopguard.core.model import Action
from otel_loopguard.core.names import clean_name

if TYPE_CHECKING:
    from collections.abc import Mapping

    from opentelemetry.context import Context
    from opentelemetry.trace import Span

    from otel_loopguard.core.model import First, Record, Trip
    from otel_loopguard.telemetry.log_records import LogRecords

logger = logging.getLogger("otel_loopguard")

_SWALLOWED: Final = 3
"""After so many errors of one turn, the log says that the program goes on."""
_MOST_TURNS: Final = 10_000
_AT_A_CALL: Final = {
    Action.CONCLUDE: "The next model request is to have no tools; refused",
    Action.ABORT: "Raised ToolLoopError at",
}
_AT_A_REQUEST: Final = {
    Action.CONCLUDE: "The model is asked for an answer without tools after",
    Action.ABORT: "Ended the run at a model request after",
}
"""How the log line of a call begins: where its executor is guarded, and where its result is read in a request."""


def tripped_attributes(trip: Trip) -> dict[str, str]:
    """Return the attributes of a trip on the span itself, for backends that cannot query events."""
    return {
        semconv.MODE: str(trip.mode),
        semconv.VERDICT: str(trip.verdict),
        semconv.ACTION: str(trip.action),
    }


def event_attributes(trip: Trip, tool: str, first: First) -> dict[str, Any]:
    """Return the attributes of the event. What may become a label is plain text."""
    return {
        **tripped_attributes(trip),
        semconv.TOOL_KIND: str(trip.kind),
        semconv.TOOL_NAME: tool,
        semconv.COUNT: trip.count,
        semconv.LIMIT: trip.limit,
        semconv.PERIOD: trip.period,
        semconv.FIRST_SEEN_INDEX: trip.first_seen_index,
        semconv.TURN_FIRST: str(first),
    }


class Events:
    """Report trips where the settings want them: on spans, as log records, in the log of the program."""

    def __init__(self, log_records: LogRecords, *, on_spans: bool) -> None:
        self._log_records = log_records
        self._on_spans = on_spans
        self._advised = False
        self._warned_unenforced = False
        self._trips: dict[str, dict[str | Action, int]] = {}
        """For each turn its refused calls by mode, and its conclusions and aborts by action."""

    def emit(
        self, trip: Trip, tool: str, first: First, span: Span, context: Context, *, identity: Mapping[str, Any]
    ) -> None:
        """Emit the event of a trip. ``identity`` names the call and its turn: the span has it, a log record needs it.

        A trip for which no log record can be written is on the span in any case.
        """
        attributes = event_attributes(trip, tool, first)
        if not self._log_records.emit(trip, tool, {**identity, **attributes}, context) or self._on_spans:
            span.add_event(semconv.EVENT_TRIP, attributes)

    def warn(self, trip: Trip, tool: str, record: Record | None, turn_id: str, *, has_run: bool = False) -> None:
        """Log the first refused call of a turn and mode, its conclusion and its abort; ``sum_up`` logs the others.

        ``has_run`` is True of a call that was read in a model request: it was not refused. Arguments are logged as a
        fingerprint. The first line also names the setting that refuses nothing: a program without a logging setup logs
        no greeting.
        """
        action, mode = trip.action, clean_name(str(trip.mode))
        counts = self._counts_of(turn_id)
        if action is Action.CONCLUDE and not has_run:
            counts[mode] = counts.get(mode, 0) + 1
        key = mode if action < Action.CONCLUDE else action
        counts[key] = counts.get(key, 0) + 1
        if counts[key] > 1:
            if action is Action.ABORT and counts[key] == _SWALLOWED:
                logger.warning(
                    "The program catches the ToolLoopError that ends turn %s, and goes on; each repeat raises it.",
                    turn_id,
                )
            return
        advice = "" if self._advised else ". To observe and refuse nothing, set OTEL_PYTHON_LOOPGUARD_ACTION=observe."
        self._advised = True
        logger.warning(
            "%s %s (arguments %s) in turn %s, %s %d, limit %d: %s%s",
            (_AT_A_REQUEST if has_run else _AT_A_CALL).get(action, "Refused"),
            clean_name(tool),
            record.arguments_hash[:19] if record is not None else "unknown",
            turn_id,
            "call" if has_run else "attempt",
            trip.count if record is None or has_run else max(trip.count, record.attempt),
            trip.limit,
            mode,
            advice,
        )

    def _counts_of(self, turn_id: str) -> dict[str | Action, int]:
        counts = self._trips.get(turn_id)
        if counts is None:
            counts = self._trips.setdefault(turn_id, {})
            if len(self._trips) > _MOST_TURNS:
                self._trips.pop(next(iter(self._trips)), None)
        return counts

    def sum_up(self, turn_id: str) -> None:
        """Log the sum of a turn's refused calls at its end, if there were more than the lines say."""
        counts = self._trips.pop(turn_id, None) if self._trips else None
        if counts is None:
            return
        refused = {mode: count for mode, count in counts.items() if isinstance(mode, str)}
        if any(count > 1 for count in refused.values()):
            parts = ", ".join(f"{mode} {count}" for mode, count in refused.items())
            logger.warning("Turn %s ended with %d calls refused (%s).", turn_id, sum(refused.values()), parts)

    def warn_unenforced(self, trip: Trip, tool: str) -> None:
        """Log the first trip of calls that belong to no known run, and the ways to have such loops stopped."""
        if not self._warned_unenforced:
            self._warned_unenforced = True
            logger.warning(
                "%s is called again and again (%s), and is only observed: the calls belong to no known agent run. To "
                "have them guarded, put one message's work into `with otel_loopguard.turn(conversation_id=...):`, or "
                "set OTEL_PYTHON_LOOPGUARD_ENFORCE_WITHOUT_TURN=true.",
                clean_name(tool),
                clean_name(str(trip.mode)),
            )
