"""Normalise text for comparison: decode JSON and Python literals, fold blanks.

Texts beyond the bounds stay as they are: they may differ from a text that means the same, and never equal another one.
"""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING, Any

import orjson

from otel_loopguard.interrupts import pass_interrupt

if TYPE_CHECKING:
    from collections.abc import Callable

LONGEST_NORMALISED = 65_536
"""The most letters in all texts of a value that are normalised."""
_MOST_IN_LITERALS = 256
"""The most marks (commas, brackets, signs) in all Python literals of a value: each takes Python 10 microseconds."""
_MARKS = ",:([{+-"
_MOST_DECODED = 128
"""The most texts of a value that are tried as JSON or a Python literal."""
_OPENING = ("[", "{", "(")
_BLANK_CHARACTERS = " \t\r\n"
_BLANKS = re.compile(r"[ \t]+")
_BLANKS_AND_LINE_BREAKS = re.compile(r"[ \t\r\n]+")
_BAD_ESCAPE = re.compile(r"\\[^\\'\"abfnrtvxuUN0-7\n]")  # Python would print a warning about it
PARAMETERS_WITHOUT_LINES = frozenset({"sql", "query"})
"""Parameters whose line breaks are no content."""


class Normaliser:
    """Normalises the texts of one value, until the bounds of this file are reached."""

    __slots__ = ("_decoded", "_from_json", "_letters", "_marks")

    def __init__(self, from_json: Callable[[Any], Any] | None = None) -> None:
        """``from_json`` converts each value that is decoded from JSON."""
        self._letters, self._marks, self._decoded = LONGEST_NORMALISED, _MOST_IN_LITERALS, _MOST_DECODED
        self._from_json = from_json

    def text(self, text: str, name: str) -> Any:
        """Decode a text, or fold its blanks where they are no content; ``name`` is the parameter that holds it."""
        if len(text) > self._letters:
            return text
        self._letters -= len(text)
        found = self.literal(text) if text.lstrip(_BLANK_CHARACTERS)[:1] in _OPENING else text
        if not isinstance(found, str):
            return found
        if name in PARAMETERS_WITHOUT_LINES:
            return _BLANKS_AND_LINE_BREAKS.sub(" ", text).strip(" ")
        if "\n" in text:
            return text
        return _BLANKS.sub(" ", text).strip(" ")

    def literal(self, text: str) -> Any:
        """Decode a text that is JSON or a Python literal; a blank one is ``{}``. Return any other text as it is."""
        if len(text) > LONGEST_NORMALISED or not self._decoded:
            return text
        stripped = text.strip(_BLANK_CHARACTERS)
        if not stripped:
            return {}
        if stripped[0] not in _OPENING:
            return text
        self._decoded -= 1
        try:
            found = orjson.loads(stripped)
            return found if self._from_json is None else self._from_json(found)
        except ValueError as error:
            pass_interrupt(error)
            self._marks -= sum(map(stripped.count, _MARKS))
            if self._marks < 0 or _BAD_ESCAPE.search(stripped):
                return text
        try:
            return ast.literal_eval(stripped)
        except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError) as error:
            pass_interrupt(error)
            return text


def utf8(text: str) -> bytes:
    """Encode a text, lone surrogates included."""
    try:
        return text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "surrogatepass")
