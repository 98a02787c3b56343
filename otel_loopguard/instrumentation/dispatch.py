"""One tool call, from its executor's start to its answer, as a context manager; and the drivers around it.

A context manager and not ``try``/``except Exception``: a cancelled call must be ended, too.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from opentelemetry import context as otel_context
from opentelemetry.trace import INVALID_SPAN

from otel_loopguard.core.model import Action, Decision, Outcome
from otel_loopguard.telemetry.pending import PendingCall
from otel_loopguard.turns.conversations import Deferred
from otel_loopguard.turns.scope import bind

from .aborts import abort_error
from .points import no_place

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from types import TracebackType

    from opentelemetry.trace import Span
    from typing_extensions import Self

    from otel_loopguard.errors import ToolLoopError
    from otel_loopguard.turns.scope import Scope

    from .points import Dialect, Reading
    from .runtime import Runtime

_NOTHING = Decision()
_UNKNOWN = Outcome()


class Step:
    """A tool call. ``answered`` says whether the tool has not to be run, because ``answer`` is its result."""

    __slots__ = (
        "_before",
        "_closed",
        "_dialect",
        "_pending",
        "_reading",
        "_runtime",
        "_scope",
        "_span",
        "_token",
        "answer",
        "answered",
    )

    def __init__(self, runtime: Runtime, dialect: Dialect, reading: Reading, scope: Scope, *, span: str) -> None:
        self._runtime = runtime
        self._dialect = dialect
        self._reading = reading
        self._scope = scope
        self._pending = PendingCall(runtime.reporter, reading.call, scope, span=span)
        self._span: Span = INVALID_SPAN
        self._before: Scope | None = None
        self._token: Any = None
        self._closed = False
        self.answered = False
        self.answer: Any = None

    @property
    def runtime(self) -> Runtime:
        """Whose call this is."""
        return self._runtime

    @property
    def tool(self) -> str:
        """The tool's name."""
        return self._reading.call.tool

    @property
    def asks(self) -> bool:
        """Whether the call's verdict may have to be awaited."""
        return self._runtime.asks

    async def ask(self) -> None:
        """Have the call judged where that means waiting for ``Policy.on_trip``."""
        await self._pending.adecide()

    def __enter__(self) -> Self:
        if self._closed:  # lent: it was judged when the function was called
            self._closed = False
            self.resume()
            return self
        pending = self._pending
        try:
            self._span = pending.reporter.start(pending)
        except Exception as error:  # noqa: BLE001 - see Shield.take
            self._runtime.shield.take("span.start", error)
        # Also where the processor did this already, or there is none, or the span was sampled out.
        decision = pending.announce(self._span)
        if decision.action is not None and not decision.runs:
            self._refuse(decision)
        if not self.answered:
            self.resume()
        return self

    def _refuse(self, decision: Decision) -> None:
        if decision.action is Action.ABORT:
            abort = abort_error(decision.trip, self._pending.name, self._scope, self._error_kind())
            if abort is not None:
                self._close("aborted", None, _NOTHING)
                raise abort
        with self._runtime.shield("adapter.answer"):
            self.answer = self._refusal(decision)
            self.answered = True

    def _error_kind(self) -> type[ToolLoopError] | None:
        with self._runtime.shield("adapter.error"):
            return None if self._dialect.error is None else self._dialect.error()
        return None

    def _refusal(self, decision: Decision) -> Any:
        if decision.action is not Action.REUSE:
            return self._dialect.answer(self._reading, decision.message, True)  # noqa: FBT003
        answer = self._dialect.answer(self._reading, decision.result, False)  # noqa: FBT003
        if decision.message:
            noted = self._dialect.annotate(self._reading, answer, decision.message)
            answer = answer if noted is None else noted
        return answer

    def resume(self) -> None:
        """The tool, or the rest of a generator tool, runs inside of this call from now on."""
        self._before = bind(self._scope.within(self._reading.call))
        pending = self._pending
        if pending.context is not None and not pending.borrowed:
            try:
                self._token = otel_context.attach(pending.context)
            except Exception as error:  # noqa: BLE001 - see Shield.take
                self._runtime.shield.take("span.attach", error)

    def suspend(self) -> None:
        """It is over, or is about to yield: nothing of ours may stay current in the code that consumes it."""
        if self._token is not None:
            otel_context.detach(self._token)
            self._token = None
        bind(self._before)

    def lend(self) -> None:
        """The work begins later: ``with`` leaves the call open, and is entered again when it does."""
        self.suspend()
        self._closed = True

    def drop(self) -> None:
        """The work that the call was lent to was never begun."""
        self._failed(None)

    def streamed(self, value: Callable[[], Any]) -> None:
        """A generator is exhausted: its items are out, so that a sentence for the model comes with the next text."""
        self._dialect, result = replace(self._dialect, annotate=no_place), None
        with self._runtime.shield("generator.items"):
            result = value()
        self.result(result)

    def result(self, value: Any) -> Any:
        """The tool's result, with a sentence for the model added where one is due."""
        outcome, ended = _UNKNOWN, _NOTHING
        try:
            outcome = self._dialect.outcome(self._reading, value)
        except Exception as error:  # noqa: BLE001 - see Shield.take
            self._runtime.shield.take("adapter.outcome", error)
        try:
            ended = self._scope.turn.end(self._reading.call, outcome)
        except Exception as error:  # noqa: BLE001 - see Shield.take
            self._runtime.shield.take("guard.end", error)
        word = "cancelled" if outcome.cancelled else "failed" if self._is_error() else "executed"
        if ended.message:
            word = "nudged" if ended.action is Action.NUDGE else word
            value = self._with_note(value, ended)
        self._close(word, outcome, ended)
        return value

    def _is_error(self) -> bool:
        """Errors hide in results, too: the guard looks for them when it takes the fingerprint."""
        record = self._pending.decide().record
        return record is not None and bool(record.error)

    def _with_note(self, value: Any, ended: Decision) -> Any:
        noted = None
        with self._runtime.shield("adapter.annotate"):
            noted = self._dialect.annotate(self._reading, value, ended.message or "")
        if noted is None:
            self._defer(ended)
        return value if noted is None else noted

    def _defer(self, ended: Decision) -> None:
        """Have it said with the next text: the user's words as they are, then our sentence, which is the last line."""
        message, nudged = ended.message or "", ended.action is Action.NUDGE
        words, _, sentence = message.rpartition("\n") if nudged else (message, "", "")
        with self._runtime.shield("turn.say"):
            if words:
                self._scope.turn.say(words)
            if sentence:
                self._scope.turn.say(Deferred(f"About the earlier call of {self._pending.name}: {sentence}"))

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if not self.answered:
            self.suspend()
        if self._closed:
            return
        if self.answered:
            self._close("reused" if self._pending.decide().action is Action.REUSE else "blocked", None, _NOTHING)
        else:
            self._failed(error)

    def _failed(self, error: BaseException | None) -> None:
        cancelled = not isinstance(error, Exception) or self._dialect.signals(error)
        outcome = Outcome(error=error, cancelled=cancelled)
        ended = _NOTHING
        with self._runtime.shield("guard.end"):
            ended = self._scope.turn.end(self._reading.call, outcome)
        if ended.message:
            self._defer(ended)
        self._close("cancelled" if cancelled else "failed", outcome, ended)

    def _close(self, word: str, outcome: Outcome | None, ended: Decision) -> None:
        self._closed = True
        pending = self._pending
        try:
            try:
                pending.reporter.finish(self._span, pending, word, outcome, ended)
            finally:
                if not pending.borrowed:
                    self._span.end()
        except Exception as error:  # noqa: BLE001 - see Shield.take
            self._runtime.shield.take("span.end", error)


def drive(step: Step, run: Callable[[], Any]) -> Any:
    """A plain function."""
    with step:
        return step.answer if step.answered else step.result(run())


async def drive_async(step: Step, run: Callable[[], Awaitable[Any]]) -> Any:
    """A coroutine function."""
    if step.asks:
        await step.ask()
    with step:
        return step.answer if step.answered else step.result(await run())
