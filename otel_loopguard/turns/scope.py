"""The scope: the turn that the running code belongs to, and the tool call that it is inside of.

One context variable carries both, so a thread pool or a task has to pass on one thing only. It is reset where it was
set, and nowhere else: the garbage collector may close abandoned work in the context of other code, with another scope.
"""

from __future__ import annotations

from contextvars import ContextVar, Token
from typing import TYPE_CHECKING, Any, Final

from opentelemetry.context import create_key

from otel_loopguard.interrupts import pass_interrupt
from otel_loopguard.turns.gc_safety import garbage_collector

if TYPE_CHECKING:
    from opentelemetry.context import Context

    from otel_loopguard.engine.words import ToolCall
    from otel_loopguard.errors import ToolLoopError
    from otel_loopguard.guard.turn import Turn


CALL: Final = create_key("loopguard-call")
"""The span processor finds the call under this key, in the context that its span was started with."""
NO_CALL: Final = object()
"""Stands under the key for a span of this package that is no call's."""

_new = object.__new__
_MISSING = Token.MISSING  # an attribute of a class is read slowly


class RunState:
    """The state of a run, shared by all scopes of the run."""

    __slots__ = (
        "abort_error",
        "abort_waits",
        "aborted_message",
        "has_steps",
        "own_trace",
        "resumable",
        "span_context",
        "steps",
    )

    def __init__(self) -> None:
        self.abort_error: ToolLoopError | None = None
        """The run ends with this error, even if its code catches the exception that carries it."""
        self.has_steps = False
        """The run goes in steps, and can raise ``abort_error`` when a step is over."""
        self.abort_waits = False
        """``abort_error`` is not raised before the step is over: the aborting call got an answer."""
        self.aborted_message: int | None = None
        """The tick of the message whose call aborted the run. All its calls get an answer."""
        self.resumable = False
        """The run may be resumed: an interrupt waits for an answer, or there is a checkpoint."""
        self.own_trace = False
        """The root of the trace is the span of a run of ours."""
        self.span_context: Context | None = None
        """The context with the run's span, for calls that are made outside of it."""
        self.steps: dict[Any, Any] = {}
        """Notes of the framework's functions about the run's steps."""


class Scope:
    """The turn, run and call of the running code. Immutable, because other threads may hold it."""

    __slots__ = ("agent_name", "call", "conversation_id", "message_tick", "run_state", "strong", "turn")

    def __init__(
        self,
        turn: Turn,
        *,
        conversation_id: str | None = None,
        agent_name: str | None = None,
        run_state: RunState | None = None,
        strong: bool = True,
    ) -> None:
        self.turn = turn
        self.conversation_id = conversation_id
        self.agent_name = agent_name
        self.run_state = run_state
        """Set if a wrapped agent run is further up the stack: it turns an abort into a ``ToolLoopError``."""
        self.call: ToolCall | None = None
        """The tool call that is being run. Executors below it are layers of that call, not calls themselves."""
        self.strong = strong
        """True if the turn is one user message for certain. A weak turn is only suggested by a trace or a task."""
        self.message_tick: int | None = None
        """The turn's ``tick`` when the model wrote the message whose calls are made here, if that is known."""

    def of_call(self, call: ToolCall) -> Scope:
        """Return the scope of the code that runs this call."""
        scope = self._copy()
        scope.call = call
        return scope

    def of_agent(self, agent_name: str | None) -> Scope:
        """Return the scope of another agent of the same run, as after a hand-over."""
        if agent_name is None or agent_name == self.agent_name:
            return self
        scope = self._copy()
        scope.agent_name = agent_name
        return scope

    def of_nested_run(self, agent_name: str | None) -> Scope:
        """Return the scope of a run that belongs to the same turn."""
        scope = self._copy()
        scope.agent_name = agent_name or self.agent_name
        scope.run_state = self.run_state or RunState()
        scope.message_tick = None
        scope.call = None
        return scope

    def of_message(self, tick: int) -> Scope:
        """Return the scope of the code that makes the calls of one message, which was written at this tick."""
        scope = self._copy()
        scope.message_tick = tick
        return scope

    def _copy(self) -> Scope:
        """Copy without ``__init__``, which would double the time: this runs at each call."""
        scope = _new(Scope)
        scope.turn = self.turn
        scope.conversation_id = self.conversation_id
        scope.agent_name = self.agent_name
        scope.run_state = self.run_state
        scope.call = self.call
        scope.strong = self.strong
        scope.message_tick = self.message_tick
        return scope

    def __repr__(self) -> str:
        return f"Scope({self.turn.source} turn {self.turn.id}, inside={self.call is not None})"


_scope: ContextVar[Scope | None] = ContextVar("loopguard_scope", default=None)

current_scope = _scope.get


def bind(scope: Scope | None) -> Token[Scope | None] | None:
    """Make this the scope of the running code. ``unbind`` takes the token; None under the garbage collector."""
    return None if garbage_collector.running and garbage_collector.runs_here() else _scope.set(scope)


def unbind(token: Token[Scope | None] | None, scope: Scope | None, *, thrown_away: bool = False) -> None:
    """Restore the scope from before ``bind``."""
    if token is None or (garbage_collector.running and garbage_collector.runs_here()):
        return
    if _scope.get() is scope:
        before = token.old_value
        _scope.set(None if before is _MISSING else before)
    elif not thrown_away:
        # Something in the block left its own scope behind, or this is not the context that the block began in.
        try:
            _scope.reset(token)
        except (ValueError, RuntimeError) as error:
            pass_interrupt(error)


class in_scope:  # noqa: N801 - reads as a phrase: ``with in_scope(scope):``
    """Run the code of a ``with`` block in this scope."""

    __slots__ = ("_scope", "_token")

    def __init__(self, scope: Scope | None) -> None:
        self._scope = scope
        self._token: Token[Scope | None] | None = None

    def __enter__(self) -> None:
        self._token = bind(self._scope)

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        unbind(self._token, self._scope, thrown_away=kind is GeneratorExit)
