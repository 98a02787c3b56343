"""The README: its commands run, and its picture of a terminal shows what the commands print today."""

from __future__ import annotations

from importlib.util import find_spec

import pytest

from tests.docs.blocks import BLOCK, ROOT, run_shell
from tests.docs.terminal_picture import PICTURE, draw, text_of

pytestmark = pytest.mark.skipif(find_spec("langgraph") is None, reason="the program of the README is a LangGraph agent")

README = (ROOT / "README.md").read_text("utf-8")
SCRIPTS = [
    found["text"] for found in BLOCK.finditer(README) if found["kind"] == "sh" and "make test" not in found["text"]
]
WORKING = f"""
import runpy, sys

sys.argv.append("--working")
runpy.run_path({str(ROOT / "examples/langgraph_agent.py")!r}, run_name="__main__")
"""


def test_every_command_of_the_readme_works(tmp_path, monkeypatch):
    """Each block of commands runs as it is, one after the other, with an agent that works as app.py."""
    assert len(SCRIPTS) == 3
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "1")  # there is no collector
    monkeypatch.setenv("OTEL_BSP_EXPORT_TIMEOUT", "1000")
    (tmp_path / "app.py").write_text(WORKING)
    for script in SCRIPTS:
        run_shell(script)
    assert {"runs.jsonl", "mine.toml", "loopguard-watch.html"} <= {file.name for file in tmp_path.iterdir()}


def test_the_terminal_in_the_picture_is_that_of_today():
    """The picture has the letters that its commands print. To draw it again: python -m tests.docs.terminal_picture."""
    assert text_of(PICTURE.read_text("utf-8")) == text_of(draw())
