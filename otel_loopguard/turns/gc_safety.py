"""Whether the garbage collector is at work right here: it ends thrown away work in the midst of anything.

That may be under a lock of ours, or of anybody's, which this thread would then wait for for ever; or while a context
variable is being set, where Python 3.11 crashes if another one is. So under the collector nothing is judged,
told, locked or bound. What has to be ended is put off: it waits in ``Runtime.deferred_ends`` for the next call or the
end of a turn.
"""

from __future__ import annotations

import gc
from threading import get_ident
from typing import Any, Protocol


class DeferredEnd(Protocol):
    """What was to end, and could not right then."""

    def end(self) -> None:
        """End it now, where nothing is held."""


class _Collector:
    """``thread`` is None nearly always: hot paths look at that first."""

    __slots__ = ("thread",)

    def __init__(self) -> None:
        self.thread: int | None = None
        gc.callbacks.append(self._told)

    def _told(self, phase: str, _: Any) -> None:
        self.thread = get_ident() if phase == "start" else None

    def runs_here(self) -> bool:
        """Whether the running code was called by the collector."""
        return self.thread == get_ident()


garbage_collector = _Collector()
