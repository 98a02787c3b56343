"""Compare the answers of different calls of one tool: without ids, and without the parts that repeat the arguments.

"No file matches 'a.py'" and "No file matches 'b.py'" are one answer. Masking ids takes ten times as long as the rest
of a call, so each answer gets a cheap *outline* first. Only if the outlines of two answers in a row are equal, the
second gets a fingerprint. Texts of arguments are looked for, but not numbers, nor a text that JSON writes with escapes.
"""

from __future__ import annotations

import re
from itertools import islice
from typing import TYPE_CHECKING, Any

from otel_loopguard.engine.values.fingerprint import leaves
from otel_loopguard.engine.values.masking import masked_views
from otel_loopguard.engine.values.normalise import utf8

if TYPE_CHECKING:
    from otel_loopguard.engine.values.fingerprint import Fingerprinter

_PART = 512
_LETTERS = 64
_LONGEST_END = 32_768
"""Bytes of each end of a longer answer in which the arguments are searched for; the middle is hashed as it is."""
_MOST_ARGUMENTS = 64
_LONGEST_NUMBER = 20
_HEXADECIMAL = b"0123456789abcdefABCDEF"
_PLACES = frozenset({
    "page", "offset", "skip", "cursor", "start", "from", "page_number", "pageNumber", "startIndex", "start_index",
})  # fmt: skip
"""Arguments that say where a list is read from; many answers repeat them."""
_SHORTEST = 3
"""Letters. A shorter argument is removed only where it is a whole word."""


def answer_outline(data: bytes, arguments: Any, fingerprinter: Fingerprinter) -> int:
    """Return the outline of an answer, a number: two answers with different outlines count as different.

    It is made of the first and last letters, and the length of a short answer, without digits, letters of hexadecimal
    numbers, and arguments.
    """
    whole = len(data) <= 2 * _PART
    letters = data if whole else data[:_PART] + data[-_PART:]
    if type(arguments) is dict:
        for value in islice(arguments.values(), _MOST_ARGUMENTS):
            if type(value) is str and _SHORTEST <= len(value) <= 2 * _PART:
                letters = letters.replace(value.encode() if value.isascii() else utf8(value), b"")
    letters = letters.translate(None, _HEXADECIMAL)
    length = len(letters) if whole else 0
    return fingerprinter.of(b"%d %b %b" % (length, letters[:_LETTERS], letters[-_LETTERS:]))


def answer_fingerprint(
    data: bytes, arguments: Any, fingerprinter: Fingerprinter, *, volatile_keys: tuple[str, ...] = ()
) -> int:
    """Fingerprint a result without its ids, and without the parts that repeat the call's own arguments."""
    middle = b""
    if len(data) > 2 * _LONGEST_END:
        middle = fingerprinter.of(data[_LONGEST_END:-_LONGEST_END]).to_bytes(8, "big")
        data = data[:_LONGEST_END] + data[-_LONGEST_END:]
    text = data.decode("utf-8", "replace")
    words = []
    for value in leaves(arguments):
        if len(value) < _SHORTEST or (len(value) <= _LONGEST_NUMBER and value.isdecimal()):
            words.append(re.escape(value))
        else:
            text = text.replace(value, "")
    if type(arguments) is dict:
        for name in _PLACES & arguments.keys():
            if type(arguments[name]) is int:
                text = re.sub(rf'"{name}" ?: ?{arguments[name]}(?![\d.])', "", text)
    if words:
        text = re.sub(rf"(?<!\w)(?:{'|'.join(words)})(?!\w)", "0", text)
    views = masked_views(text.encode("utf-8", "replace"), volatile_keys=volatile_keys, mask=True)
    view = views.without_durations
    return fingerprinter.of((view.masked or text).encode("utf-8", "replace") + views.middle + middle)
