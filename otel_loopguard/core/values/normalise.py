"""Text as it is compared: JSON and Python literals as their objects, blanks folded."""

from __future__ import annotations

import ast
import re
from typing import Any

import orjson

LONGEST_NORMALISED = 65_536

_OPENING = ("[", "{", "(")
_WHITE = " \t\r\n"
_BLANKS = re.compile(r"[ \t]+")
_ALL_BLANKS = re.compile(r"[ \t\r\n]+")
_BAD_ESCAPE = re.compile(r"\\[^\\'\"abfnrtvxuUN0-7\n]")  # Python would print a warning of it
_LINE_BREAKS_FOLD = frozenset({"sql", "query"})


def parsed(text: str) -> Any:
    """The object that a text stands for, if it is JSON or a Python literal; else the text itself."""
    stripped = text.strip(_WHITE)
    if not stripped:
        return {}
    if stripped[0] not in "[{(" or len(stripped) > LONGEST_NORMALISED:
        return text
    try:
        return orjson.loads(stripped)
    except ValueError:
        return _literal(stripped, text)


def _literal(stripped: str, text: str) -> Any:
    if _BAD_ESCAPE.search(stripped):
        return text
    try:
        return ast.literal_eval(stripped)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return text


def utf8(text: str) -> bytes:
    """The bytes of a text, lone surrogates included."""
    try:
        return text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "surrogatepass")


def normalise_text(text: str, name: str) -> Any:
    """A text without what does not tell it apart; ``name`` is the parameter that it stands under."""
    if len(text) > LONGEST_NORMALISED:
        return text
    found = parsed(text) if text.lstrip(_WHITE)[:1] in _OPENING else text
    if not isinstance(found, str):
        return found
    if name in _LINE_BREAKS_FOLD:
        return _ALL_BLANKS.sub(" ", text).strip(" ")
    if "\n" in text:
        return text
    return _BLANKS.sub(" ", text).strip(" ")
