"""The scope: which turn the running code belongs to, and which tool call it is inside of.

One context variable carries both, so that a thread pool or a task needs to hand on one thing only. It is set back
where it was set, and nowhere else: work that is thrown away is closed in whatever context the garbage collector
strikes, and there other code is running, in a scope of its own.
"""

from __future__ import annotations

from contextlib import suppress
from contextvars import ContextVar, Token
from typing import TYPE_CHECKING, Any

from otel_loopguard.turns.gc_safety import garbage_collector

if TYPE_CHECKING:
    from otel_loopguard.core.model import ToolCall
    from otel_loopguard.core.turn.turn import Turn
    from otel_loopguard.errors import ToolLoopError


_new = object.__new__


class RunState:
    """What is learned of a run while it goes on. All scopes of the run share it."""

    __slots__ = ("error", "steps", "waits")

    def __init__(self) -> None:
        self.error: ToolLoopError | None = None
        """With this it ends, whatever its code makes of the exception that says so."""
        self.waits = False
        """It can be gone on with: an interrupt is to be answered, or there is a checkpoint to go on from."""
        self.steps: dict[Any, Any] = {}
        """Whatever the framework's functions remember of its steps."""


class Scope:
    """Where the running code stands. Never changed once made: other threads may hold it."""

    __slots__ = ("agent_name", "conversation_id", "inside", "run_state", "strong", "turn", "written")

    def __init__(
        self,
        turn: Turn,
        *,
        conversation_id: str | None = None,
        agent_name: str | None = None,
        boundary: bool = False,
        inside: ToolCall | None = None,
        strong: bool = True,
    ) -> None:
        self.turn = turn
        self.conversation_id = conversation_id
        self.agent_name = agent_name
        self.run_state = RunState() if boundary else None
        """There where a run boundary of ours is further up, which turns an abort into a ``ToolLoopError``."""
        self.inside = inside
        """The tool call that is being run. Executors below it are layers of that call, not calls of their own."""
        self.strong = strong
        """Whether the turn is one message of a user for certain, and not only what a trace or a task suggests."""
        self.written: int | None = None
        """The turn's ``tick`` when the model wrote the message whose calls are made here, where that is known."""

    def within(self, call: ToolCall) -> Scope:
        """The scope of the code that runs this call."""
        scope = self._copy()
        scope.inside = call
        return scope

    def named(self, agent_name: str | None) -> Scope:
        """The scope of another agent of the same run, as after a hand-over."""
        if agent_name is None or agent_name == self.agent_name:
            return self
        scope = self._copy()
        scope.agent_name = agent_name
        return scope

    def bounded(self, agent_name: str | None) -> Scope:
        """The scope of a run that belongs to the same turn."""
        scope = self._copy()
        scope.agent_name = agent_name or self.agent_name
        scope.run_state = self.run_state or RunState()
        scope.written = None
        scope.inside = None
        return scope

    def of_message(self, written: int) -> Scope:
        """The scope of the code that makes the calls of one message."""
        scope = self._copy()
        scope.written = written
        return scope

    def _copy(self) -> Scope:
        """Made at each call: without ``__init__``, which would double the time."""
        scope = _new(Scope)
        scope.turn = self.turn
        scope.conversation_id = self.conversation_id
        scope.agent_name = self.agent_name
        scope.run_state = self.run_state
        scope.inside = self.inside
        scope.strong = self.strong
        scope.written = self.written
        return scope

    def __repr__(self) -> str:
        return f"Scope({self.turn.source} turn {self.turn.id}, inside={self.inside is not None})"


_scope: ContextVar[Scope | None] = ContextVar("loopguard_scope", default=None)

current_scope = _scope.get


def bind(scope: Scope | None) -> Token[Scope | None] | None:
    """Make this the scope of the running code; ``unbind`` takes what it returns. Not under the garbage collector."""
    return None if garbage_collector.thread is not None and garbage_collector.runs_here() else _scope.set(scope)


def unbind(token: Token[Scope | None] | None, scope: Scope | None, *, thrown_away: bool = False) -> None:
    """The code that ran in this scope is over: what was before is the scope again."""
    if token is None or (garbage_collector.thread is not None and garbage_collector.runs_here()):
        return
    if _scope.get() is scope:
        before = token.old_value
        _scope.set(None if before is Token.MISSING else before)
    elif not thrown_away:
        # Something in the block left its own scope behind, or this is not the context that the block began in.
        with suppress(ValueError, RuntimeError):
            _scope.reset(token)


class bound:  # noqa: N801 - reads as a word: ``with bound(scope):``
    """The code in the block runs in this scope."""

    __slots__ = ("_scope", "_token")

    def __init__(self, scope: Scope | None) -> None:
        self._scope = scope
        self._token: Token[Scope | None] | None = None

    def __enter__(self) -> None:
        self._token = bind(self._scope)

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        unbind(self._token, self._scope, thrown_away=kind is GeneratorExit)
