"""Files about a user's runs can be read by their owner only."""

from __future__ import annotations

import os
import stat
import sys
from typing import TYPE_CHECKING

import pytest

from otel_loopguard import report
from otel_loopguard.private_files import check_writable, write_private
from tests.cli.processes import command

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="there are no such permissions on this system")


@pytest.fixture(autouse=True)
def open_umask() -> Iterator[None]:
    """Leave it to the package what others may do."""
    before = os.umask(0)
    yield
    os.umask(before)


def mode(path: Path) -> str:
    """The permissions, in octal digits."""
    return f"{stat.S_IMODE(path.stat().st_mode):o}"


def test_the_files_of_a_watch_are_their_owners(tmp_path: Path) -> None:
    """The recording, which may have the arguments in the spans of other instrumentations, and the report."""
    app = tmp_path / "app.py"
    app.write_text("import otel_loopguard\nlook = otel_loopguard.tool(lambda: 'text')\n[look() for _ in range(4)]\n")
    files = [tmp_path / "report.html", tmp_path / "spans.jsonl"]
    command("watch", "-o", str(files[0]), "--record", str(files[1]), "--", sys.executable, str(app))
    assert [mode(path) for path in files] == ["600", "600"]


def test_the_findings_of_the_doctor_are_their_owners(tmp_path: Path) -> None:
    """They name tools."""
    command("doctor", "--output", str(tmp_path / "found.txt"), "--", sys.executable, "-c", "pass")
    assert mode(tmp_path / "found.txt") == "600"


def test_a_report_that_a_program_writes_is_its_owners(tmp_path: Path) -> None:
    """As those of `replay --html` and `watch` are."""
    report.write(tmp_path / "report.html", [])
    assert mode(tmp_path / "report.html") == "600"


def test_a_file_that_is_there_keeps_its_permissions(tmp_path: Path) -> None:
    """Whoever shares it has decided so."""
    shared = tmp_path / "shared.html"
    shared.touch(0o640)
    check_writable(shared)
    write_private(shared, b"text")
    assert (mode(shared), shared.read_bytes()) == ("640", b"text")


def test_a_secret_is_its_owners_in_any_file(tmp_path: Path) -> None:
    """The file loses its permissions before it gets the secret, and the rest of what it had."""
    shared = tmp_path / "shared.html"
    shared.write_bytes(b"a longer text")
    shared.chmod(0o644)
    write_private(shared, b"secret", is_secret=True)
    assert (mode(shared), shared.read_bytes()) == ("600", b"secret")


def test_no_empty_file_is_left_by_the_check(tmp_path: Path) -> None:
    """A wrong path fails before the work, and a right one leaves nothing if the work fails."""
    check_writable(tmp_path / "new")
    assert not (tmp_path / "new").exists()
    with pytest.raises(FileNotFoundError):
        check_writable(tmp_path / "none" / "new")
