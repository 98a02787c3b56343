"""Every command explains itself, quickly, and wrong use of the whole is a line."""

from __future__ import annotations

import argparse
import subprocess
import sys
from importlib import import_module

import pytest

from otel_loopguard.cli.main import COMMANDS

from .processes import command, environment


def test_the_whole_names_each_command():
    """`--help` has each command with what it is for."""
    done = command("--help")
    assert done.returncode == 0
    text = " ".join(done.stdout.split())
    assert [one.name for one in COMMANDS if f"{one.name} {one.help}" not in text] == []


@pytest.mark.parametrize("name", [one.name for one in COMMANDS])
def test_each_command_explains_itself(name):
    """`COMMAND --help` describes the command and each option, without a traceback."""
    done = command(name, "--help")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(f"usage: otel-loopguard {name}")
    assert len(done.stdout) > 300


@pytest.mark.parametrize("name", [one.name for one in COMMANDS])
def test_help_is_complete(name, monkeypatch):
    """Each command and sub-command describes each argument, and the exit statuses, in 80 columns."""
    monkeypatch.setenv("COLUMNS", "80")
    parser = argparse.ArgumentParser(prog=name)
    import_module(f"otel_loopguard.cli.{next(one.module for one in COMMANDS if one.name == name)}").configure(parser)
    inner = [one for one in parser._actions if isinstance(one, argparse._SubParsersAction)]
    for one in inner[0].choices.values() if inner else [parser]:
        assert [action.dest for action in one._actions if not action.help] == []
        assert one.description
        assert "Exit status: " in one.format_help()
        assert max(map(len, one.format_help().splitlines())) <= 80


@pytest.mark.parametrize("name", ["demo", "doctor"])
def test_help_needs_nothing_heavy(name):
    """The SDK and the frameworks are imported only when something is really done."""
    code = (
        "import sys\n"
        "from otel_loopguard.cli.main import main\n"
        f"try: main(['{name}', '--help'])\n"
        "except SystemExit: pass\n"
        "heavy = {'opentelemetry.sdk', 'langchain', 'langgraph', 'wrapt', 'grpc'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    done = subprocess.run([sys.executable, "-c", code], env=environment(), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_without_a_command_it_shows_the_help():
    """Who types the name alone sees the commands, and three examples to copy."""
    done = command()
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == command("--help").stdout
    assert done.stdout.partition("examples:\n")[2].count("  otel-loopguard ") == 3


def test_wrong_use_of_the_whole():
    """A command that is none: a line and status 2."""
    done = command("nosuch")
    assert (done.returncode, done.stdout) == (2, "")
    assert "nosuch" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("arguments", "usage", "near"),
    [
        (("dotcor",), "usage: otel-loopguard [-h] ", "; did you mean doctor?"),
        (("demo", "--sotry", "x"), "usage: otel-loopguard demo ", "--sotry x; did you mean --story?"),
        (("doctor", "--hlep"), "usage: otel-loopguard doctor ", "--hlep; did you mean --help?"),
        (("policy", "show", "--jsno"), "usage: otel-loopguard policy show ", "--jsno; did you mean --json?"),
    ],
)
def test_a_misspelt_word_has_the_nearest_one_and_the_usage_of_its_command(arguments, usage, near):
    """The usage is that of the command which does not know the option."""
    done = command(*arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(usage)
    assert near in done.stderr


def test_help_imports_no_command():
    """The list of commands imports none of them."""
    code = "import sys; from otel_loopguard.cli.main import main\ntry: main(['--help'])\nexcept SystemExit: pass\n"
    code += "found = {name for name in sys.modules if 'loopguard.cli.' in name}\n"
    code += "assert found == {'otel_loopguard.cli.main', 'otel_loopguard.cli.output'}, found"
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)
