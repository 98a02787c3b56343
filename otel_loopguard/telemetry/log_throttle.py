"""Bound the log: for each tool and mode, write a line of one turn a minute, and count the other turns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

SECONDS: Final = 60.0
"""The time after a line in which no other turn has one."""
_MOST_PAIRS: Final = 1_000
_OTHERS: Final = ("", "")
"""The pair that all further tools and modes share if 1,000 pairs are known."""


class _Line:
    """The last line about a tool and mode."""

    __slots__ = ("left_out", "until")

    def __init__(self, until: float) -> None:
        self.until = until
        self.left_out = 0
        """The turns without a line since then."""


class LogThrottle:
    """Decides which turns have a line. An outage makes all turns loop at once, and the log is needed just then.

    It takes no lock: a race costs a line.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._lines: dict[tuple[str, str], _Line] = {}

    def ask(self, tool: str, mode: str) -> int | None:
        """Return the number of turns that were left out before this line; None if it must be left out, too."""
        now, pair = self._clock(), (tool, mode)
        if pair not in self._lines and len(self._lines) >= _MOST_PAIRS:
            pair = self._make_room(pair, now)
        last = self._lines.get(pair)
        if last is not None and now < last.until:
            last.left_out += 1
            return None
        self._lines[pair] = _Line(now + SECONDS)
        return 0 if last is None else last.left_out

    def _make_room(self, pair: tuple[str, str], now: float) -> tuple[str, str]:
        for known, line in list(self._lines.items()):
            if now >= line.until and known != _OTHERS:
                self._lines.pop(known, None)
        return pair if len(self._lines) < _MOST_PAIRS else _OTHERS


def left_out_before(turns: int) -> str:
    """Return the number of turns that were left out in words; empty for 0."""
    return f" And {turns} more turn{'' if turns == 1 else 's'} since the last such line." if turns else ""
