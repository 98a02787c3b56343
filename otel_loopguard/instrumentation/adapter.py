"""What a tool call and the guard have to say to each other, in the framework's own types."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from otel_loopguard.core.model import Action, Outcome
from otel_loopguard.core.values.walker import unique_bytes
from otel_loopguard.instrumentation.targets import no_place
from otel_loopguard.telemetry.call_span import PendingCall

if TYPE_CHECKING:
    from collections.abc import Callable

    from otel_loopguard.core.model import Decision
    from otel_loopguard.errors import ToolLoopError
    from otel_loopguard.instrumentation.runtime import Runtime
    from otel_loopguard.instrumentation.targets import Reading, ToolAdapter
    from otel_loopguard.turns.scope import Scope

_UNKNOWN = Outcome()


class Dialogue:
    """How one call is read, refused and answered. All that is the framework's, or a user's, is under the shield."""

    __slots__ = ("_adapter", "_pending", "_reading", "_runtime", "_scope")

    def __init__(self, runtime: Runtime, adapter: ToolAdapter, reading: Reading, scope: Scope) -> None:
        self._runtime = runtime
        self._adapter = adapter
        self._reading = reading
        self._scope = scope
        self._pending = PendingCall(runtime.reporter, reading.call, scope, native_span=reading.native_span)

    @property
    def runtime(self) -> Runtime:
        """Whose call this is."""
        return self._runtime

    @property
    def tool(self) -> str:
        """The tool's name."""
        return self._reading.call.tool

    @property
    def _asks(self) -> bool:
        """Whether verdicts may have to be awaited: nobody can tell before ``Policy.on_trip`` has answered."""
        return self._scope.turn.policy.on_trip is not None

    def _error_kind(self) -> type[ToolLoopError] | None:
        with self._runtime.shield("adapter.error"):
            return None if self._adapter.error is None else self._adapter.error()
        return None

    def _refusal(self, decision: Decision) -> Any:
        if decision.action is not Action.REUSE:
            return self._adapter.answer(self._reading, decision.message, True)  # noqa: FBT003
        answer = self._adapter.answer(self._reading, decision.result, False)  # noqa: FBT003
        noted = self._adapter.annotate(self._reading, answer, decision.message or "")
        if noted is None:
            self._redeliver(decision)
        return answer if noted is None else noted

    def streamed(self, value: Callable[[], Any]) -> Any:
        """A generator is exhausted, and this is its result, yet to be told: a sentence comes with the next text."""
        self._adapter = replace(self._adapter, annotate=no_place)
        return value()

    def unread(self) -> None:
        """The result cannot be read without using it up: it is never the same twice, and no place for a sentence."""
        self._adapter = replace(self._adapter, annotate=no_place, outcome=_unread)

    def _outcome(self, value: Any) -> Outcome:
        try:
            return self._adapter.outcome(self._reading, value)
        except Exception as error:  # noqa: BLE001 - see Shield.take
            self._runtime.shield.take("adapter.outcome", error)
        return _UNKNOWN

    def _is_error(self) -> bool:
        """Errors hide in results, too: the guard looks for them when it takes the fingerprint."""
        record = self._pending.decide().record
        return record is not None and bool(record.error)

    def _with_note(self, value: Any, ended: Decision) -> Any:
        noted = None
        with self._runtime.shield("adapter.annotate"):
            noted = self._adapter.annotate(self._reading, value, ended.message or "")
        if noted is None:
            self._redeliver(ended)
        return value if noted is None else noted

    def _redeliver(self, decision: Decision) -> None:
        with self._runtime.shield("turn.redeliver"):
            self._scope.turn.redeliver(decision)

    def _failure(self, error: BaseException | None) -> Outcome:
        cancelled = not isinstance(error, Exception)
        if error is not None and not cancelled:
            with self._runtime.shield("adapter.signals"):
                cancelled = self._adapter.signals(error)
        return Outcome(error=error, cancelled=cancelled)


def _unread(reading: Reading, result: Any) -> Outcome:  # noqa: ARG001 - the signature of the table
    """As the core has it of what it cannot read itself; where the result is to be given again, it is the object."""
    return Outcome(result=unique_bytes().decode(), keep=result)
