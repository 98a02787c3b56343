"""Our hooks in the settings of each program: they come, they stay ours, and they go without a trace."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from typing import TYPE_CHECKING, Any

import pytest

from otel_loopguard.errors import LoopGuardError
from otel_loopguard.hooks import jsonc, registration
from otel_loopguard.hooks.home import Home
from otel_loopguard.hooks.judge import Judge
from otel_loopguard.hooks.programs import programs
from otel_loopguard.hooks.server import HookServer
from otel_loopguard.testing import guarded
from tests.hooks.test_server import loop, told

if TYPE_CHECKING:
    from pathlib import Path

    from otel_loopguard.hooks.programs.program import Program

REGISTERED = list(programs().values())
WITH_SETTINGS = [program for program in REGISTERED if not program.registration.whole]
"""Those whose hooks are in a file that others write to."""
EACH = pytest.mark.parametrize("program", WITH_SETTINGS, ids=lambda program: program.name)
OF_OURS = pytest.mark.parametrize(
    "program", [program for program in REGISTERED if program.registration.whole], ids=lambda program: program.name
)
MINE = b"""{
  // mine
  "hooks": {"PreToolUse": [{"hooks": [{"type": "command", "command": "lint"}]}]},
  "model": "opus"
}
"""


@pytest.fixture
def home(tmp_path: Path) -> Home:
    """The judge's folder."""
    return Home(tmp_path / "state")


def settings(program: Program, root: Path) -> Path:
    """The user's file of a program."""
    return root / program.registration.user


def install(program: Program, root: Path, home: Home) -> None:
    """Register the hooks."""
    registration.write(registration.installed(program, root, home, is_project=False), home)


def uninstall(program: Program, root: Path, home: Home) -> None:
    """Take them out."""
    registration.write(registration.uninstalled(program, root, home, is_project=False), home)


@EACH
def test_every_event_is_registered_once(program: Program, tmp_path: Path, home: Home) -> None:
    """Also if it is installed twice."""
    for _ in range(2):
        install(program, tmp_path, home)
    hooks = jsonc.parsed(settings(program, tmp_path).read_text()).plain["hooks"]
    assert hooks.keys() == {*program.registration.events, *program.registration.starts}
    assert {len(entries) for entries in hooks.values()} == {1}
    assert registration.is_installed(program, tmp_path, is_project=False)


@EACH
@pytest.mark.parametrize("before", [None, b"", b"{}", MINE, MINE.replace(b"\n", b"\r\n")])
def test_an_uninstall_leaves_the_file_as_it_was(
    program: Program, before: bytes | None, tmp_path: Path, home: Home
) -> None:
    """Byte for byte; a file that was not there is gone."""
    path = settings(program, tmp_path)
    path.parent.mkdir(parents=True)
    if before is not None:
        path.write_bytes(before)
    install(program, tmp_path, home)
    install(program, tmp_path, home)
    uninstall(program, tmp_path, home)
    assert (path.read_bytes() if path.exists() else None) == before


@EACH
def test_what_others_write_in_between_stays(program: Program, tmp_path: Path, home: Home) -> None:
    """Only our entries go."""
    path = settings(program, tmp_path)
    path.parent.mkdir(parents=True)
    path.write_bytes(MINE)
    install(program, tmp_path, home)
    path.write_text(path.read_text().replace('"opus"', '"sonnet"'))
    uninstall(program, tmp_path, home)
    assert jsonc.parsed(path.read_text()).plain == {**jsonc.parsed(MINE.decode()).plain, "model": "sonnet"}
    assert "// mine" in path.read_text()


@OF_OURS
def test_a_file_of_ours_comes_and_goes(program: Program, tmp_path: Path, home: Home) -> None:
    """It names the judge's socket, and is written again by a newer version."""
    path = settings(program, tmp_path)
    install(program, tmp_path, home)
    text = path.read_text()
    assert str(home.socket) in text
    assert registration.is_installed(program, tmp_path, is_project=False)
    path.write_text(text.replace(str(home.socket), "/old.sock"))
    install(program, tmp_path, home)
    assert path.read_text() == text
    uninstall(program, tmp_path, home)
    assert not path.exists()


