"""The HTML report: one file that shows which calls looped, and needs no network.

``write(path, runs)`` writes a list of runs; ``Report`` takes runs one by one. The file holds names of tools, modes and
runs, times and counts, and no result. It has arguments only if ``Report.write`` gets them. Only its owner may read it.
"""

from __future__ import annotations

from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING

from otel_loopguard.errors import LoopGuardError
from otel_loopguard.private_files import check_writable, write_private
from otel_loopguard.report.columns import Columns, harmless
from otel_loopguard.report.page import page
from otel_loopguard.report.records import DECISIONS, Call, Run, Spent, decision
from otel_loopguard.version import __version__

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Sequence

    from otel_loopguard.telemetry.shown_calls import ShownCall

__all__ = ["DECISIONS", "Call", "Report", "ReportError", "Run", "Spent", "decision", "write"]

MOST_SHOWN = 100
"""Calls that are shown with their arguments."""
_TITLE = "Tool loops"


def __dir__() -> list[str]:
    return sorted(__all__)


class ReportError(LoopGuardError):
    """The report cannot be written to its path."""


class Report:
    """A report to which runs are added one by one. ``write`` makes the file."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """Raise ``ReportError`` if the file cannot be written there, before any work is done. No empty file is left."""
        self.path = Path(path)
        self._columns = Columns()
        try:
            check_writable(self.path)
        except OSError as error:
            raise _cannot(self.path, error) from error

    def add(self, run: Run) -> None:
        """Add one turn of a run. Raise ``ValueError`` if the decision of a call is none of ``DECISIONS``."""
        self._columns.add(run)

    def write(
        self,
        *,
        title: str = _TITLE,
        subtitle: str = "",
        lead: str = "",
        conditional: bool = False,
        shown: Sequence[tuple[int, ShownCall]] = (),
    ) -> None:
        """Write the file, or raise ``ReportError``. The subtitle is extended by the time and the version.

        ``lead`` is the text at the top, in place of the page's own sentence.

        ``conditional``: the calls were judged after they had run, so the page says "would be refused". ``shown`` are
        calls of loops with their number: with any only the owner may read the file, also one that exists. A pipe gets
        none.
        """
        if self.path.exists() and not self.path.is_file():
            shown = ()
        now = datetime.now(timezone.utc).strftime("%Y-%m-%d %H:%M UTC")
        details = [harmless(part) for part in (subtitle, f"written {now}", f"otel-loopguard {__version__}") if part]
        text = page(
            {
                **self._columns.to_json(),
                "lead": lead,
                "conditional": conditional,
                "shown": [[count, *call] for count, call in shown[:MOST_SHOWN]],
            },
            title=harmless(title),
            subtitle=" · ".join(details),
            has_arguments=bool(shown),
        )
        try:
            write_private(self.path, text.encode(), is_secret=bool(shown))
        except OSError as error:
            raise _cannot(self.path, error) from error


def write(
    path: str | os.PathLike[str],
    runs: Iterable[Run],
    *,
    title: str = _TITLE,
    subtitle: str = "",
    lead: str = "",
    conditional: bool = False,
) -> None:
    """Write a report of these runs to a file, as ``Report.write`` does. Raise ``ReportError`` if that fails."""
    report = Report(path)
    for run in runs:
        report.add(run)
    report.write(title=title, subtitle=subtitle, lead=lead, conditional=conditional)


def _cannot(path: Path, error: OSError) -> ReportError:
    return ReportError(f"{path}: the report cannot be written: {error.strerror}. Name another file")
