"""Tables in Markdown, for the pages."""

from __future__ import annotations

from typing import Any


def share(part: int, whole: int) -> str:
    """Format a count, the whole, and the percentage."""
    return f"{part} of {whole} ({part / whole:.1%})" if whole else f"{part} of {whole}"


def table(head: list[str], rows: list[list[Any]]) -> str:
    """A table in Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in lines)
