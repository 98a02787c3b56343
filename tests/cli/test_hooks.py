"""``otel-loopguard hooks``, in an empty home."""

from __future__ import annotations

import http.client
import json
import subprocess
import sys
import tempfile
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest

from otel_loopguard.version import __version__
from tests.cli.processes import command
from tests.hooks.test_server import asked, loop, told
from tests.instrumentation.processes import clean_environment
from tests.stack.harness.process import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Hooks = Callable[..., subprocess.CompletedProcess[str]]

BEFORE_AND_AFTER = ("PreToolUse", "PostToolUse")


@pytest.fixture
def home() -> Iterator[Path]:
    """An empty home, whose path is short enough for a socket."""
    with tempfile.TemporaryDirectory(prefix="home-") as folder:
        yield Path(folder)


@pytest.fixture
def hooks(home: Path) -> Iterator[Hooks]:
    """Run a command of `hooks`."""
    environment = clean_environment({"HOME": str(home)})
    (home / "project").mkdir()

    def run(*arguments: str) -> Any:
        return command("hooks", *arguments, cwd=home / "project", env=environment)

    yield run
    run("stop")


def test_an_installed_hook_starts_the_judge_and_asks_it(hooks: Hooks, home: Path) -> None:
    """The commands in the program's settings are run as the program runs them."""
    done = hooks("install", "claude-code")
    assert (done.returncode, done.stderr) == (0, "")
    assert "claude-code: the user's settings" in hooks("status").stdout
    hooks("serve", "--background")
    socket = home / ".local/state/otel-loopguard/hooks/judge.sock"
    wait_until("the judge serves", socket.exists)
    answers = loop(lambda body: asked(socket, body, "/claude-code/x")[1])
    assert [bool(answer) for answer in answers] == [False, False, True, True]
    assert f"judge: {__version__} runs, process " in hooks("status").stdout
    assert hooks("stop").stdout == "the judge has ended\n"
    wait_until("the last line is written", lambda: "4 tool calls, 1 loop" in hooks("log").stdout)


def test_a_judge_goes_on_where_the_one_before_was(hooks: Hooks, home: Path) -> None:
    """The calls before its end count: the third equal one is refused, and no value is in the file between them."""
    folder = home / ".local/state/otel-loopguard/hooks"
    socket, answers = folder / "judge.sock", []
    for number in range(3):
        hooks("serve", "--background")
        wait_until("the judge serves", socket.exists)
        answers.append(asked(socket, told(number, "PreToolUse"))[1])
        if not answers[-1]:
            asked(socket, told(number, "PostToolUse", tool_response="the text SECRET"))
        hooks("stop")
        assert "SECRET" not in (folder / "turns.json").read_text()
        assert (folder / "turns.json").stat().st_mode & 0o777 == 0o600
    assert [bool(answer) for answer in answers] == [False, False, True]


OLDER = """
import sys, otel_loopguard.version as version
version.__version__ = "0.0.1"
from otel_loopguard.hooks import resident
from otel_loopguard.testing import guarded
sys.argv = ["resident"]
with guarded():
    resident.main()
"""


def test_a_newer_judge_takes_over(hooks: Hooks, home: Path) -> None:
    """From an older one only, which ends."""
    hooks("install", "claude-code")
    environment = clean_environment({"HOME": str(home)})
    with subprocess.Popen([sys.executable, "-c", OLDER], env=environment) as older:
        wait_until("the older judge serves", lambda: "judge: 0.0.1 runs" in hooks("status").stdout)
        hooks("serve", "--background")
        assert older.wait(30) == 0
    wait_until("the newer judge serves", lambda: f"judge: {__version__} runs" in hooks("status").stdout)
    before = hooks("status").stdout
    hooks("serve", "--background")
    assert hooks("status").stdout == before


def test_the_policy_is_that_of_the_installation(home: Path) -> None:
    """The session that starts the judge may be one of a repository that sets the environment of its hooks."""
    environment = clean_environment({"HOME": str(home), "OTEL_PYTHON_LOOPGUARD_ACTION": "nudge"})
    command("hooks", "install", "claude-code", cwd=home, env=environment)
    command("hooks", "serve", "--background", cwd=home, env=environment | {"OTEL_PYTHON_LOOPGUARD_ACTION": "off"})
    socket = home / ".local/state/otel-loopguard/hooks/judge.sock"
    wait_until("the judge serves", socket.exists)
    told_after = [asked(socket, told(at, name, tool_response="x"))[1] for at in range(2) for name in BEFORE_AND_AFTER]
    command("hooks", "stop", cwd=home, env=environment)
    assert [b"additionalContext" in answer for answer in told_after] == [False, False, False, True]


