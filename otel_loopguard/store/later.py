"""A queue of events that are appended by a thread, for code on an event loop that cannot await."""

from __future__ import annotations

import threading
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from otel_loopguard.guard.event_log import Op

_Item: TypeAlias = "tuple[tuple[str, bool], Sequence[Op]] | threading.Event"
_MOST_WAITING = 10_000
_MOST_AT_ONCE = 256


class Later:
    """Appends in the background, in the order of the calls. The thread starts with the first of them."""

    def __init__(self, append: Callable[[str, Sequence[Op], bool], None]) -> None:
        self._append = append
        self._waiting: SimpleQueue[_Item] = SimpleQueue()
        self._thread: threading.Thread | None = None

    def put(self, key: str, ops: Sequence[Op], *, begins: bool = True) -> bool:
        """Take events; return False if too many are waiting."""
        if self._waiting.qsize() >= _MOST_WAITING:
            return False
        self._waiting.put(((key, begins), ops))
        if self._thread is None:
            # Two threads that come here at once start two, which does no harm: each event is taken once.
            self._thread = threading.Thread(
                target=self._work, args=(self._waiting,), name="loopguard-store-later", daemon=True
            )
            self._thread.start()
        return True

    def flush(self, seconds: float) -> bool:
        """Wait until what was put before is appended; return False if that takes longer."""
        if self._thread is None:
            return True
        done = threading.Event()
        self._waiting.put(done)
        return done.wait(seconds)

    def after_fork(self) -> None:
        """Begin with an empty queue in a child process: what is waiting is appended by the parent."""
        self._waiting, self._thread = SimpleQueue(), None

    def _work(self, waiting: SimpleQueue[_Item]) -> None:
        while True:
            by_key: dict[tuple[str, bool], list[Op]] = {}
            flushed = []
            item: _Item = waiting.get()
            for _ in range(_MOST_AT_ONCE):
                if isinstance(item, threading.Event):
                    flushed.append(item)
                else:
                    by_key.setdefault(item[0], []).extend(item[1])
                try:
                    item = waiting.get_nowait()
                except Empty:
                    break
            for (key, begins), ops in by_key.items():
                self._append(key, ops, begins)
            for event in flushed:
                event.set()
