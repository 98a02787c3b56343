"""One event loop in a thread of its own: every request to a store runs on it, whichever thread or task asks.

So a connection serves threads and tasks alike, outlives the program's own event loops, and no exception of a signal
handler cuts a write short. At the end of the program, requests that are under way get half a second.
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
"""Seconds at the end of the program for the requests under way, and again for closing the connections."""
_shield = Shield()

_running: dict[str, _Loop] = {}
"""The loop of this process, under "loop". ``setdefault`` looks and adds in one step, which no signal handler cuts."""
_starting = threading.RLock()
_left: list[_Loop] = []
"""Loops of parent processes. They are never freed: that would close connections which the parents still use."""


class _Loop(asyncio.SelectorEventLoop):
    """An event loop that a forked child leaves to its parent. A slow look-up of a host name does not delay its end."""

    def __init__(self) -> None:
        super().__init__()
        self.thread = threading.Thread(target=self._run, name="loopguard-store", daemon=True)
        self.end = asyncio.Event()
        """Set when the program ends."""
        self.closers: set[Close] = set()
        """Close connections. They are called when the program ends."""
        self.closing: set[asyncio.Future[None]] = set()
        """Tasks that close connections now. They are kept here, because a loop refers to its tasks weakly."""
        self.was_left = False
        """True in a forked child: the loop is the parent's. Both share its selector, so the child changes nothing."""

    def _run(self) -> None:
        self.run_forever()
        self.close()

    def is_closed(self) -> bool:
        """Return True also for a loop that was left: asyncio then frees transports without a change of the selector."""
        return self.was_left or super().is_closed()

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """Report an exception without its text. Report nothing of a loop that was left: its tasks end in the parent."""
        error = context.get("exception")
        if self.was_left:
            return
        if isinstance(error, Exception):
            _shield.report("store.loop", error)
        else:
            super().call_exception_handler(context)

    async def getaddrinfo(self, *place: Any, **options: Any) -> Any:
        """Look a host name up in a daemon thread. The end of the program would wait for the thread of an executor."""
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
    """Return the loop of this process, which starts at its first use. A forked child gets a loop of its own."""
    return _running.get("loop") or _start()


def _start() -> _Loop:
    """Start the loop. A signal handler that interrupts this may start another one: the later of the two stops again."""
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
    """Call a function on the loop, without waiting for it. Return False if the program has ended: it is not called.

    Signal handlers may call this. The function finds no context variable of the program, such as the current span.
    """
    try:
        loop().call_soon_threadsafe(function, *arguments, context=Context())
    except RuntimeError as error:  # the loop is closed, or no thread can be started any more
        pass_interrupt(error)
        return False
    return True


def run_later(coroutine: Coroutine[Any, Any, Any]) -> Future[Any]:
    """Run a coroutine on the loop, without the program's context variables. Return the future of its result."""
    future: Future[Any] = Context().run(asyncio.run_coroutine_threadsafe, coroutine, loop())
    return future


async def on_loop(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine on the loop and return its result, in a task of another loop."""
    result: T = await asyncio.wrap_future(run_later(coroutine))
    return result


def wait(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine on the loop and return its result. Block this thread until then."""
    result: T = run_later(coroutine).result()
    return result


async def pause(seconds: float) -> bool:
    """Sleep, in a task of the loop. Return True after the time; False at once when the program ends: try once more."""
    end: asyncio.Event = getattr(asyncio.get_running_loop(), "end", None) or asyncio.Event()
    with suppress(asyncio.TimeoutError):
        await asyncio.wait_for(end.wait(), seconds)
    return not end.is_set()


def close_with(owner: object, close: Close) -> None:
    """Call ``close`` on the running loop when ``owner`` is freed, or the program ends. Do nothing on another loop."""
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
    """Wait half a second for the tasks of a loop, cancel those that go on, and close the connections."""
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
