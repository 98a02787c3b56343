"""The rules of CONTRIBUTING.md that can be counted, counted."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "otel_loopguard"
FILES = sorted(PACKAGE.rglob("*.py"))


def named(path: Path) -> str:
    return path.relative_to(PACKAGE).as_posix()


@cache
def tree(path: Path) -> ast.Module:
    """The syntax tree of a file, whose nodes know their parents."""
    module = ast.parse(path.read_text("utf-8"))
    for node in ast.walk(module):
        for child in ast.iter_child_nodes(node):
            child.parent = node
    return module


def parents(node):
    while (node := getattr(node, "parent", None)) is not None:
        yield node


def importers(package: str) -> set[str]:
    """The files that import a package when they run, not only for type checking."""
    found = set()
    for path in FILES:
        for node in ast.walk(tree(path)):
            names = [one.name for one in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            typing = any(isinstance(one, ast.If) and "TYPE_CHECKING" in ast.unparse(one.test) for one in parents(node))
            if not typing and any(f"{name}.".startswith(f"{package}.") for name in names):
                found.add(named(path))
    return found


def test_one_file_of_the_guard_imports_the_sdk():
    """A program without the SDK is guarded, too. The demo and the testing kit make providers, so they import it."""
    guard = {name for name in importers("opentelemetry.sdk") if not name.startswith(("cli/demo/", "testing/"))}
    assert guard == {"telemetry/processor.py"}


def test_one_file_imports_wrapt():
    """All patches are made, and undone, in one place."""
    assert importers("wrapt") == {"instrumentation/patching.py"}
