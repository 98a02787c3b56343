"""Mask timestamps, ids and durations in results, and find the outline and the numbers of the rest.

Only a comparison of two different results needs this, so it is done late. At most 8 KB are read, head and tail; the
part in the middle is compared byte for byte. One pass over the words that contain a digit is enough: every timestamp,
id and duration contains one, and most words of a text do not.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

import orjson

from otel_loopguard.interrupts import pass_interrupt

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
_GLUE = "\x1f"
"""Replaces a blank inside a timestamp or duration, so that it is one word."""

_EDGE, _END = r"(?<![0-9A-Za-z])", r"(?![0-9A-Za-z])"
_PLAIN_NUMBER = r"[0-9]{1,9}(?:\.[0-9]+)?(?![0-9A-Za-z.\x1f-])"
_UNITS = r"(?=[nmsuh])(?:ns|us|ms|s|secs?|seconds?|mins?|minutes?|hrs?|hours?|milliseconds?|microseconds?)"
_CLOCK = r"\d\d:\d\d(?::\d\d(?:[.,]\d+)?)?(?:\x1f?(?:Z|UTC|GMT|[+-]\d\d:?\d\d))?"
_TIMESTAMP = rf"(?:\d{{4}}-\d\d-\d\d[T\x1f]{_CLOCK}|\d{{8}}T\d{{4,6}}(?:[.,]\d+)?Z?)"
_HTTP_DATE = rf"\d{{1,2}}[\x1f-][A-Z][a-z]{{2}}[\x1f-](?:\d\d){{1,2}}\x1f{_CLOCK}"
_UUID = r"[0-9A-Fa-f]{8}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{12}"
_HEX = r"(?:0x)?(?=[A-Fa-f]*[0-9])(?=[0-9]*[A-Fa-f])[0-9A-Fa-f]{7,}"
IDS = re.compile(rf"0x[0-9A-Fa-f]+|{_EDGE}(?:{_UUID}|{_HEX}){_END}", re.ASCII)
_VOLATILE = re.compile(
    rf"{_EDGE}(?!{_PLAIN_NUMBER})(?:{_TIMESTAMP}|{_HTTP_DATE}|{_UUID}|(?P<duration>\d+(?:\.\d+)?\x1f?{_UNITS})|{_HEX}|\d{{10,}}(?:\.\d+)?){_END}",
    re.ASCII,
)
_TIMES = re.compile(
    rf"{_EDGE}(?:{_TIMESTAMP}|{_HTTP_DATE}|\d+(?:\.\d+)?\x1f?{_UNITS}|\d{{10,13}}(?:\.\d+)?){_END}", re.ASCII
)
_CODE = re.compile(r"(?<![\w.-])(?=[\w-]*[0-9])(?=[\w-]*[A-Za-z])[\w-]{8,}(?![\w.])", re.ASCII)
"""A word that mixes letters and digits, as ids do: "ORD-2024-77", "pi_3MtwBwLkdIwHu7ix"."""
_BLANK_INSIDE = re.compile(
    rf"\d(?: (?=(?:{_UNITS}|Z|UTC|GMT)\b|[+-]\d{{4}}\b)|-(?:[A-Z][a-z]{{2}}-(?:\d\d)?)?\d\d (?=\d\d:\d\d)"
    r"| [A-Z][a-z]{2} \d{4} \d\d:\d\d(?::\d\d)?(?: (?=GMT|UTC|[+-]\d{4}))?)",
    re.ASCII,
)
_FROM_A_DIGIT = re.compile(r"([0-9](?:[0-9A-Za-z_.:+\x1f-]*[0-9A-Za-z_])?)")
_WORD_CHARACTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_"
_NUMBER = re.compile(r"[0-9]+(?:\.[0-9]+)?")
has_content = re.compile(r"[^\W_]").search
"""Find a letter or digit."""
_FRACTION = re.compile(r"(?<![\d.])(\d{1,9})\s?(?:of|/)\s?(\d{1,9})(?![\d.])")
_REST = re.compile(r"\d (?:\w+ ){0,2}(?:remaining|left)\b|\b(?:remaining|left)[\"']?\s?[:=]\s?[\"']?\d", re.IGNORECASE)
_MAY_BE_FRACTION = re.compile(r"[f/]\s?\d")
_REST_WORDS = ("remaining", "left")
_RETRY_WORDS = ("attempt", "try", "tries", "retr", "fail", "error")
_RETRY = re.compile(r"\battempt|\btr(?:y|ies)\b|\bretr|\bfail|\berror", re.IGNORECASE)
_KEY = re.compile(r'"[^"]*":|\bnull\b')
_NAME = re.compile(
    r"(?:(?<![A-Za-z])(?i:id|pid|uid|ref|run|process|session)|_(?i:id)|[a-z]I[Dd])"
    r"[\"']?\s?[:=#]?\s?[\"']?[A-Za-z]{0,9}[-_]?([0-9]+)(?![0-9.]*%)"
)
"""A number under the name of an id: "id: 17", "order_id=17", "runId: ORD-17", "process 17", "ref#17"."""
_NAME_WORDS = ("id", "ref", "run", "process", "session")
_MOST_NAMES = 32


class MaskedView(NamedTuple):
    """One view of a result for comparison."""

    masked: str
    """The text with its timestamps, ids and, in one view, durations masked; empty if nothing else would be left."""
    shape: str
    """The text without the words that contain a digit."""
    numbers: tuple[float, ...]
    """The numbers in those words, in order, without those that name something."""
    nameless: str
    """The masked text without the numbers that name something; empty if nothing else would be left."""
    has_total: bool
    """The text gives a part of a whole ("5 of 40") or a rest ("35 remaining"), and does not mention another attempt."""


class MaskedViews(NamedTuple):
    """A result with its durations masked, and with them kept; and the bytes between its head and its tail."""

    without_durations: MaskedView
    with_durations: MaskedView
    """After a change, a duration may be the measured value."""
    middle: bytes


def masked_views(data: bytes, *, volatile_keys: tuple[str, ...], mask: bool) -> MaskedViews:
    """Return the views of a result.

    ``volatile_keys``: keys of JSON whose values are masked. ``mask`` is False for a tool that takes the next item:
    there the id is the answer.
    """
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


def without_times(data: bytes) -> str:
    """Return a result without the times in it."""
    return _TIMES.sub("", _BLANK_INSIDE.sub(_glue, data[:_LONGEST_PART].decode("utf-8", "replace")))


def without_codes(text: str) -> str:
    """Mask the words that mix letters and digits, as ids do: they are no numbers."""
    return _CODE.sub(_MASK, text)


def ids_of(data: bytes) -> bytes:
    """Return the ids in a short result, of things only: those of the answer itself, as of a request, are left out."""
    text = _mask_values(data[:_LONGEST_PART].decode("utf-8", "replace"), _ID_WORDS, _ID)
    found = [*IDS.findall(text), *_CODE.findall(text), *(name.group(1) for name in _names(text, _lower(text)))]
    return " ".join(found).encode("utf-8", "replace")


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
    """Return two views: with durations masked, and with durations kept."""
    if text.isascii() and len(text.encode().translate(None, b"0123456789")) == len(text):  # nor any word below
        masked = text if _has_content(text, has_keys=has_keys) else ""
        view = MaskedView(masked, text, (), masked, has_total=False)
        return view, view
    between, words = _split(_BLANK_INSIDE.sub(_glue, text))
    listed = "\n".join(words)
    without = _VOLATILE.sub(_MASK, listed)
    view = _masked_view(text, between, without, has_keys=has_keys)
    if without == listed or not ("s" in listed or "m" in listed or "h" in listed):  # each unit has one of these
        return view, view
    with_durations = _VOLATILE.sub(_mask_or_duration, listed)
    return view, view if with_durations == without else _masked_view(text, between, with_durations, has_keys=has_keys)


def _masked_view(text: str, between: list[str], words: str, *, has_keys: bool) -> MaskedView:
    """Return the view of a text. ``words``: its words with a digit, masked, one a line. ``between``: all else."""
    parts = [""] * (2 * len(between) - 1)
    parts[0::2], parts[1::2] = between, words.split("\n") if words else []
    masked = "".join(parts)
    if not _has_content(masked, has_keys=has_keys):  # the id is the answer: nothing is masked
        return _unmasked(text, whole_numbers=True)
    shape = _MASK.join(between)
    lower = _lower(masked)
    names = _names(masked, lower)
    numbers = _values(_NUMBER.findall(words), names)
    nameless = _without_names(masked, names, has_keys=has_keys) if names else masked
    return MaskedView(masked, shape, numbers, nameless, _has_total(masked, lower))


def _lower(text: str) -> str | None:
    """Return the text in lower case; None if that moves letters, or if a pattern takes one of them for another."""
    if not text.isascii() and ("\u0130" in text or "\u0131" in text or "\u017f" in text):
        return None
    return text.lower()


def _has_total(text: str, lower: str | None) -> bool:
    found = _FRACTION.search(text) if _MAY_BE_FRACTION.search(text) is not None else None
    is_part = found is not None and int(found.group(1)) <= int(found.group(2))
    return (is_part or _has_one(_REST_WORDS, lower, _REST, text)) and not _has_one(_RETRY_WORDS, lower, _RETRY, text)


def _has_one(words: tuple[str, ...], lower: str | None, pattern: re.Pattern[str], text: str) -> bool:
    """Return True if a pattern is found, each match of which has one of the words."""
    return (lower is None or any(word in lower for word in words)) and pattern.search(text) is not None


def _has_content(text: str, *, has_keys: bool) -> bool:
    if not has_keys:
        return has_content(text) is not None
    last = 0
    for key in _KEY.finditer(text):
        if has_content(text, last, key.start()) is not None:
            return True
        last = key.end()
    return has_content(text, last) is not None


def _names(text: str, lower: str | None) -> list[re.Match[str]]:
    """Find the numbers that name something."""
    if lower is None:
        return list(_NAME.finditer(text))
    found: dict[int, re.Match[str]] = {}
    for word in _NAME_WORDS:
        at = lower.find(word)
        while at >= 0:
            follows_letter = at > 0 and word == "id" and text[at - 1] in _WORD_CHARACTERS  # "pid", "_id", "runId"
            name = _NAME.match(text, at - follows_letter)
            if name is not None:
                first = found.setdefault(name.end(), name)  # of "id: run-17", one number, there are two
                if name.start() < first.start():
                    found[name.end()] = name
            at = lower.find(word, at + 1)
    return [found[end] for end in sorted(found)]


def _without_names(text: str, names: list[re.Match[str]], *, has_keys: bool) -> str:
    """Mask the numbers that name something, wherever they are; return nothing if there is nothing else."""
    ends = [0, *(name.end() for name in names)]
    starts = [*(name.start() for name in names), len(text)]
    rest = "".join(text[end:start] for end, start in zip(ends, starts, strict=True))
    if not _has_content(rest, has_keys=has_keys):
        return ""
    of_names = _numbers_of(names)
    return _NUMBER.sub(lambda found: _MASK if found.group() in of_names else found.group(), text)


def _numbers_of(names: list[re.Match[str]]) -> frozenset[str]:
    return frozenset(name.group(1) for name in names[:_MOST_NAMES])


def _values(numbers: list[str], names: list[re.Match[str]]) -> tuple[float, ...]:
    of_names = _numbers_of(names)
    return tuple(float(number) for number in numbers[:_MOST_NUMBERS] if number not in of_names)


def _unmasked(text: str, *, whole_numbers: bool) -> MaskedView:
    """Return a view with only the shape and the numbers. ``whole_numbers``: leave out the digits within an id."""
    between, words = _split(text)
    numbers: list[str] = []
    for word in words:
        if not whole_numbers or _NUMBER.fullmatch(word):
            numbers += _NUMBER.findall(word)
    return MaskedView("", _MASK.join(between), _values(numbers, _names(text, _lower(text))), "", has_total=False)


def _split(text: str) -> tuple[list[str], list[str]]:
    """Split a text into the parts between the words that contain a digit, and these words."""
    parts = _FROM_A_DIGIT.split(text)
    between, words = parts[0::2], parts[1::2]
    for place, word in enumerate(words):
        before = between[place]
        if before[-1:].isalpha():  # the word begins with letters
            between[place] = rest = before.rstrip(_WORD_CHARACTERS)
            words[place] = before[len(rest) :] + word
    return between, words


def _glue(match: re.Match[str]) -> str:
    return match.group().replace(" ", _GLUE)


def _mask_or_duration(match: re.Match[str]) -> str:
    return _MASK if match.lastgroup is None else match.group()
