"""The resident judge as a program, started as ``run`` starts it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

import pytest

from otel_loopguard.hooks.home import Home
from tests.hooks.test_server import asked, loop
from tests.instrumentation.processes import clean_environment
from tests.stack.harness.process import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

COMMAND = [sys.executable, "-m", "otel_loopguard.cli.main", "run", "--quiet", "-m", "otel_loopguard.hooks.resident"]


@contextmanager
def resident(home: Home, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """A judge with this folder, until the end of the block."""
    state = str(home.folder.parent.parent)
    process = subprocess.Popen(
        [*COMMAND, *arguments],
        cwd=state,
        env=clean_environment({"XDG_STATE_HOME": state}),
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    with process:
        try:
            yield process
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)  # `run`, and the judge that it has started
            process.wait(30)


@pytest.fixture
def home() -> Iterator[Home]:
    """A folder of its own, whose path is short enough for a socket."""
    with tempfile.TemporaryDirectory(prefix="home-") as folder:
        yield Home.of({"XDG_STATE_HOME": folder})


def ready(home: Home) -> None:
    """Wait until the judge takes hooks."""
    wait_until("the judge serves", home.socket.exists)


def test_it_judges_until_it_is_ended(home: Home) -> None:
    """Then its socket is gone, and its status is 0."""
    with resident(home) as process:
        ready(home)
        assert [bool(one) for one in loop(lambda body: asked(home.socket, body)[1])] == [False, False, True, True]
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0
    assert not home.socket.exists()


def test_it_ends_when_nobody_asks(home: Home) -> None:
    """After the seconds that it is given."""
    with resident(home, "1") as process:
        assert process.wait(60) == 0
    assert not home.socket.exists()


def test_a_second_judge_leaves_the_first_alone(home: Home) -> None:
    """It says so, and ends."""
    with resident(home):
        ready(home)
        with resident(home) as second:
            assert second.wait(60) == 1
            assert second.stderr is not None
            assert "a judge serves" in second.stderr.read()
        assert asked(home.socket, b"{}") == (200, b"")


def test_the_socket_of_a_killed_judge_is_taken_over(home: Home) -> None:
    """It was not removed."""
    home.make()
    left = home.socket
    with subprocess.Popen(
        [sys.executable, "-c", f"import socket; socket.socket(socket.AF_UNIX).bind({str(left)!r})"]
    ) as process:
        assert process.wait(30) == 0
    assert left.exists()
    with resident(home):
        wait_until("the judge serves", lambda: _answers(left))


def _answers(path: Path) -> bool:
    try:
        return asked(path, b"{}")[0] == 200
    except OSError:
        return False
