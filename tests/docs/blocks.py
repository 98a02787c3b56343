"""Run the blocks of a page: files are written, Python is executed, and commands print the output of the page.

A block after ``<!-- file: NAME -->`` is written to a file of that name. A comment that begins with ``<!-- before`` is
code for what readers have in their own program. It is executed before the next block of Python, in the same namespace.
"""

from __future__ import annotations

import doctest
import os
import re
import shlex
import signal
import subprocess
import sys
from contextlib import suppress
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
    """Run each block in turn, in this folder. Every page has ``app.py``, the program of the tutorial."""
    (folder / "app.py").write_text(next(found["text"] for found in blocks("tutorial", "python") if found["file"]))
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
    """The output of a command, as in a terminal. Ours run in this process, others from this environment."""
    words = shlex.split(command)
    if words[0] == "otel-loopguard" and "--" not in words and words[1] != "run":
        main(words[1:])
        return "".join(capfd.readouterr())
    environment = environment_of_reader()
    while re.fullmatch(r"[A-Z_]+=.*", words[0]):
        name, _, value = words.pop(0).partition("=")
        environment[name] = value
    if words[0] == "pytest":
        words[1:1] = ["-p", "loopguard"]  # other packages' plugins print lines of their own
    both = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    return subprocess.run(words, **both, text=True, check=False, timeout=120, env=environment).stdout


def environment_of_reader():
    """Variables that a reader has: the programs of this environment on the path, and no collector."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    more = {"PATH": path, "PYTHONUNBUFFERED": "1", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    return clean_environment({**NOTHING_EXPORTED, **more})


def run_shell(text):
    """Run a script, but install nothing: each package that a page installs has to be one that is installed here.

    Programs that it starts in the background are ended with it.
    """
    for line in re.findall(r"^pip install (.*)$", text, re.MULTILINE):
        assert all(version(re.sub(r"\[.*|git\+.*/", "", name)) for name in shlex.split(line))
    script = re.sub(r"^pip install .*$", "", text, flags=re.MULTILINE)
    if not script.strip():
        return
    process = subprocess.Popen(["sh", "-eu", "-c", script], env=environment_of_reader(), start_new_session=True)
    try:
        assert process.wait(120) == 0, script
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
