"""The public ``turn`` and ``current_turn``, for the work on one message of a user, and ``say``, for one meanwhile."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from otel_loopguard.engine.ledger import NOTHING_SPENT
from otel_loopguard.engine.user_messages import UserMessage
from otel_loopguard.instrumentation.aborts import grouped
from otel_loopguard.instrumentation.runtime import active_runtime
from otel_loopguard.shield import Shield
from otel_loopguard.turns.gc_safety import garbage_collector
from otel_loopguard.turns.message_lists import latest
from otel_loopguard.turns.runs import RunInfo
from otel_loopguard.turns.scope import bind, current_scope, unbind

if TYPE_CHECKING:
    from types import TracebackType

    from typing_extensions import Self

    from otel_loopguard.engine.ledger import Ledger
    from otel_loopguard.guard.ending import End
    from otel_loopguard.guard.turn import Turn
    from otel_loopguard.instrumentation.runtime import Runtime
    from otel_loopguard.turns.runs import OpenRun, Runs
    from otel_loopguard.turns.scope import Scope


class turn:  # noqa: N801 - reads as a word: ``with loopguard.turn():``
    """One message of a user and all that the agent does until it answers: ``with loopguard.turn() as t:``.

    The tool calls in the block are guarded together, whatever makes them. ``say`` finds the turn by its
    ``conversation_id``, which is written on spans according to the settings. Inside a tool call, and without an id,
    the block is the work of a sub-agent: its news and its calls count for that tool call, too.
    """

    def __init__(
        self, conversation_id: str | None = None, *, turn_id: str | None = None, agent_name: str | None = None
    ) -> None:
        self._info = RunInfo(conversation_id, agent_name)
        self._turn_id = turn_id
        self._run: OpenRun | None = None
        self._runtime: Runtime | None = None
        self._scope: Scope | None = None
        self._outer: Scope | None = None
        self._token: Any = None
        self.undelivered: list[str] = []
        """After the block: the messages of the user that no tool call could deliver."""

    @property
    def id(self) -> str | None:
        """The turn's id, inside the block and after it."""
        return self._turn_id if self._run is None else self._run.scope.turn.id

    @property
    def calls(self) -> int:
        """The number of tool calls that have run or run now, with those of nested turns, without refused ones."""
        return 0 if self._run is None else self._run.calls

    @property
    def ledger(self) -> Ledger:
        """What the turn has spent so far, with its nested turns: requests, calls, tokens, cost, agents."""
        return NOTHING_SPENT if self._run is None else self._run.scope.turn.ledger

    @property
    def ended_as(self) -> End | None:
        """After the block: "answered", "concluded", "aborted", "cancelled" or "failed"; None inside it."""
        return None if self._run is None else self._run.scope.turn.ended_as

    def say(self, text: str, *, stop: bool = False) -> UserMessage:
        """Send the model a message with the next tool result. With ``stop``, further calls are refused with it.

        Return the message, whose ``status`` tells if it is delivered. Raise ``RuntimeError`` outside of the block.
        """
        if self._run is None and self._token is None:
            raise RuntimeError("say() needs an open turn: use it inside the `with` block.")
        if self._run is not None and self._runtime is not None:
            with self._runtime.shield("say"):
                return self._run.scope.turn.say(text, stop=stop)
        return UserMessage(text, stop=stop)

    def __enter__(self) -> Self:
        self._outer = current_scope()
        with Shield()("run.open"):  # without a runtime yet, and making one may fail
            self._runtime = runtime = active_runtime.get()
            with runtime.shield("run.open"):
                if garbage_collector.runs_here():
                    return self
                self._run = run = runtime.runs.open(self._info, source="explicit", turn_id=self._turn_id)
                if run.owned and not run.is_nested:
                    runtime.begin_span(run.scope)
        self._scope = current_scope() if self._run is None else self._run.scope
        try:
            self._token = bind(self._scope)
        except BaseException:  # of a signal handler
            bind(self._outer)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        try:
            unbind(self._token, self._scope, thrown_away=isinstance(error, GeneratorExit))
            runtime, loop_error = self._runtime, None
            with (Shield() if runtime is None else runtime.shield)("run.close"):
                loop_error = grouped(error)
            if self._run is not None and runtime is not None:
                with runtime.shield("run.close"):
                    if garbage_collector.runs_here():
                        runtime.deferred_ends.append(_ThrownAway(self, runtime.runs, self._run, error))
                    else:
                        runtime.end_deferred()
                        self.undelivered = runtime.runs.close(self._run, loop_error or error)
        finally:  # again, if an exception of a signal handler has cut it short
            unbind(self._token, self._scope, thrown_away=True)
        if loop_error is not None:
            raise loop_error from None

    async def __aenter__(self) -> Self:
        try:
            return self.__enter__()
        except BaseException:  # as in ``__enter__``
            unbind(self._token, self._scope, thrown_away=True)
            raise

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        try:
            self.__exit__(kind, error, traceback)
        finally:
            unbind(self._token, self._scope, thrown_away=True)

    def __repr__(self) -> str:
        return f"turn(id={self.id!r}, calls={self.calls})"


class _ThrownAway:
    """A ``with turn()`` block that the garbage collector closed: its turn is still open."""

    def __init__(self, block: turn, runs: Runs, run: OpenRun, error: BaseException | None) -> None:
        self._block = block
        self._runs = runs
        self._run = run
        self._error = error

    def end(self) -> None:
        self._block.undelivered = self._runs.close(self._run, self._error)


def current_turn() -> Turn | None:
    """Return the turn that the running code is part of, as inside of a tool; None outside of every turn.

    Its ``ledger`` has what it has spent so far, its ``id`` is the one on spans.
    """
    scope, requests = current_scope(), latest.get()
    if scope is not None:
        return scope.turn
    found = None if requests is None else requests.turn
    return None if found is None or found.ended_as is not None else found


def say(text: str, *, conversation_id: str, stop: bool = False) -> UserMessage:
    """Send a message to the turn that runs for this conversation, from any thread or task, or from a signal handler.

    The model, or that of an agent inside one of the turn's calls, reads it with its next tool result. With ``stop`` no
    further tool of the turn runs, and the model reads the message instead of a result. Messages are delivered once, in
    order. The returned message is false if no turn runs; its ``returned`` is true if the turn ended before it was
    delivered. A message to stop that the shared store did not take raises ``NotStoredError``.
    """
    with Shield()("say"):
        runtime = active_runtime.get()
        with runtime.shield("say"):
            return runtime.conversations.say(str(conversation_id), text, stop=stop)
    return UserMessage(text, stop=stop)
