"""One run of an agent as a context manager, and for each style of call a function that runs the agent in it.

No scope stays bound across a generator's ``yield``: the consumer's code would run in the agent's turn.
"""

from __future__ import annotations

from asyncio import CancelledError
from collections.abc import Callable
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Final

from otel_loopguard.errors import RunStopped
from otel_loopguard.instrumentation.aborts import LoopAbort, carried
from otel_loopguard.telemetry.run_span import RunSpan
from otel_loopguard.turns.gc_safety import garbage_collector
from otel_loopguard.turns.scope import Scope, bind, current_scope, unbind

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Iterator
    from types import TracebackType

    from typing_extensions import Self

    from otel_loopguard.instrumentation.runtime import Runtime
    from otel_loopguard.instrumentation.targets import RunTarget
    from otel_loopguard.shield import Shield
    from otel_loopguard.turns.runs import OpenRun, RunInfo
    from otel_loopguard.turns.scope import RunState

__tracebackhide__ = True  # pytest shows the lines of the program, not these


class AgentRun:
    """A run of an agent, from its start to its end. It does nothing if the target's ``read`` found none."""

    def __init__(self, runtime: Runtime, target: RunTarget, instance: Any, args: Any, kwargs: Any) -> None:
        self._runtime = runtime
        self.shield = runtime.shield
        """The fault barrier."""
        self._target = target
        self._info: RunInfo | None = None
        self._open_run: OpenRun | None = None
        self._unfinished = False
        self._outer = outer = current_scope()
        self._outermost = outer is None or not outer.run_state or outer.call is not None
        with runtime.shield("run.open"):
            self._info = None if garbage_collector.runs_here() else target.read(instance, args, kwargs)
            if self._info is not None:
                self._open_run = runtime.runs.open(self._info)
        self._span: RunSpan | None = None
        self._running: _Running | None = None
        """Kept, because it is entered again for each chunk of a stream: a graph yields several at each step."""
        self._error: BaseException | None = None
        if self._outermost and self._open_run is not None and self._open_run.owned:
            with runtime.shield("run.span"):
                self._span = RunSpan.start(runtime.providers, self._open_run.scope)
                run_state, around = self._open_run.scope.run_state, None if outer is None else outer.run_state
                if run_state is not None:
                    is_traced = self._span is not None and self._span.context is not None
                    run_state.own_trace = is_traced or (around is not None and around.own_trace)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._open_run is not None and self._info is not None:
            if current_scope() is self._open_run.scope:
                bind(self._outer)  # an exception of a signal handler has cut ``_Running`` short
            if self._span is not None:
                with self.shield("run.span"):
                    self._span.restore()  # as above
            run_state = self._open_run.scope.run_state
            resumable = self._unfinished or (run_state is not None and run_state.resumable)
            self._unfinished = resumable or (error is not None and self._info.can_continue)
            self._error = error
            with self.shield("run.close"):
                if garbage_collector.runs_here():
                    self._runtime.deferred_ends.append(self)
                else:
                    self._runtime.end_deferred()
                    self.end()

    def end(self) -> None:
        """Close the run and its span. If the garbage collector ended the run, this is called later."""
        if self._open_run is not None:
            error = None if self._error is None else carried(self._error) or self._error
            self._runtime.runs.close(self._open_run, error, unfinished=self._unfinished)
        if self._span is not None:
            with self.shield("run.span"):
                how = None if self._open_run is None else self._open_run.scope.turn.ended_as
                self._span.end(self._error if isinstance(self._error, Exception) else None, how)

    def lend_span(self) -> None:
        """Make the run's span the parent of its calls, which are made outside of ``running``."""
        run_state = None if self._open_run is None else self._open_run.scope.run_state
        if run_state is not None and self._span is not None:
            run_state.span_context = self._span.context

    def running(self, *, closing: bool = False) -> _Running:
        """Return a context manager that binds the run's scope, for a block that runs the agent's code.

        ``closing``: the block only closes a stream. Then an earlier abort that code has caught is not raised again.
        """
        if self._running is not None and not closing:
            return self._running
        scope = self._open_run.scope if self._open_run is not None else current_scope()
        run_state = None if self._open_run is None or closing else self._open_run.scope.run_state
        around = None if self._outermost or self._outer is None else self._outer.run_state
        running = _Running(scope, run_state, self.shield, self._span, around, outermost=self._outermost)
        if self._open_run is not None and not closing:
            self._running = running
        return running

    def continue_in_background(self, result: Any) -> None:
        """End the run when the background work of ``result`` is over; now, if the target cannot tell when."""

        def over(error: BaseException | None = None) -> None:
            self.inspect(result)
            self.__exit__(None if error is None else type(error), error, None)

        registered = False
        with self.shield("run.over"):
            if self._target.over is not None:
                self._target.over(result, over)
                registered = True
        if not registered:
            over()

    def inspect(self, chunk: Any) -> None:
        """Note if this result, or this chunk of a stream, shows that the run is unfinished."""
        if self._target.unfinished is not None:
            with self.shield("run.chunk"):
                if self._target.unfinished(chunk):
                    self._unfinished = True


