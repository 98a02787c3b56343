"""The face of a text: what is left of it once all that says nothing is masked, its outline, and its numbers.

One pass over the words that hold a digit: everything volatile has one, and most words of a text have none.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

MASK = "\0"

_MOST_NUMBERS = 64
_LONGEST_PREFIX = 64
_LONG_NUMBER = 10
_GLUE = "\x1f"
"""Stands for a blank within one thing, such as a timestamp, so that a word is a word."""

_EDGE, _END = r"(?<![0-9A-Za-z])", r"(?![0-9A-Za-z])"
_UNITS = r"(?:ns|us|ms|s|secs?|seconds?|mins?|minutes?|hrs?|hours?|milliseconds?|microseconds?)"
_CLOCK = r"\d\d:\d\d(?::\d\d(?:[.,]\d+)?)?(?:\x1f?(?:Z|UTC|GMT|[+-]\d\d:?\d\d))?"
_TIMESTAMP = rf"(?:\d{{4}}-\d\d-\d\d[T\x1f]{_CLOCK}|\d{{8}}T\d{{4,6}}(?:[.,]\d+)?Z?)"
_HTTP_DATE = rf"\d{{1,2}}[\x1f-][A-Z][a-z]{{2}}[\x1f-](?:\d\d){{1,2}}\x1f{_CLOCK}"
_UUID = r"[0-9A-Fa-f]{8}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{12}"
_HEX = r"(?:0x)?(?=[A-Fa-f]*[0-9])(?=[0-9]*[A-Fa-f])[0-9A-Fa-f]{7,}"
IDS = re.compile(rf"0x[0-9A-Fa-f]+|{_EDGE}(?:{_UUID}|{_HEX}){_END}", re.ASCII)
_VOLATILE = re.compile(
    rf"{_EDGE}(?:{_TIMESTAMP}|{_HTTP_DATE}|{_UUID}|(?P<duration>\d+(?:\.\d+)?\x1f?{_UNITS})|{_HEX}|\d{{10,}}(?:\.\d+)?){_END}",
    re.ASCII,
)
_WITHIN_ONE_THING = re.compile(
    rf"\d(?: (?=(?:{_UNITS}|Z|UTC|GMT)\b|[+-]\d{{4}}\b)|-(?:[A-Z][a-z]{{2}}-(?:\d\d)?)?\d\d (?=\d\d:\d\d)"
    r"| [A-Z][a-z]{2} \d{4} \d\d:\d\d(?::\d\d)?(?: (?=GMT|UTC|[+-]\d{4}))?)",
    re.ASCII,
)
_FROM_A_DIGIT = re.compile(r"[0-9](?:[0-9A-Za-z_.:+\x1f-]*[0-9A-Za-z_])?")
_LETTERS_BEFORE = re.compile(r"[A-Za-z_]*\Z")
_NUMBER = re.compile(r"[0-9]+(?:\.[0-9]+)?")
_LEFT = re.compile(r"[^\W_]").search
_TELLS_REST = re.compile(r"\d\s?(?:of|/)\s?\d|\btotal|remain|\bleft\b|\d ?%").search
_PART = re.compile(r"([0-9]{1,9})\s?(?:of|/)\s?([0-9]{1,9})")
_AGAIN = re.compile(r"\battempt|\btr(?:y|ies)\b|\bretr|\bfail|\berror", re.IGNORECASE)
_KEY = re.compile(r'"[^"]*":|\bnull\b')


class MaskedView(NamedTuple):
    """A result as the dearer comparisons see it."""

    masked: str
    """With its volatile parts masked; empty where nothing but volatile parts is there."""
    shape: str
    """Without the words that hold a digit."""
    numbers: tuple[float, ...]
    """The numbers in those words, in order."""
    tells_rest: bool = False
    """It says how much there is in all, or how much is left."""
    tells_part: bool = False
    """It says "5 of 40", and nothing of trying again."""


def masked_faces(text: str, *, has_keys: bool) -> tuple[MaskedView, MaskedView]:
    """Both faces of a text. A second look is needed only where the first one has seen a duration."""
    glued = _WITHIN_ONE_THING.sub(_glued, text)
    quiet, durations = _masked_face(glued, text, durations=False, has_keys=has_keys)
    return quiet, _masked_face(glued, text, durations=True, has_keys=has_keys)[0] if durations else quiet


def _masked_face(glued: str, text: str, *, durations: bool, has_keys: bool) -> tuple[MaskedView, bool]:
    """The face of a text, its ``durations`` shown or masked; and whether it has any."""
    masked: list[str] = []
    shape: list[str] = []
    numbers: list[str] = []
    last, any_duration = 0, False
    for start, end in _words_with_digits(glued):
        word, between = glued[start:end], glued[last:start]
        last = end
        shape.append(between)
        found = None if word.isdigit() and len(word) < _LONG_NUMBER else _VOLATILE.search(word)
        if found is None:
            masked += (between, word)
            numbers += _NUMBER.findall(word)
            continue
        if found.end() - found.start() == end - start:
            rest, kept = "", word if found.lastgroup else ""
        else:
            rest, kept = _VOLATILE.sub("", word), _VOLATILE.sub(_unless_duration, word)
        any_duration = any_duration or kept != rest
        if durations and kept != rest:
            masked += (between, kept)
            numbers += _NUMBER.findall(kept)
        else:
            masked += (between, MASK, rest)
            numbers += _NUMBER.findall(rest) if rest else ()
    masked.append(glued[last:])
    shape.append(glued[last:])
    shown = "".join(masked)
    if not _LEFT(_KEY.sub("", shown) if has_keys else shown):  # the id is the answer: nothing is masked
        return plain_face(text, whole_numbers=True)._replace(masked=""), any_duration
    values = tuple(map(float, numbers[:_MOST_NUMBERS]))
    tells_rest = bool(numbers) and _TELLS_REST(shown) is not None
    return MaskedView(shown, MASK.join(shape), values, tells_rest, tells_rest and _tells_part(shown)), any_duration


def _tells_part(text: str) -> bool:
    part = _PART.search(text)
    return part is not None and int(part.group(1)) <= int(part.group(2)) and _AGAIN.search(text) is None


def plain_face(text: str, *, whole_numbers: bool) -> MaskedView:
    """A face with nothing masked. ``whole_numbers``: digits within an id count nothing."""
    shape: list[str] = []
    numbers: list[float] = []
    last = 0
    for start, end in _words_with_digits(text):
        word = text[start:end]
        if not whole_numbers or _NUMBER.fullmatch(word):
            numbers.extend(map(float, _NUMBER.findall(word)))
        shape.append(text[last:start])
        last = end
    shape.append(text[last:])
    return MaskedView(text, MASK.join(shape), tuple(numbers[:_MOST_NUMBERS]))


def _words_with_digits(text: str) -> Iterator[tuple[int, int]]:
    """Where the words are that hold a digit, from their first letter on."""
    last = 0
    for found in _FROM_A_DIGIT.finditer(text):
        start, end = found.span()
        if start > last and text[start - 1].isalpha():
            before = _LETTERS_BEFORE.search(text, max(last, start - _LONGEST_PREFIX), start)
            start = before.start() if before is not None else start
        yield start, end
        last = end


def _glued(match: re.Match[str]) -> str:
    return match.group().replace(" ", _GLUE)


def _unless_duration(match: re.Match[str]) -> str:
    return "" if match.lastgroup is None else match.group()
