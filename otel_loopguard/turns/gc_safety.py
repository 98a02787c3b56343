"""Detect code that the garbage collector runs: it closes abandoned work at any line of any other code.

The collector may run under a lock that this thread holds and would then wait for. It may run while a context variable
is being set, where Python 3.11 crashes if another one is set. So nothing is judged, reported, locked or bound under the
collector. An end that is due there is put into ``Runtime.deferred_ends``, for the next call or the end of a turn.
"""

from __future__ import annotations

import gc
from threading import get_ident
from typing import Any, Protocol


class DeferredEnd(Protocol):
    """Something that was due to end under the garbage collector."""

    def end(self) -> None:
        """End it now, where no lock is held."""


class _Collector:
    """The thread in which the collector runs; None nearly always, so hot paths look at that first."""

    __slots__ = ("thread",)

    def __init__(self) -> None:
        self.thread: int | None = None
        # Twice: where an exception of a signal handler cuts one short, Python drops it and calls the other.
        gc.callbacks += [self._on_phase, self._on_phase]

    def _on_phase(self, phase: str, _: Any) -> None:
        self.thread = get_ident() if phase == "start" else None

    def after_fork(self) -> None:
        """Forget the collector of another thread, which is gone in a child process."""
        if not self.runs_here():
            self.thread = None

    def runs_here(self) -> bool:
        """Return True if the running code was called by the collector."""
        return self.thread == get_ident()


garbage_collector = _Collector()
