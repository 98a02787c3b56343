"""A file of the user's is checked before the work, and replaced at once after it."""

from __future__ import annotations

import pytest

from otel_loopguard import LoopGuardError
from otel_loopguard.cli.written_file import writable, write_file


def test_a_place_that_cannot_be_written_is_named_with_the_remedy(tmp_path):
    """A folder, and a file in no folder."""
    with pytest.raises(LoopGuardError, match="is a folder; name a file in it"):
        writable(str(tmp_path))
    with pytest.raises(LoopGuardError, match="make it first"):
        writable(str(tmp_path / "none" / "file"))


def test_a_file_is_replaced_and_keeps_its_mode(tmp_path):
    """Nothing else is left in the folder."""
    file = tmp_path / "file"
    file.write_text("old")
    file.chmod(0o640)
    assert writable(str(file)) == file
    write_file(str(file), "new")
    assert (file.read_text(), file.stat().st_mode & 0o777) == ("new", 0o640)
    assert list(tmp_path.iterdir()) == [file]
