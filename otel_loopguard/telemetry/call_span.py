"""A tool call on its way: judged once, whoever asks first."""

from __future__ import annotations

import enum
from time import perf_counter
from typing import TYPE_CHECKING, Final

from opentelemetry.context import create_key

from otel_loopguard.core.model import Action, Decision, ToolCall
from otel_loopguard.telemetry.names import shown_name

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.trace import Span

    from otel_loopguard.telemetry.reporter import Reporter
    from otel_loopguard.turns.scope import Scope

PENDING: Final = create_key("loopguard-pending-call")
"""Where the span processor finds the call in the context that the span was started with."""

_RUN_IT = Decision()
_OVER = Decision(Action.ABORT)


class NativeSpan(enum.Enum):
    """The place of a framework's own ``execute_tool`` span of a call, seen from ours. One call has one such span."""

    NONE = enum.auto()
    """There is none: ours is the call's span."""
    OUTER = enum.auto()
    """It is open around our code, and is used instead of a span of our package."""
    INNER = enum.auto()
    """It opens inside ours if the tool runs. If the call is refused, ours is the call's span."""
    BESIDE = enum.auto()
    """It exists in any case, also if the call is refused."""


class PendingCall:
    """One call between its executor's start and its end.

    The span processor decides in ``on_start``, and whoever runs the tool decides again afterwards. Whether there is
    a processor, or two, or none because nothing is sampled: the guard is asked once, and the answer is kept, also
    the answer "run it" after a fault of ours.
    """

    __slots__ = (
        "announced",
        "borrowed",
        "call",
        "context",
        "decision",
        "name",
        "native_span",
        "outlets",
        "reporter",
        "scope",
        "seconds",
        "trip",
    )

    def __init__(self, reporter: Reporter, call: ToolCall, scope: Scope, *, native_span: NativeSpan) -> None:
        self.reporter = reporter
        self.call = call
        self.scope = scope
        self.name = shown_name(call)
        self.native_span = native_span
        self.outlets = reporter.outlets()
        self.borrowed = False
        """Whether the framework's own span is this call's."""
        self.context: Context | None = None
        """The context that holds the call's span, once there is one."""
        run_state = scope.run_state
        self.decision: Decision | None = None if run_state is None or run_state.error is None else _OVER
        """Of a run that was to end already, no call is judged any more."""
        self.announced = False
        self.seconds = 0.0
        self.trip = False
        """Whether a trip of this call was reported: there is at most one a call."""

    def decide(self) -> Decision:
        """What to do with this call."""
        if self.decision is not None:
            return self.decision
        started = perf_counter()
        self.decision = _RUN_IT  # and so it stays after a fault
        try:
            self._decided(self.scope.turn.begin(self.call))
        except Exception as error:  # noqa: BLE001 - see Shield.take
            self.reporter.shield.take("guard.begin", error)
        self.seconds = perf_counter() - started
        return self.decision

    def _decided(self, decision: Decision) -> None:
        self.decision = decision
        record = decision.record
        if record is not None and record.tool != self.call.tool:
            # A gateway: the call is judged, and labelled, as the one behind it, of which we know no registry.
            self.name = shown_name(ToolCall(record.tool))

    async def adecide(self) -> Decision:
        """The same, where ``Policy.on_trip`` has to be awaited."""
        if self.decision is not None:
            return self.decision
        started = perf_counter()
        self.decision = _RUN_IT
        with self.reporter.shield("guard.begin"):
            self._decided(await self.scope.turn.abegin(self.call))
        self.seconds = perf_counter() - started
        return self.decision

    def announce(self, span: Span) -> Decision:
        """Judge the call and write what is known of it on its span, once."""
        decision = self.decide()
        if not self.announced:
            self.announced = True
            try:
                self.reporter.describe(span, self, decision)
            except Exception as error:  # noqa: BLE001 - see Shield.take
                self.reporter.shield.take("span.start", error)
        return decision
