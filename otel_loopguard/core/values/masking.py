"""Mask timestamps, ids and durations in results, and find the outline and the numbers of the rest.

Only a comparison of two different results needs this, so it is done late. At most 8 KB are read, head and tail; the
part in the middle is compared byte for byte. One pass over the words that contain a digit is enough: every timestamp,
id and duration contains one, and most words of a text do not.
"""

from __future__ import annotations

import re
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

import orjson

from otel_loopguard.interrupts import pass_interrupt

if TYPE_CHECKING:
    from collections.abc import Iterator

_MASK = "\0"
_LONGEST_PART = 4_096
_DEEPEST_DECODED = 32

_COLOUR = re.compile(r"(?:\x1b|\\u001b)\[([0-9;]*)m")
_DIGITS_AS_LETTERS = str.maketrans("0123456789;", "abcdefghij_")
_TIMING_WORDS = ("latency", "duration", "elapsed", "took")
_TIMING = re.compile(r'[^"\s:=]{0,64}"?\s{0,2}[:=]\s{0,2}("[^"]*"|-?[0-9][0-9.eE+-]*)')
_ID_WORDS = ("nonce", "etag", "request", "req_id", "trace", "span", "correlation")
_ID = re.compile(
    r"(?:nonce|etag|request[_ -]?id|req_id|(?:trace|correlation)[_-]?id|span_?id)"
    r'[^"\s:=]{0,64}"?\s{0,2}[:=]\s{0,2}("[^"]*"|[^\s",;{}\[\]]+)',
    re.IGNORECASE,
)
"""Keys whose values are ids of the answer, never content, whatever they look like; above, how such keys begin."""

_MOST_KEYS = 512
_MOST_NUMBERS = 64
_LONGEST_PREFIX = 64
_LONG_NUMBER = 10
_GLUE = "\x1f"
"""Replaces a blank inside a timestamp or duration, so that it is one word."""

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
_BLANK_INSIDE = re.compile(
    rf"\d(?: (?=(?:{_UNITS}|Z|UTC|GMT)\b|[+-]\d{{4}}\b)|-(?:[A-Z][a-z]{{2}}-(?:\d\d)?)?\d\d (?=\d\d:\d\d)"
    r"| [A-Z][a-z]{2} \d{4} \d\d:\d\d(?::\d\d)?(?: (?=GMT|UTC|[+-]\d{4}))?)",
    re.ASCII,
)
_FROM_A_DIGIT = re.compile(r"[0-9](?:[0-9A-Za-z_.:+\x1f-]*[0-9A-Za-z_])?")
_LETTERS_BEFORE = re.compile(r"[A-Za-z_]*\Z")
_NUMBER = re.compile(r"[0-9]+(?:\.[0-9]+)?")
has_content = re.compile(r"[^\W_]").search
_FRACTION = re.compile(r"(?<![\d.])(\d{1,9})\s?(?:of|/)\s?(\d{1,9})(?![\d.])")
_REST = re.compile(r"\d (?:\w+ ){0,2}(?:remaining|left)\b|\b(?:remaining|left)[\"']?\s?[:=]\s?[\"']?\d", re.IGNORECASE)
_RETRY = re.compile(r"\battempt|\btr(?:y|ies)\b|\bretr|\bfail|\berror", re.IGNORECASE)
_KEY = re.compile(r'"[^"]*":|\bnull\b')
_NAME = re.compile(
    r"(?:(?<![A-Za-z])(?i:id|pid|uid|ref|run|process|session)|_(?i:id)|[a-z]I[Dd])"
    r"[\"']?\s?[:=#]?\s?[\"']?[A-Za-z]{0,9}[-_]?([0-9]+)(?![0-9.]*%)"
)
"""A number under the name of an id: "id: 17", "order_id=17", "runId: ORD-17", "process 17", "ref#17"."""
_MOST_NAMES = 32


class MaskedView(NamedTuple):
    """One view of a result for comparison."""

    masked: str
    """The text with its volatile parts masked; empty if nothing else is in it."""
    shape: str
    """The text without the words that contain a digit."""
    numbers: tuple[float, ...]
    """The numbers in those words, in order, without those that name something."""
    nameless: str
    """The masked text without the numbers that name something; empty if nothing else is in it."""
    has_total: bool
    """The text gives a part of a whole ("5 of 40") or a rest ("35 remaining"), and does not mention another attempt."""


