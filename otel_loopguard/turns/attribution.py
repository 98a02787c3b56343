"""Attribute a call to a turn: by its scope, run, thread id, the message that wrote it, agent span, trace or task."""

from __future__ import annotations

import asyncio
import threading
import time
import weakref
from typing import TYPE_CHECKING

from opentelemetry import trace

from otel_loopguard.interrupts import pass_interrupt
from otel_loopguard.turns.scope import Scope, current_scope

if TYPE_CHECKING:
    from collections.abc import Callable

    from otel_loopguard.core.guard import Guard
    from otel_loopguard.core.model import ToolCall
    from otel_loopguard.core.turn.turn import Turn
    from otel_loopguard.turns.conversations import Conversations
    from otel_loopguard.turns.runs import Runs

TASK_IDLE_SECONDS = 600.0


class Attribution:
    """Find the turn of a call, the strongest source first.

    A turn that is suggested by a trace or a task is weak: a program that calls a tool in a loop is no agent. Its calls
    are only observed, unless a setting enforces more.
    """

    def __init__(
        self,
        guard: Guard,
        conversations: Conversations,
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
        """Return the turn of a call that the model of the running code has just written."""
        self._enforce_weak = enforce_weak
        self._tasks = _Tasks(clock)

    def of_call(
        self, call: ToolCall, conversation_id: str | None, agent_name: str | None, run_id: str | None
    ) -> Scope | None:
        """Return the scope of a tool call that is made now; None for a layer of a call in progress."""
        scope, known = current_scope(), None if run_id is None else self._runs.known(run_id)
        if scope is not None and scope.call is not None and (known is None or known.turn is scope.turn):
            return None
        scope = known or scope
        if scope is None:
            return self.find(conversation_id, agent_name, run_id, call)
        return scope if agent_name is None else scope.of_agent(agent_name)

    def find(
        self,
        conversation_id: str | None = None,
        agent_name: str | None = None,
        run_id: str | None = None,
        call: ToolCall | None = None,
    ) -> Scope:
        """Return the scope of the running code. A current scope inside a tool call is passed over for other sources."""
        scope = current_scope()
        if scope is not None and scope.call is None:
            return scope.of_agent(agent_name)
        if run_id is not None:
            turn = self._guard.turn(f"run-{run_id}", source="thread")
            return Scope(turn, conversation_id=conversation_id, agent_name=agent_name)
        if conversation_id is not None:
            return Scope(self._of_thread(conversation_id), conversation_id=conversation_id, agent_name=agent_name)
        written = None if call is None else self._written(call)
        if written is not None:
            return Scope(written, agent_name=agent_name)
        agent = self._agent_span()
        if agent is not None:
            return Scope(self._guard.turn(f"agent-{agent:016x}", source="agent_span"), agent_name=agent_name)
        return Scope(self._weak(), agent_name=agent_name, strong=False)

    def _of_thread(self, conversation_id: str) -> Turn:
        turn = self._conversations.last(conversation_id)
        if turn is None:
            turn = self._guard.turn(source="thread")
            self._conversations.started(conversation_id, turn)
            self._conversations.ended(conversation_id, turn)
        return turn

    def _weak(self) -> Turn:
        context = trace.get_current_span().get_span_context()
        if context.is_valid:
            return self._guard.turn(f"trace-{context.trace_id:032x}", source="trace", enforced=self._enforce_weak)
        known = self._tasks.turn_id()
        turn = self._guard.turn(known, source="task", enforced=self._enforce_weak)
        if known is None:
            self._tasks.keep(turn.id)
        return turn

    def clear(self) -> None:
        """Forget the parent's tasks, after a fork."""
        self._tasks.clear()


class _Tasks:
    """The turn of each asyncio task, or of each thread that runs no task. It is over after ten idle minutes."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._lock = threading.RLock()
        self._turns: weakref.WeakKeyDictionary[object, tuple[str, float]] = weakref.WeakKeyDictionary()

    def turn_id(self) -> str | None:
        """Return the id of the turn that runs here."""
        key, now = _runner(), self._clock()
        with self._lock:
            found = self._turns.get(key)
            if found is None or now - found[1] > TASK_IDLE_SECONDS:
                return None
            self._turns[key] = (found[0], now)
            return found[0]

    def keep(self, turn_id: str) -> None:
        """Remember the turn that runs here."""
        with self._lock:
            self._turns[_runner()] = (turn_id, self._clock())

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
