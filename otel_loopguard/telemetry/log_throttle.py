"""Bound the log: for each tool and mode, write the lines of one turn a minute, and count those of other turns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

SECONDS: Final = 60.0
"""The time for which a turn's lines are written, and no other turn's."""
_MOST_PAIRS: Final = 1_000
_OTHERS: Final = ("", "")
"""The pair that all further tools and modes share if 1,000 pairs are known."""


class _Speaker:
    """The turn whose lines about a tool and mode are written."""

    __slots__ = ("left_out", "turn_id", "until")

    def __init__(self, turn_id: str, until: float) -> None:
        self.turn_id = turn_id
        self.until = until
        self.left_out = 0
        """The lines of other turns that were left out since its first line."""


class LogThrottle:
    """Decides which lines are written. An outage makes all turns loop at once, and the log is needed just then.

    It takes no lock: a race costs a line.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._speakers: dict[tuple[str, str], _Speaker] = {}

    def ask(self, tool: str, mode: str, turn_id: str) -> int | None:
        """Return the number of lines that were left out before this line; None if it must be left out, too."""
        now, pair = self._clock(), (tool, mode)
        if pair not in self._speakers and len(self._speakers) >= _MOST_PAIRS:
            pair = self._make_room(pair, now)
        speaker = self._speakers.get(pair)
        if speaker is not None and now < speaker.until:
            if speaker.turn_id == turn_id:
                return 0
            speaker.left_out += 1
            return None
        self._speakers[pair] = _Speaker(turn_id, now + SECONDS)
        return 0 if speaker is None else speaker.left_out

    def _make_room(self, pair: tuple[str, str], now: float) -> tuple[str, str]:
        for known, speaker in list(self._speakers.items()):
            if now >= speaker.until and known != _OTHERS:
                self._speakers.pop(known, None)
        return pair if len(self._speakers) < _MOST_PAIRS else _OTHERS


def left_out_before(lines: int) -> str:
    """Return the number of lines that were left out in words; empty for 0."""
    return f", and {lines} more {'line' if lines == 1 else 'lines'} of it left out since the last" if lines else ""