class MaskedViews(NamedTuple):
    """Both views of a result, and the bytes between its head and its tail."""

    without_durations: MaskedView
    with_durations: MaskedView
    """After a change, a duration may be the measured value."""
    middle: bytes


def masked_views(data: bytes, *, volatile_keys: tuple[str, ...], mask: bool) -> MaskedViews:
    """Return the views of a result. ``mask`` is off for tools that take the next item, where the id is the answer."""
    head, middle, tail = _cut(data)
    canonical = None if middle else _canonical_json(data, volatile_keys)
    text = canonical or head.decode("utf-8", "replace") + tail.decode("utf-8", "replace")
    if "\x1b" in text or "\\u001b" in text:  # a colour is no number, and the last letter of its code no part of a word
        text = _COLOUR.sub(_colour, text)
    if not mask:
        view = _unmasked(IDS.sub("0", text), whole_numbers=False)._replace(masked=text, nameless=text)
        return MaskedViews(view, view, middle)
    text = _mask_values(text, _ID_WORDS, _ID)
    without_timing = _mask_values(text, _TIMING_WORDS, _TIMING)
    without_durations, with_durations = _mask_words(without_timing, has_keys=canonical is not None)
    if without_timing != text:
        with_durations = _mask_words(text, has_keys=canonical is not None)[1]
    return MaskedViews(without_durations, with_durations, middle)


def _cut(data: bytes) -> tuple[bytes, bytes, bytes]:
    """Split a result into head, middle and tail; a short one is all head."""
    if len(data) <= 2 * _LONGEST_PART:
        return data, b"", b""
    return data[:_LONGEST_PART], data[_LONGEST_PART:-_LONGEST_PART], data[-_LONGEST_PART:]


def _canonical_json(data: bytes, volatile_keys: tuple[str, ...]) -> str | None:
    """Return JSON in canonical form, without the values of these keys; None if it is no JSON, or nested too deeply."""
    if data.lstrip()[:1] not in (b"{", b"["):
        return None
    try:
        found = orjson.loads(data)
        if b'\\"' in data:
            found = _decode_nested(found, 0)
        if volatile_keys:
            found = _mask_keys(found, frozenset(volatile_keys))
        return orjson.dumps(found, option=orjson.OPT_SORT_KEYS).decode().replace('\\"', "'")
    except (ValueError, TypeError, RecursionError) as error:
        pass_interrupt(error)
        return None


def _decode_nested(value: Any, depth: int) -> Any:
    """Decode strings that hold JSON, as in MCP results: the order of their keys may differ."""
    if isinstance(value, dict):
        return {key: _decode_nested(item, depth + 1) for key, item in value.items()}
    if isinstance(value, list):
        return [_decode_nested(item, depth + 1) for item in value]
    if isinstance(value, str) and value[:1] in ("{", "[") and depth < _DEEPEST_DECODED:
        try:
            return _decode_nested(orjson.loads(value), depth + 1)
        except ValueError as error:
            pass_interrupt(error)
            return value  # it only begins like JSON
    return value


def _mask_keys(value: Any, keys: frozenset[str]) -> Any:
    """Mask the values of these keys."""
    if isinstance(value, dict):
        return {key: _MASK if key in keys else _mask_keys(item, keys) for key, item in value.items()}
    return [_mask_keys(item, keys) for item in value] if isinstance(value, list) else value


def _mask_values(text: str, words: tuple[str, ...], key_and_value: re.Pattern[str]) -> str:
    """Mask the value of each key that begins with one of the words."""
    lower = text.lower()
    if len(lower) != len(text):  # a letter becomes two in lower case, so positions differ
        lower = text
    spans, searched = set(), 0
    for word in words:
        at = lower.find(word)
        while at >= 0 and searched < _MOST_KEYS:
            searched += 1
            found = key_and_value.match(text, at)
            if found is not None:
                spans.add(found.span(1))
            at = lower.find(word, at + 1)
    parts: list[str] = []
    last = 0
    for start, end in sorted(spans):
        if start >= last:  # a value may hold another key
            parts += (text[last:start], f'"{_MASK}"')
            last = end
    return "".join((*parts, text[last:]))