@OF_OURS
def test_a_file_of_the_same_name_that_is_not_ours_stays(program: Program, tmp_path: Path, home: Home) -> None:
    """Neither command touches it."""
    path = settings(program, tmp_path)
    path.parent.mkdir(parents=True)
    path.write_bytes(MINE)
    with pytest.raises(LoopGuardError, match=r"is not ours\. It was left as it is"):
        install(program, tmp_path, home)
    uninstall(program, tmp_path, home)
    assert path.read_bytes() == MINE


def test_permissions_and_links_stay(tmp_path: Path, home: Home) -> None:
    """People keep their settings in a repository of their own."""
    program = programs()["claude-code"]
    path, real = settings(program, tmp_path), tmp_path / "dotfiles.json"
    path.parent.mkdir(parents=True)
    real.write_bytes(MINE)
    os.chmod(real, 0o640)
    path.symlink_to(real)
    install(program, tmp_path, home)
    assert path.is_symlink()
    assert real.stat().st_mode & 0o777 == 0o640
    uninstall(program, tmp_path, home)
    assert real.read_bytes() == MINE


@pytest.mark.parametrize("broken", [b"{", b"\xff\xfe{}", b'{"hooks": 7}', b'{"hooks": {"PreToolUse": {}}}', b"[]"])
def test_a_file_of_another_form_is_left_as_it_is(broken: bytes, tmp_path: Path, home: Home) -> None:
    """The message names it."""
    path = settings(programs()["claude-code"], tmp_path)
    path.parent.mkdir(parents=True)
    path.write_bytes(broken)
    with pytest.raises(LoopGuardError, match=r"settings\.json.* left as it is"):
        install(programs()["claude-code"], tmp_path, home)
    assert path.read_bytes() == broken


@pytest.fixture(params=["perl", "curl", "python"])
def client(request: Any, monkeypatch: pytest.MonkeyPatch) -> str:
    """What hooks ask with, of which the system has no other."""
    name = str(request.param)
    if name != "python" and shutil.which(name) is None:
        pytest.skip(f"{name} is not installed")
    monkeypatch.setattr(registration.shutil, "which", {name: f"/usr/bin/{name}"}.get)
    return name


def test_a_command_asks_the_judge(client: str, tmp_path: Path, home: Home) -> None:
    """The program runs it, and reads its output; a long result is taken, too."""
    program = programs()["codex"]
    install(program, tmp_path, home)
    found = registration.registered(program, tmp_path, is_project=False)
    assert client in found["PreToolUse"]

    def ask(body: bytes) -> bytes:
        event = "PreToolUse" if b"PreToolUse" in body else "PostToolUse"
        return subprocess.run(["sh", "-c", found[event]], input=body, capture_output=True, check=True).stdout

    home.make()
    with guarded() as recording:
        assert recording.runtime is not None
        server = HookServer(Judge(recording.runtime), home.socket, "token")
        server.start()
        try:
            assert [bool(one) for one in loop(ask)] == [False, False, True, True]
            assert ask(told(9, "PostToolUse", tool_response="a long result " * 20_000, tool_input={})) == b""
        finally:
            server.stop()
    assert recording.outcomes == ["executed", "nudged", "blocked", "blocked", "executed"]


@EACH
def test_a_judge_that_cannot_be_started_is_told_once_a_session(
    program: Program, tmp_path: Path, home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the programs that show it to their user; elsewhere it would be read by nobody, or by the model."""
    monkeypatch.setattr(registration, "STARTING", ["/nowhere/otel-loopguard"])
    install(program, tmp_path, home)
    found = registration.registered(program, tmp_path, is_project=False)
    said = []
    for event in program.registration.starts:
        done = subprocess.run(["sh", "-c", found[event]], input=b"{}", capture_output=True, check=True)
        said.append(done.stdout and json.loads(done.stdout)["systemMessage"])
    told = b"" if not program.registration.shows_messages else registration._NO_JUDGE
    assert said == [told, b""]


@EACH
def test_without_a_judge_a_hook_says_nothing(program: Program, client: str, tmp_path: Path, home: Home) -> None:
    """Its status is 0, so the call runs."""
    install(program, tmp_path, home)
    found = registration.registered(program, tmp_path, is_project=False)
    event = program.registration.events[0]
    done = subprocess.run(["sh", "-c", found[event]], input=b"{}", capture_output=True, check=True)
    assert (done.stdout, done.stderr) == (b"", b"")
