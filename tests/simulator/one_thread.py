"""One thread and one clock for all: the simulator runs the background loop of the product, and chance is a seed."""

from __future__ import annotations

import asyncio
import selectors
import uuid
from concurrent.futures import Future
from contextlib import contextmanager
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from otel_loopguard.instrumentation import replica_calls, reported_calls
from otel_loopguard.store import background, cell, cell_messages

if TYPE_CHECKING:
    import random
    from collections.abc import Awaitable, Callable, Iterator


class _Selector(selectors.SelectSelector):
    """Lets the time pass instead of waiting."""

    now = 1_000.0

    def select(self, timeout: float | None = None) -> list[Any]:
        assert timeout is not None, "all wait for each other"
        self.now += max(0.0, timeout)
        return []


class Loop(asyncio.SelectorEventLoop):
    """An event loop whose time is as long as its pauses. Code outside of it runs it while it waits for a result."""

    def __init__(self) -> None:
        self._times = _Selector()
        super().__init__(self._times)

    def time(self) -> float:
        """Return the simulated time."""
        return self._times.now

    def _write_to_self(self) -> None:
        """Leave the loop asleep: it is woken by nobody but its own thread."""

    def wait(self, awaitable: Awaitable[Any]) -> Any:
        """Run until something is done, and return its result; on any thread's event loop, as a blocked thread does."""
        other = asyncio._get_running_loop()
        asyncio._set_running_loop(None)
        try:
            return self.run_until_complete(awaitable)
        finally:
            asyncio._set_running_loop(other)

    def on_event_loop(self, function: Callable[..., Any], *arguments: Any, **more: Any) -> Any:
        """Call a function as sync code on an event loop: it cannot wait for the store."""
        asyncio._set_running_loop(self)
        try:
            return function(*arguments, **more)
        finally:
            asyncio._set_running_loop(None)


@contextmanager
def one_thread(rng: random.Random) -> Iterator[Loop]:
    """Run the background loop of the product in this thread, and draw its ids and tokens from the seed."""
    loop = Loop()

    class Result(Future):  # type: ignore[type-arg]  # of anything
        """A result of the background loop."""

        def result(self, timeout: float | None = None) -> Any:
            return super().result() if self.done() else loop.wait(asyncio.wrap_future(self, loop=loop))

    drawn = SimpleNamespace(urandom=rng.randbytes)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(background._running, "loop", loop)
        patch.setattr(cell, "Future", Result)
        patch.setattr(cell, "_result_or_none", lambda future: loop.wait(asyncio.wrap_future(future, loop=loop)))
        patch.setattr(cell, "time", SimpleNamespace(time=loop.time))
        for module in (cell, cell_messages, reported_calls, replica_calls):
            patch.setattr(module, "os", drawn)
        patch.setattr(uuid, "uuid4", lambda: uuid.UUID(bytes=rng.randbytes(16)))
        try:
            yield loop
        finally:
            while tasks := asyncio.all_tasks(loop):
                loop.run_until_complete(_cancelled(tasks))
            loop.close()


async def _cancelled(tasks: set[asyncio.Task[Any]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
