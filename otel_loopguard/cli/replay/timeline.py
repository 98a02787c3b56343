"""Order the ends of recorded calls among their begins, and keep the time of their turn.

The calls are given in the order in which they began. Each ends before the next one begins, unless

- the next one is of the same *step*: the model wrote both before it read any of their results; or
- its recorded end is later than the recorded begin of the next one: they ran at the same time.

The time of the turn is that of its last begin or end, and never goes back. Clocks of several processes differ: a begin
that is earlier than that of the call before is not believed. A call without a begin begins at the time of the turn. A
call without an end, or with one before its begin, ends when it began.
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
    """The running calls of one turn, and the time of the turn."""

    __slots__ = ("_begun", "_history", "_running", "_step", "now", "written")

    def __init__(self, history: History) -> None:
        self._history = history
        self.now: float | None = None
        """Seconds; None as long as no time is recorded."""
        self._begun = _NEVER
        """The latest begin."""
        self._step: object = None
        self.written: int | None = None
        """The turn's tick when the model wrote the calls of the last step; None without a step."""
        self._running: list[_Running] = []

    def begin(self, at: float | None, step: object = None) -> Iterator[Any]:
        """Move to the begin of a call. Yield the calls that end before it, each at the time of its end."""
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
            self._move(at)

    def add(self, call: Any, end: float | None) -> None:
        """Add the call that has just begun."""
        self._running.append(_Running(self._begun if end is None else max(end, self._begun), call))

    def until(self, time: float | None) -> Iterator[Any]:
        """Yield the running calls that end by this time, in the order of their ends; without a time, all of them."""
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
            self._move(one.end)
            yield one.call

    def _move(self, time: float) -> None:
        if time > (_NEVER if self.now is None else self.now):
            self.now = time


_end_of = attrgetter("end")
