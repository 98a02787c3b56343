"""The scope of the running code: its turn, and the tool call that it runs inside of.

One context variable holds the scope, so a thread pool or a task has to pass on one value. It is reset only where it was
set: the garbage collector may close abandoned work in the context of other code, which has another scope.
"""

from __future__ import annotations

from contextvars import ContextVar, Token
from typing import TYPE_CHECKING, Any, Final

from opentelemetry.context import create_key

from otel_loopguard.interrupts import pass_interrupt
from otel_loopguard.turns.gc_safety import garbage_collector

if TYPE_CHECKING:
    from opentelemetry.context import Context

    from otel_loopguard.engine.vocabulary import ToolCall
    from otel_loopguard.errors import RunStopped
    from otel_loopguard.guard.turn import Turn


CALL: Final = create_key("loopguard-call")
"""The key of the call in the context that its span is started with. The span processor reads it."""
NO_CALL: Final = object()
"""The value under ``CALL`` if a span of this package is not the span of a call."""

_new = object.__new__
_MISSING = Token.MISSING  # an attribute of a class is read slowly


class RunState:
    """The state of an agent's run, shared by all scopes of the run."""

    __slots__ = (
        "abort_error",
        "abort_waits",
        "aborted_message",
        "has_answer",
        "has_steps",
        "own_trace",
        "resumable",
        "span_context",
        "steps",
    )

    def __init__(self) -> None:
        self.abort_error: RunStopped | None = None
        """The error that ends the run, even if the code of the run catches it; None if nothing has aborted the run."""
        self.has_answer = False
        """True once the framework only checks the answer: the requests of these checks are no work that goes on."""
        self.has_steps = False
        """True if the run goes in steps: ``abort_error`` can be raised between two of them."""
        self.abort_waits = False
        """True if ``abort_error`` waits for the end of the step: the call that aborted got an answer."""
        self.aborted_message: int | None = None
        """The tick of the model's message whose call aborted the run, or None. All its calls get an answer."""
        self.resumable = False
        """True if the run may be resumed: an interrupt waits for an answer, or there is a checkpoint."""
        self.own_trace = False
        """True if the root of the trace is a run's span that this package made."""
        self.span_context: Context | None = None
        """The context with the run's span, for calls that are made where the span is not the current one."""
        self.steps: dict[Any, Any] = {}
        """What the patches of a framework note about the run's steps, under keys of their own."""


class Scope:
    """The turn, the run and the call of the running code. Never changed once bound: other threads may hold it."""

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
        """The state of the agent's run around this code, which turns an abort into a ``RunStopped``, or None."""
        self.call: ToolCall | None = None
        """The tool call that runs, or None. An executor below it is a layer of the call, and makes no other one."""
        self.strong = strong
        """True if the turn is one message of the user for certain; False if a trace or a task only suggests it."""
        self.message_tick: int | None = None
        """The turn's ``tick`` when the model wrote the message whose calls are made here; None if that is not known."""

    def of_call(self, call: ToolCall) -> Scope:
        """Return a copy of the scope for the code that runs this call."""
        scope = self._copy()
        scope.call = call
        return scope

    def of_agent(self, agent_name: str | None) -> Scope:
        """Return the scope for another agent of the same run, as after a hand-over. None stands for the same agent."""
        if agent_name is None or agent_name == self.agent_name:
            return self
        scope = self._copy()
        scope.agent_name = agent_name
        return scope

    def of_nested_run(self, agent_name: str | None) -> Scope:
        """Return a copy of the scope for a run that is part of the same turn, such as a sub-graph."""
        scope = self._copy()
        scope.agent_name = agent_name or self.agent_name
        scope.run_state = self.run_state or RunState()
        scope.message_tick = None
        scope.call = None
        return scope

    def of_message(self, tick: int) -> Scope:
        """Return a copy of the scope for the code that makes the calls of the model's message of this tick."""
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
    """Make this the scope of the running code. Return the token for ``unbind``; None under the garbage collector."""
    return None if garbage_collector.running and garbage_collector.runs_here() else _scope.set(scope)


def unbind(token: Token[Scope | None] | None, scope: Scope | None, *, thrown_away: bool = False) -> None:
    """Restore the scope from before ``bind``. ``thrown_away``: the block was closed, perhaps in another context."""
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
