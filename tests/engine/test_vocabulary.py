"""The values that the rooms of the guard exchange."""

from __future__ import annotations

from otel_loopguard.engine.vocabulary import Record
from tests.steps import steps


def test_a_field_of_a_record_is_read_without_a_call() -> None:
    """A record is read a hundred times at each tool call, and most of its fields have the value of the class."""
    record = Record()
    record.tool = "look"
    assert (record.error, record.equal_in_row, record.haste) == (False, 0, 1.0)
    assert steps(lambda: (record.tool, record.error, record.equal_in_row, record.haste)) == steps(lambda: None)
