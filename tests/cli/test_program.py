"""The one way in which run, watch and doctor name a program and start it."""

from __future__ import annotations

import argparse
import shutil
import sys

import pytest

from otel_loopguard.cli import program
from otel_loopguard.errors import LoopGuardError


def command(*arguments):
    parser = argparse.ArgumentParser()
    parser.add_argument("--flag", action="store_true")
    program.add_program(parser)
    return program.command_of(parser.parse_args(arguments))


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ((), []),
        (("--",), []),
        (("--flag", "app.py", "--flag", "-m"), [sys.executable, "app.py", "--flag", "-m"]),
        (("-m", "package", "--flag", "app.py"), [sys.executable, "-m", "package", "--flag", "app.py"]),
        (("--", "gunicorn", "--", "app:app"), ["gunicorn", "--", "app:app"]),
        (("gunicorn", "-w", "2"), ["gunicorn", "-w", "2"]),
    ],
)
def test_a_program_is_a_file_a_module_or_a_command(arguments, expected, tmp_path, monkeypatch):
    """All that follows it is the program's own."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "app.py").touch()
    assert command(*arguments) == expected


@pytest.mark.parametrize(("arguments", "said"), [(("no.py",), "no.py: there is no such file"), (("-m",), "-m: name")])
def test_a_program_that_cannot_be_named_is_an_error(arguments, said):
    """The error names the argument."""
    with pytest.raises(LoopGuardError, match=said):
        command(*arguments)


@pytest.mark.parametrize("first", ["#!{python}", "#!/usr/bin/env {python}", "#!{python} -I"])
def test_a_script_is_of_the_python_of_its_first_line(first, tmp_path):
    """Console scripts of another environment are found, too."""
    python = tmp_path / "python3.99"
    script = tmp_path / "script"
    shutil.copy("/bin/sh", python)
    script.write_text(first.format(python=python) + "\n")
    assert program._python_of(str(script)) == str(python)
    assert program._python_of(str(python)) == str(python)


def test_a_file_without_a_python_is_not_asked(tmp_path):
    """What is no script of a Python is started as it is."""
    script = tmp_path / "script"
    for first in (b"", b"#!", b"#!/bin/sh", b"\x7fELF\xff"):
        script.write_bytes(first)
        assert program._other_python(str(script)) is None
    assert program._other_python(sys.executable) is None


@pytest.mark.parametrize(("status", "expected"), [(0, 0), (3, 3), (-9, 137)])
def test_a_status_is_that_of_a_shell(status, expected):
    """A signal is 128 and its number."""
    assert program.shell_status(status) == expected


def test_a_file_that_the_system_cannot_start_is_a_line(tmp_path, capfd):
    """The status is that of a shell."""
    script = tmp_path / "script"
    script.write_text("no program")
    script.chmod(0o700)
    assert program.start([str(script)], {}) == 126
    assert f"otel-loopguard: {script} cannot be started: Exec format error\n" in capfd.readouterr().err
