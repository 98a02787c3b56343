"""Detect code that the garbage collector runs: it closes abandoned work at any line of any other code.

The collector may run under a lock that this thread holds and would then wait for. It may run while a context variable
is being set, where Python 3.11 crashes if another one is set. So nothing is judged, reported, locked or bound under the
collector. An end that is due there is put into ``Runtime.deferred_ends``, for the next call or the end of a turn.
"""

from __future__ import annotations

import gc
from functools import partial
from threading import local
from types import SimpleNamespace
from typing import Protocol


class DeferredEnd(Protocol):
    """Something that was due to end under the garbage collector."""

    def end(self) -> None:
        """End it now, where no lock is held."""


class _Phase(set[str]):
    """Empty unless a collection runs: the callbacks of the collector set ``start`` or ``stop`` to its facts."""

    start = property(fset=set.update)
    stop = property(fset=set.difference_update)


class _Collector:
    """The collection that runs; none nearly always, so hot paths look at ``running`` first.

    The callbacks are code in C. Python runs the signal handlers that are due when its own code goes on, and drops what
    they raise in a callback. Most of those that became due during a collection would be lost in one written in Python.
    """

    __slots__ = ("_here", "_latest", "running")

    def __init__(self) -> None:
        self.running = _Phase()
        self._latest, self._here = SimpleNamespace(start=None), local()
        # ``setattr(x, "start", facts)``, and "stop" at the end. Each collection has a dictionary of facts of its own.
        gc.callbacks += [partial(setattr, one) for one in (self._latest, self._here, self.running)]

    def after_fork(self) -> None:
        """Forget the collector of another thread, which is gone in a child process."""
        if not self.runs_here():
            self.running.clear()

    def runs_here(self) -> bool:
        """Return True if the running code was called by the collector."""
        return bool(self.running) and getattr(self._here, "start", self) is self._latest.start


garbage_collector = _Collector()
