"""``otel-loopguard hooks doctor``: the hooks of each program, as they are registered in an empty home."""

from __future__ import annotations

import json
import os
import re
import shlex
from typing import TYPE_CHECKING

import pytest

from otel_loopguard import semconv
from otel_loopguard.hooks.programs import programs
from otel_loopguard.version import __version__
from tests.cli.processes import command
from tests.cli.test_hooks import home, hooks
from tests.instrumentation.processes import clean_environment
from tests.stack.harness.process import wait_until
from tests.telemetry.otlp import receiver

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cli.test_hooks import Hooks

__all__ = ["home", "hooks"]

COUNTERS = (
    semconv.METRIC_TRIPS, semconv.METRIC_TOOL_CALLS, semconv.METRIC_TURNS_ENDED, semconv.METRIC_TURNS_TRIPPED,
    semconv.METRIC_INTERNAL_ERRORS,
)  # fmt: skip
FOLDER = ".local/state/otel-loopguard/hooks"
REFUSED = "a call that repeats itself is refused at the 3rd time"


def codes(text: str) -> set[str]:
    """The findings, but for the time of a hook: the machine may be busy."""
    return set(re.findall(r"^(?:problem|NOT KNOWN|warning|note): .* \[(\S+)\]$", text, re.MULTILINE)) - {"hook-slow"}


@pytest.mark.parametrize("name", sorted(programs()))
def test_the_hooks_of_each_program_start_a_judge_and_refuse_a_loop(hooks: Hooks, home: Path, name: str) -> None:
    """The registered commands are run, in the form of the program. The file, the client, the version are named."""
    hooks("install", name)
    done = hooks("doctor")
    program = programs()[name]
    assert (done.returncode, done.stderr) == (0, "")
    assert f"{program.title}: {home / program.registration.user}\n" in done.stdout
    assert REFUSED in done.stdout
    assert f"judge: {__version__} runs, process " in done.stdout
    assert f"policy of {home / FOLDER / 'settings.json'}\n" in done.stdout
    assert codes(done.stdout) == {"codex": {"hooks-to-do"}, "opencode": {"plugin-not-run"}}.get(name, set())
    assert done.stdout.endswith("The hooks work here, and a call that repeats itself is refused.\n")


def test_a_hook_by_http_is_asked_at_its_url(hooks: Hooks) -> None:
    """The judge is started by a command, as the program does it."""
    hooks("install", "claude-code", "--http")
    done = hooks("doctor", "claude-code")
    assert (done.returncode, codes(done.stdout)) == (0, set())
    assert re.search(rf"asked by HTTP: [\d.]+ ms a hook; {REFUSED}", done.stdout)


def test_the_judge_leaves_no_trace_of_sample_calls(home: Path) -> None:
    """No span, no metric, no turn and no line, and the next session of the program begins as ever."""
    with receiver() as collector:
        more = {**collector.environment, "OTEL_SERVICE_NAME": "agents", "HOME": str(home)}
        environment = clean_environment(more)
        command("hooks", "install", "codex", "--interrupt", cwd=home, env=environment)
        assert REFUSED in command("hooks", "doctor", cwd=home, env=environment).stdout
        command("hooks", "stop", cwd=home, env=environment)
        log = home / FOLDER / "judge.log"
        wait_until("the last line is written", lambda: "no tool call was seen" in log.read_text())
        assert len(log.read_text().splitlines()) == 1
        assert collector.spans == []
        counted = [collector.points(name) for name in COUNTERS]
        assert counted[0]  # the judge exports, and begins at zero
        assert [one for points in counted for one in points if one["value"]] == []
    assert json.loads((home / FOLDER / "turns.json").read_text()) == []


def test_a_signal_is_not_sent_for_a_sample_call(home: Path) -> None:
    """A policy may end the run at once; the doctor is what runs the hook."""
    limit = home / "policy.toml"
    limit.write_text('action = "abort"\n[modes.generic_repeat]\nabort = 3\n')
    environment = clean_environment({"HOME": str(home)})
    command("hooks", "install", "codex", "--interrupt", "--policy", str(limit), cwd=home, env=environment)
    done = command("hooks", "doctor", cwd=home, env=environment)
    command("hooks", "stop", cwd=home, env=environment)
    assert done.returncode == 0
    assert REFUSED in done.stdout


@pytest.mark.parametrize("action", ["observe", "nudge", "off"])
def test_a_policy_that_refuses_nothing_is_told(home: Path, action: str) -> None:
    """The policy is that of the installation. Off is a problem, the others are a warning."""
    environment = clean_environment({"HOME": str(home)})
    of_user = {**environment, "OTEL_PYTHON_LOOPGUARD_ACTION": action}
    command("hooks", "install", "gemini", cwd=home, env=of_user)
    done = command("hooks", "doctor", cwd=home, env=environment)
    command("hooks", "stop", cwd=home, env=environment)
    assert codes(done.stdout) == {"action-off" if action == "off" else "only-observing"}
    assert "a call that repeats itself runs" in done.stdout
    assert done.returncode == (action == "off")


