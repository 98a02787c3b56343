"""The event ``tool_loop_detected``: on the span, as a log record, or both; and the warning in the program's own log."""

from __future__ import annotations

import logging
from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any, Final

from otel_loopguard import semconv
from otel_loopguard.engine.quoting import clean_name
from otel_loopguard.engine.vocabulary import OVER_TURNS, USER_STOP, Action
from otel_loopguard.telemetry.exit_summary import PASSED, REFUSED, UNTOLD, calls_of
from otel_loopguard.telemetry.log_throttle import LogThrottle, left_out_before

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from opentelemetry.context import Context
    from opentelemetry.trace import Span

    from otel_loopguard.engine.vocabulary import First, Record, Trip
    from otel_loopguard.guard.turn import Turn
    from otel_loopguard.telemetry.exit_summary import ExitSummary
    from otel_loopguard.telemetry.log_records import LogRecords

logger = logging.getLogger("otel_loopguard")


def _name_the_package(record: logging.LogRecord) -> bool:
    """Begin the text with the package's name if no logging is set up: then the text is all of the line."""
    if not logger.hasHandlers() and not str(record.msg).startswith(logger.name):
        record.msg = f"{logger.name}: {record.msg}"
    return True


logger.addFilter(_name_the_package)

SWALLOWED: Final = 3
"""Aborts of one turn after which the log says that the program goes on."""
_MOST_TURNS: Final = 10_000
_AT_A_CALL: Final = {
    Action.OBSERVE: "Would have refused",
    Action.NUDGE: "Would have refused",
    Action.ABORT: "Raised ToolLoopError at",
}
_AT_A_REQUEST: Final = {
    Action.OBSERVE: "Would have nudged the model after",
    Action.CONCLUDE: "The model is asked for an answer, with its tools withdrawn, after",
    Action.ABORT: "Ended the run at a model request after",
}
"""The beginning of a log line: of a call before it runs, and of a call that has run and was read in a request."""
_FATES_AT_A_CALL: Final = {
    Action.OBSERVE: PASSED,
    Action.NUDGE: PASSED,
    Action.BLOCK: REFUSED,
    Action.CONCLUDE: REFUSED,
}
"""What became of a call of a loop, by the action. ``reuse`` gave a result, and ``abort`` ended the run: no fate."""
_FATES_AT_A_REQUEST: Final = {Action.OBSERVE: UNTOLD}
_DOCS: Final = "https://github.com/otel-loopguard/otel-loopguard/tree/main/docs"
_REFUSED: Final = (
    ". To observe and refuse nothing, set OTEL_PYTHON_LOOPGUARD_ACTION=observe. "
    f"If this was no loop: {_DOCS}/how-to/refused-too-much.md"
)
_BELOW: Final = f". It ran: its action is %s; the action block would refuse it. Docs: {_DOCS}/watch.md"
_BELOW_AT_A_REQUEST: Final = (
    f". It ran: its action is %s; the action block would nudge the model, then ask it for an answer without tools. "
    f"Docs: {_DOCS}/watch.md"
)
_OUTSIDE: Final = (
    ". It ran, because it belongs to no known agent run. To have such calls guarded, put one message's work into "
    "`with otel_loopguard.turn():`, or set OTEL_PYTHON_LOOPGUARD_ENFORCE_WITHOUT_TURN=true, under which unrelated "
    "requests may share a turn"
)
_UNPROVEN: Final = (
    ". It ran, because the shared store did not answer: another process may have changed something since it ran before"
)
"""The advice at the end of the first line of a kind: on a refused call, on a call that ran because of the policy's
action, on a call outside of any run, and on a call of a shared turn without proof."""


