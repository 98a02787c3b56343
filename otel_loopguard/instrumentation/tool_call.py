"""One guarded tool call, from its executor's start to its answer, as a context manager.

A context manager and not ``try``/``except Exception``: a cancelled call has to be ended, too.
"""

from __future__ import annotations

from contextvars import Token
from time import time_ns
from typing import TYPE_CHECKING, Any, Final

from opentelemetry import context as otel_context

from otel_loopguard.engine.words import Action, Decision, Outcome
from otel_loopguard.errors import ToolLoopError
from otel_loopguard.instrumentation.aborts import abort_error, gets_answer
from otel_loopguard.instrumentation.adapter import ShieldedAdapter, closed_to_reading, closed_to_text
from otel_loopguard.interrupts import pass_interrupt
from otel_loopguard.telemetry.call_span import CallSpan
from otel_loopguard.turns.gc_safety import garbage_collector
from otel_loopguard.turns.scope import bind, current_scope, unbind

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from types import TracebackType

    from typing_extensions import Self

    from otel_loopguard.instrumentation.runtime import Runtime
    from otel_loopguard.instrumentation.targets import Reading, ToolAdapter
    from otel_loopguard.turns.scope import Scope

_NOTHING = Decision()
_UNKNOWN = Outcome()
_ENDINGS: Final[dict[Action | None, str]] = {Action.REUSE: "reused", Action.ABORT: "aborted"}


