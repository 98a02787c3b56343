"""Read a policy file again when it changes while the program runs. The new policy holds for new turns.

There is no thread: when a turn begins, and at most every few seconds, the file is checked with one ``stat``.
"""

from __future__ import annotations

import logging
import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from otel_loopguard.core.policy.load import LoadedPolicy
    from otel_loopguard.core.policy.policy import Policy

CHECK_INTERVAL = 2.0
"""Seconds between two checks of the file."""

_logger = logging.getLogger("otel_loopguard")


class PolicyFileWatch:
    """Watches one file: ``load`` reads the policy again, ``apply`` makes it the policy of new turns."""

    __slots__ = ("_apply", "_due", "_load", "_path", "_signature")

    def __init__(self, path: str, load: Callable[[], LoadedPolicy], apply: Callable[[Policy], None]) -> None:
        self._path = path
        self._load = load
        self._apply = apply
        self._due = 0.0
        self._signature = self._read_signature()

    def check(self, now: float) -> None:
        """Read the file again if it has changed. Two threads may do so at the same time, which does no harm."""
        if now < self._due:
            return
        self._due = now + CHECK_INTERVAL
        signature = self._read_signature()
        if signature == self._signature:
            return
        self._signature = signature
        loaded = self._load()
        if loaded.problems:
            mistakes = "\n".join(f"  - {problem}" for problem in loaded.problems)
            _logger.error("The changed policy has mistakes; going on with the one before.\n%s", mistakes)
            return
        self._apply(loaded.policy)
        _logger.info("The policy file was changed: turns that begin from now on follow it.")

    def _read_signature(self) -> tuple[int, int, int] | None:
        try:
            status = os.stat(self._path)
        except OSError:  # the file is missing, which is a state, too
            return None
        return status.st_mtime_ns, status.st_size, status.st_ino