def tripped_attributes(trip: Trip, record: Record | None = None) -> dict[str, str]:
    """Return the attributes of a trip for the span itself (some backends cannot query events) and for the metrics.

    The record of the call adds the reason of its limit, which the metrics leave out.
    """
    attributes = {semconv.MODE: str(trip.mode), semconv.VERDICT: str(trip.verdict), semconv.ACTION: str(trip.action)}
    if trip.reason == OVER_TURNS:
        attributes[semconv.TRIP_SCOPE] = "conversation"
    limit = None if record is None else record.limit
    if limit is not None and limit.mode == trip.mode and not limit.never and trip.reason != "lost":
        attributes[semconv.LIMIT_REASON] = limit.reason.name.lower()
    return attributes


def event_attributes(trip: Trip, tool: str, first: First, record: Record | None = None) -> dict[str, Any]:
    """Return the attributes of the event ``tool_loop_detected``: texts, and the numbers of the trip."""
    return {
        **tripped_attributes(trip, record),
        semconv.TOOL_KIND: str(trip.kind),
        semconv.TOOL_NAME: tool,
        semconv.COUNT: trip.count,
        semconv.LIMIT: trip.limit,
        semconv.PERIOD: trip.period,
        semconv.FIRST_SEEN_INDEX: trip.first_seen_index,
        semconv.TURN_FIRST: str(first),
    }


class _TurnCounts:
    """The counts of one turn's loops, for the log."""

    __slots__ = ("calls", "endings", "has_line", "modes", "summed")

    def __init__(self) -> None:
        self.modes: set[str] = set()
        """The modes in which it looped."""
        self.calls: defaultdict[str, Counter[str]] = defaultdict(Counter)
        """For each fate, the number of calls in loops by mode."""
        self.endings: Counter[Action] = Counter()
        """The number of conclusions and of aborts."""
        self.summed = 0
        """The number of calls that the last line with sums has counted."""
        self.has_line = False
        """True once the log has a line about the turn: later lines refer to it."""

    def sums(self) -> str:
        """Return the numbers of calls in words, and note that a line has them."""
        self.summed = self.total()
        return ", ".join(calls_of(fate, calls) for fate, calls in self.calls.items())

    def total(self) -> int:
        """Return the number of calls in loops."""
        return sum(sum(calls.values()) for calls in self.calls.values())


