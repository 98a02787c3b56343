"""The command ``otel-loopguard policy``."""

from __future__ import annotations

import json

import pytest

from otel_loopguard.cli.main import main
from otel_loopguard.policy_files.load import preset_names


def test_check_names_every_mistake(tmp_path, capsys):
    """Each mistake is a line with its place; the exit status is 1."""
    path = tmp_path / "loop.toml"
    path.write_text('action = "blok"\n[tools.x]\ncap = -1\n')
    assert main(["policy", "check", str(path)]) == 1
    first, second = capsys.readouterr().err.splitlines()
    assert first.startswith(f"{path}, line 1: action = 'blok'")
    assert second.startswith(f"{path}, line 3: tools.x.cap = -1")


def test_check_of_a_file_that_is_not_there(tmp_path, capsys):
    """The exit status is 2, as of each command that cannot read its file."""
    assert main(["policy", "check", str(tmp_path / "nosuch.toml")]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err == (
        f"otel-loopguard: {tmp_path}/nosuch.toml: the policy file cannot be read: No such file or directory\n"
    )


def test_check_of_a_right_file(tmp_path, capsys):
    """A file without mistakes is reported as correct; the exit status is 0."""
    (tmp_path / "loop.toml").write_text('action = "nudge"\n')
    assert main(["policy", "check", str(tmp_path / "loop.toml")]) == 0
    assert "no mistakes, 1 setting\n" in capsys.readouterr().out


def test_show_tells_where_each_value_comes_from(tmp_path, capsys):
    """Value and origin: default, preset, line of the file; and the order of precedence."""
    path = tmp_path / "loop.toml"
    path.write_text('preset = "chat_turn"\n[tools.read_file]\ncap = 9\n')
    assert main(["policy", "show", "--file", str(path)]) == 0
    out = capsys.readouterr().out
    assert "default < declared in code (@loopguard.tool) < preset < policy file < environment" in out
    rows = {
        line.split(" = ")[0].strip(): line.partition(" = ")[2].split("  #")
        for line in out.splitlines()
        if " = " in line
    }
    told = {name: (value.strip(), origin.strip()) for name, (value, origin) in rows.items()}
    assert told["tools.read_file.cap"] == ("9", f"{path}, line 3")
    assert told["tools.write_file.cap"] == ("2", "preset chat_turn")
    assert told["max_calls"] == ("0", "default")
    assert told["modes.error_repeat.block"] == ("10", "default")


def test_show_as_json(capsys):
    """`--json` prints the value and origin of each setting for programs."""
    assert main(["policy", "show", "--preset", "typed_window", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["window"] == {"value": 60.0, "from": "preset typed_window"}
    assert found["modes.cycle.max_period"] == {"value": 8, "from": "default"}


def test_show_the_environments(monkeypatch, capsys):
    """Without arguments it is the policy that a program started here would have, and its mistakes."""
    monkeypatch.setenv("OTEL_PYTHON_LOOPGUARD_ACTION", "observe")
    monkeypatch.setenv("OTEL_PYTHON_LOOPGUARD_HASH_KEY", "SECRET")
    assert main(["policy", "show"]) == 0
    out = capsys.readouterr().out
    assert '"observe"' in out
    assert "# OTEL_PYTHON_LOOPGUARD_ACTION" in out
    assert "SECRET" not in out
    monkeypatch.setenv("OTEL_PYTHON_LOOPGUARD_PRESET", "nothing")
    assert main(["policy", "show"]) == 1
    assert "no such preset" in capsys.readouterr().err


@pytest.mark.parametrize("name", preset_names())
def test_every_preset_can_be_shown(name, capsys):
    """No preset holds a value that cannot be written down."""
    assert main(["policy", "show", "--preset", name]) == 0
    assert main(["policy", "show", "--preset", name, "--json"]) == 0
    assert capsys.readouterr().out


@pytest.mark.parametrize("arguments", [["--preset", "no"], ["--file", "/there/is/none"]])
def test_what_is_not_there(arguments, capsys):
    """A preset or file that does not exist is an error with the exit status 2."""
    assert main(["policy", "show", *arguments]) == 2
    assert capsys.readouterr().err.startswith("otel-loopguard: ")
