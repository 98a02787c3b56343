"""Find the turn of a call: by scope, run, conversation, the model's message, agent span, trace, session, or task."""

from __future__ import annotations

import asyncio
import threading
import time
import weakref
from typing import TYPE_CHECKING, NamedTuple

from opentelemetry import trace

from otel_loopguard.interrupts import pass_interrupt
from otel_loopguard.turns.scope import Scope, current_scope

if TYPE_CHECKING:
    from collections.abc import Callable

    from otel_loopguard.engine.vocabulary import ToolCall
    from otel_loopguard.guard.guard import Guard
    from otel_loopguard.guard.turn import Turn
    from otel_loopguard.turns.last_turns import LastTurns
    from otel_loopguard.turns.runs import Runs

TASK_IDLE_SECONDS = 600.0
"""The turn of a session, task or thread is over when it has made no call for so long."""


class Origin(NamedTuple):
    """The facts by which the turn of a call is found."""

    conversation_id: str | None
    agent_name: str | None
    run_id: str | None
    session: object
    """The connection that the call is made through."""
    call: ToolCall | None


class Attribution:
    """Find the turn of a call. The first source that knows one wins, and the strongest is asked first.

    A turn that only a trace, a session or a task suggests is weak: a program that calls a tool in a loop is no agent.
    In a weak turn no call is refused, only reported, unless ``enforce_weak`` is set.
    """

    def __init__(
        self,
        guard: Guard,
        conversations: LastTurns,
        runs: Runs,
        *,
        agent_span: Callable[[], int | None],
        written: Callable[[ToolCall], Turn | None] = lambda call: None,  # noqa: ARG005 - the signature
        enforce_weak: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._guard = guard
        self._conversations = conversations
        self._runs = runs
        self._agent_span = agent_span
        self._written = written
        """Returns the turn whose model has just written this call; None if there is none, or more than one."""
        self._enforce_weak = enforce_weak
        self._runners = _Runners(clock)
        self._sources: tuple[Callable[[Origin], Scope | None], ...] = (
            self._by_scope,
            self._by_run,
            self._by_conversation,
            self._by_message,
            self._by_agent_span,
            self._by_trace,
            self._by_session,
        )

    def of_call(
        self,
        call: ToolCall,
        conversation_id: str | None,
        agent_name: str | None,
        run_id: str | None,
        session: object = None,
    ) -> Scope | None:
        """Return the scope of a tool call that is made now; None if it is a layer of a call that runs already."""
        scope, known = current_scope(), None if run_id is None else self._runs.known(run_id)
        if scope is not None and scope.call is not None and (known is None or known.turn is scope.turn):
            return None
        scope = known or scope
        if scope is None:
            return self.find(conversation_id, agent_name, run_id, session, call)
        return scope if agent_name is None else scope.of_agent(agent_name)

    def find(
        self,
        conversation_id: str | None = None,
        agent_name: str | None = None,
        run_id: str | None = None,
        session: object = None,
        call: ToolCall | None = None,
    ) -> Scope:
        """Return the scope of the running code. The current scope does not count while a tool call runs in it."""
        origin = Origin(conversation_id, agent_name, run_id, session, call)
        for source in self._sources:
            scope = source(origin)
            if scope is not None:
                return scope
        return Scope(self._of_runner(_runner(), "task"), agent_name=agent_name, strong=False)

    # --- the sources, the strongest first ----------------------------------------------------------------------------

    def _by_scope(self, origin: Origin) -> Scope | None:
        scope = current_scope()
        return None if scope is None or scope.call is not None else scope.of_agent(origin.agent_name)

    def _by_run(self, origin: Origin) -> Scope | None:
        if origin.run_id is None:
            return None
        conversation_id = origin.conversation_id
        turn = self._guard.turn(f"run-{origin.run_id}", source="thread", conversation_id=conversation_id)
        return Scope(turn, conversation_id=conversation_id, agent_name=origin.agent_name)

    def _by_conversation(self, origin: Origin) -> Scope | None:
        conversation_id = origin.conversation_id
        if conversation_id is None:
            return None
        return Scope(self._of_thread(conversation_id), conversation_id=conversation_id, agent_name=origin.agent_name)

    def _by_message(self, origin: Origin) -> Scope | None:
        turn = None if origin.call is None else self._written(origin.call)
        return None if turn is None else Scope(turn, agent_name=origin.agent_name)

    def _by_agent_span(self, origin: Origin) -> Scope | None:
        agent = self._agent_span()
        if agent is None:
            return None
        return Scope(self._guard.turn(f"agent-{agent:016x}", source="agent_span"), agent_name=origin.agent_name)

    def _by_trace(self, origin: Origin) -> Scope | None:
        context = trace.get_current_span().get_span_context()
        if not context.is_valid:
            return None
        turn = self._guard.turn(f"trace-{context.trace_id:032x}", source="trace", enforced=self._enforce_weak)
        return Scope(turn, agent_name=origin.agent_name, strong=False)

    def _by_session(self, origin: Origin) -> Scope | None:
        """Sessions outlive tasks: before Python 3.12 ``asyncio.wait_for`` makes a task of its own for each call."""
        if origin.session is None:
            return None
        return Scope(self._of_runner(origin.session, "session"), agent_name=origin.agent_name, strong=False)

    def _of_thread(self, conversation_id: str) -> Turn:
        turn = self._conversations.last(conversation_id)
        if turn is None:
            turn = self._guard.turn(source="thread", conversation_id=conversation_id, begins=False)
            self._conversations.started(conversation_id, turn)
            self._conversations.ended(conversation_id, turn)
        return turn

    def _of_runner(self, runner: object, source: str) -> Turn:
        known = self._runners.turn_id(runner)
        turn = self._guard.turn(known, source=source, enforced=self._enforce_weak)
        if known is None:
            self._runners.keep(runner, turn.id)
        return turn

    def clear(self) -> None:
        """Forget the tasks and sessions of the parent process, after a fork."""
        self._runners.clear()


class _Runners:
    """The id of the turn of each runner: a session, an asyncio task, or a thread without a task."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._lock = threading.RLock()
        self._turns: weakref.WeakKeyDictionary[object, tuple[str, float]] = weakref.WeakKeyDictionary()

    def turn_id(self, runner: object) -> str | None:
        """Return the id of the runner's turn; None if it has none, or has been idle for ten minutes."""
        now = self._clock()
        with self._lock:
            found = self._turns.get(runner)
            if found is None or now - found[1] > TASK_IDLE_SECONDS:
                return None
            self._turns[runner] = (found[0], now)
            return found[0]

    def keep(self, runner: object, turn_id: str) -> None:
        """Set the runner's turn."""
        with self._lock:
            self._turns[runner] = (turn_id, self._clock())

    def clear(self) -> None:
        self._lock = threading.RLock()
        self._turns.clear()


def _runner() -> object:
    try:
        task = asyncio.current_task()
    except RuntimeError as error:
        pass_interrupt(error)
        task = None
    return task or threading.current_thread()
