"""A week in which nobody has to do anything but read two tickets."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .judged_week import check

if TYPE_CHECKING:
    from pathlib import Path


def test_loops_that_are_stopped_send_nothing_but_what_is_due(tmp_path: Path) -> None:
    """Deploys, nightly jobs, loops that the guard stops, rare loops of deltas, and ever the same number of turns."""
    check("loops that nobody needs to know", tmp_path)
