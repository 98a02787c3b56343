"""One agent run, as a context manager; and the drivers around it.

Nothing of ours stays bound across a generator's ``yield``: the consumer's code would run in the agent's turn.
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from otel_loopguard.instrumentation.aborts import LoopAbort, carried
from otel_loopguard.turns.gc_safety import garbage_collector
from otel_loopguard.turns.scope import Scope, bind, current_scope, unbind

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
    from types import TracebackType

    from typing_extensions import Self

    from otel_loopguard.instrumentation.runtime import Runtime
    from otel_loopguard.instrumentation.targets import RunTarget
    from otel_loopguard.turns.runs import OpenRun, RunInfo
    from otel_loopguard.turns.scope import RunState


class AgentRun:
    """A run between its start and its end. Where no turn could be opened, it does nothing."""

    def __init__(self, runtime: Runtime, point: RunTarget, instance: Any, args: Any, kwargs: Any) -> None:
        self._runtime = runtime
        self._point = point
        self._info: RunInfo | None = None
        self._run: OpenRun | None = None
        self._unfinished = False
        outer = current_scope()
        self._outermost = outer is None or not outer.run_state or outer.inside is not None
        with runtime.shield("run.open"):
            self._info = None if garbage_collector.runs_here() else point.read(instance, args, kwargs)
            if self._info is not None:
                self._run = runtime.runs.open(self._info)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._run is not None and self._info is not None:
            run_state = self._run.scope.run_state
            waits = self._unfinished or (run_state is not None and run_state.waits)
            self._unfinished = waits or (error is not None and self._info.survives)
            with self._runtime.shield("run.close"):
                if garbage_collector.runs_here():
                    self._runtime.deferred_ends.append(self)
                else:
                    self._runtime.end_deferred()
                    self.end()

    def end(self) -> None:
        """The run is over, or was thrown away at a bad moment, and it is over now."""
        if self._run is not None:
            self._runtime.runs.close(self._run, unfinished=self._unfinished)

    def bound(self, *, closing: bool = False) -> _Bound:
        """While the run's own code is running. ``closing``: nobody waits for a result of it any more."""
        scope = self._run.scope if self._run is not None else current_scope()
        run_state = None if self._run is None or closing else self._run.scope.run_state
        return _Bound(scope, run_state, outermost=self._outermost)

    def goes_on(self, result: Any, end: Callable[[], None]) -> None:
        """The run goes on in the background; have it ended when it is over."""

        def over() -> None:
            self.saw(result)
            end()

        watched = False
        with self._runtime.shield("run.over"):
            if self._point.over is not None:
                self._point.over(result, over)
                watched = True
        if not watched:
            end()

    def saw(self, chunk: Any) -> None:
        """A piece of the result went past."""
        with self._runtime.shield("run.chunk"):
            if self._point.unfinished(chunk):
                self._unfinished = True


class _Bound:
    """The run's scope is bound in the block, and an abort that leaves the outermost run becomes its error.

    So does an abort that left a tool and never came here: something between kept it, and went on.
    """

    __slots__ = ("_outermost", "_run_state", "_scope", "_token")

    def __init__(self, scope: Scope | None, run_state: RunState | None, *, outermost: bool) -> None:
        self._scope = scope
        self._run_state = run_state
        self._token: Any = None
        self._outermost = outermost

    def __enter__(self) -> None:
        self._token = bind(self._scope)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        unbind(self._token, self._scope, thrown_away=isinstance(error, GeneratorExit))
        loop_error = None if error is None else carried(error)
        if loop_error is not None and not self._outermost:
            return
        if loop_error is None and self._run_state is not None and (error is None or isinstance(error, Exception)):
            loop_error = self._run_state.error
        if loop_error is not None:
            raise loop_error if self._outermost else LoopAbort(loop_error) from None


def run_plain(agent_run: AgentRun, run: Callable[[], Any]) -> Any:
    """A plain function."""
    with agent_run, agent_run.bound():
        result = run()
        agent_run.saw(result)
        return result


def run_background(agent_run: AgentRun, run: Callable[[], Any]) -> Any:
    """A plain function that starts a run and returns before it is over."""
    with ExitStack() as stack:
        stack.enter_context(agent_run)
        with agent_run.bound():
            result = run()
        end = stack.pop_all().close
    agent_run.goes_on(result, end)
    return result


class RunContext:
    """An async context manager around a run, such as ``async with agent.iter() as run:``.

    The block may be anybody's code, and may ``yield``: nothing is bound in it, and the run's calls are found by its id.
    """

    def __init__(self, open_agent_run: Callable[[Any], AgentRun], manager: Any) -> None:
        self._open = open_agent_run
        self._manager = manager
        self._agent_run: AgentRun | None = None
        self._run: Any = None

    async def __aenter__(self) -> Any:
        self._run = await self._manager.__aenter__()
        self._agent_run = self._open(self._run)
        return self._run

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> Any:
        try:
            return await self._manager.__aexit__(kind, error, traceback)
        finally:
            if self._agent_run is not None:
                self._agent_run.saw(self._run)
                self._agent_run.__exit__(kind, error, traceback)


async def run_async(agent_run: AgentRun, run: Callable[[], Awaitable[Any]]) -> Any:
    """A coroutine function."""
    with agent_run, agent_run.bound():
        result = await run()
        agent_run.saw(result)
        return result


def run_generator(open_agent_run: Callable[[], AgentRun], run: Callable[[], Iterator[Any]]) -> Iterator[Any]:
    """A generator function."""
    with open_agent_run() as agent_run:
        with agent_run.bound():
            source = run()
        try:
            while True:
                with agent_run.bound():
                    try:
                        chunk = next(source)
                    except StopIteration:
                        return
                agent_run.saw(chunk)
                yield chunk
        finally:
            close = getattr(source, "close", None)
            if close is not None:
                with agent_run.bound(closing=True):
                    close()


async def run_async_generator(
    open_agent_run: Callable[[], AgentRun], run: Callable[[], AsyncIterator[Any]]
) -> AsyncIterator[Any]:
    """An async generator function."""
    with open_agent_run() as agent_run:
        with agent_run.bound():
            source = run()
        try:
            while True:
                with agent_run.bound():
                    try:
                        chunk = await source.__anext__()
                    except StopAsyncIteration:
                        return
                agent_run.saw(chunk)
                yield chunk
        finally:
            close = getattr(source, "aclose", None)
            if close is not None:
                with agent_run.bound(closing=True):
                    await close()
