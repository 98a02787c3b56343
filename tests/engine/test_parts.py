"""The table of benchmarks/parts.py takes out what is in the package."""

from __future__ import annotations

import pytest

from benchmarks.parts import PARTS, Edit


def content(code):
    """The instructions of a function, without its place in a file."""
    return code.co_code, code.co_names, code.co_consts


@pytest.mark.parametrize("part", PARTS, ids=lambda part: part.name)
def test_each_part_is_in_the_code_once(part):
    """A special case that was rewritten is rewritten in the table, and one that was deleted is deleted there."""
    for edit in part.edits:
        if isinstance(edit, Edit):
            assert content(edit.changed) != content(edit.function.__code__)
        else:
            assert getattr(edit.owner, edit.name) is not edit.new
