"""The README: its commands run, its picture and its badges are true, and it stays short."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.docs.blocks import BLOCK, ROOT, run_shell
from tests.docs.loop_picture import PICTURE, draw
from tests.instrumentation.processes import clean_environment

needs_langgraph = pytest.mark.skipif(
    find_spec("langgraph") is None, reason="the program of the README is a LangGraph agent"
)
README = (ROOT / "README.md").read_text("utf-8")
INSTALL, *SCRIPTS = [found["text"] for found in BLOCK.finditer(README) if found["kind"] == "sh"]
ADDRESS = "https://github.com/otel-loopguard/otel-loopguard"
WORKING = f"""
import runpy, sys

sys.argv.append("--working")
runpy.run_path({str(ROOT / "examples/langgraph_agent.py")!r}, run_name="__main__")
"""
STUCK = """
import otel_loopguard as loopguard

@loopguard.tool
def read_file(path):
    print("the tool ran")
    return "retries: 3"

with loopguard.turn():
    for _ in range(5):
        read_file("config.yaml")
"""


def test_the_first_block_installs_and_guards(tmp_path):
    """In a fresh environment the block is typed as it is. Its address leads to this clone, as Git can be told."""
    subprocess.run(["uv", "venv", "-q", "--seed", "--python", sys.executable, tmp_path / "venv"], check=True)
    (tmp_path / "app.py").write_text(STUCK)
    repository = {"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": f"url.{ROOT}.insteadOf", "GIT_CONFIG_VALUE_0": ADDRESS}
    environment = clean_environment(repository)
    environment["PATH"] = f"{tmp_path / 'venv' / 'bin'}{os.pathsep}{environment['PATH']}"
    environment.pop("PYTHONPATH", None)
    done = subprocess.run(
        ["sh", "-eu", "-c", INSTALL], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("the tool ran") == 2


@needs_langgraph
def test_every_other_command_of_the_readme_works(tmp_path, monkeypatch):
    """Each block of commands runs as it is, one after the other, with an agent that works as app.py."""
    scripts = [script for script in SCRIPTS if not script.startswith("make ")]
    assert len(scripts) == 1
    monkeypatch.chdir(tmp_path)
    (tmp_path / "app.py").write_text(WORKING)
    for script in scripts:
        run_shell(script)
    assert {"runs.jsonl", "mine.toml", "loopguard-watch.html"} <= {file.name for file in tmp_path.iterdir()}


@needs_langgraph
def test_the_picture_is_that_of_today():
    """Its numbers and its answer are those of two runs. To draw it again: python -m tests.docs.loop_picture."""
    assert PICTURE.read_text("utf-8") == draw()


def test_it_is_read_in_five_minutes():
    """The README has at most 900 words, and at most 250 before its first picture of Grafana."""
    words = re.sub(r"\]\([^)]*\)", "]", README)
    assert len(words.split()) <= 900
    assert len(words.partition("![The overview")[0].split()) <= 250


def test_its_badges_are_true():
    """The workflow is there; Pythons and license are those of pyproject.toml."""
    facts = (ROOT / "pyproject.toml").read_text("utf-8")
    pythons = re.findall(r"Python :: (3\.\d+)", facts)
    (workflow,) = set(re.findall(r"actions/workflows/([\w.]+)", README))
    assert (ROOT / ".github" / "workflows" / workflow).exists()
    assert f"[![Python {pythons[0]} to {pythons[-1]}](" in README
    assert f"badge/Python-{pythons[0]}_to_{pythons[-1]}-" in README
    assert 'license = "Apache-2.0"' in facts
    assert "[![license Apache-2.0](" in README


def test_each_make_target_is_there():
    """What the README tells to type, the Makefile has."""
    targets = set(re.findall(r"^(\w+):", Path(ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
    assert {*re.findall(r"make (\w+)", README)} - {"targets"} <= targets
