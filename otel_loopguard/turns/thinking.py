"""The time of one model request, which its turn is told: thinking is no waiting.

It is measured by the guard's clock, also for a shared turn. The clock of that one is the store's, whose seconds are
counted by the guard's, too, but which is set anew by each answer of the store: a difference of it is no duration.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from otel_loopguard.guard.turn import Turn


class Thinking:
    """A model request that is sent now. Where requests overlap, the turn counts each second once."""

    __slots__ = ("_clock", "_since", "_tick", "_turn", "_until", "seconds")

    def __init__(self, clock: Callable[[], float], turn: Turn) -> None:
        self._clock = clock
        self._turn: Turn | None = turn
        self._tick = turn.tick
        self.seconds = 0.0
        """The seconds of the request that the turn was told."""
        self._since = self._until = clock()
        """From when on the turn is not told yet, and when the latest piece of the reply came."""

    def go_on(self) -> None:
        """Note that a piece of the reply has come, and more may come."""
        self._until = self._clock()

    def end(self) -> None:
        """Tell the turn that the reply is complete, or that the request has failed. A second end tells nothing."""
        turn, self._turn = self._turn, None
        if turn is not None:
            self._tell(turn, self._clock())

    def leave(self) -> None:
        """Tell the turn of a reply that the program may have left before its end.

        Do so before the results of its calls are counted. If a call of the turn has started or ended since the request
        was sent, nobody knows which seconds were before it, and nothing is told.
        """
        if self._turn is not None and self._turn.tick == self._tick:
            self._tell(self._turn, self._until)

    def _tell(self, turn: Turn, until: float) -> None:
        since, self._since = self._since, until
        if until > since:
            self.seconds += until - since
            turn.thought(until - since)
