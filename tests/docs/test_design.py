"""The pages for developers name files and functions that are there."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = ("README.md", "CONTRIBUTING.md", "docs/design.md")
CODE = re.compile(r"`([^`\n]+)`")
PATH = re.compile(r"\.?\w[\w.-]*/[\w./*-]*")


def paths(page):
    """Everything between backticks that is written as a path within the repository."""
    return sorted({code for code in CODE.findall((ROOT / page).read_text("utf-8")) if PATH.fullmatch(code)})


@pytest.mark.parametrize("page", PAGES)
def test_every_path_on_a_page_exists(page):
    """A file or folder that is moved is moved on the page, too. Rooms are named from the package on."""
    roots = (ROOT, ROOT / "otel_loopguard")
    assert [path for path in paths(page) if not any(any(root.glob(path.rstrip("/"))) for root in roots)] == []


def test_pages_name_paths():
    """The search for paths finds some."""
    assert len(paths("docs/design.md")) > 30


def definitions(file):
    """The classes and functions of a file, methods as ``Class.method``."""
    for node in ast.parse((ROOT / file).read_text("utf-8")).body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name
            yield from (f"{node.name}.{one.name}" for one in ast.walk(node) if hasattr(one, "decorator_list"))


NOT_CODE = {"generic_repeat", "opentelemetry_instrumentor"}


def steps():
    """The rows of the ways of a call and of a request: the file, and the names in what happens there."""
    for line in (ROOT / "docs" / "design.md").read_text("utf-8").splitlines():
        if row := re.match(r"\| \d+ \| `(otel_loopguard/\S+\.py)` \| (.*) \|$", line):
            yield (
                row[1],
                [
                    name
                    for name in CODE.findall(row[2])
                    if re.fullmatch(r"[A-Z]\w*(\.\w+)?|[a-z]+(_[a-z]+)*", name) and name not in NOT_CODE
                ],
            )


def test_the_ways_of_a_call_and_of_a_request_name_what_is_there():
    """Each class or method in a step is defined in the file of that step, or is one of the core's value types."""
    found, shared = list(steps()), set(definitions("otel_loopguard/engine/vocabulary.py"))
    assert len(found) > 25
    assert [(file, name) for file, names in found for name in names if name not in {*definitions(file), *shared}] == []
