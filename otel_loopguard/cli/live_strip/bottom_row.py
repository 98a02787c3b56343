"""Keep the last row of the terminal, and leave the other rows to the program, which writes there by itself.

The rows above it are made the terminal's scroll region, as apt does for its progress bar. The other way, to run the
program on a pseudo-terminal of ours and pass its bytes on, would put us between the program and its user: a fault of
ours would be its fault, and job control, signals and separate outputs would change. Here the program keeps its
terminal, and needs nothing of us. The sequences are five, so no package is needed to write them.

Each drawing is one write. It assumes nothing of what the program did before: a region that was lost is set again, and
a cursor that came into the last row is moved out of it. While the program reads single keys, as editors, pagers and
other full-screen programs do, and while another process group has the terminal, the row is given back.
"""

from __future__ import annotations

import os
import signal
import termios
from threading import RLock
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable

_LEAST_ROWS = 4
_LEAST_COLUMNS = 20
_LOCAL_FLAGS = 3
_FREE: Final = "\x1b7\x1b[r\x1b8"
"""Lets the whole screen scroll. 7 and 8 save and restore the cursor, which the change of a region moves."""
_LEAVE: Final = "\x1bD\x1b[A"
"""Moves the cursor from the last row to the one above, with its line; leaves it where it is in any other row."""
_ERASE_BELOW: Final = "\x1b7\x1b[m\x1b[E\x1b[J\x1b8"
"""Erases the rows below the cursor. After a change of size the old row is one of them, and its number is not known."""


class BottomRow:
    """The last row of a terminal. An ``OSError`` tells that the terminal is gone."""

    def __init__(self, terminal: int, encoding: str) -> None:
        """Take the descriptor of the terminal. It is opened anew: the program may make its own non-blocking."""
        self._file = os.open(os.ttyname(terminal), os.O_WRONLY | os.O_NOCTTY)
        self._encoding = encoding
        self._shown: tuple[os.terminal_size, str] | None = None
        self._lock = RLock()  # the handler of a signal may interrupt a release

    def show(self, line: Callable[[int], str]) -> None:
        """Show the line that the function returns for a number of columns, if it is not there already."""
        with self._lock:
            size = os.get_terminal_size(self._file)
            if size.lines < _LEAST_ROWS or size.columns < _LEAST_COLUMNS or not self._is_ours():
                self.release()
                return
            text = line(size.columns - 1)  # the last column would make the terminal wrap
            if not text or self._shown == (size, text):
                return
            resized = self._shown is not None and self._shown[0] != size
            self._shown = size, text
            self._write(
                f"{_FREE}{_LEAVE}{_ERASE_BELOW if resized else ''}"
                f"\x1b7\x1b[1;{size.lines - 1}r\x1b[{size.lines}H\x1b[m\x1b[2K{text}\x1b[m\x1b8"
            )

    def release(self) -> None:
        """Erase the row, and give it back."""
        with self._lock:
            if self._shown is None:
                return
            size, self._shown = self._shown[0], None
            if os.get_terminal_size(self._file) == size:
                self._write(f"{_FREE}\x1b7\x1b[{size.lines}H\x1b[m\x1b[2K\x1b8")
            else:
                self._write(f"{_FREE}{_LEAVE}{_ERASE_BELOW}")

    def release_for(self, number: int, _: Any) -> None:
        """Release the row, then do what the system does at this signal: stop or end this process. A signal handler."""
        with self._lock:  # nothing is drawn before the process stops
            try:
                self.release()
            finally:
                signal.signal(number, signal.SIG_DFL)
                os.kill(os.getpid(), number)
                signal.signal(number, self.release_for)  # it goes on

    def close(self) -> None:
        """Release the row, and close the terminal."""
        try:
            self.release()
        finally:
            os.close(self._file)

    def _is_ours(self) -> bool:
        """Return False while the program reads single keys, or another process group has the terminal."""
        if not termios.tcgetattr(self._file)[_LOCAL_FLAGS] & termios.ICANON:
            return False
        try:
            return os.tcgetpgrp(self._file) == os.getpgrp()
        except OSError:  # it is not the terminal of our session, which then has no job control
            return True

    def _write(self, text: str) -> None:
        os.write(self._file, text.encode(self._encoding, "replace"))
