"""One guarded tool call as a context manager: it asks the turn before and after the tool runs, and has a span.

``try``/``except Exception`` would not do: a cancelled call has to be ended, too.
"""

from __future__ import annotations

from time import perf_counter, time_ns
from typing import TYPE_CHECKING, Any, Final

from otel_loopguard.engine.vocabulary import Action, Decision, Outcome
from otel_loopguard.errors import RunStopped
from otel_loopguard.instrumentation.aborts import abort_error, gets_answer
from otel_loopguard.instrumentation.shielded_adapter import ShieldedAdapter, without_text
from otel_loopguard.instrumentation.targets import IN_PLACE
from otel_loopguard.telemetry.call_span import CallSpan
from otel_loopguard.turns.gc_safety import garbage_collector
from otel_loopguard.turns.scope import bind, current_scope, unbind

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from types import TracebackType

    from opentelemetry.trace import Span
    from typing_extensions import Self

    from otel_loopguard.instrumentation.runtime import Runtime
    from otel_loopguard.instrumentation.targets import Reading, ToolAdapter
    from otel_loopguard.turns.scope import Scope

__tracebackhide__ = True  # pytest shows the lines of the program, not these

_NOTHING = Decision()
_ABORTED = Decision(Action.ABORT)
_UNKNOWN = Outcome()
_ENDINGS: Final[dict[Action | None, str]] = {Action.REUSE: "reused", Action.ABORT: "aborted"}


