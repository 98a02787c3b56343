"""The option ``--show-arguments``: read the calls of a program's loops from a pipe, and show them at its end.

Plug it into a command that runs a program: ``with shown_arguments(wanted, sys.stderr) as shown`` around the run, with
``shown.environment`` for the program's process, which inherits the pipe, then ``shown.print()``. The
HTML report takes ``shown.counted``.
"""

from __future__ import annotations

import os
import select
import sys
from collections import Counter
from contextlib import contextmanager, suppress
from threading import Thread
from typing import TYPE_CHECKING, TextIO

from otel_loopguard.engine.quoting import escaped
from otel_loopguard.errors import LoopGuardError
from otel_loopguard.telemetry.shown_calls import PIPE, ShownCall, pipe_name

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

_MOST = 20
_MOST_KNOWN = 10_000
_LONGEST_WAIT = 2.0


def add_option(parser: argparse.ArgumentParser) -> None:
    """Add the option ``--show-arguments``."""
    parser.add_argument(
        "--show-arguments",
        action="store_true",
        help="show the calls of loops with their arguments, cut at 80 characters, at the end and in the report; "
        "on a terminal only",
    )


class ShownArguments:
    """The calls of loops that a program has made, counted."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._calls: Counter[ShownCall] = Counter()
        self.environment: dict[str, str] = {}
        """Variables for the program."""

    def read(self, file: int) -> None:
        """Read calls until an empty line, or the pipe's end. Text that is no call is left out."""
        with open(file, encoding="utf-8", errors="replace", newline="\n") as pipe:
            for line in iter(pipe.readline, "\n"):
                if not line:
                    return
                fields = escaped(line.removesuffix("\n")).split("\t")
                if len(fields) == len(ShownCall._fields) and len(self._calls) < _MOST_KNOWN:
                    self._calls[ShownCall(*fields)] += 1

    @property
    def counted(self) -> list[tuple[int, ShownCall]]:
        """Each call with its number, the most frequent ones first."""
        return [(count, call) for call, count in self._calls.most_common()]

    def print(self) -> None:
        """Print each call with its number, the most frequent ones first; nothing if there is none."""
        if not self._calls:
            return
        lines = ["the calls of loops, with the action that the rules want:"]
        lines += [f"  {count} x {call}" for count, call in self.counted[:_MOST]]
        if len(self._calls) > _MOST:
            lines.append(f"  and {len(self._calls) - _MOST} more")
        print("\n".join(lines), file=self._stream)


@contextmanager
def shown_arguments(wanted: bool, stream: TextIO | None = None) -> Iterator[ShownArguments]:  # noqa: FBT001 - the value of the option
    """Read the calls of the program that is run in the block; none if ``wanted`` is False.

    Raise a ``LoopGuardError`` unless the stream (standard error by default) is a terminal: a log file must not have
    arguments.
    """
    stream = sys.stderr if stream is None else stream
    shown = ShownArguments(stream)
    if not wanted:
        yield shown
        return
    if not (stream and stream.isatty()):
        raise LoopGuardError(
            "--show-arguments prints arguments on a terminal only, and standard error is none here. "
            "Leave the option out, or do not redirect standard error."
        )
    ours, theirs = os.pipe()
    os.set_blocking(theirs, False)  # the program never waits for us
    os.set_inheritable(theirs, True)  # noqa: FBT003 - its only parameter
    shown.environment = {PIPE: pipe_name(theirs)}
    reader = Thread(target=shown.read, args=(ours,), daemon=True)
    reader.start()
    try:
        yield shown
    finally:
        # A process that outlives the program keeps the pipe open, so its end may not come: an empty line stands for it.
        with suppress(OSError):
            select.select([], [theirs], [], _LONGEST_WAIT)
            os.write(theirs, b"\n")
        os.close(theirs)
        reader.join(_LONGEST_WAIT)
