"""Normalise text for comparison: decode JSON and Python literals, fold blanks."""

from __future__ import annotations

import ast
import re
from typing import Any

import orjson

_LONGEST_NORMALISED = 65_536
_OPENING = ("[", "{", "(")
_BLANK_CHARACTERS = " \t\r\n"
_BLANKS = re.compile(r"[ \t]+")
_BLANKS_AND_LINE_BREAKS = re.compile(r"[ \t\r\n]+")
_BAD_ESCAPE = re.compile(r"\\[^\\'\"abfnrtvxuUN0-7\n]")  # Python would print a warning about it
_PARAMETERS_WITHOUT_LINES = frozenset({"sql", "query"})
"""Parameters whose line breaks are no content."""


def parse_literal(text: str) -> Any:
    """Decode a text that is JSON or a Python literal; return any other text as it is."""
    stripped = text.strip(_BLANK_CHARACTERS)
    if not stripped:
        return {}
    if stripped[0] not in _OPENING or len(stripped) > _LONGEST_NORMALISED:
        return text
    try:
        return orjson.loads(stripped)
    except ValueError:
        if _BAD_ESCAPE.search(stripped):
            return text
    try:
        return ast.literal_eval(stripped)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return text


def normalise_text(text: str, name: str) -> Any:
    """Decode a text, or fold its blanks where they are no content; ``name`` is the parameter that holds it."""
    if len(text) > _LONGEST_NORMALISED:
        return text
    found = parse_literal(text) if text.lstrip(_BLANK_CHARACTERS)[:1] in _OPENING else text
    if not isinstance(found, str):
        return found
    if name in _PARAMETERS_WITHOUT_LINES:
        return _BLANKS_AND_LINE_BREAKS.sub(" ", text).strip(" ")
    if "\n" in text:
        return text
    return _BLANKS.sub(" ", text).strip(" ")


def utf8(text: str) -> bytes:
    """Encode a text, lone surrogates included."""
    try:
        return text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "surrogatepass")
