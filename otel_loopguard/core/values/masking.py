"""Masked views of a result: without timestamps, ids and durations; its outline; and its numbers.

Masked and dropped only when a comparison asks for it. At most 8 KB are looked at, head and tail; what lies between is
compared byte for byte. One pass over the words that hold a digit: everything volatile has one, and most words of a
text have none.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

import orjson

if TYPE_CHECKING:
    from collections.abc import Iterator

MASK = "\0"
_LONGEST_PART = 4_096
_DEEPEST_UNFOLDED = 32

_COLOUR = re.compile(r"(?:\x1b|\\u001b)\[([0-9;]*)m")
_DIGITS_AS_LETTERS = str.maketrans("0123456789;", "abcdefghij_")
_TIMING_WORDS = ("latency", "duration", "elapsed", "took")
_TIMING = re.compile(r'[^"\s:=]*"?\s{0,2}[:=]\s{0,2}("[^"]*"|-?[0-9][0-9.eE+-]*)')
_ID_WORDS = ("nonce", "etag", "request", "req_id", "trace", "span", "correlation")
_ID = re.compile(
    r"(?:nonce|etag|request[_ -]?id|req_id|(?:trace|correlation)[_-]?id|span_?id)"
    r'[^"\s:=]*"?\s{0,2}[:=]\s{0,2}("[^"]*"|[^\s",;{}\[\]]+)',
    re.IGNORECASE,
)
"""Keys whose values name the answer, never say anything in it, whatever they look like; above, what they begin with."""

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


class MaskedViews(NamedTuple):
    """The two faces of a result, and the part of it that only its bytes are compared of."""

    quiet: MaskedView
    """Durations masked."""
    changed: MaskedView
    """Durations kept: after a change they may be what was measured."""
    middle: bytes


def masked_views(data: bytes, *, volatile_keys: tuple[str, ...], mask: bool) -> MaskedViews:
    """The faces of a result; ``mask`` is off for tools that take the next thing, where the id is the answer."""
    head, middle, tail = _cut(data)
    found = None if middle else _parsed(data)
    if found is None:
        text = head.decode("utf-8", "replace") + tail.decode("utf-8", "replace")
    else:
        if b'\\"' in data:
            found = _unfolded(found, 0)
        if volatile_keys:
            found = _without(found, frozenset(volatile_keys))
        text = orjson.dumps(found, option=orjson.OPT_SORT_KEYS).decode().replace('\\"', "'")
    if "\x1b" in text or "\\u001b" in text:  # a colour is no number, and its code's last letter no part of a word
        text = _COLOUR.sub(_colour, text)
    if not mask:
        return MaskedViews(*_faces(text, text, mask=False, has_keys=found is not None), middle)
    text = _without_keys(text, _ID_WORDS, _ID)
    return MaskedViews(
        *_faces(_without_keys(text, _TIMING_WORDS, _TIMING), text, mask=True, has_keys=found is not None),
        middle,
    )


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
        return {key: MASK if key in keys else _without(item, keys) for key, item in value.items()}
    return [_without(item, keys) for item in value] if isinstance(value, list) else value


def _without_keys(text: str, words: tuple[str, ...], key_and_value: re.Pattern[str]) -> str:
    """The text with the values of keys masked, from one of the words on."""
    lower = text.lower()
    if len(lower) != len(text):  # a letter that is two in lower case: places would not be the same
        lower = text
    spans = set()
    for word in words:
        at = lower.find(word)
        while at >= 0:
            found = key_and_value.match(text, at)
            if found is not None:
                spans.add(found.span(1))
            at = lower.find(word, at + 1)
    for start, end in sorted(spans, reverse=True):
        text = text[:start] + f'"{MASK}"' + text[end:]
    return text


def _faces(quiet: str, changed: str, *, mask: bool, has_keys: bool) -> tuple[MaskedView, MaskedView]:
    """The face without durations and the one with them; mostly they are one, and made in one pass."""
    if not mask:
        bare = plain_face(IDS.sub("0", changed), whole_numbers=False)._replace(masked=changed)
        return bare, bare
    first, with_durations = masked_faces(quiet, has_keys=has_keys)
    return first, with_durations if quiet == changed else masked_faces(changed, has_keys=has_keys)[1]


def _colour(match: re.Match[str]) -> str:
    return f"{MASK}{match.group(1).translate(_DIGITS_AS_LETTERS)}{MASK}"


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
