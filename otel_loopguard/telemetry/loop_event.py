"""The event ``tool_loop_detected``: on the span, as a log record, or both; and the warning in the program's own log."""

from __future__ import annotations

import logging
from collections import Counter
from typing import TYPE_CHECKING, Any, Final

from opentelemetry.trace import format_trace_id

from otel_loopguard import semconv
from otel_loopguard.engine.quoting import clean_name, ordinal
from otel_loopguard.engine.sentences import count_and_limit
from otel_loopguard.engine.vocabulary import NO_LOOPS, OVER_TURNS, USER_STOP, Action
from otel_loopguard.errors import DOCS
from otel_loopguard.telemetry.exit_summary import PASSED, REFUSED, UNTOLD
from otel_loopguard.telemetry.log_throttle import LogThrottle, left_out_before
from otel_loopguard.telemetry.shown_calls import shown_call

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from opentelemetry.context import Context
    from opentelemetry.trace import Span, SpanContext

    from otel_loopguard.engine.policy.policy import Policy
    from otel_loopguard.engine.vocabulary import First, Record, ToolCall, Trip
    from otel_loopguard.guard.turn import Turn
    from otel_loopguard.telemetry.exit_summary import ExitSummary
    from otel_loopguard.telemetry.log_records import LogRecords
    from otel_loopguard.telemetry.shown_calls import ShownCall

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
_WITHDREW: Final = "Withdrew the tools{after} so that the model answers"
_AT_A_CALL: Final = {
    Action.OBSERVE: "Would have refused",
    Action.NUDGE: "Would have refused",
    Action.ABORT: "Ended the run{after} at",
}
_AT_A_REQUEST: Final = {
    Action.OBSERVE: "Would have told the model of",
    Action.CONCLUDE: f"{_WITHDREW}, at",
    Action.ABORT: "Ended the run{after} at",
}
"""The beginning of a log line: of a call before it runs, and of a call that has run and was read in a request."""
_BEYOND_A_LIMIT: Final = {
    Action.OBSERVE: "Would have asked for an answer",
    Action.NUDGE: "Told the model",
    Action.CONCLUDE: "Asked for an answer",
    Action.ABORT: "Ended the run",
}
"""The beginning of a log line about a request beyond a budget, or in a loop of texts."""
_FATES_AT_A_CALL: Final = {
    Action.OBSERVE: PASSED,
    Action.NUDGE: PASSED,
    Action.BLOCK: REFUSED,
    Action.CONCLUDE: REFUSED,
}
"""What became of a call of a loop, by the action. ``reuse`` gave a result, and ``abort`` ended the run: no fate."""
_FATES_AT_A_REQUEST: Final = {Action.OBSERVE: UNTOLD}
_REFUSED: Final = (
    f" To refuse nothing, set OTEL_PYTHON_LOOPGUARD_ACTION=observe. No loop? {DOCS}/how-to/refused-too-much.md"
)
_ENDED: Final = f" Catch ToolLoopError to answer the user: {DOCS}/how-to/catch-tool-loop-error.md"
_SPENT: Final = f" More may be spent? {DOCS}/how-to/budget.md"
_ENDED_BY_BUDGET: Final = f" Catch RunBudgetError to answer the user: {DOCS}/how-to/catch-tool-loop-error.md#a-budget"
_BELOW: Final = f" It ran: the action %s refuses nothing. {DOCS}/watch.md"
_BELOW_AT_A_REQUEST: Final = (
    " It ran: the action %s only reports; block would tell the model, then ask it for an answer without tools. "
    f"{DOCS}/watch.md"
)
_OUTSIDE: Final = (
    " It ran, because it belongs to no known agent run. To have such calls guarded, put one message's work into "
    "`with otel_loopguard.turn():`, or set OTEL_PYTHON_LOOPGUARD_ENFORCE_WITHOUT_TURN=true, under which unrelated "
    "requests may share a turn."
)
_UNPROVEN: Final = (
    " It ran, because the shared store did not answer: another process may have changed something since it ran before."
)
"""The advice at the end of the first line of a kind: on a refused call, on the end of a run, on both beyond a budget,
on a call that ran because of the policy's action, on one outside of any run, and on one of a shared turn without proof.
"""


