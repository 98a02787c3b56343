"""A policy file that is changed while the program runs is read again: for turns that begin from then on.

No thread: when a turn is asked for, and at most every few seconds, one ``stat``.
"""

from __future__ import annotations

import logging
import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from otel_loopguard.core.policy.load import LoadedPolicy
    from otel_loopguard.core.policy.policy import Policy

EVERY = 2.0
"""Seconds between two looks at the file."""

_logger = logging.getLogger("otel_loopguard")


class PolicyFileWatch:
    """Looks at one file; ``load`` reads the policy anew, ``apply`` makes it that of new turns."""

    __slots__ = ("_apply", "_due", "_load", "_path", "_seen")

    def __init__(self, path: str, load: Callable[[], LoadedPolicy], apply: Callable[[Policy], None]) -> None:
        self._path = path
        self._load = load
        self._apply = apply
        self._due = 0.0
        self._seen = self._signature()

    def look(self, now: float) -> None:
        """Read the file again if it was changed. Two threads at once may both do it, which does no harm."""
        if now < self._due:
            return
        self._due = now + EVERY
        signature = self._signature()
        if signature == self._seen:
            return
        self._seen = signature
        loaded = self._load()
        if loaded.problems:
            mistakes = "\n".join(f"  - {problem}" for problem in loaded.problems)
            _logger.error("The changed policy has mistakes; going on with the one before.\n%s", mistakes)
            return
        self._apply(loaded.policy)
        _logger.info("The policy file was changed: turns that begin from now on follow it.")

    def _signature(self) -> tuple[int, int, int] | None:
        try:
            status = os.stat(self._path)
        except OSError:  # it is not there, just now: that is a state, too
            return None
        return status.st_mtime_ns, status.st_size, status.st_ino
