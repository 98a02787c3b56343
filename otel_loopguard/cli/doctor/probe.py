"""The probe: runs inside the program that is examined, sees what really happens, and writes it to a file.

The doctor has it loaded by the entry point ``opentelemetry_post_instrument``, after everything that zero-code start
does. It changes nothing that the program can see, and says nothing of its values.
"""

from __future__ import annotations

import atexit
import json
import os
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

FOLDER = "_OTEL_LOOPGUARD_DOCTOR"
"""The variable with the folder for what is found; where it is not set, nobody asks."""


_OFTEN_SECONDS = 1.0
_NEVER = float("-inf")


class Probe:
    """What is counted in this process."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.label = "app"
        """Whose calls are made at the moment: the self-test's, one framework after the other."""
        self.calls: Counter[tuple[str, str, bool, str]] = Counter()
        """By label, source of the turn, whether it is enforced, and outcome."""
        self.counted = 0
        """Calls that were counted in all: those of our patches, and those that only other's spans tell."""
        self.unseen = 0
        """Calls whose span records nothing."""
        self.errors: Counter[str] = Counter()
        self.guards: set[str] = set()
        self.written = _NEVER
        self.tested: dict[str, str] = {}
        """What the self-test found, by framework."""

    def turn_over(self) -> None:
        """Write what there is so far: workers, and programs that are killed, end without ``atexit``."""
        if time.monotonic() - self.written > _OFTEN_SECONDS:
            self.write(ended=False)

    def write(self, *, ended: bool) -> None:
        """Write everything down, at once: a reader never sees a half of it."""
        from otel_loopguard.cli.doctor import (  # noqa: PLC0415 - what it needs is there when the program has started
            facts,
        )

        found = {**facts.gather(), **self.seen(), "ended": ended, "pid": os.getpid()}
        self.written = time.monotonic()
        if not self._folder.is_dir():
            return  # the doctor has left
        handle, name = tempfile.mkstemp(dir=self._folder, suffix=".part")
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            json.dump(found, file)
        Path(name).replace(self._folder / f"{os.getpid()}.json")

    def seen(self) -> dict[str, Any]:
        """The counts as JSON."""
        keys = ("label", "source", "enforced", "outcome")
        calls = [{**dict(zip(keys, key, strict=True)), "count": count} for key, count in sorted(self.calls.items())]
        return {
            "calls": calls,
            "foreign": max(0, self.counted - sum(self.calls.values())),
            "unseen": self.unseen,
            "errors": dict(self.errors),
            "guards": sorted(self.guards),
            "tested": self.tested,
        }


def start() -> None:
    """What the entry point calls."""
    global current  # noqa: PLW0603 - one probe a process
    folder = os.environ.get(FOLDER)
    if not folder or not Path(folder).is_dir():
        return
    from otel_loopguard.cli.doctor import listeners  # noqa: PLC0415

    current = Probe(Path(folder))
    listeners.listen(current)
    current.write(ended=False)
    current.written = _NEVER  # the first turn is told at once
    # Run before what other packages registered until now, such as the providers' shutdown.
    atexit.register(current.write, ended=True)
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=_forked)


current: Probe | None = None


def _forked() -> None:
    """A worker counts for itself."""
    if current is not None:
        current.calls.clear()
        current.errors.clear()
        current.counted = current.unseen = 0
        current.written = _NEVER
