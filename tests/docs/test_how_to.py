"""The tutorial and the how-tos: every block of them runs, and the policies in them have no mistakes.

The agents on the pages are complete programs. Their model is a server on this machine, which is stuck.
"""

from __future__ import annotations

import tempfile
from importlib.util import find_spec

import pytest

from otel_loopguard.policy_files.load import load_text
from tests.docs.blocks import DOCS, blocks, run_page
from tests.models.scripts import Looping, call
from tests.models.server import Server
from tests.store import servers

NEEDS = {
    "langgraph": "langchain_openai", "openai-agents": "agents", "pydantic-ai": "pydantic_ai", "mcp": "mcp",
    "openai": "openai", "anthropic": "anthropic", "google-genai": "google.genai", "litellm": "litellm",
    "deploy": "celery", "gateway": "litellm_proxy_extras", "tell-how-it-ended": "agents",
}  # fmt: skip
"""Pages that need a package. The environment `how-tos` of the matrix has all of them; `tests/gateway` runs its own."""
PROGRAMS = {"shared-store": "redis-server"}
"""Pages that need a program. CI installs it."""
PAGES = ["tutorial", *sorted(f"how-to/{file.stem}" for file in DOCS.glob("how-to/*.md"))]


def installed(module):
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:  # a package around it is missing
        return False


@pytest.fixture
def model(monkeypatch):
    """The address of a model that makes one call again and again, where each client looks for it."""
    script = Looping(call("search_orders", customer="ada"), rounds=1000, answer="There is no order.")
    with Server(script).running() as server:
        for name in ("OPENAI_BASE_URL", "ANTHROPIC_BASE_URL", "GOOGLE_GEMINI_BASE_URL"):
            monkeypatch.setenv(name, f"{server.url}/v1" if name.startswith("OPENAI") else server.url)
        for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY"):
            monkeypatch.setenv(name, "local")
        # These two ask other servers when they start and end.
        monkeypatch.setenv("OPENAI_AGENTS_DISABLE_TRACING", "true")
        monkeypatch.setenv("LITELLM_LOCAL_MODEL_COST_MAP", "true")
        yield
    assert server.rejected == []


@pytest.mark.parametrize("name", PAGES)
def test_what_the_page_shows_is_what_happens(name, model, tmp_path, monkeypatch, capfd):
    """Each command prints the output on the page, and each piece of code runs, with the files that the page shows."""
    needed = NEEDS.get(name.rpartition("/")[2], "otel_loopguard")
    if not installed(needed):
        pytest.skip(f"{needed} is not installed; the matrix runs this page where it is")
    if name.rpartition("/")[2] in PROGRAMS:
        servers.need(PROGRAMS[name.rpartition("/")[2]])
    monkeypatch.chdir(tmp_path)
    with tempfile.TemporaryDirectory(prefix="home-") as home:  # short enough for a socket
        monkeypatch.setenv("HOME", home)
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