class _Running:
    """Bind the run's scope in the block. A ``LoopAbort`` that leaves the outermost run becomes its ``RunStopped``.

    If code in the block has caught the ``LoopAbort``, the end of the block raises it again, from the run's state.
    """

    __slots__ = ("_around", "_outermost", "_run_state", "_scope", "_shield", "_span", "_token")

    def __init__(
        self,
        scope: Scope | None,
        run_state: RunState | None,
        shield: Shield,
        span: RunSpan | None,
        around: RunState | None,
        *,
        outermost: bool,
    ) -> None:
        self._scope = scope
        self._shield = shield
        self._span = span
        self._run_state = run_state
        self._token: Any = None
        self._around = around
        """The state of the run around this one, which ends with it; None if this run is the outermost."""
        self._outermost = outermost

    def __enter__(self) -> None:
        self._token = bind(self._scope)
        if self._span is not None and self._token is not None:
            try:
                self._span.enter()
            except Exception as fault:  # noqa: BLE001 - see Shield.take
                self._shield.take("run.span", fault)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._span is not None:
            try:
                self._span.leave(thrown_away=True)
            except Exception as fault:  # noqa: BLE001 - see Shield.take
                self._shield.take("run.span", fault)
        unbind(self._token, self._scope, thrown_away=isinstance(error, GeneratorExit))
        state, loop_error = self._run_state, None
        if error is None and (state is None or state.abort_error is None):
            return
        if error is not None:
            with self._shield("run.error"):
                loop_error = carried(error)
        passes = loop_error is not None and not self._outermost
        if loop_error is None and state is not None and (error is None or isinstance(error, Exception)):
            loop_error = None if state.abort_waits else state.abort_error
        if loop_error is None and self._outermost and issubclass(type(error), RunStopped):
            loop_error = error  # type: ignore[assignment]  # its type was checked, without asking the object
        if loop_error is not None and self._around is not None:
            self._around.abort_error = loop_error  # the code in between may lose the exception
        if loop_error is not None and not passes:
            # Without the frames of the framework: they are a hundred lines that say nothing of the loop.
            raise loop_error.with_traceback(None) if self._outermost else LoopAbort(loop_error) from None


def run_plain(agent_run: AgentRun, run: Callable[[], Any]) -> Any:
    """Run a plain function as this run, and return its result."""
    with agent_run, agent_run.running():
        result = run()
        agent_run.inspect(result)
        return result


def run_background(agent_run: AgentRun, run: Callable[[], Any]) -> Any:
    """Run a plain function that starts this run, and return its result: the run may go on after that."""
    with ExitStack() as stack:
        stack.enter_context(agent_run)
        with agent_run.running():
            result = run()
        stack.pop_all()  # the run goes on
    with agent_run.shield("run.over"):
        agent_run.continue_in_background(result)
    return result


