"""The lists of frameworks on the pages, made from the facts in the frameworks' own files.

``python -m tests.docs.framework_tables`` writes them: the table of docs/frameworks.md, the oldest versions in
docs/reference/versions.md, and the first row of the README's table of agents.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from otel_loopguard.instrumentation.frameworks import FRAMEWORKS
from otel_loopguard.instrumentation.models import CLIENTS

if TYPE_CHECKING:
    from otel_loopguard.instrumentation.targets import Framework

ROOT = Path(__file__).resolve().parents[2]
SUPPORTED = [framework for framework in FRAMEWORKS if framework.versions]
IN_OTHERS = "mcp"
"""The framework whose calls are guarded in the runs of the others."""
PAGE, VERSIONS, README = "docs/frameworks.md", "docs/reference/versions.md", "README.md"


def page(text: str) -> str:
    """Return docs/frameworks.md with its table, in the order of the titles."""
    head = "| framework | from | its turns are | notes |\n| --- | --- | --- | --- |\n"
    before, found, rest = text.partition(head)
    assert found, "no table of frameworks"
    rows = [f"| {one.title} | {one.supported_from} | {one.turns} | {one.notes} |\n" for one in _sorted()]
    return before + head + "".join(rows) + "\n" + rest.partition("\n\n")[2]


def versions(text: str) -> str:
    """Return docs/reference/versions.md with the oldest and the newest tested version of each package."""
    known: dict[str, tuple[str, str]] = {}
    for one in (*CLIENTS, *_sorted()):  # a client before the runner of tools in it, which is newer
        oldest = dict(pin.split("==") for pin in one.versions["oldest"] if "==" in pin)
        known = {**{package: (oldest[package], tested) for package, tested in one.tested.items()}, **known}
    for package, (oldest, tested) in known.items():
        row = f"| `{package}` | {oldest} | {tested} |"
        text, count = re.subn(rf"^\| `{re.escape(package)}` \|.*$", row, text, flags=re.MULTILINE)
        if not count:
            text = text.replace("| `openai` |", f"{row}\n| `openai` |", 1)
    return text


def readme(text: str) -> str:
    """Return the README, in which the first row of the table of agents names each framework."""
    names = [one.title for one in _sorted() if one.name != IN_OTHERS]
    cell = f"{', '.join(names[:-1])} and {names[-1]}; MCP clients in them"
    changed, count = re.subn(
        r"(?<=\| --- \|\n\| )[^|]*(?= \| \[by itself\]\(docs/frameworks\.md\))", lambda _: cell, text
    )
    assert count == 1, "no row of frameworks"
    return changed


def _sorted() -> list[Framework]:
    return sorted(SUPPORTED, key=lambda one: (one.name == IN_OTHERS, one.title.lower()))


MAKERS = {PAGE: page, VERSIONS: versions, README: readme}


def main() -> None:
    """Write all of them."""
    for name, make in MAKERS.items():
        path = ROOT / name
        path.write_text(make(path.read_text("utf-8")), "utf-8")


if __name__ == "__main__":
    main()
