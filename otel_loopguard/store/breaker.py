"""A circuit breaker: a server that does not answer costs each call its time-out, so it is asked only now and then."""

from __future__ import annotations

import random
import threading
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

_FAILURES = 3
"""Failures in a row that open the breaker."""
_FIRST_PAUSE = 0.25
"""Seconds."""
_LONGEST_PAUSE = 30.0


class Breaker:
    """Opens after three failures in a row, and closes at the first success. While open, it passes one request a pause.

    That request is the probe. The pause before the next probe doubles, up to 30 s. It is drawn between its half and its
    whole, so that the processes of a fleet do not all come back at once. Thread-safe.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.kind = ""
        """The kind of the last failure; empty after a success."""
        self._clock = clock
        self._failures = 0
        self._opened: float | None = None
        self._pause = _FIRST_PAUSE
        self._next_probe = 0.0
        self._lock = threading.RLock()
        """Lets its own thread in: a signal handler may interrupt any of these methods with a call."""

    @property
    def is_open(self) -> bool:
        """True from the third failure in a row until a success."""
        return self._opened is not None

    def allows(self) -> bool:
        """Return True if a request may be sent now. While the breaker is open, True also begins the next pause."""
        if self._opened is None:
            return True
        now = self._clock()
        if now < self._next_probe:
            return False
        with self._lock:
            if now < self._next_probe:
                return False
            self._plan(now)
            return True

    def failed(self, kind: str = "") -> bool:
        """Count a failure of this kind. Return True if it opens the breaker."""
        with self._lock:
            self.kind = kind
            self._failures += 1
            if self._opened is not None or self._failures < _FAILURES:
                return False
            self._opened, self._pause = self._clock(), _FIRST_PAUSE
            self._plan(self._opened)
            return True

    def succeeded(self) -> float | None:
        """Close the breaker. Return the seconds for which it was open; None if it was closed."""
        if not self._failures:
            return None
        with self._lock:
            opened, self._opened, self._failures, self.kind = self._opened, None, 0, ""
            return None if opened is None else self._clock() - opened

    def after_fork(self) -> None:
        """Make the lock anew in a forked child: a thread of the parent may hold the old one."""
        self._lock = threading.RLock()

    def _plan(self, now: float) -> None:
        self._next_probe = now + self._pause * random.uniform(0.5, 1.0)  # noqa: S311 - spreads load, hides nothing
        self._pause = min(2 * self._pause, _LONGEST_PAUSE)