def in_words(trip: Trip, tool: str, policy: Policy, attempt: int = 0) -> str:
    """Return the tool, its loop, how often, and the limit, for a log line. ``attempt`` may be above the count."""
    mode, title = clean_name(str(trip.mode)), policy.title(trip.mode)
    if trip.mode == USER_STOP:
        return f"{clean_name(tool)}: the user asked for a stop ({mode})"
    of = f"{clean_name(tool)}: " if tool else ""
    if trip.is_budget:
        return "{}{} {} of {} is spent ({})".format(of, trip.reason, *count_and_limit(trip), mode)
    times = ordinal(max(trip.count, attempt))
    return f"{of}{title}{', ' * bool(title)}for the {times} time ({mode}, limit {trip.limit})"


def where(turn_id: str, span: SpanContext, call_id: str | None = None) -> str:
    """Return the ids by which a call is found in other logs and traces: as far as they are known."""
    ids = [f"call={clean_name(call_id)}"] if call_id else []
    if span.is_valid:
        ids.append(f"trace={format_trace_id(span.trace_id)}")
    return f"[{' '.join([*ids, f'turn={turn_id}'])}]"


def tripped_attributes(trip: Trip, record: Record | None = None) -> dict[str, str]:
    """Return the attributes of a trip for the span itself (some backends cannot query events) and for the metrics.

    The record of the call adds the reason of its limit, which the metrics leave out.
    """
    attributes = {semconv.MODE: str(trip.mode), semconv.VERDICT: str(trip.verdict), semconv.ACTION: str(trip.action)}
    if trip.reason == OVER_TURNS:
        attributes[semconv.TRIP_SCOPE] = "conversation"
    if trip.is_budget:
        attributes[semconv.BUDGET_ACCOUNT] = trip.reason
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


class _TurnLines:
    """The lines of one turn in the log."""

    __slots__ = ("asked", "endings", "has_line", "modes", "reported")

    def __init__(self) -> None:
        self.modes: set[str] = set()
        """The modes in which it looped."""
        self.reported: set[tuple[str, str]] = set()
        """The fates and modes of its calls: the first call of each may have a line."""
        self.endings: Counter[Action] = Counter()
        """The number of conclusions and of aborts."""
        self.asked = False
        """True once a line of it was due."""
        self.has_line = False
        """True once the log has a line of it: then it has one of its end, too."""


