"""The signal to a program whose run no answer ends."""

from __future__ import annotations

import shutil
import subprocess
import sys

import pytest

from otel_loopguard.hooks.interrupt import interrupt

PROGRAM = """
import subprocess, sys
shell = subprocess.Popen(["sh", "-c", "echo $$; cat; :"], stdin=subprocess.PIPE)
try:
    shell.wait()
except KeyboardInterrupt:
    shell.stdin.close()
    sys.exit(7)
"""
"""Starts a shell, which writes its number, and waits for it."""

pytestmark = pytest.mark.skipif(shutil.which("ps") is None, reason="ps is not installed")


def test_the_program_above_a_shell_is_interrupted() -> None:
    """A hook knows the process that started its command, which may be a shell."""
    with subprocess.Popen([sys.executable, "-c", PROGRAM], stdout=subprocess.PIPE, text=True) as program:
        assert program.stdout is not None
        interrupt(int(program.stdout.readline()))
        assert program.wait(30) == 7


def test_a_process_that_is_gone_is_left_alone() -> None:
    """No other gets the signal in its place."""
    with subprocess.Popen([sys.executable, "-c", ""]) as gone:
        gone.wait()
    interrupt(gone.pid)
    interrupt(1)
