"""What of a result says nothing: timestamps, ids, durations. Masked and dropped only when a comparison asks for it.

At most 8 KB are looked at, head and tail; what lies between is compared byte for byte.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

import orjson

from otel_loopguard.core.values.masking import IDS, MASK, MaskedView, masked_faces, plain_face

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
