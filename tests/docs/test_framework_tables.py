"""The lists of frameworks on the pages are those of the frameworks' own files."""

from __future__ import annotations

import pytest

from tests.docs.framework_tables import MAKERS, ROOT, SUPPORTED, page


@pytest.mark.parametrize("name", MAKERS)
def test_a_list_of_frameworks_is_made_from_their_files(name):
    """To write it again: ``python -m tests.docs.framework_tables``."""
    text = (ROOT / name).read_text("utf-8")
    assert text == MAKERS[name](text)


def test_each_framework_has_a_row_with_its_notes():
    """A row without words would say nothing of what is guarded."""
    text = "| framework | from | its turns are | notes |\n| --- | --- | --- | --- |\n| old | 1 | x | y |\n\nEnd.\n"
    made = page(text)
    assert "| old |" not in made
    assert made.endswith("|\n\nEnd.\n")
    assert all(f"| {one.title} |" in made and one.notes for one in SUPPORTED)