def test_a_hook_without_a_judge_starts_one(hooks: Hooks, home: Path) -> None:
    """Its command says nothing, and ends well: the program goes on."""
    hooks("install", "claude-code")
    entry = json.loads((home / ".claude/settings.json").read_text())["hooks"]["SessionStart"][0]["hooks"][0]
    environment = clean_environment({"HOME": str(home)})
    done = subprocess.run(
        ["sh", "-c", entry["command"]], input=b"{}", env=environment, capture_output=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    wait_until("the judge serves", lambda: " runs, process " in hooks("status").stdout)


def test_hooks_by_http_ask_the_port_of_the_judge(hooks: Hooks, home: Path) -> None:
    """Their address has a secret, so it is for the user's settings only."""
    assert "the user's settings" in hooks("install", "claude-code", "--http", "--project").stderr
    hooks("install", "claude-code", "--http")
    hooks("serve", "--background")
    found = json.loads((home / ".claude/settings.json").read_text())["hooks"]
    address = urlsplit(found["PreToolUse"][0]["hooks"][0]["url"])
    wait_until("the judge serves", lambda: " runs, process " in hooks("status").stdout)

    def ask(body: bytes) -> bytes:
        with closing(http.client.HTTPConnection(address.netloc, timeout=30)) as connection:
            connection.request("POST", address.path, body)
            return connection.getresponse().read()

    assert [bool(answer) for answer in loop(ask)] == [False, False, True, True]
    hooks("uninstall", "claude-code")
    assert not (home / ".claude/settings.json").exists()


def test_only_what_no_answer_ends_is_interrupted(hooks: Hooks, home: Path) -> None:
    """The hook's command tells the judge which program it belongs to."""
    assert "Claude Code is ended by an answer" in hooks("install", "claude-code", "--interrupt").stderr
    hooks("install", "codex", "--interrupt")
    assert "?interrupt=$PPID" in (home / ".codex/hooks.json").read_text()


def test_a_dry_run_shows_the_change_and_writes_nothing(hooks: Hooks, home: Path) -> None:
    """As a diff."""
    done = hooks("install", "gemini", "--dry-run")
    assert '+    "BeforeTool": [' in done.stdout
    assert not (home / ".gemini").exists()


def test_a_dry_run_of_hooks_by_http_makes_no_secret(hooks: Hooks, home: Path) -> None:
    """It shows words in place of the port and the token."""
    assert (
        "http://127.0.0.1:PORT/TOKEN/claude-code/PreToolUse"
        in hooks("install", "claude-code", "--http", "--dry-run").stdout
    )
    assert not (home / ".local").exists()


def test_a_judge_in_a_terminal_needs_the_other_to_be_stopped(hooks: Hooks) -> None:
    """The remedy is named."""
    hooks("serve", "--background")
    assert "Remedy: otel-loopguard hooks stop" in hooks("serve").stderr


def test_a_judge_that_ends_at_its_start_is_told(hooks: Hooks, home: Path) -> None:
    """Its reason is in the log."""
    (home / ".local/state/otel-loopguard/hooks/judge.sock").mkdir(parents=True)
    (home / ".local/state/otel-loopguard/hooks").chmod(0o700)
    done = hooks("serve", "--background")
    assert (done.returncode, "the judge has ended at its start" in done.stderr) == (2, True)
    assert "IsADirectoryError" in hooks("log").stdout


def test_settings_that_cannot_be_read_are_named(hooks: Hooks, home: Path) -> None:
    """A full disk may have cut them."""
    hooks("install", "claude-code")
    settings = home / ".local/state/otel-loopguard/hooks/settings.json"
    settings.write_text("{")
    assert "settings.json is no JSON. Remedy: otel-loopguard hooks install" in hooks("serve", "--background").stderr


def test_a_project_has_settings_of_its_own(hooks: Hooks, home: Path) -> None:
    """They are written below the folder in which the command runs."""
    hooks("install", "codex", "--project")
    assert json.loads((home / "project/.codex/hooks.json").read_text())["hooks"]
    assert "codex: this project's settings" in hooks("status").stdout
    hooks("uninstall", "codex", "--project")
    assert "codex: not installed" in hooks("status").stdout


def test_what_the_user_still_has_to_do_is_said(hooks: Hooks) -> None:
    """Codex runs no hook that nobody has looked at."""
    assert "trust the hooks once" in hooks("install", "codex").stdout


def test_a_file_that_cannot_be_changed_is_named(hooks: Hooks, home: Path) -> None:
    """In one line, with status 2."""
    (home / ".claude").mkdir()
    (home / ".claude/settings.json").write_text("{")
    done = hooks("install", "claude-code")
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "settings.json: line 1 is no JSON. It was left as it is" in done.stderr


def test_nothing_runs_and_nothing_was_said(hooks: Hooks) -> None:
    """Each command says so."""
    assert hooks("stop").stdout == "no judge runs\n"
    assert hooks("log").stdout == "there is no log: no judge has run in the background\n"
    assert "judge: does not run" in hooks("status").stdout
