"""A week in which somebody has to know of much."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .judged_week import check

if TYPE_CHECKING:
    from pathlib import Path


def test_each_trouble_sends_its_page_or_its_ticket_once(tmp_path: Path) -> None:
    """A broken shared tool, shadow mode, a frozen process, outages, parts that fail, and turns that nothing stops."""
    check("trouble that somebody must know", tmp_path)
