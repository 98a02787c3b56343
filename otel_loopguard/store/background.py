"""One event loop in a thread of this process: all that waits for a store runs on it, whoever asks.

So a connection serves threads and tasks alike, outlives the program's own event loops, and no exception of a signal
handler cuts a write short. At the end of the program the loop has half a second for what is under way.
"""

from __future__ import annotations

import asyncio
import atexit
import os
import socket
import threading
from concurrent.futures import Future
from concurrent.futures import wait as wait_for_futures
from contextlib import suppress
from contextvars import Context
from typing import TYPE_CHECKING, Any, TypeVar
from weakref import finalize

from otel_loopguard.interrupts import pass_interrupt
from otel_loopguard.shield import Shield

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine
    from typing import TypeAlias

    T = TypeVar("T")
    Close: TypeAlias = "Callable[[], Awaitable[None]]"

_LONGEST_FLUSH = 0.5
_shield = Shield()

_running: dict[str, _Loop] = {}
"""The loop of this process, once it is used. A dictionary, because one step of the interpreter looks and adds."""
_starting = threading.RLock()
_left: list[_Loop] = []
"""The loops of parent processes. They are kept: to throw a connection away is to close it."""


class _Loop(asyncio.SelectorEventLoop):
    """A loop that may be left behind by a fork, and whose end no look-up of a name holds up."""

    def __init__(self) -> None:
        super().__init__()
        self.thread = threading.Thread(target=self._run, name="loopguard-store", daemon=True)
        self.end = asyncio.Event()
        """Set when the program ends."""
        self.closers: set[Close] = set()
        self.closing: set[asyncio.Future[None]] = set()
        """Tasks: a loop refers to them weakly."""
        self.was_left = False
        """In a child process: the parent goes on with the loop. They share its selector, so nothing is changed here."""

    def _run(self) -> None:
        self.run_forever()
        self.close()

    def is_closed(self) -> bool:
        """Return True also for a loop that was left: transports that are thrown away spare its selector then."""
        return self.was_left or super().is_closed()

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """Report a fault, without its text; but not that tasks of the parent process never end here."""
        error = context.get("exception")
        if self.was_left:
            return
        if isinstance(error, Exception):
            _shield.report("store.loop", error)
        else:
            super().call_exception_handler(context)

    async def getaddrinfo(self, *place: Any, **options: Any) -> Any:
        """Look a name up in a thread of its own. The end of the program would wait for those of an executor."""
        answer: Future[Any] = Future()
        answer.set_running_or_notify_cancel()

        def look_up() -> None:
            try:
                answer.set_result(socket.getaddrinfo(*place, **options))
            except (OSError, UnicodeError) as error:  # no such name, or a part of it is too long
                pass_interrupt(error)
                answer.set_exception(error)

        threading.Thread(target=look_up, name="loopguard-store-lookup", daemon=True).start()
        return await asyncio.wrap_future(answer, loop=self)


def loop() -> asyncio.AbstractEventLoop:
    """Return the loop. It starts at its first use, and in a child process another one does."""
    return _running.get("loop") or _start()


def _start() -> _Loop:
    """Start a loop. A signal handler that interrupts this starts its own, and one of them stops again."""
    with _starting:
        if "loop" in _running:
            return _running["loop"]
        made = _Loop()
        made.thread.start()
        used = _running.setdefault("loop", made)
        if used is not made:
            made.call_soon_threadsafe(made.stop)
        return used


def soon(function: Callable[..., Any], *arguments: Any) -> bool:
    """Call a function on the loop; return False if the program has ended. It may be called in a signal handler.

    The function finds no context variable of the program, such as the current span.
    """
    try:
        loop().call_soon_threadsafe(function, *arguments, context=Context())
    except RuntimeError as error:  # the loop is closed, or no thread can be started any more
        pass_interrupt(error)
        return False
    return True


def run_later(coroutine: Coroutine[Any, Any, Any]) -> Future[Any]:
    """Run a coroutine on the loop, whose context has no variable of the program. Its result need not be waited for."""
    future: Future[Any] = Context().run(asyncio.run_coroutine_threadsafe, coroutine, loop())
    return future


async def on_loop(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine on the loop, and wait for its result in a task of any other loop."""
    result: T = await asyncio.wrap_future(run_later(coroutine))
    return result


def wait(coroutine: Coroutine[Any, Any, T], seconds: float | None = None) -> T:
    """Run a coroutine on the loop and return its result, in a thread that may wait."""
    result: T = run_later(coroutine).result(seconds)
    return result


async def pause(seconds: float) -> bool:
    """Wait, in a task of the loop. Return False, at once, when the program ends: it is time for a last try."""
    end: asyncio.Event = getattr(asyncio.get_running_loop(), "end", None) or asyncio.Event()
    with suppress(asyncio.TimeoutError):
        await asyncio.wait_for(end.wait(), seconds)
    return not end.is_set()


def close_with(owner: object, close: Close) -> None:
    """Close something of the running loop when its owner is thrown away, or the program ends."""
    here = asyncio.get_running_loop()
    if isinstance(here, _Loop):
        here.closers.add(close)
        finalize(owner, _close, here, close).atexit = False


def _close(of: _Loop, close: Close) -> None:
    if not of.is_closed():
        of.closers.discard(close)
        of.call_soon_threadsafe(_start_closing, of, close)


def _start_closing(of: _Loop, close: Close) -> None:
    task = asyncio.ensure_future(close())
    of.closing.add(task)
    task.add_done_callback(of.closing.discard)


@atexit.register
def _end() -> None:
    ending = _running.get("loop")
    if ending is not None and not ending.is_closed():
        wait_for_futures([asyncio.run_coroutine_threadsafe(_finish(ending), ending)], 4 * _LONGEST_FLUSH)
        ending.call_soon_threadsafe(ending.stop)
        ending.thread.join(_LONGEST_FLUSH)


async def _finish(ending: _Loop) -> None:
    """Wait for what is under way, within bounds; cancel what is left, and close all."""
    ending.end.set()
    if tasks := asyncio.all_tasks() - {asyncio.current_task()}:
        _, left = await asyncio.wait(tasks, timeout=_LONGEST_FLUSH)
        for task in left:
            task.cancel()
    with suppress(asyncio.TimeoutError):
        closing = asyncio.gather(*(close() for close in ending.closers), return_exceptions=True)
        await asyncio.wait_for(closing, _LONGEST_FLUSH)


def _after_fork() -> None:
    global _starting  # noqa: PLW0603 - a thread of the parent may hold it
    _starting = threading.RLock()
    left = _running.pop("loop", None)
    if left is not None:
        left.was_left = True
        _left.append(left)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
