"""A report of what looped, as one HTML file that opens anywhere and needs no network.

``write(path, runs)`` for runs that are all at hand; ``Report`` where they come one by one. Tool names, modes, run ids
and counts stand in it, never an argument or a result.
"""

from __future__ import annotations

from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING

from otel_loopguard.errors import LoopGuardError
from otel_loopguard.report.columns import Columns, harmless
from otel_loopguard.report.page import page
from otel_loopguard.report.records import DECISIONS, Call, Run, decision
from otel_loopguard.version import __version__

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable

__all__ = ["DECISIONS", "Call", "Report", "ReportError", "Run", "decision", "write"]

_TITLE = "Tool loops"


class ReportError(LoopGuardError):
    """The report cannot be written where it was asked for."""


class Report:
    """A report to which runs are added as they come."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """Whether the file can be written is seen now, and not after all the work."""
        self.path = Path(path)
        self._columns = Columns()
        try:
            self.path.open("ab").close()
        except OSError as error:
            raise _cannot(self.path, error) from error

    def add(self, run: Run) -> None:
        """One turn more."""
        self._columns.add(run)

    def write(self, *, title: str = _TITLE, subtitle: str = "") -> None:
        """Write the file."""
        now = datetime.now(timezone.utc).strftime("%Y-%m-%d %H:%M UTC")
        told = [harmless(part) for part in (subtitle, f"written {now}", f"otel-loopguard {__version__}") if part]
        text = page(self._columns.plain(), title=harmless(title), subtitle=" · ".join(told))
        try:
            self.path.write_text(text, encoding="utf-8")
        except OSError as error:
            raise _cannot(self.path, error) from error


def write(path: str | os.PathLike[str], runs: Iterable[Run], *, title: str = _TITLE, subtitle: str = "") -> None:
    """Write a report of these runs to this file."""
    report = Report(path)
    for run in runs:
        report.add(run)
    report.write(title=title, subtitle=subtitle)


def _cannot(path: Path, error: OSError) -> ReportError:
    return ReportError(f"{path}: the report cannot be written: {error.strerror}")
