"""The types of a policy's settings are those of the schema and of the rows."""

from __future__ import annotations

from importlib.util import find_spec

import pytest

from tests.type_checking.settings import FILE, written


@pytest.mark.skipif(find_spec("ruff") is None, reason="ruff, which formats the file, is not installed")
def test_the_types_of_settings_are_made_from_the_schema():
    """To write them again: ``python -m tests.type_checking.settings``."""
    assert FILE.read_text("utf-8") == written()