def call_at_end(task: Any, callback: Callable[[BaseException | None], None]) -> None:
    """Call back when a task or future of asyncio is over, with the exception that ended it, or None.

    ``task.exception()`` would keep asyncio from logging an exception that the program never asks for.
    """

    def over(task: Any) -> None:
        callback(CancelledError() if task.cancelled() else task._exception)  # noqa: SLF001 - see above

    task.add_done_callback(over)


class RunContext:
    """An async context manager around a run, such as ``async with agent.iter() as run:``.

    The block is the program's code, and may ``yield``. So no scope is bound in it; its calls are found by the run's id.
    """

    def __init__(self, open_agent_run: Callable[[Any], AgentRun], manager: Any) -> None:
        self._open = open_agent_run
        self._manager = manager
        self._agent_run: AgentRun | None = None
        self._framework_run: Any = None

    async def __aenter__(self) -> Any:
        self._framework_run = await self._manager.__aenter__()
        self._agent_run = self._open(self._framework_run)
        with self._agent_run.shield("run.span"):
            self._agent_run.lend_span()
        return self._framework_run

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> Any:
        try:
            return await self._manager.__aexit__(kind, error, traceback)
        finally:
            if self._agent_run is not None:
                self._agent_run.inspect(self._framework_run)
                self._agent_run.__exit__(kind, error, traceback)


async def run_async(agent_run: AgentRun, run: Callable[[], Awaitable[Any]]) -> Any:
    """Run a coroutine function as this run, and return its result."""
    with agent_run, agent_run.running():
        result = await run()
        agent_run.inspect(result)
        return result


class _NoRun:
    """The run of a generator without a runtime: nothing is bound, and nothing is noted."""

    def __enter__(self) -> None: ...

    def __exit__(self, *error: object) -> None: ...

    def running(self, *, closing: bool = False) -> Self:  # noqa: ARG002 - the signature of AgentRun
        return self

    def inspect(self, chunk: Any) -> None: ...


_NO_RUN: Final = _NoRun()
OpenRunOf = Callable[[Any, Any], "tuple[AgentRun | None, Callable[[], Any]]"]
"""Open a run for a call's arguments and keywords. Return it, if there is a runtime, and the function that starts it."""


def generator_of_run(open_agent_run: OpenRunOf) -> Callable[..., Iterator[Any]]:
    """Return a generator function that runs the agent: in the run's scope, but outside of it when it yields."""

    def guarded(*args: Any, **kwargs: Any) -> Iterator[Any]:
        opened, run = open_agent_run(args, kwargs)
        agent_run = opened or _NO_RUN
        with agent_run:
            with agent_run.running():
                source = run()
            try:
                while True:
                    with agent_run.running():
                        try:
                            chunk = next(source)
                        except StopIteration:
                            return
                    agent_run.inspect(chunk)
                    yield chunk
            finally:
                close = getattr(source, "close", None)
                if close is not None:
                    with agent_run.running(closing=True):
                        close()

    return guarded


def async_generator_of_run(open_agent_run: OpenRunOf) -> Callable[..., AsyncIterator[Any]]:
    """Return an async generator function that runs the agent, as ``generator_of_run`` does."""

    async def guarded(*args: Any, **kwargs: Any) -> AsyncIterator[Any]:
        opened, run = open_agent_run(args, kwargs)
        agent_run = opened or _NO_RUN
        with agent_run:
            with agent_run.running():
                source = run()
            try:
                while True:
                    with agent_run.running():
                        try:
                            chunk = await source.__anext__()
                        except StopAsyncIteration:
                            return
                    agent_run.inspect(chunk)
                    yield chunk
            finally:
                close = getattr(source, "aclose", None)
                if close is not None:
                    with agent_run.running(closing=True):
                        await close()

    return guarded
