"""One line on standard error when the program ends: its calls, its loops, and what was done about them."""

from __future__ import annotations

import atexit
import os
import select
import sys
from collections import Counter, defaultdict
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from otel_loopguard.engine.quoting import clean_name
from otel_loopguard.interrupts import pass_interrupt
from otel_loopguard.shield import Shield

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from otel_loopguard.telemetry.unseen import Unseen


REFUSED: Final = "refused"
"""A fate, in words: the calls did not run."""
PASSED: Final = "that would have been refused"
"""A fate: the calls ran, because the policy only observes or tells, or they belong to no known run."""
UNTOLD: Final = "that the model would have been told of"
"""A fate: the calls have run, their results were read in model requests, and the policy only observes."""

_HELPERS: Final = ("from multiprocessing.resource_tracker import", "from multiprocessing.forkserver import")
"""The beginnings of an argument of processes that multiprocessing starts for itself."""


class ExitSummary:
    """The counts of this process. There is no lock: an addition that is lost costs less than a slow call."""

    def __init__(self) -> None:
        self.calls = 0
        self.loops = 0
        """Loops: a turn counts once for each mode."""
        self.loop_calls: defaultdict[str, Counter[str]] = defaultdict(Counter)
        """The number of calls in loops by mode, for each fate."""
        self.nudges = 0
        """Calls whose result had a sentence for the model."""
        self.raised = 0
        """Calls that ended with ``RunStopped``. A program that catches the error makes more of them."""
        self.concluded = 0
        """Turns in which the model was asked for an answer, with its tools withdrawn."""
        self.ended = 0
        """Runs that the guard ended."""
        self._is_on: Callable[[], bool] | None = None
        self._unseen: Callable[[], Unseen] | None = None
        self._is_forked = self._has_forked = False

    def count_ending(self, ending: str, *, is_nudged: bool) -> None:
        """Count a call that was nudged, or that ended with ``RunStopped``."""
        self.nudges += is_nudged
        self.raised += ending == "aborted"

    def print_at_exit(self, is_on: Callable[[], bool], unseen: Callable[[], Unseen]) -> None:
        """Print the line when the program ends. Without any call it is printed if ``is_on`` returns True.

        ``unseen`` returns what was not seen; the line ends with it.
        """
        if self._is_on is None:
            self._is_on, self._unseen = is_on, unseen
            atexit.register(self._print)

    def forked(self) -> None:
        """Note that the process has forked: its children may have made the calls."""
        self._has_forked = True

    def after_fork(self) -> None:
        """Start from zero in a child process: the parent prints its own sums."""
        self.calls = self.loops = self.nudges = self.raised = self.concluded = self.ended = 0
        self.loop_calls.clear()
        self._is_forked, self._has_forked = True, False

    def line(self) -> str | None:
        """Return the line; None for a process without calls that is, or has, a worker, or is not guarded."""
        is_child = self._is_forked or _is_worker()
        if self.calls:
            worker = f" in process {os.getpid()}" if is_child else ""
            parts = [_number(self.calls, "tool call") + worker, _number(self.loops, "loop")]
            if self.nudges:
                parts.append(_number(self.nudges, "nudge"))
            parts += [calls_of(fate, calls) for fate, calls in self.loop_calls.items()]
            if self.concluded:
                parts.append(f"{_number(self.concluded, 'turn')} asked for an answer")
            if self.raised > self.ended:
                parts.append(f"{_number(self.raised, 'call')} ended with RunStopped")
            if self.ended:
                parts.append(f"{_number(self.ended, 'run')} ended")
            return " ".join([f"otel_loopguard: {', '.join(parts)}.", *self._not_seen()])
        if is_child or self._has_forked or _has_workers() or self._is_on is None or not self._is_on():
            return None
        return " ".join(
            [
                "otel_loopguard: on, but saw no tool call: nothing was guarded here.",
                *self._not_seen(),
                "If the program made any, run it with `otel-loopguard doctor -- COMMAND`.",
                "OTEL_PYTHON_LOOPGUARD_SUMMARY=off switches this line off.",
            ]
        )

    def _not_seen(self) -> Iterable[str]:
        return () if self._unseen is None else self._unseen().sentences(self.calls)

    def _print(self) -> None:
        """Print the line on standard error, unless that is closed or would block."""
        with Shield()("exit.summary"), suppress(OSError, ValueError):  # it is closed
            stream, line = sys.stderr, self.line()
            if line is not None and stream is not None and _takes_a_line(stream):
                stream.write(f"{line}\n")  # in one piece: other processes may write there, too


def calls_of(fate: str, calls: Mapping[str, int]) -> str:
    """Return a number of calls in words, such as ``3 calls refused (generic_repeat 3)``."""
    modes = ", ".join(f"{clean_name(str(mode))} {count}" for mode, count in calls.items())
    return f"{_number(sum(calls.values()), 'call')} {fate} ({modes})"


def _is_worker() -> bool:
    """Return True in a process that ``multiprocessing`` started. A fork is noted by ``after_fork``."""
    processes = sys.modules.get("multiprocessing.process")
    return processes is not None and processes.parent_process() is not None


def is_helper() -> bool:
    """Return True in a process that ``multiprocessing`` started for itself. It runs no code of the program."""
    return any(text.startswith(_HELPERS) for text in sys.orig_argv)


def _has_workers() -> bool:
    """Return True if ``multiprocessing`` has started a process from this one: its first start imports a module."""
    return any(f"multiprocessing.popen_{way}" in sys.modules for way in ("spawn_posix", "spawn_win32", "forkserver"))


def _number(count: int, word: str) -> str:
    return f"{count or 'no'} {word}{'' if count <= 1 else 's'}"


def _takes_a_line(stream: Any) -> bool:
    """Return False if a write would block, as on a full pipe that nobody reads, or a stopped terminal."""
    if not hasattr(select, "poll"):  # Windows
        return True
    poll = select.poll()
    try:
        poll.register(stream.fileno(), select.POLLOUT)
    except (AttributeError, OSError, ValueError) as error:  # a stream without a file
        pass_interrupt(error)
        return True
    return bool(poll.poll(0))