def test_a_judge_with_another_policy_is_found(hooks: Hooks, home: Path) -> None:
    """It keeps that of its start."""
    hooks("install", "codex")
    hooks("serve", "--background")
    limit = home / "policy.toml"
    limit.write_text("[modes.generic_repeat]\nblock = 5\n")
    hooks("install", "codex", "--policy", str(limit))
    done = hooks("doctor", "codex")
    assert (done.returncode, codes(done.stdout)) == (0, {"hook-differs", "hooks-to-do"})
    assert "the 3rd was refused, and by the policy it is the 5th" in done.stdout
    hooks("stop")
    assert codes(hooks("doctor", "codex").stdout) == {"hooks-to-do"}


def test_no_hooks_are_no_answer(hooks: Hooks, home: Path) -> None:
    """Status 1, and nothing is written. A program that is named has to have them."""
    done = hooks("doctor")
    assert (done.returncode, codes(done.stdout)) == (1, {"hooks-missing"})
    assert "NOT KNOWN: Our hooks are not in the settings of any program" in done.stdout
    assert not (home / ".local").exists()
    hooks("install", "gemini")
    done = hooks("doctor", "gemini", "qwen")
    assert (done.returncode, "problem: Our hooks are not in the settings of Qwen Code" in done.stdout) == (1, True)
    assert hooks("doctor", "cursor").returncode == 2


def changed(path: Path, old: str, new: str) -> None:
    """Write a file with another text."""
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def test_a_hook_that_reaches_no_judge_has_its_reason(hooks: Hooks, home: Path) -> None:
    """Its command says nothing by itself: here the client is gone."""
    hooks("install", "claude-code")
    settings = home / ".claude/settings.json"
    asking = shlex.split(json.loads(settings.read_text())["hooks"]["PreToolUse"][0]["hooks"][0]["command"])[0]
    changed(settings, f'"command": "{asking} ', '"command": "/nowhere/perl ')
    hooks("serve", "--background")
    done = hooks("doctor")
    assert (done.returncode, codes(done.stdout)) == (1, {"hook-silent"})
    assert "/nowhere/perl: not found)" in done.stdout or "/nowhere/perl: No such file" in done.stdout


def test_hooks_of_another_version_are_a_problem(hooks: Hooks, home: Path) -> None:
    """An event is missing in the settings, or the plugin is another."""
    hooks("install", "claude-code")
    hooks("install", "opencode")
    changed(home / ".claude/settings.json", '"PostToolBatch"', '"PostToolBatches"')
    changed(home / ".config/opencode/plugin/otel-loopguard.js", "LoopGuard", "LoopGuarding")
    done = hooks("doctor")
    assert (done.returncode, codes(done.stdout)) == (1, {"hooks-incomplete", "hook-differs", "plugin-not-run"})
    assert "settings.json has not all hooks of this version (PostToolBatch)." in done.stdout
    assert "otel-loopguard.js has not all hooks of this version (its plugin is of another version)." in done.stdout


def test_hooks_in_two_places_are_told(hooks: Hooks) -> None:
    """Each is asked about the same call."""
    hooks("install", "qwen")
    hooks("install", "qwen", "--project")
    done = hooks("doctor")
    assert (done.returncode, codes(done.stdout)) == (0, {"hooks-twice"})
    assert done.stdout.count(REFUSED) == 2


def test_a_judge_that_cannot_start_is_a_problem(hooks: Hooks, home: Path) -> None:
    """As where the Python of the installation is gone: every call runs."""
    hooks("install", "codex")
    changed(home / ".codex/hooks.json", "hooks serve", "hooks served")
    done = hooks("doctor")
    assert (done.returncode, codes(done.stdout)) == (1, {"judge-silent", "hooks-to-do"})


def test_a_folder_that_others_may_open_is_a_problem(hooks: Hooks, home: Path) -> None:
    """The judge does not start in it, and the remedy is named."""
    hooks("install", "codex")
    os.chmod(home / FOLDER, 0o755)
    done = hooks("doctor")
    assert (done.returncode, codes(done.stdout)) == (1, {"hooks-folder"})
    assert f"Remedy: chmod 700 {home / FOLDER}" in done.stdout


def test_settings_that_are_no_json_are_a_problem(hooks: Hooks, home: Path) -> None:
    """Those of the other programs are examined all the same."""
    hooks("install", "claude-code")
    hooks("install", "gemini")
    (home / ".claude/settings.json").write_text("{ // otel-loopguard hook")
    done = hooks("doctor")
    assert (done.returncode, codes(done.stdout)) == (1, {"hooks-unreadable"})
    assert REFUSED in done.stdout