class GuardedCall(CallSpan):
    """A tool call and its span. If ``answered``, the tool is not to be run, and ``answer`` is its result.

    In the block the tool runs; ``result`` takes its result and returns it, with a sentence for the model if one is due.
    """

    answered = False
    answer: Any = None
    _inside: Scope | None = None
    """The scope of the code that runs the tool."""
    _bound: Any = None
    _token: Any = None
    _left_open = False

    def __init__(
        self, runtime: Runtime, adapter: ToolAdapter, reading: Reading, scope: Scope, outer: Scope | None
    ) -> None:
        CallSpan.__init__(self, runtime.providers, reading.call, scope, reading.native_span)
        self.runtime = runtime
        self._adapter = adapter
        self._reading = reading
        self._outer = outer
        """The current scope of the code that makes the call."""

    @property
    def _shielded(self) -> ShieldedAdapter:
        """The adapter for what few calls need."""
        return ShieldedAdapter(self._adapter, self._reading, self.runtime.shield)

    @property
    def _may_await(self) -> bool:
        """True if decisions may have to be awaited: only a call of ``Policy.on_trip`` shows if it is async."""
        try:
            return self.scope.turn.is_shared or self.scope.turn.policy.on_trip is not None
        except Exception as error:  # noqa: BLE001 - see Shield.take
            self.runtime.shield.take("guard.begin", error)
        return False

    # --- before the tool -----------------------------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        if not self._left_open and self._may_await:
            with self.runtime.shield("span.attach"):
                self._bind()
            await self.decide_async()
        return self.__enter__()

    def __enter__(self) -> Self:
        if self._left_open:  # the decision was taken when the function was called
            self._left_open = False
            with self.runtime.shield("span.attach"):
                self.resume()
            return self
        try:
            if self._bound is None:
                self._bind()
            self.start()
        except Exception as error:  # noqa: BLE001 - see Shield.take
            self.runtime.shield.take("span.start", error)
        try:
            # The processor has decided, unless there is none or the span was sampled out.
            decision = self.decision if self.described else self.decide(self.span)
            if decision.action is not None and not decision.runs:
                self._refuse(decision)
            if not self.answered:
                context = self.context
                if context is not None and self._bound is not None:
                    self._token = otel_context.attach(context)
        except Exception as error:  # noqa: BLE001 - see Shield.take, which lets ToolLoopError pass
            self.runtime.shield.take("guard.begin", error)
        return self

    def _refuse(self, decision: Decision) -> None:
        if decision.action is Action.ABORT:
            abort, answered = None, False
            with self.runtime.shield("guard.abort"):
                attempts = 0 if decision.record is None else decision.record.attempt
                error_class = self._shielded.error_class()
                abort = abort_error(decision.trip, self.name, self.scope, error_class, attempts=attempts)
                answered = gets_answer(decision.trip, self.scope)
            if abort is not None and not (answered and self._answer(decision.message or str(abort), error=True)):
                self.finish("aborted", None, _NOTHING)
                self.suspend()
                raise abort
        reused = decision.action is Action.REUSE
        if not self.answered and not self._answer(decision.result if reused else decision.message, error=not reused):
            self._redeliver(decision)
            return
        if decision.mark is not None:
            self.answer = self._shielded.mark(self.answer, decision.mark)
        self.finish(_ENDINGS.get(decision.action, "blocked"), None, _NOTHING)
        if reused:
            longer = self._with_text(self.answer, decision)
            self.answer = self.answer if longer is None else longer

    def _answer(self, content: Any, *, error: bool) -> bool:
        """Answer the call without running the tool. Return False if that failed."""
        with self.runtime.shield("adapter.answer"):
            self.answer = self._adapter.answer(self._reading, content, error)
            self.answered = True
        return self.answered

    def answers(self, error: BaseException) -> bool:
        """Return True if a run inside this call was aborted: the call has failed, and ``answer`` tells its agent."""
        if self.scope.run_state is None or not issubclass(type(error), ToolLoopError):
            return False
        inner = error.turn_id  # type: ignore[attr-defined]  # its type was checked, without asking the object
        if type(inner) is not str or not inner.startswith(f"{self.scope.turn.id}/"):
            return False
        return self._answer(str(error), error=True)

    def _bind(self) -> None:
        """Bind the call's scope.

        It is bound before the call is judged, until its end is counted: a call that a signal handler makes in the midst
        of that is a layer of this one. So it waits for no lock that this thread holds, of this package or of the SDK.
        """
        self._inside = inside = self.scope.of_call(self.call)
        self._bound = bind(inside)

    def resume(self) -> None:
        """Bind the call's scope and span: the tool, or the rest of a generator tool, runs inside this call now."""
        try:
            self._bind()
            context = self.context
            if context is not None and self._bound is not None:
                self._token = otel_context.attach(context)
        except Exception as error:  # noqa: BLE001 - see Shield.take
            self.runtime.shield.take("span.attach", error)

    def suspend(self, *, thrown_away: bool = False) -> None:
        """Unbind scope and span: the tool is over, or about to yield to code that consumes it."""
        if garbage_collector.running and garbage_collector.runs_here():
            return
        if self._token is not None:
            # A generator that was thrown away may be closed in any context, where another span is the current one.
            if not thrown_away or otel_context.get_current() is self.context:
                detach(self._token)
            self._token = None
        if self._bound is not None:
            unbind(self._bound, self._inside, thrown_away=thrown_away)
            self._bound = None

    def leave_open(self) -> None:
        """Leave the call open after the ``with`` block: its work begins later, in a second ``with`` block."""
        self.suspend()
        self._left_open = True

    # --- after the tool ------------------------------------------------------------------------------------------

    def result(self, value: Any) -> Any:
        """Return the tool's result, with a sentence for the model if one is due."""
        if garbage_collector.running and garbage_collector.runs_here():
            return value
        outcome, ended = _UNKNOWN, _NOTHING
        try:
            outcome = self._adapter.outcome(self._reading, value)
        except Exception as error:  # noqa: BLE001 - see Shield.take
            self.runtime.shield.take("adapter.outcome", error)
        try:
            ended = self.scope.turn.end(self.call, outcome)
        except Exception as error:  # noqa: BLE001 - see Shield.take
            self.runtime.shield.take("guard.end", error)
        return self._finish(value, outcome, ended)

    async def aresult(self, value: Any) -> Any:
        """Do the same as ``result`` in async code, where the decision may have to be awaited."""
        if not self._may_await or garbage_collector.runs_here():
            return self.result(value)
        outcome, ended = _UNKNOWN, _NOTHING
        with self.runtime.shield("adapter.outcome"):
            outcome = self._adapter.outcome(self._reading, value)
        try:
            with self.runtime.shield("guard.end"):
                ended = await self.scope.turn.aend(self.call, outcome)
        finally:  # also if it is cancelled while it waits
            value = self._finish(value, outcome, ended)
        return value

    def streamed(self, value: Callable[[], Any]) -> Any:
        """Return an exhausted generator's result, which takes no text: the model may have read it already."""
        self._adapter = closed_to_text(self._adapter)
        return value()

    def unread(self) -> None:
        """Do not read the result, because reading would use it up."""
        self._adapter = closed_to_reading(self._adapter)

    def _finish(self, value: Any, outcome: Outcome, ended: Decision) -> Any:
        try:
            record = self.decision.record  # a result may hold an error, which is in the record
            ending = "executed"
            if outcome.cancelled:
                ending = "cancelled"
            elif record is not None and record.error:
                ending = "failed"
            if ended.message:
                longer = self._with_text(value, ended)
                if longer is not None:
                    value = longer
                    ending = "nudged" if any(type(note) is str for note in ended.notes) else ending
            self.finish(ending, outcome, ended)
        except Exception as error:  # noqa: BLE001 - see Shield.take
            self.runtime.shield.take("guard.end", error)
        return value

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        try:
            if garbage_collector.running and garbage_collector.runs_here():
                self._defer_end()
                return
            try:
                if not self.finished and not self._left_open:
                    self._fail(error)
            finally:
                self.suspend(thrown_away=isinstance(error, GeneratorExit))
        except Exception as fault:  # noqa: BLE001 - see Shield.take
            self.runtime.shield.take("guard.end", fault)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        with self.runtime.shield("guard.end"):
            if garbage_collector.running and garbage_collector.runs_here():
                self._defer_end()
                return
            try:
                if not self.finished and not self._left_open:
                    await self._afail(error)
            finally:
                self.suspend(thrown_away=isinstance(error, GeneratorExit))

    def _defer_end(self) -> None:
        """Leave the end to the next call, or to the turn's end: nothing can be locked or judged here."""
        if not self.finished and not self._left_open:
            self.end_time = time_ns()
            self.runtime.deferred_ends.append(self)

    def end(self) -> None:
        """End a call whose work was never begun, or was thrown away under the garbage collector."""
        self.suspend(thrown_away=True)
        if not self.finished:
            self._fail(None)

    def cut_short(self) -> None:
        """End the call if an exception of a signal handler kept it from that. Called after every exception.

        Such an exception may strike in ``__enter__`` or ``__exit__``, also between a change and the note of it.
        """
        if garbage_collector.running and garbage_collector.runs_here():
            return
        with self.runtime.shield("guard.end"):
            try:
                if not self._left_open:
                    self.end()
            finally:
                if self._inside is not None and current_scope() is self._inside:
                    bind(self._outer)
                around, context = self.around, self.context
                if around is not None and otel_context.get_current() is context:
                    otel_context.attach(around)

    def _fail(self, error: BaseException | None) -> None:
        outcome, ended = self._shielded.failure(error), _NOTHING
        with self.runtime.shield("guard.end"):
            ended = self.scope.turn.end(self.call, outcome)
        self._finish_failed(outcome, ended)

    async def _afail(self, error: BaseException | None) -> None:
        outcome, ended = self._shielded.failure(error), _NOTHING
        try:
            with self.runtime.shield("guard.end"):
                ended = await self.scope.turn.aend(self.call, outcome)
        finally:
            self._finish_failed(outcome, ended)

    def _finish_failed(self, outcome: Outcome, ended: Decision) -> None:
        """Close a call that raised. An exception has no place for a sentence."""
        if ended.message:
            self._redeliver(ended)
        self.finish("cancelled" if outcome.cancelled else "failed", outcome, ended)

    def _with_text(self, value: Any, decision: Decision) -> Any:
        """Return the result with the decision's text; None without a place for it: it goes with the next text."""
        annotated = self._shielded.annotate(value, decision.message or "")
        if annotated is None:
            self._redeliver(decision)
        return annotated

    def _redeliver(self, decision: Decision) -> None:
        with self.runtime.shield("turn.redeliver"):
            self.scope.turn.redeliver(decision)


def detach(token: Any) -> None:
    """Restore the context from before ``attach``. ``otel_context.detach`` swallows exceptions of signal handlers."""
    if type(token) is Token:
        try:
            token.var.reset(token)
        except (ValueError, RuntimeError) as error:
            pass_interrupt(error)
        else:
            return
    otel_context.detach(token)  # which logs that this is another context


async def drive_async(call: GuardedCall, run: Callable[[], Awaitable[Any]]) -> Any:
    """Run a coroutine function as this call."""
    try:
        async with call:
            return call.answer if call.answered else await call.aresult(await run())
    except BaseException:
        call.cut_short()
        raise
