"""What of a result says nothing: timestamps, ids, durations. Masked and dropped only when a comparison asks for it.

One pass over the words that hold a digit: everything volatile has one, and most words of a text have none. At
most 8 KB are looked at, head and tail; what lies between is compared byte for byte.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

import orjson

_LONGEST_PART = 4_096
_MOST_NUMBERS = 64
_DEEPEST_UNFOLDED = 32
_LONG_NUMBER = 10
_MASK = "\0"
_GLUE = "\x1f"
"""Stands for a blank within one thing, such as a timestamp, so that a word is a word."""

_EDGE, _END = r"(?<![0-9A-Za-z])", r"(?![0-9A-Za-z])"
_UNITS = r"(?:ns|us|ms|s|secs?|seconds?|mins?|minutes?|hrs?|hours?|milliseconds?|microseconds?)"
_CLOCK = r"\d\d:\d\d(?::\d\d(?:[.,]\d+)?)?(?:\x1f?(?:Z|UTC|GMT|[+-]\d\d:?\d\d))?"
_TIMESTAMP = rf"\d{{4}}-\d\d-\d\d[T\x1f]{_CLOCK}"
_HTTP_DATE = rf"\d{{1,2}}[\x1f-][A-Z][a-z]{{2}}[\x1f-]\d{{4}}\x1f{_CLOCK}"
_UUID = r"[0-9A-Fa-f]{8}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{12}"
_HEX = r"(?=[A-Fa-f]*[0-9])(?=[0-9]*[A-Fa-f])[0-9A-Fa-f]{7,}"
_VOLATILE = re.compile(
    rf"{_EDGE}(?:{_TIMESTAMP}|{_HTTP_DATE}|{_UUID}|(?P<duration>\d+(?:\.\d+)?\x1f?{_UNITS})|{_HEX}|\d{{10,}}(?:\.\d+)?){_END}",
    re.ASCII,
)
_WITHIN_ONE_THING = re.compile(
    rf"\d(?: (?=(?:{_UNITS}|Z|UTC|GMT)\b|[+-]\d{{4}}\b)|-\d\d (?=\d\d:\d\d)"
    r"| [A-Z][a-z]{2} \d{4} \d\d:\d\d(?::\d\d)?(?: (?=GMT|UTC|[+-]\d{4}))?)",
    re.ASCII,
)
_FROM_A_DIGIT = re.compile(r"[0-9](?:[0-9A-Za-z_.:+\x1f-]*[0-9A-Za-z_])?")
_LETTERS_BEFORE = re.compile(r"[A-Za-z_]*\Z")
_NUMBER = re.compile(r"[0-9]+(?:\.[0-9]+)?")
_LEFT = re.compile(r"[^\W_]").search
_TELLS_REST = re.compile(r"\d\s?(?:of|/)\s?\d|\btotal|remain|\bleft\b|\d ?%").search
_TIMING_WORDS = ("latency", "duration", "elapsed", "took")
_REST_OF_TIMING = re.compile(r'[^"\s:=]*"?\s{0,2}[:=]\s{0,2}("[^"]*"|-?[0-9][0-9.eE+-]*)')
_KEY = re.compile(r'"[^"]*":|\bnull\b')


class Face(NamedTuple):
    """A result as the dearer comparisons see it."""

    masked: str
    """With its volatile parts masked; empty where nothing but volatile parts is there."""
    shape: str
    """Without the words that hold a digit."""
    numbers: tuple[float, ...]
    """The numbers in those words, in order."""
    tells_rest: bool = False
    """It says how much there is in all, or how much is left."""


class Faces(NamedTuple):
    """The two faces of a result, and the part of it that only its bytes are compared of."""

    quiet: Face
    """Durations masked."""
    changed: Face
    """Durations kept: after a change they may be what was measured."""
    middle: bytes


def faces(data: bytes, *, volatile_keys: tuple[str, ...], mask: bool) -> Faces:
    """The faces of a result; ``mask`` is off for tools that take the next thing, where the id is the answer."""
    head, middle, tail = _cut(data)
    found = None if middle else _parsed(data)
    if found is None:
        text = head.decode("utf-8", "replace") + tail.decode("utf-8", "replace")
        return Faces(*_faces(_without_timings(text) if mask else text, text, mask=mask, has_keys=False), middle)
    if b'\\"' in data:
        found = _unfolded(found, 0)
    if volatile_keys:
        found = _without(found, frozenset(volatile_keys))
    text = orjson.dumps(found, option=orjson.OPT_SORT_KEYS).decode().replace('\\"', "'")
    return Faces(*_faces(_without_timings(text) if mask else text, text, mask=mask, has_keys=True), middle)


def _cut(data: bytes) -> tuple[bytes, bytes, bytes]:
    if len(data) <= 2 * _LONGEST_PART:
        return data, b"", b""
    return data[:_LONGEST_PART], data[_LONGEST_PART:-_LONGEST_PART], data[-_LONGEST_PART:]


def _parsed(data: bytes) -> Any:
    if data.lstrip()[:1] not in (b"{", b"["):
        return None
    try:
        return orjson.loads(data)
    except ValueError:
        return None


def _unfolded(value: Any, depth: int) -> Any:
    """The value with JSON that stands within its texts (as in MCP results) as objects: their keys may be shuffled."""
    if isinstance(value, dict):
        return {key: _unfolded(item, depth + 1) for key, item in value.items()}
    if isinstance(value, list):
        return [_unfolded(item, depth + 1) for item in value]
    if isinstance(value, str) and value[:1] in ("{", "[") and depth < _DEEPEST_UNFOLDED:
        try:
            return _unfolded(orjson.loads(value), depth + 1)
        except ValueError:
            return value  # text that only begins like JSON
    return value


def _without(value: Any, keys: frozenset[str]) -> Any:
    """The value with what stands under the keys masked. orjson has bounded the depth."""
    if isinstance(value, dict):
        return {key: _MASK if key in keys else _without(item, keys) for key, item in value.items()}
    return [_without(item, keys) for item in value] if isinstance(value, list) else value


def _without_timings(text: str) -> str:
    """The text with the values of latency, duration, elapsed and took keys masked."""
    lower = text.lower()
    spans = []
    for word in _TIMING_WORDS:
        at = lower.find(word)
        while at >= 0:
            rest = _REST_OF_TIMING.match(text, at)
            if rest is not None:
                spans.append(rest.span(1))
            at = lower.find(word, at + 1)
    for start, end in sorted(set(spans), reverse=True):
        text = text[:start] + f'"{_MASK}"' + text[end:]
    return text


def _faces(quiet: str, changed: str, *, mask: bool, has_keys: bool) -> tuple[Face, Face]:
    """The face without durations and the one with them; mostly they are one."""
    first, durations = _face(quiet, mask=mask, durations=True, has_keys=has_keys)
    if not durations and changed is quiet:
        return first, first
    return first, _face(changed, mask=mask, durations=False, has_keys=has_keys)[0]


def _face(text: str, *, mask: bool, durations: bool, has_keys: bool) -> tuple[Face, bool]:
    """One face, and whether durations were seen on the way."""
    glued = _WITHIN_ONE_THING.sub(lambda match: match.group().replace(" ", _GLUE), text) if mask else text
    masked: list[str] = []
    shape: list[str] = []
    numbers: list[float] = []
    last = seen_durations = 0
    for found in _FROM_A_DIGIT.finditer(glued):
        start, end = found.span()
        if start and glued[start - 1].isalpha():
            start = max(last, _LETTERS_BEFORE.search(glued, max(last, start - 64), start).start())  # type: ignore[union-attr]
        word = glued[start:end]
        if word.isdigit() and len(word) < _LONG_NUMBER:
            numbers.append(float(word))
        elif mask:
            plain = _VOLATILE.sub("" if durations else _unless_duration, word)
            if plain != word:
                seen_durations = seen_durations or _holds_duration(word)
                word = _MASK + plain
            numbers.extend(map(float, _NUMBER.findall(plain)))
        else:
            numbers.extend(map(float, _NUMBER.findall(word)))
        between = glued[last:start]
        masked += (between, word)
        shape.append(between)
        last = end
    masked.append(glued[last:])
    shape.append(glued[last:])
    result = "".join(masked)
    if mask and not _LEFT(_KEY.sub("", result) if has_keys else result):
        bare, _ = _face(text, mask=False, durations=durations, has_keys=has_keys)
        return bare._replace(masked=""), bool(seen_durations)
    tells_rest = bool(numbers) and _TELLS_REST(result) is not None
    return Face(result, "\0".join(shape), tuple(numbers[:_MOST_NUMBERS]), tells_rest), bool(seen_durations)


def _unless_duration(match: re.Match[str]) -> str:
    return "" if match.lastgroup is None else match.group()


def _holds_duration(word: str) -> bool:
    return any(match.lastgroup is not None for match in _VOLATILE.finditer(word))
