"""Order the ends of recorded calls among their begins, and keep the time of their turn.

A call ends before the next one begins, unless both are of one step (the model asked for both in one response), or the
recorded times overlap. docs/replay.md, "Order and times", has the rules.
"""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

    from otel_loopguard.engine.history.history import History

_NEVER = float("-inf")


class _Running(NamedTuple):
    end: float
    call: Any


class Timeline:
    """The running calls of one turn, and the time of the turn, which never goes back."""

    __slots__ = ("_begun", "_history", "_running", "_step", "now", "written")

    def __init__(self, history: History) -> None:
        self._history = history
        self.now: float | None = None
        """The time of the last begin or end, in seconds; None as long as no time is recorded."""
        self._begun = _NEVER
        """The time of the last begin."""
        self._step: object = None
        self.written: int | None = None
        """The turn's tick when the model asked for the calls of the last step; None without a step."""
        self._running: list[_Running] = []

    def begin(self, at: float | None, step: object = None) -> Iterator[Any]:
        """Move to the begin of a call, at ``at`` seconds. Yield the calls that end before it; ``now`` is their end.

        A begin that is earlier than that of the call before is not used: the clocks of two processes differ.
        """
        if at is not None:
            if at >= self._begun:
                self._begun = at
            else:
                at = None
        if self._running and (step is None or step != self._step):
            yield from self.until(at)
        if step is None or step != self._step:
            self._step, self.written = step, None if step is None else self._history.tick
        if at is not None:
            self.move(at)

    def add(self, call: Any, end: float | None) -> None:
        """Add the call that has just begun. Without an ``end``, or with one before its begin, it ends when it began."""
        self._running.append(_Running(self._begun if end is None else max(end, self._begun), call))

    def until(self, time: float | None) -> Iterator[Any]:
        """Yield the running calls that end by this time, in seconds, in the order of their ends; all if it is None."""
        if time is None:
            over, self._running = self._running, []
            return self._end(over)
        over = [one for one in self._running if one.end <= time]
        self._running = [one for one in self._running if one.end > time]
        return self._end(over)

    def _end(self, over: list[_Running]) -> Iterator[Any]:
        if len(over) > 1:
            over.sort(key=_end_of)
        for one in over:
            self.move(one.end)
            yield one.call

    def move(self, time: float) -> None:
        """Move on to this time, in seconds. An earlier one than ``now`` is not used."""
        if time > (_NEVER if self.now is None else self.now):
            self.now = time


_end_of = attrgetter("end")
