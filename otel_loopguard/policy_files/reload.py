"""Read a policy file again when it changes while the program runs. The new policy holds for new turns.

When a turn begins, and at most every few seconds, the file is checked with one ``stat``. A changed file is read and
parsed in a thread of its own, which ends with it: the call that found the change does not wait.
"""

from __future__ import annotations

import _thread
import logging
import os
from typing import TYPE_CHECKING

from otel_loopguard.engine.policy.problems import listed
from otel_loopguard.interrupts import pass_interrupt

if TYPE_CHECKING:
    from collections.abc import Callable

    from otel_loopguard.engine.policy.policy import Policy
    from otel_loopguard.policy_files.load import LoadedPolicy

    Signature = tuple[int, int, int] | None

CHECK_INTERVAL = 2.0
"""Seconds between two checks of the file."""

_logger = logging.getLogger("otel_loopguard")


class _Reading:
    """A thread that reads the file. A forked child does not have it."""

    __slots__ = ("_process", "over")

    def __init__(self) -> None:
        self._process = os.getpid()
        self.over = _thread.allocate_lock()
        """Held until the thread ends."""
        self.over.acquire()

    @property
    def runs(self) -> bool:
        return self.over.locked() and self._process == os.getpid()


class PolicyFileWatch:
    """Watches one file: ``load`` reads the policy again, ``apply`` makes it the policy of new turns."""

    __slots__ = ("_apply", "_due", "_load", "_path", "_reading", "_signature")

    def __init__(self, path: str, load: Callable[[], LoadedPolicy], apply: Callable[[Policy], None]) -> None:
        self._path = path
        self._load = load
        self._apply = apply
        self._due = 0.0
        self._reading: _Reading | None = None
        self._signature = self._read_signature()

    def check(self, now: float) -> None:
        """Begin to read the file in a thread if it has changed. ``now``: seconds of the guard's clock.

        Two threads may begin at the same moment, which does no harm: both read the same file.
        """
        if now < self._due:
            return
        self._due = now + CHECK_INTERVAL
        if self._reading is not None and self._reading.runs:
            return
        signature = self._read_signature()
        if signature == self._signature:
            return
        reading = _Reading()
        try:
            # ``threading.Thread.start`` takes a lock that the thread may hold which a signal handler interrupts.
            _thread.start_new_thread(self._read, (signature, reading))
        except RuntimeError as error:  # no thread can be had now; the next check tries again
            pass_interrupt(error)
            return
        self._reading = reading

    def wait(self) -> None:
        """Wait until no thread reads the file. For tests."""
        if self._reading is not None:
            with self._reading.over:
                pass

    def _read(self, signature: Signature, reading: _Reading) -> None:
        try:
            loaded = self._load()
            if loaded.problems:
                _logger.error(
                    "The changed policy file %s has mistakes: new turns keep the policy before. Correct them:\n%s",
                    self._path,
                    listed(loaded.problems),
                )
            else:
                self._apply(loaded.policy)
                _logger.info("The policy file %s was changed: turns that begin from now on follow it.", self._path)
        finally:
            self._signature = signature  # last: a child that is forked before reads the file itself
            reading.over.release()

    def _read_signature(self) -> Signature:
        try:
            status = os.stat(self._path)
        except OSError as error:  # the file is missing, which is a state, too
            pass_interrupt(error)
            return None
        return status.st_mtime_ns, status.st_size, status.st_ino
