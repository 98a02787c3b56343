"""A terminal for the command: a pseudo-terminal, and an emulator that tells what its user sees."""

from __future__ import annotations

import os
import select
import subprocess
from typing import TYPE_CHECKING

import pyte

from tests.cli.processes import COMMAND, environment

if TYPE_CHECKING:
    import signal
    from collections.abc import Callable, Mapping

    from typing_extensions import Self

_TIMEOUT = 120


class Screen:
    """The command in a terminal of its own, whose session it leads, as under a terminal emulator."""

    def __init__(
        self, *command: str, rows: int = 12, columns: int = 80, more: Mapping[str, str] | None = None, **options
    ) -> None:
        import pty

        self._ours, theirs = pty.openpty()
        self.screen = pyte.HistoryScreen(columns, rows, history=1_000)
        self._stream = pyte.ByteStream(self.screen)
        self.written = b""
        """All bytes that the terminal got."""
        self._set_size(rows, columns)
        environ = {**environment(), "TERM": "xterm-256color", "LC_ALL": "C.UTF-8", **(more or {})}
        for name in ("COLUMNS", "LINES", "CI", "NO_COLOR"):
            if name not in (more or {}):
                environ.pop(name, None)
        streams = {"stdin": theirs, "stdout": theirs, "stderr": theirs, **options}
        self.process = subprocess.Popen(
            command,
            env=environ,
            start_new_session=True,
            preexec_fn=lambda: _take_terminal(theirs),  # noqa: PLW1509 - the test has no other thread
            **streams,
        )
        os.close(theirs)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        os.close(self._ours)

    def _set_size(self, rows: int, columns: int) -> None:
        import fcntl
        import struct
        import termios

        fcntl.ioctl(self._ours, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def resize(self, rows: int, columns: int) -> None:
        """Change the size, which signals SIGWINCH. As in xterm the rows below the cursor are the first to be lost."""
        screen, y = self.screen, self.screen.cursor.y
        screen.set_margins()
        for _ in range(y + 1 - rows):  # the emulator would forget these, and keep the rows below the cursor
            screen.cursor.y = screen.lines - 1
            screen.index()
        screen.cursor.y = min(y, rows - 1)
        screen.lines = min(rows, screen.lines)
        for row in [row for row in screen.buffer if row >= rows]:
            del screen.buffer[row]
        screen.resize(rows, columns)
        self._set_size(rows, columns)

    def type(self, text: str) -> None:
        """Press keys."""
        os.write(self._ours, text.encode())

    def send(self, number: signal.Signals) -> None:
        """Send a signal to the command only."""
        self.process.send_signal(number)

    @property
    def rows(self) -> list[str]:
        """The rows of the screen, without the blanks at their ends."""
        return [row.rstrip() for row in self.screen.display]

    @property
    def lines(self) -> list[str]:
        """All lines, those that went off the top first; without the empty ones."""
        above = ["".join(row[column].data for column in range(self.screen.columns)) for row in self.screen.history.top]
        return [line for line in [*(row.rstrip() for row in above), *self.rows] if line]

    def until(self, is_shown: Callable[[], bool]) -> None:
        """Take output until this is true."""
        while not is_shown():
            if not self._take():
                raise AssertionError("the command has ended:\n" + "\n".join(self.rows))

    def until_last_row(self, text: str) -> None:
        """Take output until the last row has this text."""
        self.until(lambda: text in self.rows[-1])

    def until_end(self) -> int:
        """Take output to the end, and return the exit status."""
        while self._take():
            pass
        return self.process.wait(timeout=_TIMEOUT)

    def _take(self) -> bool:
        ready, _, _ = select.select([self._ours], [], [], _TIMEOUT)
        if not ready:
            raise AssertionError("nothing is written any more:\n" + "\n".join(self.rows))
        try:
            part = os.read(self._ours, 65_536)
        except OSError:  # Linux: the other end was closed
            return False
        self.written += part
        self._stream.feed(part)
        return bool(part)


def _take_terminal(terminal: int) -> None:
    import fcntl
    import termios

    fcntl.ioctl(terminal, termios.TIOCSCTTY, 0)


def on_screen(*arguments: str, **options) -> Screen:
    """The command line on a screen."""
    return Screen(*COMMAND, *arguments, **options)