class GuardedCall:
    """A tool call: ``with call: return call.answer if call.answered else call.result(run_tool())``.

    If ``answered``, the tool must not run, and ``answer`` is its result. The turn is asked twice: by ``decide`` before
    the tool runs, and by ``result`` or the end of the block about the outcome. Async code awaits both answers ahead, if
    they may have to be awaited. The rest is the same.
    """

    def __init__(
        self, runtime: Runtime, adapter: ToolAdapter, reading: Reading, scope: Scope, outer: Scope | None
    ) -> None:
        self.runtime = runtime
        self.call = reading.call
        self.scope = scope
        self.span = CallSpan(runtime.providers, reading.call, scope, reading.native_span, of_mcp=reading.of_mcp)
        self._adapter = adapter
        self._reading = reading
        self._outer = outer
        """The current scope of the code that makes the call."""
        self.decision = _NOTHING
        """The turn's decision. After a fault of this package the call runs."""
        self.answered = self.finished = self._decided = False
        self.answer: Any = None
        self._seconds = 0.0
        """The seconds that judging the call took."""
        self._asked: tuple[Outcome, Decision] | None = None
        """The outcome that async code has asked the turn about, and the turn's decision."""
        self._inside: Scope | None = None
        """The scope of the code that runs the tool."""
        self._bound: Any = None
        run_state = scope.run_state
        if run_state is not None and run_state.abort_error is not None:
            # The run was aborted already: no further call of it is judged.
            self._decided, self.decision = True, _ABORTED

    @property
    def _shielded(self) -> ShieldedAdapter:
        """The functions of the adapter that few calls need, under the shield. Made only when one is called."""
        return ShieldedAdapter(self._adapter, self._reading, self.runtime.shield)

    @property
    def _may_await(self) -> bool:
        """True if the turn's answers may have to be awaited: it is shared, or the policy has an ``on_trip``."""
        try:
            return self.scope.turn.is_shared or self.scope.turn.policy.on_trip is not None
        except Exception as error:  # noqa: BLE001 - see Shield.take
            self.runtime.shield.take("guard.begin", error)
        return False

    # --- before the tool -----------------------------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        if self._may_await:
            with self.runtime.shield("guard.begin"):
                self._bind()
                await self._decide_ahead()
        return self.__enter__()

    def __enter__(self) -> Self:
        try:
            if self._bound is None:
                self._bind()
            self.span.start(self)
        except Exception as error:  # noqa: BLE001 - see Shield.take
            self.runtime.shield.take("span.start", error)
        try:
            # The span processor has called ``decide``, unless there is none or the span was sampled out.
            decision = self.decision if self.span.described else self.decide(self.span.otel_span)
            if decision.action is not None and not decision.runs:
                self._refuse(decision)
            if not self.answered and self._bound is not None:
                self.span.enter()
        except Exception as error:  # noqa: BLE001 - see Shield.take, which lets RunStopped pass
            self.runtime.shield.take("guard.begin", error)
        return self

    def decide(self, span: Span) -> Decision:
        """Ask the turn about the call, at most once. Return its decision, which is described on the span."""
        if not self._decided:
            self._decided, started = True, perf_counter()  # also after a fault
            try:
                self.decision = self.scope.turn.begin(self.call)
            except Exception as error:  # noqa: BLE001 - see Shield.take
                self.runtime.shield.take("guard.begin", error)
            self._seconds = perf_counter() - started
        try:
            self.span.describe(span, self.decision, self._seconds)
        except Exception as error:  # noqa: BLE001 - see Shield.take
            self.runtime.shield.take("span.start", error)
        return self.decision

    async def _decide_ahead(self) -> None:
        """Ask the turn before ``decide`` does, and await its answer. May fail: the caller holds the shield."""
        if not self._decided:
            self._decided, started = True, perf_counter()
            self.decision = await self.scope.turn.abegin(self.call)
            self._seconds = perf_counter() - started

    def _refuse(self, decision: Decision) -> None:
        if decision.action is Action.ABORT:
            abort, answered = None, False
            with self.runtime.shield("guard.abort"):
                attempts = 0 if decision.record is None else decision.record.attempt
                error_class = self._shielded.error_class()
                abort = abort_error(decision.trip, self.span.name, self.scope, error_class, attempts=attempts)
                answered = gets_answer(decision.trip, self.scope)
            if abort is not None and not (answered and self._answer(decision.message or str(abort), error=True)):
                self._close("aborted", None, _NOTHING)
                self.suspend()
                raise abort
        reused = decision.action is Action.REUSE
        if not self.answered and not self._answer(decision.result if reused else decision.message, error=not reused):
            self._redeliver(decision)
            return
        if decision.mark is not None:
            self.answer = self._shielded.mark(self.answer, decision.mark)
        self._close(_ENDINGS.get(decision.action, "blocked"), None, _NOTHING)
        if reused:
            longer = self._with_text(self.answer, decision)
            self.answer = self.answer if longer is None or longer is IN_PLACE else longer

    def _answer(self, content: Any, *, error: bool) -> bool:
        """Answer the call without running the tool. Return False if that failed."""
        with self.runtime.shield("adapter.answer"):
            self.answer = self._adapter.answer(self._reading, content, error)
            self.answered = True
        return self.answered

    def take_inner_abort(self, error: BaseException) -> bool:
        """Return True if the error has ended a run inside this call. Then ``answer`` tells the agent around it."""
        if self.scope.run_state is None or not issubclass(type(error), RunStopped):
            return False
        inner = error.turn_id  # type: ignore[attr-defined]  # its type was checked, without asking the object
        if type(inner) is not str or not inner.startswith(f"{self.scope.turn.id}/"):
            return False
        return self._answer(str(error), error=True)

    def _bind(self) -> None:
        """Bind the call's scope, from before the call is judged until its end is counted.

        A call that a signal handler makes in between is then a layer of this one, and is not judged. So it waits for no
        lock that this thread holds, of this package or of the SDK.
        """
        self._inside = inside = self.scope.of_call(self.call)
        self._bound = bind(inside)

    def resume(self) -> None:
        """Bind the call's scope and span: the tool, or the rest of a generator tool, runs inside this call now.

        May fail, as ``suspend`` may: the caller holds the shield.
        """
        self._bind()
        if self._bound is not None:
            self.span.enter()

    def suspend(self, *, thrown_away: bool = False) -> None:
        """Unbind scope and span: the tool is over, or is about to yield an item.

        ``thrown_away``: the end may run in another context, whose scope and span are left alone.
        """
        if garbage_collector.running and garbage_collector.runs_here():
            return
        try:
            self.span.leave(thrown_away=thrown_away)
        finally:
            if self._bound is not None:
                unbind(self._bound, self._inside, thrown_away=thrown_away)
                self._bound = None

    # --- after the tool ------------------------------------------------------------------------------------------

    def result(self, value: Any) -> Any:
        """Count the tool's result, and end the call. Return the result, with a sentence for the model if one is due."""
        if garbage_collector.running and garbage_collector.runs_here():
            return value
        outcome, ended = self._asked or (_UNKNOWN, _NOTHING)
        if self._asked is None:
            try:
                outcome = self._adapter.outcome(self._reading, value)
            except Exception as error:  # noqa: BLE001 - see Shield.take
                self.runtime.shield.take("adapter.outcome", error)
            try:
                ended = self.scope.turn.end(self.call, outcome)
            except Exception as error:  # noqa: BLE001 - see Shield.take
                self.runtime.shield.take("guard.end", error)
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
                    value = value if longer is IN_PLACE else longer
                    self.span.is_nudged = any(type(note) is str for note in ended.notes)
                    if self.span.is_nudged and ending == "executed":
                        ending = "nudged"
            self._close(ending, outcome, ended)
        except Exception as error:  # noqa: BLE001 - see Shield.take
            self.runtime.shield.take("guard.end", error)
        return value

    async def aresult(self, value: Any) -> Any:
        """Do the same as ``result`` in async code."""
        try:
            if self._may_await and not garbage_collector.runs_here():
                with self.runtime.shield("guard.end"):
                    await self._ask_ahead(self._adapter.outcome(self._reading, value))
        finally:  # also if it is cancelled while it waits
            value = self.result(value)
        return value

    async def _ask_ahead(self, outcome: Outcome) -> None:
        """Ask the turn about the outcome before ``result`` or ``__exit__`` does, and await its answer.

        May fail: the caller holds the shield.
        """
        self._asked = outcome, _NOTHING  # if it is cancelled while it waits
        self._asked = outcome, await self.scope.turn.aend(self.call, outcome)

    def streamed(self, value: Callable[[], Any]) -> Any:
        """Return ``value()``, the result of a generator that has ended, and let nothing be added to it.

        The model may have read the items already.
        """
        self._adapter = without_text(self._adapter)
        return value()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        try:
            if garbage_collector.running and garbage_collector.runs_here():
                self._defer_end()
                return
            try:
                if not self.finished:
                    self._fail(error)
            finally:
                self.suspend(thrown_away=isinstance(error, GeneratorExit))
        except Exception as fault:  # noqa: BLE001 - see Shield.take
            self.runtime.shield.take("guard.end", fault)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        try:
            if not self.finished and self._may_await and not garbage_collector.runs_here():
                with self.runtime.shield("guard.end"):
                    await self._ask_ahead(self._shielded.failure(error))
        finally:
            self.__exit__(kind, error, traceback)

    def _defer_end(self) -> None:
        """Leave the end to the next call, or to the end of a run: garbage collection must not wait."""
        if not self.finished:
            self.span.end_time = time_ns()
            self.runtime.deferred_ends.append(self)

    def end(self) -> None:
        """End a call that was cut short, or was thrown away under the garbage collector."""
        self.suspend(thrown_away=True)
        if not self.finished:
            self._fail(None)

    def cut_short(self) -> None:
        """End the call if ``__enter__`` or ``__exit__`` has not: a signal handler may have raised in one of them.

        Called after every exception. A handler may also strike between a change and the line that notes it.
        """
        if garbage_collector.running and garbage_collector.runs_here():
            return
        with self.runtime.shield("guard.end"):
            try:
                self.end()
            finally:
                if self._inside is not None and current_scope() is self._inside:
                    bind(self._outer)
                self.span.restore()

    def _fail(self, error: BaseException | None) -> None:
        """End a call that raised, or never ran. A sentence for the model goes with the next result."""
        if self._asked is None:
            outcome, ended = self._shielded.failure(error), _NOTHING
            with self.runtime.shield("guard.end"):
                ended = self.scope.turn.end(self.call, outcome)
        else:
            outcome, ended = self._asked
        if ended.message:
            self._redeliver(ended)
        self._close("cancelled" if outcome.cancelled else "failed", outcome, ended)

    def _close(self, ending: str, outcome: Outcome | None, ended: Decision) -> None:
        """End the span. If requests to models are read, note that this call is judged already."""
        self.finished = True
        try:
            if self.runtime.reader.is_used:
                with self.runtime.shield("model.executed"):
                    self.runtime.reader.executed(self.scope.turn, self.call, self.decision)
        finally:
            self.span.finish(ending, outcome, ended)

    def _with_text(self, value: Any, decision: Decision) -> Any:
        """Return the result with the decision's text. If it has no place for it, return None: the next gets it."""
        annotated = self._shielded.annotate(value, decision.message or "")
        if annotated is None:
            self._redeliver(decision)
        return annotated

    def _redeliver(self, decision: Decision) -> None:
        with self.runtime.shield("turn.redeliver"):
            self.scope.turn.redeliver(decision)


async def drive_async(call: GuardedCall | None, run: Callable[[], Awaitable[Any]]) -> Any:
    """Run a coroutine function as this call, and return its result or the refusal. A call of None runs unguarded."""
    if call is None:
        return await run()
    try:
        async with call:
            return call.answer if call.answered else await call.aresult(await run())
    except BaseException:
        call.cut_short()
        raise
