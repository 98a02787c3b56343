"""On which line of a TOML text a key stands. The standard library's parser does not say."""

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
_LONG_STRING = re.compile(r'"""|' + "'''")

Path = tuple[str, ...]


def lines_of(text: str) -> dict[Path, int]:
    """The line of every key and table. What stands within an inline table has the line of that table's key."""
    found: dict[Path, int] = {}
    table: Path = ()
    within: str | None = None
    for number, line in enumerate(text.splitlines(), 1):
        if within is None:
            header, assignment = _HEADER.match(line), _ASSIGNMENT.match(line)
            if header is not None:
                table = _path(header.group(1))
                found.setdefault(table, number)
            elif assignment is not None:
                path = (*table, *_path(assignment.group(1)))
                for length in range(len(table) + 1, len(path) + 1):
                    found.setdefault(path[:length], number)
        within = _still_within(line, within)
    return found


def line_of(path: Path, lines: dict[Path, int]) -> int | None:
    """The line of a key, or of what it stands in."""
    while path:
        if path in lines:
            return lines[path]
        path = path[:-1]
    return None


def _still_within(line: str, within: str | None) -> str | None:
    """The quotes of the string that goes on in the next line, if one does."""
    for quotes in _LONG_STRING.findall(line):
        if within is None:
            within = quotes
        elif within == quotes:
            within = None
    return within


def _path(dotted: str) -> Path:
    return tuple(_unquoted(part) for part in _PARTS.findall(dotted))


def _unquoted(part: str) -> str:
    if part[0] not in "\"'":
        return part
    try:
        text: str = tomllib.loads(f"key = {part}")["key"]
    except tomllib.TOMLDecodeError:
        return part.strip("\"'")  # the parser has said what is wrong with it already
    return text
