"""The event ``tool_loop_detected``: on the span, as a log record, or both; and the warning in the program's own log."""

from __future__ import annotations

import logging
from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any, Final

from otel_loopguard import semconv
from otel_loopguard.engine.quoting import clean_name
from otel_loopguard.engine.words import OVER_TURNS, USER_STOP, Action
from otel_loopguard.telemetry.exit_summary import PASSED, REFUSED, UNTOLD, calls_of
from otel_loopguard.telemetry.log_throttle import LogThrottle, left_out_before

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from opentelemetry.context import Context
    from opentelemetry.trace import Span

    from otel_loopguard.engine.words import First, Record, Trip
    from otel_loopguard.guard.turn import Turn
    from otel_loopguard.telemetry.exit_summary import ExitSummary
    from otel_loopguard.telemetry.log_records import LogRecords

logger = logging.getLogger("otel_loopguard")


def _name_the_package(record: logging.LogRecord) -> bool:
    """Begin a line with the name of the package where no logging is set up: such a line has the text alone."""
    if not logger.hasHandlers() and not str(record.msg).startswith(logger.name):
        record.msg = f"{logger.name}: {record.msg}"
    return True


logger.addFilter(_name_the_package)

SWALLOWED: Final = 3
"""After so many errors of one turn, the log says that the program goes on."""
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
"""The beginning of the log line of a call whose executor is guarded, and of one whose result is read in a request."""
_FATES_AT_A_CALL: Final = {
    Action.OBSERVE: PASSED,
    Action.NUDGE: PASSED,
    Action.BLOCK: REFUSED,
    Action.CONCLUDE: REFUSED,
}
"""The fate of the call of a loop. After `reuse` the model got a result, and after `abort` the run is over."""
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
"""The end of the first line of its kind: of a refused call, of one below the ceiling, of one outside of any run, and of
one in a shared turn without proof."""


def tripped_attributes(trip: Trip, record: Record | None = None) -> dict[str, str]:
    """Return the attributes of a trip on the span itself, for backends that cannot query events.

    Without the record of the call they are those of the metrics.
    """
    attributes = {semconv.MODE: str(trip.mode), semconv.VERDICT: str(trip.verdict), semconv.ACTION: str(trip.action)}
    if trip.reason == OVER_TURNS:
        attributes[semconv.TRIP_SCOPE] = "conversation"
    limit = None if record is None else record.limit
    if limit is not None and limit.mode == trip.mode and not limit.never and trip.reason != "lost":
        attributes[semconv.LIMIT_REASON] = limit.reason.name.lower()
    return attributes


def event_attributes(trip: Trip, tool: str, first: First, record: Record | None = None) -> dict[str, Any]:
    """Return the attributes of the event. What may become a label is plain text."""
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
    """The loops of one turn, for the log."""

    __slots__ = ("calls", "endings", "has_line", "modes", "summed")

    def __init__(self) -> None:
        self.modes: set[str] = set()
        """The modes of its loops."""
        self.calls: defaultdict[str, Counter[str]] = defaultdict(Counter)
        """The calls of loops by mode."""
        self.endings: Counter[Action] = Counter()
        """Conclusions and aborts."""
        self.summed = 0
        """The calls that a line about an ending has summed up."""
        self.has_line = False
        """The log knows the turn, so that lines about its end tell something."""

    def sums(self) -> str:
        """Word the numbers of calls, and note that they are in a line."""
        self.summed = self.total()
        return ", ".join(calls_of(fate, calls) for fate, calls in self.calls.items())

    def total(self) -> int:
        """Return the number of all calls."""
        return sum(sum(calls.values()) for calls in self.calls.values())


class Events:
    """Report trips where the settings want them: on spans, as log records, in the log of the program."""

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
        """Emit the event of a trip. ``identity`` names the call and its turn: the span has it, a log record needs it.

        A trip for which no log record can be written is on the span in any case.
        """
        attributes = event_attributes(trip, tool, first, record)
        if not self._log_records.emit(trip, tool, {**identity, **attributes}, context) or self._on_spans:
            span.add_event(semconv.EVENT_TRIP, attributes)

    def note_loop(self, trip: Trip, turn_id: str) -> None:
        """Count the loop of this trip for the line at exit, once a turn and mode."""
        if trip.verdict >= Action.BLOCK:
            self._count_loop(trip, self._counts_of(turn_id))

    def log(self, trip: Trip, tool: str, record: Record | None, turn: Turn, *, has_run: bool = False) -> None:
        """Log the first call of a turn and mode that is refused or that only the ceiling lets run, and its abort.

        ``sum_up`` logs the number of the others, and ``log_conclusion`` the request without tools: after a call it is
        only due, and may never be made. ``has_run`` is True of a call that was read in a model request: it is not
        refused, and the conclusion is that request. Arguments are logged as a fingerprint. ``LogThrottle`` bounds it.
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
        """Log that a model request is sent with its tools withdrawn, unless the line of its last call says so."""
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
        """Return what can be done, at the first line of its kind: a program without a logging setup has no greeting."""
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
        """Log the sums of a turn at its end, if there were more calls than lines and no line about its end has them."""
        counts = self._turns.pop(turn_id, None) if self._turns else None
        if counts is None or not counts.has_line or counts.summed == counts.total():
            return
        for fate, calls in counts.calls.items():
            if any(count > 1 for count in calls.values()):
                logger.warning("Turn %s ended with %s.", turn_id, calls_of(fate, calls))