def _colour(match: re.Match[str]) -> str:
    return f"{_MASK}{match.group(1).translate(_DIGITS_AS_LETTERS)}{_MASK}"


def _mask_words(text: str, *, has_keys: bool) -> tuple[MaskedView, MaskedView]:
    """Return the views without and with durations. A second pass is needed only if the first one found a duration."""
    glued = _BLANK_INSIDE.sub(_glue, text)
    without, durations = _masked_view(glued, text, durations=False, has_keys=has_keys)
    return without, _masked_view(glued, text, durations=True, has_keys=has_keys)[0] if durations else without


def _masked_view(glued: str, text: str, *, durations: bool, has_keys: bool) -> tuple[MaskedView, bool]:
    """Return the view with its ``durations`` shown or masked, and True if there are any."""
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
            rest, with_duration = "", word if found.lastgroup else ""
        else:
            rest, with_duration = _VOLATILE.sub("", word), _VOLATILE.sub(_unless_duration, word)
        any_duration = any_duration or with_duration != rest
        if durations and with_duration != rest:
            masked += (between, with_duration)
            numbers += _NUMBER.findall(with_duration)
        else:
            masked += (between, _MASK, rest)
            numbers += _NUMBER.findall(rest) if rest else ()
    masked.append(glued[last:])
    shape.append(glued[last:])
    joined = "".join(masked)
    if not _has_content(joined, has_keys=has_keys):  # the id is the answer: nothing is masked
        return _unmasked(text, whole_numbers=True), any_duration
    names = _names(joined)
    nameless = _without_names(joined, names, has_keys=has_keys) if names else joined
    view = MaskedView(joined, _MASK.join(shape), _values(numbers, names), nameless, _has_total(joined))
    return view, any_duration


def _has_total(text: str) -> bool:
    found = _FRACTION.search(text)
    is_part = found is not None and int(found.group(1)) <= int(found.group(2))
    return (is_part or _REST.search(text) is not None) and _RETRY.search(text) is None


def _has_content(text: str, *, has_keys: bool) -> bool:
    return has_content(_KEY.sub("", text) if has_keys else text) is not None


def _names(text: str) -> frozenset[str]:
    """Return the numbers that name something."""
    return frozenset(found.group(1) for found in islice(_NAME.finditer(text), _MOST_NAMES))


def _without_names(text: str, names: frozenset[str], *, has_keys: bool) -> str:
    """Mask the numbers that name something, wherever they are; return nothing if there is nothing else."""
    nameless = _NUMBER.sub(lambda found: _MASK if found.group() in names else found.group(), text)
    return nameless if _has_content(_NAME.sub("", text), has_keys=has_keys) else ""


def _values(numbers: list[str], names: frozenset[str]) -> tuple[float, ...]:
    return tuple(float(number) for number in numbers[:_MOST_NUMBERS] if number not in names)


def _unmasked(text: str, *, whole_numbers: bool) -> MaskedView:
    """Return a view in which nothing is left of the masked text. ``whole_numbers``: ignore the digits within an id."""
    shape: list[str] = []
    numbers: list[str] = []
    last = 0
    for start, end in _words_with_digits(text):
        word = text[start:end]
        if not whole_numbers or _NUMBER.fullmatch(word):
            numbers += _NUMBER.findall(word)
        shape.append(text[last:start])
        last = end
    shape.append(text[last:])
    return MaskedView("", _MASK.join(shape), _values(numbers, _names(text)), "", has_total=False)


def _words_with_digits(text: str) -> Iterator[tuple[int, int]]:
    """Yield start and end of each word that contains a digit."""
    last = 0
    for found in _FROM_A_DIGIT.finditer(text):
        start, end = found.span()
        if start > last and text[start - 1].isalpha():
            before = _LETTERS_BEFORE.search(text, max(last, start - _LONGEST_PREFIX), start)
            start = before.start() if before is not None else start
        yield start, end
        last = end


def _glue(match: re.Match[str]) -> str:
    return match.group().replace(" ", _GLUE)


def _unless_duration(match: re.Match[str]) -> str:
    return "" if match.lastgroup is None else match.group()
