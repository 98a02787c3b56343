"""Count the turns in a row that made the same calls and got the same results: a loop over messages of the program.

Calls are compared within a turn only, unless the policy remembers conversations. So nothing is decided here. Only the
hash of the last turn's calls and results is kept.
"""

from __future__ import annotations

from copy import copy
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from otel_loopguard.guard.turn import Turn


class EqualTurns:
    """The rows of this process."""

    def __init__(self) -> None:
        self.longest = 0
        """The number of turns in the longest row."""
        self._row = 0
        self._last: int | None = None

    def over(self, turn: Turn) -> None:
        """Take a turn that is over. One without calls, a nested one and one of a remembered conversation are no part.

        A turn whose calls are not all known ends the row.
        """
        history, is_remembered = turn.current.history, turn.compiled.over_turns and turn.current.place is not None
        if not history.calls or turn.parent is not None or turn.is_shared or is_remembered:
            return
        known = len(history.keys) == history.calls
        made = hash((history.keys.tobytes(), history.results.tobytes())) if known else None
        self._row = self._row + 1 if made is not None and made == self._last else int(known)
        self._last = made
        self.longest = max(self.longest, self._row)

    def longest_with(self, turns: Iterable[Turn]) -> int:
        """Return the number of turns in the longest row if these turns, which are open, were over now."""
        rows = copy(self)
        for turn in turns:
            rows.over(turn)
        return rows.longest
