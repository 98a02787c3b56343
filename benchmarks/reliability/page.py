"""Write docs/reliability.md, a section for each part."""

from __future__ import annotations

import platform
import re
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from benchmarks.markdown import table

if TYPE_CHECKING:
    from benchmarks.reliability.result import Row

PAGE = Path(__file__).parents[2] / "docs" / "reliability.md"
MARK = "<!-- The rest is written by python -m benchmarks.reliability --write -->\n"


class Part(NamedTuple):
    """One part of the campaign, measured."""

    title: str
    about: str
    command: str
    rows: list[Row]


def write(part: Part, titles: list[str]) -> None:
    """Replace the section of this part. The page has its sections in the order of the titles."""
    head, mark, rest = PAGE.read_text("utf-8").partition(MARK)
    sections = dict(re.findall(r"^## (.+?)\n(.*?)(?=^## |\Z)", rest, re.MULTILINE | re.DOTALL))
    sections[part.title] = section(part)
    text = "\n".join(f"## {title}\n{sections[title].rstrip()}\n" for title in titles if title in sections)
    PAGE.write_text(f"{head}{mark}\n{text}", "utf-8")


def section(part: Part) -> str:
    """Return a section as Markdown, without its title."""
    rows = [[row.label, f"{row.tried:,}", f"{row.broken:,}", row.note] for row in part.rows]
    versions = ", ".join(f"{name} {version(name)}" for name in ("opentelemetry-sdk", "wrapt"))
    measured = f"Measured by `{part.command}` with Python {platform.python_version()}, {versions}."
    return f"\n{part.about}\n\n{table(['attempt', 'tried', 'broken', 'note'], rows)}\n\n{measured}"
