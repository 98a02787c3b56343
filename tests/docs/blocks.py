"""Run the blocks of a page: files are written, Python is executed, and commands print the output of the page.

A block after ``<!-- file: NAME -->`` is written to a file of that name. A comment that begins with ``<!-- before`` is
code for what readers have in their own program. It is executed before the next block of Python, in the same namespace.
"""

from __future__ import annotations

import doctest
import os
import re
import shlex
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import otel_loopguard
from otel_loopguard.cli.main import main
from tests.instrumentation.processes import NOTHING_EXPORTED, clean_environment

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
BLOCK = re.compile(
    r"(?:<!-- file: (?P<file>\S+) -->\n)?^```(?P<kind>[a-z ]+)\n(?P<text>.*?)^```$|"
    r"^<!-- before\n(?P<before>.*?)^-->$",
    re.MULTILINE | re.DOTALL,
)


def page(name):
    return (DOCS / f"{name}.md").read_text("utf-8")


def blocks(name, kind):
    return [found for found in BLOCK.finditer(page(name)) if found["kind"] == kind]


def run_page(name, folder, capfd):
    """Run each block in turn, in this folder, in which ``examples`` is that of the repository."""
    (folder / "examples").symlink_to(ROOT / "examples")
    space = {}
    try:
        for found in BLOCK.finditer(page(name)):
            if found["before"]:
                exec(compile(found["before"], name, "exec"), space)
            elif found["file"]:
                (folder / found["file"]).write_text(found["text"])
            elif found["kind"] == "console":
                run_commands(found["text"], capfd)
            elif found["kind"] == "sh":
                run_shell(found["text"])
            elif found["kind"] == "python":
                exec(compile(found["text"], name, "exec"), space)
                space = {}
    finally:
        otel_loopguard.uninstrument()


def run_commands(text, capfd):
    checker, flags = doctest.OutputChecker(), doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    for command, expected in re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", text, re.MULTILINE):
        printed = output(command, capfd)
        if expected.endswith("...\n"):
            printed += "(end)"  # a last line of dots stands for all that follows, also for nothing
        assert checker.check_output(expected.replace("<BLANKLINE>", ""), printed, flags), f"{command}\n{printed}"


def output(command, capfd):
    """Standard output and error of a command: ours in this process, any other with the programs of this environment."""
    words = shlex.split(command)
    if words[0] == "otel-loopguard" and "--" not in words:
        main(words[1:])
        return "".join(capfd.readouterr())
    environment = clean_environment({**NOTHING_EXPORTED, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"})
    environment["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{environment['PATH']}"
    while re.fullmatch(r"[A-Z_]+=.*", words[0]):
        name, _, value = words.pop(0).partition("=")
        environment[name] = value
    if words[0] == "pytest":
        words[1:1] = ["-p", "loopguard"]  # other packages' plugins print lines of their own
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=120, env=environment)
    return done.stdout + done.stderr


def run_shell(text):
    """Run a script, but install nothing: each package that a page installs has to be one that is installed here."""
    for line in re.findall(r"^pip install (.*)$", text, re.MULTILINE):
        assert all(version(re.sub(r"\[.*", "", name)) for name in shlex.split(line))
    script = re.sub(r"^pip install .*$", "", text, flags=re.MULTILINE)
    subprocess.run(["sh", "-eu", "-c", script], check=True, timeout=120)
