"""The tables of modes and settings on the pages are those of the rows and of the schema."""

from __future__ import annotations

import pytest

from otel_loopguard.engine.modes import ROWS
from tests.docs.mode_tables import ROOT, TABLES, written


@pytest.mark.parametrize(("name", "head"), TABLES)
def test_a_table_of_modes_is_made_from_the_rows(name, head):
    """To write them again: ``python -m tests.docs.mode_tables``."""
    page = (ROOT / name).read_text("utf-8")
    assert page == written(page, head, TABLES[name, head])


@pytest.mark.parametrize("head", ["| mode | the agent ... | told | refused |", "| mode | usual cause |"])
def test_the_overview_and_the_runbook_name_every_mode(head):
    """No mode is without its row there."""
    assert [set(rows) for (_, first), rows in TABLES.items() if first == head] == [set(ROWS)]


def test_a_new_mode_is_the_last_row():
    """The other rows stay where they are, and so does a row that is no mode."""
    page = "| mode | x |\n| --- | --- |\n| `b` | old |\n| `user_stop` | kept |\n\nEnd.\n"
    assert written(page, "| mode | x |", {"a": ("new",), "b": ("made",)}) == (
        "| mode | x |\n| --- | --- |\n| `b` | made |\n| `user_stop` | kept |\n| `a` | new |\n\nEnd.\n"
    )