class Events:
    """Report trips as the settings say: on spans, as log records; and in the program's own log in any case."""

    show: Callable[[ShownCall], None] | None = None
    """Takes each call with a trip, and its arguments, to be shown on the user's own screen."""
    is_silent = False
    """True if the log has no lines about loops."""

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
        self._turns: dict[str, _TurnLines] = {}
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
            self._count_loop(trip, self._lines_of(turn_id))

    def log(
        self,
        trip: Trip,
        tool: str,
        record: Record | None,
        turn: Turn,
        *,
        span: SpanContext,
        call: ToolCall,
        has_run: bool = False,
    ) -> None:
        """Log a trip that refuses the call, or would: the first one of a turn and mode, and the turn's end.

        ``log_conclusion`` logs a request without tools. ``span`` is that of the call. ``has_run``: it has run, and was
        read in a model request. No argument is logged. ``LogThrottle`` bounds the lines.
        """
        action, mode = trip.action, trip.mode
        if self.show is not None:
            self.show(shown_call(trip, tool, call.arguments, has_run=has_run))
        if trip.verdict < Action.BLOCK:
            return
        lines = self._lines_of(turn.id)
        if mode not in lines.modes:
            self._count_loop(trip, lines)
        is_due, fate = False, (_FATES_AT_A_REQUEST if has_run else _FATES_AT_A_CALL).get(action)
        if fate is not None:
            self._summary.loop_calls[fate][mode] += 1
            is_due = (fate, mode) not in lines.reported
            lines.reported.add((fate, mode))
        is_ending = action is Action.ABORT or (action is Action.CONCLUDE and has_run)
        after = self._after(action, turn, lines, has_run=has_run) if is_ending else ""
        if is_ending:
            lines.endings[action] += 1
            is_due = lines.endings[action] == 1
        if action is Action.ABORT:
            self._summary.ended += is_due
            if lines.endings[action] == SWALLOWED and lines.has_line:
                logger.warning(
                    "The program catches the %s that ends turn %s, and goes on; each %s raises it.",
                    *(("RunBudgetError", turn.id, "call") if trip.is_budget else ("ToolLoopError", turn.id, "repeat")),
                )
        left_out = self._ask(lines, tool, str(mode), is_ending=is_ending) if is_due and not self.is_silent else None
        if left_out is not None:
            logger.warning(
                "%s %s %s.%s%s",
                (_AT_A_REQUEST if has_run else _AT_A_CALL).get(action, "Refused").replace("{after}", after),
                in_words(trip, tool, turn.policy, 0 if record is None or has_run else record.attempt),
                where(turn.id, span, call.call_id),
                left_out_before(left_out),
                self._advice(trip, record, turn, has_run=has_run),
            )

    def log_conclusion(self, turn: Turn, span: SpanContext) -> None:
        """Log that a model request is sent with its tools withdrawn, once a turn, unless the line of a call said so."""
        self._summary.concluded += 1
        lines = self._lines_of(turn.id)
        if lines.endings[Action.CONCLUDE]:
            return
        after = self._after(Action.CONCLUDE, turn, lines, has_run=False)
        lines.endings[Action.CONCLUDE] = 1
        left_out = self._ask(lines, "", str(Action.CONCLUDE), is_ending=True)
        if left_out is not None:
            did = _WITHDREW.replace("{after}", after)
            logger.warning("%s %s.%s", did, where(turn.id, span), left_out_before(left_out))

    def log_request(self, trip: Trip, turn: Turn, span: SpanContext) -> None:
        """Log that a request came beyond a budget, or ends a loop of texts: the turn's first one with this action."""
        if trip.verdict < Action.BLOCK:
            return
        lines, action = self._lines_of(turn.id), trip.action
        self._count_loop(trip, lines)
        lines.endings[action] += 1
        if lines.endings[action] > 1:
            return
        self._summary.ended += action is Action.ABORT
        left_out = self._ask(lines, "", str(trip.mode), is_ending=action is Action.ABORT)
        if left_out is not None:
            did, told = _BEYOND_A_LIMIT.get(action, ""), in_words(trip, "", turn.policy)
            if action is Action.OBSERVE and trip.verdict is Action.ABORT:
                did = "Would have ended the run"
            logger.warning("%s: %s %s.%s", did, told, where(turn.id, span), left_out_before(left_out))

    def _ask(self, lines: _TurnLines, tool: str, mode: str, *, is_ending: bool) -> int | None:
        """Return the number of turns whose lines were left out before this line; None if it must be left out, too."""
        if is_ending and lines.asked:
            return 0 if lines.has_line else None
        left_out = self._limit.ask(tool, mode)
        lines.asked, lines.has_line = True, lines.has_line or left_out is not None
        return left_out

    def _after(self, action: Action, turn: Turn, lines: _TurnLines, *, has_run: bool) -> str:
        """Return why the turn is concluded or ended now, with the limit that decided; empty if the mode's own did."""
        policy, refusals = turn.policy, turn.refusals
        name, limit = "conclude_after", policy.conclude_after
        if action is Action.ABORT:
            name, limit, refusals = "abort_after", policy.abort_after, refusals - 1  # this call is one of them
        if limit and refusals >= limit:
            number = f"{refusals} {'call' if has_run else 'refusal'}{'' if refusals == 1 else 's'}"
            return f" after {number}{' in a loop' if has_run else ''} ({name} {limit}),"
        return " after its tools were withdrawn," if action is Action.ABORT and lines.endings[Action.CONCLUDE] else ""

    def _advice(self, trip: Trip, record: Record | None, turn: Turn, *, has_run: bool) -> str:
        """Return what the user can do, at the first line of a kind; empty at later ones."""
        if trip.action is Action.ABORT:
            advice = _ENDED_BY_BUDGET if trip.is_budget else _ENDED
        elif trip.action >= Action.BLOCK:
            advice = _SPENT if trip.is_budget else _REFUSED
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

    def _count_loop(self, trip: Trip, lines: _TurnLines) -> None:
        if trip.mode not in lines.modes and trip.mode not in NO_LOOPS:
            lines.modes.add(trip.mode)
            self._summary.loops += 1

    def _lines_of(self, turn_id: str) -> _TurnLines:
        lines = self._turns.get(turn_id)
        if lines is None:
            lines = self._turns.setdefault(turn_id, _TurnLines())
            if len(self._turns) > _MOST_TURNS:
                self._turns.pop(next(iter(self._turns)), None)
        return lines

    def forget(self, turn_id: str) -> None:
        """Forget a turn that has ended."""
        if self._turns:
            self._turns.pop(turn_id, None)
