"""The table of benchmarks/parts.py takes out what is in the package."""

from __future__ import annotations

import pytest

from benchmarks.parts import PARTS


@pytest.mark.parametrize("part", PARTS, ids=lambda part: part.name)
def test_each_part_is_in_the_code_once(part):
    """A special case that was rewritten is rewritten in the table, and one that was deleted is deleted there."""
    for edit in part.edits:
        assert edit.source.count(edit.old) == 1, f"{edit.function.__qualname__}: {edit.old}"
        assert edit.old != edit.new
