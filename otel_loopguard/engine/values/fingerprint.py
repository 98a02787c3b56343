"""Keyed fingerprints of arguments, results and errors: 64 bits of BLAKE2b as an integer.

They are keyed, because a dictionary attack reverses a plain hash of ``{"ssn": ...}`` in seconds. Without a given key,
each process has a random one, so that the fingerprints of two processes differ.
"""

from __future__ import annotations

import os
import re
from hashlib import blake2b
from itertools import islice
from typing import Any

from otel_loopguard.engine.values import fast_json, introspect
from otel_loopguard.engine.values.canonical import canonical, result_bytes
from otel_loopguard.engine.values.hashing import MOST_AT_ONCE, feed
from otel_loopguard.engine.values.masking import IDS
from otel_loopguard.engine.values.normalise import utf8
from otel_loopguard.engine.values.walker import is_larger
from otel_loopguard.interrupts import pass_interrupt

_LONGEST_KEY = 64
_QUOTED = re.compile(r"\"[^\"\n]*\"|'[^'\n]*'|`[^`\n]*`")
_DIGITS = re.compile(r"\d+")
_WORD = re.compile(r"\w+")
_EXIT_WORDS = frozenset(
    {
        "a", "an", "and", "calledprocesserror", "code", "command", "ended", "error", "execution", "exit", "exited",
        "failed", "finished", "non", "nonzero", "process", "program", "return", "returned", "runtimeerror", "script",
        "shell", "status", "terminated", "the", "tool", "was", "with", "zero",
    }
)  # fmt: skip
_LONGEST_ERROR = 4_096
_LARGEST_PRINTED = 50_000
"""Bytes. An exception whose arguments are larger is not printed by Python, which would take too long."""
_MOST_MASKED_ARGUMENTS = 32
_MOST_SEARCHED = 1_024
_SHORTEST_SUBSTRING = 3
"""Letters. A shorter argument is removed from an error only where it is a whole word."""


class Fingerprinter:
    """Makes fingerprints under one key; None is a random key."""

    __slots__ = ("_keyed",)

    def __init__(self, key: bytes | None = None) -> None:
        key = key or os.urandom(16)
        self._keyed = blake2b(digest_size=8, key=key if len(key) <= _LONGEST_KEY else blake2b(key).digest())

    def of(self, data: bytes) -> int:
        """Return the fingerprint of bytes, an integer of 64 bits."""
        state = self._keyed.copy()
        if len(data) > MOST_AT_ONCE:  # checked here, too: nearly all data is short, and each call passes here twice
            feed(state, data)
        else:
            state.update(data)
        return int.from_bytes(state.digest(), "big")

    def mark(self) -> int:
        """Return a number by which this key can be told from others. Nothing else can be learnt from it."""
        return self.of(b"\x02hash key")

    def name(self, text: str) -> str:
        """Return the fingerprint of a name as 32 hexadecimal digits: for names that are shared and live long."""
        data = utf8(text)
        first, second = self.of(b"\x00" + data), self.of(b"\x01" + data)
        return f"{first:016x}{second:016x}"

    def arguments(self, value: Any, *, fold_blanks: bool = True) -> int:
        """Fingerprint a call's arguments. ``fold_blanks`` as in ``canonical``: False for a tool that writes."""
        return self.of(canonical(value, fold_blanks=fold_blanks))

    def result(self, value: Any) -> int:
        """Fingerprint a result, byte for byte."""
        return self.of(result_bytes(value))

    def error(self, error: BaseException | str) -> int:
        """Fingerprint an error: its type and its text."""
        return self.of(result_bytes(error_text(error)))

    def error_shape(self, error: BaseException | str, arguments: Any) -> int:
        """Fingerprint an error without digits, quoted text and the call's own arguments; 0 for a bare exit code."""
        shape = error_shape(error_text(error), arguments)
        return 0 if _is_exit_code(shape) else self.of(result_bytes(shape))


def error_text(error: BaseException | str) -> str:
    """Return type and text of an error; only the type of an exception that cannot be printed."""
    if type(error) is str:
        return error
    if not introspect.is_a(error, BaseException):
        return str.__str__(error) if introspect.is_a(error, str) else introspect.type_name(type(error))
    if introspect.definer(type(error), "__str__") in _PRINTERS:
        arguments = BaseException.args.__get__(error)  # type: ignore[attr-defined]  # a C descriptor
        if _prints_much(arguments):
            return f"{type(error).__name__}: {result_bytes(arguments).decode('utf-8', 'replace')}"
    try:
        text = str(error)
    except BaseException as fault:  # noqa: BLE001 - foreign code makes the text of a foreign exception; its type is enough
        pass_interrupt(fault)
        text = ""
    return f"{type(error).__name__}: {text}"


def _prints_much(arguments: tuple[Any, ...]) -> bool:
    """Return True if Python would take long to print the arguments of an exception, with all the parts they share."""
    if len(arguments) == 1 and type(arguments[0]) is str:
        return False  # the text is the argument
    try:
        return len(fast_json.dumps(arguments)) > _LARGEST_PRINTED
    except (TypeError, ValueError, RecursionError) as error:
        pass_interrupt(error)
        return is_larger(arguments, _LARGEST_PRINTED)


_PRINTERS = frozenset({BaseException, KeyError, OSError, ImportError})
"""The classes whose ``__str__`` prints all arguments of an exception."""


def error_shape(text: str, arguments: Any) -> str:
    """Remove everything from the text that varies from call to call."""
    text = text[:_LONGEST_ERROR]
    words = []
    for value in leaves(arguments):
        if len(value) >= _SHORTEST_SUBSTRING:
            text = text.replace(value, "")
        elif value in text:
            words.append(re.escape(value))
    if words:
        text = re.sub(rf"(?<!\w)(?:{'|'.join(words)})(?!\w)", "", text)
    if '"' in text or "'" in text or "`" in text:
        text = _QUOTED.sub("", text)
    without_digits = _without_digits(text)
    if len(without_digits) == len(text):  # no digit, and therefore no id
        return text
    return _without_digits(IDS.sub("", text))


def _is_exit_code(shape: str) -> bool:
    """Return True if an error gives an exit code and no reason: two such errors may have nothing in common."""
    lower = shape.lower()
    return ("exit" in lower or "return" in lower) and _EXIT_WORDS.issuperset(_WORD.findall(lower))


def _without_digits(text: str) -> str:
    return text.encode().translate(None, b"0123456789").decode() if text.isascii() else _DIGITS.sub("", text)


def leaves(arguments: Any) -> list[str]:
    """Return the strings within arguments that an answer may repeat, up to 32, the longest first."""
    found: set[str] = set()
    pending, searched = [arguments], 0
    while pending and len(found) < _MOST_MASKED_ARGUMENTS and searched < _MOST_SEARCHED:
        searched += 1
        item = introspect.as_builtin(pending.pop())
        if type(item) is str and len(item) <= _LONGEST_ERROR and item.strip():
            found.add(item)
        elif type(item) is dict:
            pending.extend(islice(item.values(), _MOST_MASKED_ARGUMENTS))
        elif type(item) in (list, tuple):
            pending.extend(item[:_MOST_MASKED_ARGUMENTS])
    return sorted(found, key=len, reverse=True)