class Events:
    """Report trips as the settings say: on spans, as log records; and in the program's own log in any case."""

    def __init__(
        self,
        log_records: LogRecords,
        summary: ExitSummary,
        *,
        on_spans: bool,
        clock: Callable[[], float],
    ) -> None:
        self._log_records = log_records
        self._summary = summary
        self._on_spans = on_spans
        self._advised: set[str] = set()
        self._turns: dict[str, _TurnCounts] = {}
        self._limit = LogThrottle(clock)

    def emit(
        self,
        trip: Trip,
        tool: str,
        first: First,
        span: Span,
        context: Context,
        *,
        record: Record | None,
        identity: Mapping[str, Any],
    ) -> None:
        """Write the event of a trip on the span, as a log record, or both. Without a log record it is on the span.

        ``identity`` has the attributes of the call and its turn for the log record. The span has them already.
        """
        attributes = event_attributes(trip, tool, first, record)
        if not self._log_records.emit(trip, tool, {**identity, **attributes}, context) or self._on_spans:
            span.add_event(semconv.EVENT_TRIP, attributes)

    def note_loop(self, trip: Trip, turn_id: str) -> None:
        """Count the loop of this trip for the line at exit, once for each turn and mode."""
        if trip.verdict >= Action.BLOCK:
            self._count_loop(trip, self._counts_of(turn_id))

    def log(self, trip: Trip, tool: str, record: Record | None, turn: Turn, *, has_run: bool = False) -> None:
        """Log a trip that refuses the call, or would: the first one of a turn and mode, and the turn's abort.

        ``sum_up`` logs the number of the others, and ``log_conclusion`` a request without tools. ``has_run``: the call
        has run, and was read in a model request. Arguments are logged as a fingerprint. ``LogThrottle`` bounds it.
        """
        action, mode = trip.action, trip.mode
        if trip.verdict < Action.BLOCK:
            return
        counts, number = self._counts_of(turn.id), 0
        if mode not in counts.modes:
            self._count_loop(trip, counts)
        fate = (_FATES_AT_A_REQUEST if has_run else _FATES_AT_A_CALL).get(action)
        if fate is not None:
            self._summary.loop_calls[fate][mode] += 1
            calls = counts.calls[fate]
            calls[mode] = number = calls[mode] + 1
        if action is Action.ABORT or (action is Action.CONCLUDE and has_run):
            counts.endings[action] += 1
            number = counts.endings[action]
        if action is Action.ABORT:
            self._summary.ended += number == 1
            if number == SWALLOWED and counts.has_line:
                logger.warning(
                    "The program catches the ToolLoopError that ends turn %s, and goes on; each repeat raises it.",
                    turn.id,
                )
        if number != 1:
            return
        left_out = self._limit.ask(tool, str(mode), turn.id)
        if left_out is not None:
            counts.has_line = True
            before = f", after {counts.sums()}" if action is Action.ABORT and counts.calls else ""
            logger.warning(
                "%s %s (arguments %s) in turn %s, %s %d, limit %d: %s%s%s%s",
                (_AT_A_REQUEST if has_run else _AT_A_CALL).get(action, "Refused"),
                clean_name(tool),
                record.arguments_hash[:19] if record is not None else "unknown",
                turn.id,
                "call" if has_run else "attempt",
                trip.count if record is None or has_run else max(trip.count, record.attempt),
                trip.limit,
                clean_name(str(mode)),
                before,
                left_out_before(left_out),
                self._advice(trip, record, turn, has_run=has_run),
            )

    def log_conclusion(self, turn_id: str) -> None:
        """Log that a model request is sent with its tools withdrawn, once a turn, unless the line of a call said so."""
        self._summary.concluded += 1
        counts = self._counts_of(turn_id)
        if not counts.endings[Action.CONCLUDE]:
            counts.endings[Action.CONCLUDE] = 1
            left_out = 0 if counts.has_line else self._limit.ask("", str(Action.CONCLUDE), turn_id)
            if left_out is None:
                return
            before = f", after {counts.sums()}" if counts.calls else ""
            logger.warning(
                "The model is asked for an answer, with its tools withdrawn, in turn %s%s%s.",
                turn_id,
                before,
                left_out_before(left_out),
            )

    def _advice(self, trip: Trip, record: Record | None, turn: Turn, *, has_run: bool) -> str:
        """Return what the user can do, at the first line of a kind; empty at later ones."""
        if trip.action >= Action.BLOCK:
            advice = _REFUSED
        elif not turn.enforced:
            advice = _OUTSIDE
        elif record is not None and record.unproven:
            advice = _UNPROVEN
        else:
            advice = _BELOW_AT_A_REQUEST if has_run else _BELOW
        if advice in self._advised:
            return ""
        self._advised.add(advice)
        return advice.replace("%s", str(trip.action))

    def _count_loop(self, trip: Trip, counts: _TurnCounts) -> None:
        if trip.mode not in counts.modes and trip.mode != USER_STOP:
            counts.modes.add(trip.mode)
            self._summary.loops += 1

    def _counts_of(self, turn_id: str) -> _TurnCounts:
        counts = self._turns.get(turn_id)
        if counts is None:
            counts = self._turns.setdefault(turn_id, _TurnCounts())
            if len(self._turns) > _MOST_TURNS:
                self._turns.pop(next(iter(self._turns)), None)
        return counts

    def sum_up(self, turn_id: str) -> None:
        """Log the number of calls in a turn's loops at its end, unless the lines have told it. Forget the turn."""
        counts = self._turns.pop(turn_id, None) if self._turns else None
        if counts is None or not counts.has_line or counts.summed == counts.total():
            return
        for fate, calls in counts.calls.items():
            if any(count > 1 for count in calls.values()):
                logger.warning("Turn %s ended with %s.", turn_id, calls_of(fate, calls))
