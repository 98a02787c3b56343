"""A program that is recorded: its spans, and what is known of its processes."""

from __future__ import annotations

import sys
from contextlib import closing, contextmanager

from otel_loopguard.cli.watch.recorded_program import RecordedProgram
from tests.cli.processes import environment

CALL = "import otel_loopguard as l; l.call('look', {}, lambda: 1)"


def test_spans_are_in_a_file_that_grows(tmp_path, capsys):
    """A context manager beside the program gets the file before the first span, and the folder goes with the end."""
    sizes = []

    @contextmanager
    def beside(spans):
        sizes.append(spans.stat().st_size)
        yield
        sizes.append(spans.stat().st_size)

    with closing(RecordedProgram()) as program:
        assert not program.is_seen
        assert program.run([sys.executable, "-c", CALL], environment(), beside) == 0
        assert program.is_seen
        assert (list(program.unseen), list(program.running)) == ([], [])
        program.keep(str(tmp_path / "kept"))
        program.keep(str(tmp_path))
    assert sizes[0] == 0
    assert sizes[1] == len((tmp_path / "kept").read_bytes())
    assert not program.spans.exists()
    assert f"{tmp_path} cannot be written: Is a directory" in capsys.readouterr().err
