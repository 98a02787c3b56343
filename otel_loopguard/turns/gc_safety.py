"""Tell whether the garbage collector called the running code: it may close abandoned work at any line of other code.

This thread may hold a lock there, for which the code would wait for ever. Python 3.11 crashes if a context variable is
set while another one is being set. So nothing is judged, reported, locked or bound under the collector. Work that ends
there is put into ``Runtime.deferred_ends``, for the next call or the end of a turn.
"""

from __future__ import annotations

import gc
from functools import partial
from threading import local
from types import SimpleNamespace
from typing import Protocol


class DeferredEnd(Protocol):
    """A call or a run whose end came under the garbage collector."""

    def end(self) -> None:
        """End it now, where no lock is held."""


class _Phase(set[str]):
    """A set, empty unless a collection runs: the collector's callbacks assign ``start``, then ``stop``."""

    start = property(fset=set.update)
    stop = property(fset=set.difference_update)


class _Collector:
    """Tells whether a collection runs. Nearly always none does, so hot paths look at ``running`` first.

    The callbacks are C functions on purpose. In one written in Python, Python would run the signal handlers that became
    due during the collection, and drop their exceptions.
    """

    __slots__ = ("_here", "_latest", "running")

    def __init__(self) -> None:
        self.running = _Phase()
        self._latest, self._here = SimpleNamespace(start=None), local()
        # ``setattr(x, "start", facts)``, and "stop" at the end. Each collection has a dictionary of facts of its own.
        gc.callbacks += [partial(setattr, one) for one in (self._latest, self._here, self.running)]

    def after_fork(self) -> None:
        """Forget the collection of another thread, which does not exist in a forked child."""
        if not self.runs_here():
            self.running.clear()

    def runs_here(self) -> bool:
        """Return True if the collector called the running code."""
        return bool(self.running) and getattr(self._here, "start", self) is self._latest.start


garbage_collector = _Collector()
