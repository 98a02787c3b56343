"""The folder of the judge."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from typing import TYPE_CHECKING

import pytest

from otel_loopguard.errors import LoopGuardError
from otel_loopguard.hooks.home import Home
from otel_loopguard.version import __version__

if TYPE_CHECKING:
    from collections.abc import Iterator

HOLDS = """
import sys
from pathlib import Path
from otel_loopguard.hooks.home import Home
print(Home(Path(sys.argv[1])).hold(), flush=True)
sys.stdin.read()
"""
CLAIMS = HOLDS.replace("hold()", 'claim("s1") is not None')


@pytest.fixture
def home() -> Iterator[Home]:
    """A folder of its own, whose path is short enough for a socket."""
    with tempfile.TemporaryDirectory(prefix="home-") as folder:
        made = Home.of({"XDG_STATE_HOME": folder})
        made.make()
        yield made


def test_a_folder_of_others_is_refused(home: Home) -> None:
    """Whoever can write to it could put a socket of his own there."""
    os.chmod(home.folder, 0o755)
    with pytest.raises(LoopGuardError, match="may be opened by others"):
        home.make()


def test_a_path_that_is_too_long_for_a_socket_is_refused() -> None:
    """The remedy is named."""
    with tempfile.TemporaryDirectory() as folder, pytest.raises(LoopGuardError, match="XDG_STATE_HOME to a shorter"):
        Home.of({"XDG_STATE_HOME": f"{folder}/{'x' * 100}"}).make()


def test_a_secret_is_made_once(home: Home) -> None:
    """Every process has the same, which only the user may read."""
    home.make()
    assert home.secret("token") == home.secret("token") != home.secret("key")
    assert (home.folder / "token").stat().st_mode & 0o777 == 0o600
    assert sorted(one.name for one in home.folder.iterdir()) == ["key", "token"]


def test_one_process_is_the_judge_until_it_is_gone(home: Home) -> None:
    """Also if it is killed: nobody has to clean up."""
    assert home.running is None
    command = [sys.executable, "-c", HOLDS, str(home.folder)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as judge:
        assert judge.stdout is not None
        assert judge.stdout.readline() == "True\n"
        assert home.running == (judge.pid, __version__)
        assert not home.hold()
        judge.kill()
    assert home.running is None
    assert home.hold()


def test_the_port_for_hooks_by_http_stays(home: Home) -> None:
    """It stands in the settings of a program."""
    assert home.port is None
    assert home.http_address() == home.http_address() == f"{home.port}/{home.secret('token')}"


def test_a_session_is_claimed_until_the_process_is_gone(home: Home) -> None:
    """The resident judge leaves it alone; another session, and this one later, it judges."""
    assert Home(home.folder / "none").claim("s1") is None  # no hooks are installed there
    assert not home.is_claimed("s1")
    command = [sys.executable, "-c", CLAIMS, str(home.folder)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as program:
        assert program.stdout is not None
        assert program.stdout.readline() == "True\n"
        assert (home.is_claimed("s1"), home.is_claimed("s2")) == (True, False)
        program.kill()
    assert not home.is_claimed("s1")
    release = home.claim("s1")
    assert release is not None
    release()
    assert list((home.folder / "claimed").iterdir()) == []
