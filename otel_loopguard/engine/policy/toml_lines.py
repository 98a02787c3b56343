"""Find the line of each key in a TOML text. The standard library's parser does not report it."""

from __future__ import annotations

import re
import sys

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib  # type: ignore[import-not-found,unused-ignore]  # only there on Python 3.10

_PART = r"""(?:"(?:\\.|[^"\\])*"|'[^']*'|[A-Za-z0-9_-]+)"""
_KEY = rf"{_PART}(?:\s*\.\s*{_PART})*"
_HEADER = re.compile(rf"\s*\[\[?\s*({_KEY})\s*\]")
_ASSIGNMENT = re.compile(rf"\s*({_KEY})\s*=")
_PARTS = re.compile(_PART)
_DEEPEST = 8
"""No setting has a longer path."""
_LONG_STRING = re.compile(r'"""|' + "'''")

Path = tuple[str, ...]


def lines_of(text: str) -> dict[Path, int]:
    """Map the path of every key and table to its line, from 1. Keys in an inline table have the line of its key."""
    found: dict[Path, int] = {}
    table: Path = ()
    quotes: str | None = None
    for number, line in enumerate(text.splitlines(), 1):
        if quotes is None:
            header, assignment = _HEADER.match(line), _ASSIGNMENT.match(line)
            if header is not None:
                table = _split_path(header.group(1))
                found.setdefault(table, number)
            elif assignment is not None:
                path = (*table, *_split_path(assignment.group(1)))
                for length in range(len(table) + 1, min(len(path), _DEEPEST) + 1):
                    found.setdefault(path[:length], number)
        quotes = _open_string(line, quotes)
    return found


def line_of(path: Path, lines: dict[Path, int]) -> int | None:
    """Return the line of a key, or of the nearest table around it; None if there is neither."""
    while path:
        if path in lines:
            return lines[path]
        path = path[:-1]
    return None


def _open_string(line: str, quotes: str | None) -> str | None:
    """Return the quotes of the string that continues in the next line; None if there is none."""
    for found in _LONG_STRING.findall(line):
        if quotes is None:
            quotes = found
        elif quotes == found:
            quotes = None
    return quotes


def _split_path(dotted: str) -> Path:
    return tuple(_unquote(part) for part in _PARTS.findall(dotted))


def _unquote(part: str) -> str:
    if part[0] not in "\"'":
        return part
    try:
        text: str = tomllib.loads(f"key = {part}")["key"]
    except tomllib.TOMLDecodeError:
        return part.strip("\"'")  # the parser has reported this mistake already
    return text
