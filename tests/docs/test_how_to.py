"""The tutorial and the how-tos: every block of them runs, and the policies in them have no mistakes."""

from __future__ import annotations

from importlib.util import find_spec

import pytest

from otel_loopguard.core.policy.load import load_text
from tests.docs.blocks import DOCS, blocks, run_page

NEEDS = {"langgraph": "langgraph", "openai-agents": "agents", "pydantic-ai": "pydantic_ai", "mcp": "mcp",
         "model-clients": "openai"}  # fmt: skip
"""Pages on a framework, which run in the environments of the matrix that have it."""
PAGES = ["tutorial", *sorted(f"how-to/{file.stem}" for file in DOCS.glob("how-to/*.md"))]


@pytest.mark.parametrize("name", PAGES)
def test_what_the_page_shows_is_what_happens(name, tmp_path, monkeypatch, capfd):
    """Each command prints the output on the page, and each piece of code runs, with the files that the page shows."""
    needed = NEEDS.get(name.rpartition("/")[2], "otel_loopguard")
    if find_spec(needed) is None:
        pytest.skip(f"{needed} is not installed; the matrix runs this page where it is")
    monkeypatch.chdir(tmp_path)
    run_page(name, tmp_path, capfd)


@pytest.mark.parametrize("name", PAGES)
def test_policies_in_the_page_have_no_mistakes(name):
    """Each policy shown loads."""
    for found in blocks(name, "toml"):
        assert load_text(found["text"]).problems == ()


def test_no_block_is_left_out():
    """A block of another kind would be shown and never run. Texts that are no program have the kind ``text``."""
    kinds = {line[3:].strip() for name in PAGES for line in (DOCS / f"{name}.md").read_text("utf-8").splitlines()
             if line.startswith("```") and line != "```"}  # fmt: skip
    assert kinds <= {"python", "console", "sh", "toml", "text"}
