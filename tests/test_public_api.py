"""The public names, as a list. A change of the names needs a change of this file."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

import otel_loopguard
from otel_loopguard import gateway, report, semconv, testing

ROOT = Path(__file__).resolve().parents[1]

NAMES = {
    otel_loopguard: [
        "Action", "Decision", "Detector", "EndedTurn", "Guard", "Hints", "History", "Kind", "Ledger", "LoopGuardError",
        "Mode", "NotStoredError", "Outcome", "Policy", "PolicyError", "Record", "Rule", "RunBudgetError", "RunStopped",
        "Setting", "ToolCall", "ToolContract", "ToolLoopError", "Trip", "Turn", "UserMessage", "__version__", "attach",
        "call", "current_turn", "instrument", "last_turn", "load_policy", "say", "tool", "turn", "uninstrument",
    ],
    testing: [
        "SCENARIOS", "Ask", "Driver", "Recording", "Scenario", "ScriptedAgent", "ScriptedCall", "SeenTrip", "Toolbox",
        "Transcript", "assert_no_trip", "assert_stopped", "assert_trips", "guarded",
    ],
    report: ["DECISIONS", "Call", "Report", "ReportError", "Run", "Spent", "decision", "write"],
}  # fmt: skip
MODULES = ("otel_loopguard", "otel_loopguard.report", "otel_loopguard.semconv", "otel_loopguard.testing")
"""``semconv`` is public as a whole: its names are those of attributes and metrics."""


@pytest.mark.parametrize("module", NAMES, ids=lambda module: module.__name__)
def test_the_public_names_are_these(module):
    """``__all__`` is the list, and each name is there."""
    assert sorted(module.__all__) == sorted(NAMES[module])
    assert [name for name in module.__all__ if not hasattr(module, name)] == []


@pytest.mark.parametrize("module", [*NAMES, gateway], ids=lambda module: module.__name__)
def test_dir_shows_the_public_names_only(module):
    """Completion at a prompt or in a notebook offers them before any is imported, and nothing else."""
    assert dir(module) == sorted(module.__all__)


def test_dir_shows_the_names_of_attributes_and_metrics_only():
    """Each of them is a text."""
    assert {type(getattr(semconv, name)) for name in dir(semconv)} <= {str, frozenset, tuple}
    assert "ACTION" in dir(semconv)


def sources():
    """Every piece of Python that users are shown: the examples, and the code blocks of all pages."""
    for path in sorted(ROOT.glob("examples/*.py")):
        yield path.name, path.read_text("utf-8")
    for path in [ROOT / "README.md", *sorted(ROOT.glob("docs/**/*.md"))]:
        for block in re.findall(r"^```python\n(.*?)^```", path.read_text("utf-8"), re.MULTILINE | re.DOTALL):
            yield path.name, block


def imported(source):
    """The modules of this package that a source imports; ``from otel_loopguard import x`` counts as the package."""
    for node in ast.walk(ast.parse(source)):
        names = [one.name for one in node.names] if isinstance(node, ast.Import) else []
        names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
        yield from (name for name in names if name.split(".")[0] == "otel_loopguard")


def test_docs_and_examples_import_only_what_is_public():
    """A page that imports a private module would make it public."""
    found = [(name, module) for name, source in sources() for module in imported(source)]
    assert len(found) > 5
    assert [(name, module) for name, module in found if module not in MODULES] == []


def test_docs_and_examples_use_only_public_names():
    """Each name that they import from the package is in its list."""
    names = [
        (where, one.name)
        for where, source in sources()
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.ImportFrom) and node.module == "otel_loopguard"
        for one in node.names
    ]
    assert [(where, name) for where, name in names if name not in {*NAMES[otel_loopguard], "report", "semconv"}] == []
