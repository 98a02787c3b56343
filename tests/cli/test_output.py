"""Nothing that a file, a model or a server wrote reaches the terminal as a control sequence."""

from __future__ import annotations

import json

import pytest

from otel_loopguard.cli.main import main

HOSTILE = "\x1b]0;title\x07\x9b2J\u202e\u200b\U000e0041\r"


def harmless(text):
    """True if the text has only characters that are shown, and line breaks."""
    return all(line.isprintable() for line in text.split("\n"))


def in_toml(text):
    """The text as a string of TOML, which takes no control character of ASCII as it is."""
    return '"' + "".join(one if one >= " " else f"\\u{ord(one):04x}" for one in text) + '"'


@pytest.fixture
def policy_file(tmp_path):
    path = tmp_path / f"loop{HOSTILE}.toml"
    path.write_text(f"[tools.{in_toml('read' + HOSTILE)}]\nvolatile = [{in_toml(HOSTILE)}]\n", "utf-8")
    return path


def test_a_policy_is_shown_without_control_characters(policy_file, capsys):
    """Keys, values and the name of the file; as JSON they are escaped, and keep their value."""
    assert main(["policy", "show", "--file", str(policy_file)]) == 0
    text = capsys.readouterr().out
    assert harmless(text)
    assert "\\u001b]0;title" in text
    assert main(["policy", "show", "--file", str(policy_file), "--json"]) == 0
    text = capsys.readouterr().out
    assert harmless(text)
    assert json.loads(text)[f'tools."read{HOSTILE}".volatile']["value"] == [HOSTILE]


def test_a_mistake_is_reported_without_control_characters(policy_file, capsys):
    """In its key, its value and the name of the file, and it is one line."""
    policy_file.write_text(f"{in_toml('key' + chr(10) + HOSTILE)} = {in_toml(HOSTILE)}\n", "utf-8")
    assert main(["policy", "check", str(policy_file)]) == 1
    text = capsys.readouterr().err
    assert harmless(text)
    assert len(text.splitlines()) == 1


@pytest.mark.parametrize("arguments", ["policy check", "replay", "replay --policy", "stack check"])
def test_a_file_that_cannot_be_read_is_named_without_control_characters(arguments, tmp_path, capsys):
    """In every command that takes one."""
    more = ["other"] if "--policy" in arguments else []
    assert main([*arguments.split(), str(tmp_path / HOSTILE / "none"), *more]) != 0
    text = "".join(capsys.readouterr())
    assert text
    assert harmless(text)


def test_the_lines_of_a_replay_are_json_without_control_characters(tmp_path, capfdbinary):
    """The id of a run is escaped, and keeps its value."""
    call = {"tool": "read", "args": {"path": "a"}, "result": "text"}
    run = {"run_id": HOSTILE, "turns": [{"calls": [call] * 4}]}
    (tmp_path / "runs.jsonl").write_text(json.dumps(run))
    assert main(["replay", str(tmp_path / "runs.jsonl"), "--json"]) == 0
    (line,) = capfdbinary.readouterr().out.decode().splitlines()
    assert harmless(line)
    assert json.loads(line)["run_id"] == HOSTILE
