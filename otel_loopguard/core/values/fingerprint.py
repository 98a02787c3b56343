"""Keyed fingerprints of arguments, results and errors: 64 bits of BLAKE2b, held as integers.

Keyed, because a plain hash of ``{"ssn": ...}`` is reversed by a dictionary in seconds. The key is random per
process unless one is given, so fingerprints of two processes compare only where both were given the same key.
"""

from __future__ import annotations

import os
import re
from hashlib import blake2b
from typing import Any

from otel_loopguard.core.values import introspect
from otel_loopguard.core.values.canonical import canonical, result_bytes
from otel_loopguard.core.values.masking import IDS

_LONGEST_KEY = 64
_QUOTED = re.compile(r"\"[^\"\n]*\"|'[^'\n]*'|`[^`\n]*`")
_DIGITS = re.compile(r"\d+")
_LONGEST_ERROR = 4_096
_MOST_MASKED_ARGUMENTS = 32
_SHORTEST_TOLD_ANYWHERE = 3
"""A shorter argument is told only where it stands as a word of its own."""


class Fingerprinter:
    """Makes fingerprints under one key."""

    __slots__ = ("_keyed",)

    def __init__(self, key: bytes | None = None) -> None:
        key = key or os.urandom(16)
        self._keyed = blake2b(digest_size=8, key=key if len(key) <= _LONGEST_KEY else blake2b(key).digest())

    def of(self, data: bytes) -> int:
        """The fingerprint of bytes."""
        state = self._keyed.copy()
        state.update(data)
        return int.from_bytes(state.digest(), "big")

    def arguments(self, value: Any, *, loose: bool = True) -> int:
        """The fingerprint of a call's arguments; ``loose`` is for tools that do not write."""
        state = self._keyed.copy()
        state.update(canonical(value, loose=loose))
        return int.from_bytes(state.digest(), "big")

    def result(self, value: Any) -> int:
        """The fingerprint of a result, byte for byte."""
        return self.of(result_bytes(value))

    def error(self, error: BaseException | str) -> int:
        """The fingerprint of an error: its type and its text."""
        return self.of(result_bytes(error_text(error)))

    def error_shape(self, error: BaseException | str, arguments: Any) -> int:
        """The fingerprint of what is left of an error without digits, quoted text and the call's own arguments."""
        return self.of(result_bytes(error_shape(error_text(error), arguments)))


def error_text(error: BaseException | str) -> str:
    """Type and text of an error; an exception that cannot be printed is its type."""
    if type(error) is str:
        return error
    if not introspect.is_a(error, BaseException):
        return str.__str__(error) if introspect.is_a(error, str) else introspect.type_name(type(error))
    try:
        text = str(error)
    except Exception:  # noqa: BLE001 - the text of a foreign exception is foreign code; its type still tells
        text = ""
    return f"{type(error).__name__}: {text}"


def error_shape(text: str, arguments: Any) -> str:
    """The text with all that varies from call to call taken out."""
    text = text[:_LONGEST_ERROR]
    for value in sorted(_leaves(arguments), key=len, reverse=True)[:_MOST_MASKED_ARGUMENTS]:
        if len(value) >= _SHORTEST_TOLD_ANYWHERE:
            text = text.replace(value, "")
        elif value in text:
            text = re.sub(rf"(?<!\w){re.escape(value)}(?!\w)", "", text)
    if '"' in text or "'" in text or "`" in text:
        text = _QUOTED.sub("", text)
    bare_text = _without_digits(text)
    return bare_text if len(bare_text) == len(text) else _without_digits(IDS.sub("", text))  # an id has a digit


def _without_digits(text: str) -> str:
    return text.encode().translate(None, b"0123456789").decode() if text.isascii() else _DIGITS.sub("", text)


def _leaves(arguments: Any) -> set[str]:
    """The strings within arguments that an error may quote."""
    found: set[str] = set()
    pending = [arguments]
    while pending and len(found) < _MOST_MASKED_ARGUMENTS:
        item = introspect.as_builtin(pending.pop())
        if type(item) is str and item.strip() and len(item) <= _LONGEST_ERROR:
            found.add(item)
        elif type(item) is dict:
            pending.extend(list(item.values())[:_MOST_MASKED_ARGUMENTS])
        elif type(item) in (list, tuple):
            pending.extend(item[:_MOST_MASKED_ARGUMENTS])
    return found
