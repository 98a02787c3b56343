"""Run a program, and record its spans in a file of a folder that is removed afterwards."""

from __future__ import annotations

import os
import shutil
import tempfile
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from otel_loopguard.cli.program import say, start, write_distribution
from otel_loopguard.cli.watch.recorder import ENTRY_POINTS, FILE
from otel_loopguard.private_files import private

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from contextlib import AbstractContextManager


class RecordedProgram:
    """The recording of a program, until it is closed."""

    def __init__(self) -> None:
        """Make the folder. Raise an ``OSError`` if that fails."""
        # A process that outlives the program may write while the folder is removed.
        self._folder = tempfile.TemporaryDirectory(prefix="loopguard-", ignore_cleanup_errors=True)
        self.spans = Path(self._folder.name) / "spans.jsonl"
        """The file of OTLP JSON lines. It grows while the program runs."""
        self.spans.touch()
        write_distribution(self.spans.parent, ENTRY_POINTS)

    def close(self) -> None:
        """Remove the folder."""
        self._folder.cleanup()

    def run(
        self,
        command: list[str],
        environment: Mapping[str, str],
        beside: Callable[[Path], AbstractContextManager[Any]] = nullcontext,
    ) -> int:
        """Run the program to its end, and return its exit status, negative for a signal.

        ``environment`` are more variables for it. ``beside(spans)`` is entered while it runs.
        """
        # The report of the recording has the counts of the line at exit.
        own = {"OTEL_PYTHON_LOOPGUARD_SUMMARY": "off", **environment, FILE: str(self.spans)}
        with beside(self.spans):
            return start(command, own, self.spans.parent)

    @property
    def _notes(self) -> list[Path]:
        return sorted(self.spans.parent.glob(f"{self.spans.name}.*"))

    @property
    def is_seen(self) -> bool:
        """True if the recorder has started in a process of the program."""
        return bool(self._notes)

    @property
    def unseen(self) -> Iterator[str]:
        """The sentences about what was not seen."""
        return iter(dict.fromkeys(line for note in self._notes for line in note.read_text("utf-8").splitlines()))

    @property
    def running(self) -> Iterator[int]:
        """The numbers of the processes that go on."""
        for note in self._notes:
            number = int(note.suffix[1:])
            if _is_running(number):
                yield number

    def keep(self, path: str) -> bool:
        """Copy the spans to a file, which only its owner may read if it is new. If that fails, say so: return False."""
        try:
            with self.spans.open("rb") as spans, open(path, "wb", opener=private) as file:
                shutil.copyfileobj(spans, file)
        except OSError as error:
            say(f"{path} cannot be written: {error.strerror}")
            return False
        return True


def _is_running(number: int) -> bool:
    try:
        os.kill(number, 0)
    except OSError:
        return False
    return True
