"""One tool call, from its executor's start to its answer, as a context manager; and the drivers around it.

A context manager and not ``try``/``except Exception``: a cancelled call must be ended, too.
"""

from __future__ import annotations

from time import time_ns
from typing import TYPE_CHECKING, Any

from opentelemetry import context as otel_context
from opentelemetry.trace import INVALID_SPAN

from otel_loopguard.core.model import Action, Decision, Outcome
from otel_loopguard.instrumentation.aborts import abort_error
from otel_loopguard.instrumentation.adapter import Dialogue
from otel_loopguard.turns.gc_safety import garbage_collector
from otel_loopguard.turns.scope import bind, unbind

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from types import TracebackType

    from opentelemetry.trace import Span
    from typing_extensions import Self

    from otel_loopguard.instrumentation.runtime import Runtime
    from otel_loopguard.instrumentation.targets import Reading, ToolAdapter
    from otel_loopguard.turns.scope import Scope

_NOTHING = Decision()


class GuardedCall(Dialogue):
    """A tool call. ``answered`` says whether the tool has not to be run, because ``answer`` is its result."""

    __slots__ = ("_bound", "_closed", "_inside", "_over", "_span", "_token", "answer", "answered")

    def __init__(self, runtime: Runtime, adapter: ToolAdapter, reading: Reading, scope: Scope) -> None:
        super().__init__(runtime, adapter, reading, scope)
        self._span: Span = INVALID_SPAN
        self._bound: Any = None
        self._inside: Scope | None = None
        self._token: Any = None
        self._closed = False
        self._over: int | None = None
        self.answered = False
        self.answer: Any = None

    async def __aenter__(self) -> Self:
        if self._asks:
            await self._pending.adecide()
        return self.__enter__()

    def __enter__(self) -> Self:
        if self._closed:  # lent: it was judged when the function was called
            self._closed = False
            with self._runtime.shield("span.attach"):
                self.resume()
            return self
        pending = self._pending
        try:
            self._span = pending.reporter.start(pending)
        except Exception as error:  # noqa: BLE001 - see Shield.take
            self._runtime.shield.take("span.start", error)
        try:
            # Also where the processor did this already, or there is none, or the span was sampled out.
            decision = pending.announce(self._span)
            if decision.action is not None and not decision.runs:
                self._refuse(decision)
            if not self.answered:
                self.resume()
        except Exception as error:  # noqa: BLE001 - see Shield.take, which lets ToolLoopError pass
            self._runtime.shield.take("guard.begin", error)
        return self

    def _refuse(self, decision: Decision) -> None:
        if decision.action is Action.ABORT:
            abort = None
            with self._runtime.shield("guard.abort"):
                abort = abort_error(decision.trip, self._pending.name, self._scope, self._error_kind())
            if abort is not None:
                self._close("aborted", None, _NOTHING)
                raise abort
        with self._runtime.shield("adapter.answer"):
            self.answer = self._refusal(decision)
            self.answered = True
        if not self.answered:
            self._redeliver(decision)

    def resume(self) -> None:
        """The tool, or the rest of a generator tool, runs inside of this call from now on."""
        try:
            self._inside = inside = self._scope.within(self._reading.call)
            self._bound = bind(inside)
            pending = self._pending
            if pending.context is not None and not pending.borrowed and self._bound is not None:
                self._token = otel_context.attach(pending.context)
        except Exception as error:  # noqa: BLE001 - see Shield.take
            self._runtime.shield.take("span.attach", error)

    def suspend(self, *, thrown_away: bool = False) -> None:
        """It is over, or is about to yield: nothing of ours may stay current in the code that consumes it."""
        if garbage_collector.thread is not None and garbage_collector.runs_here():
            return
        if self._token is not None:
            # Thrown away it may be closed in any context, where other code's span is current.
            if not thrown_away or otel_context.get_current() is self._pending.context:
                otel_context.detach(self._token)
            self._token = None
        if self._bound is not None:
            unbind(self._bound, self._inside, thrown_away=thrown_away)
            self._bound = None

    def lend(self) -> None:
        """The work begins later: ``with`` leaves the call open, and is entered again when it does."""
        self.suspend()
        self._closed = True

    def drop(self) -> None:
        """The work that the call was lent to was never begun, or was thrown away at a bad moment."""
        if self._closed or self._raised(thrown_away=True):
            self._failed(None)

    def result(self, value: Any) -> Any:
        """The tool's result, with a sentence for the model added where one is due."""
        if garbage_collector.thread is not None and garbage_collector.runs_here():
            return value
        outcome, ended = self._outcome(value), _NOTHING
        try:
            ended = self._scope.turn.end(self._reading.call, outcome)
        except Exception as error:  # noqa: BLE001 - see Shield.take
            self._runtime.shield.take("guard.end", error)
        return self._told(value, outcome, ended)

    async def aresult(self, value: Any) -> Any:
        """The same, where the verdict may have to be awaited."""
        if not self._asks or garbage_collector.runs_here():
            return self.result(value)
        outcome, ended = self._outcome(value), _NOTHING
        try:
            with self._runtime.shield("guard.end"):
                ended = await self._scope.turn.aend(self._reading.call, outcome)
        finally:  # also where it is cancelled while it waits
            value = self._told(value, outcome, ended)
        return value

    def _told(self, value: Any, outcome: Outcome, ended: Decision) -> Any:
        try:
            word = "cancelled" if outcome.cancelled else "failed" if self._is_error() else "executed"
            if ended.message:
                word = "nudged" if ended.action is Action.NUDGE else word
                value = self._with_note(value, ended)
            self._close(word, outcome, ended)
        except Exception as error:  # noqa: BLE001 - see Shield.take
            self._runtime.shield.take("guard.end", error)
        return value

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        try:
            if garbage_collector.thread is not None and garbage_collector.runs_here():
                self._put_off()
            elif self._raised(thrown_away=isinstance(error, GeneratorExit)):
                self._failed(error)
        except Exception as fault:  # noqa: BLE001 - see Shield.take
            self._runtime.shield.take("guard.end", fault)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        with self._runtime.shield("guard.end"):
            if garbage_collector.thread is not None and garbage_collector.runs_here():
                self._put_off()
                return
            if not self._raised(thrown_away=isinstance(error, GeneratorExit)):
                return
            outcome, ended = self._failure(error), _NOTHING
            try:
                with self._runtime.shield("guard.end"):
                    ended = await self._scope.turn.aend(self._reading.call, outcome)
            finally:
                self._told_of_failure(outcome, ended)

    def _put_off(self) -> None:
        """The call cannot be ended right here, and will be at the next one, or at the turn's end."""
        if not self._closed:
            self._over = time_ns()
            self._runtime.deferred_ends.append(self)

    def _raised(self, *, thrown_away: bool) -> bool:
        """The block is left: whether that is because the tool raised, which is yet to be told."""
        if not self.answered:
            self.suspend(thrown_away=thrown_away)
        elif not self._closed:
            reused = self._pending.decide().action is Action.REUSE
            self._close("reused" if reused else "blocked", None, _NOTHING)
        return not self._closed

    def _failed(self, error: BaseException | None) -> None:
        outcome, ended = self._failure(error), _NOTHING
        with self._runtime.shield("guard.end"):
            ended = self._scope.turn.end(self._reading.call, outcome)
        self._told_of_failure(outcome, ended)

    def _told_of_failure(self, outcome: Outcome, ended: Decision) -> None:
        """An exception has no place for a sentence."""
        if ended.message:
            self._redeliver(ended)
        self._close("cancelled" if outcome.cancelled else "failed", outcome, ended)

    def _close(self, word: str, outcome: Outcome | None, ended: Decision) -> None:
        self._closed = True
        pending = self._pending
        try:
            try:
                pending.reporter.finish(self._span, pending, word, outcome, ended)
            finally:
                if not pending.borrowed:
                    self._span.end(self._over)
        except Exception as error:  # noqa: BLE001 - see Shield.take
            self._runtime.shield.take("span.end", error)


def drive(step: GuardedCall, run: Callable[[], Any]) -> Any:
    """A plain function."""
    with step:
        return step.answer if step.answered else step.result(run())


async def drive_async(step: GuardedCall, run: Callable[[], Awaitable[Any]]) -> Any:
    """A coroutine function."""
    async with step:
        return step.answer if step.answered else await step.aresult(await run())
