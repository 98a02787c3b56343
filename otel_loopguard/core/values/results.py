"""What came back, fingerprinted: outside of any lock, and without keeping any of it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

import orjson

from otel_loopguard.core.values.canonical import result_bytes
from otel_loopguard.core.values.fingerprint import error_text
from otel_loopguard.core.values.normalise import utf8
from otel_loopguard.core.values.signs import is_transient, says_pending

if TYPE_CHECKING:
    from otel_loopguard.core.model import Outcome, Sameness
    from otel_loopguard.core.values.fingerprint import Fingerprinter

_LONGEST_PENDING = 2_000
_LONGEST_LOOK = 4_096
_LONGEST_UNWRAPPED = 65_536
_HIDDEN_ERROR = re.compile(rb"rror\\*[\"']?\s*[:=]\s*[Tt][Rr][Uu][Ee]")
"""After ``isE`` or ``is_e``: a pattern that begins with plain letters is found by a search for them."""
_BEGINS_AS_ERROR = re.compile(rb"\s*(?:\[?[\"']?(?:text[\"']?\s*[:=]\s*[\"'])?)Error\b")
_ERROR_BEGINS = frozenset("E[\"'t \t\n\r\v\f")
"""What a text begins with that ``_BEGINS_AS_ERROR`` matches."""
ERROR_SALT = 0x9E3779B97F4A7C15
"""An error never has the fingerprint of a result with the same text."""


class OutcomeFacts(NamedTuple):
    """An outcome as the history takes it."""

    digest: int
    data: bytes
    """The bytes, for the dearer comparisons; dropped with this object."""
    is_error: bool
    shape: int
    transient: bool
    pending: bool
    empty: bool
    sameness: Sameness | None = None
    """How it compares with the last result of this call, where that was found out elsewhere and the bytes are gone."""


def outcome_facts(outcome: Outcome, arguments: Any, fingerprinter: Fingerprinter) -> OutcomeFacts:
    """The fingerprints of an outcome, and what its text says of it."""
    result = outcome.result
    if outcome.error is not None:
        return _error(error_text(outcome.error), arguments, fingerprinter)
    if type(result) is str:
        text, data = result, utf8(result)
    else:
        data = result_bytes(result)
        text = data.decode("utf-8", "replace")
    if outcome.is_error or (may_hide_error(text) and hides_error(data, outcome.is_error)):
        return _error(_unwrapped(data), arguments, fingerprinter)
    digest = outcome.digest if outcome.digest is not None else fingerprinter.of(data)
    pending = len(text) <= _LONGEST_PENDING and says_pending(text, data)
    empty = len(data) < _SHORT and data in _NOTHING
    return tuple.__new__(OutcomeFacts, (digest, data, False, 0, False, pending, empty, None))  # nearly every call's


_NOTHING = (b"", b"[]", b"{}", b"null", b'""')
_SHORT = 5


def _error(text: str, arguments: Any, fingerprinter: Fingerprinter) -> OutcomeFacts:
    data = result_bytes(text)
    transient = is_transient(text)
    shape = fingerprinter.error_shape(text, arguments)
    return OutcomeFacts(fingerprinter.of(data) ^ ERROR_SALT, data, True, shape, transient, False, False)  # noqa: FBT003


def _unwrapped(data: bytes) -> str:
    """The text of an error; that of an MCP result stands in its content."""
    if data[:1] == b"{" and b'"content"' in data and len(data) <= _LONGEST_UNWRAPPED:
        try:
            texts = [part["text"] for part in orjson.loads(data)["content"] if part.get("type") == "text"]
            return "\n".join(texts)
        except (ValueError, TypeError, KeyError, AttributeError):
            return data.decode("utf-8", "replace")  # something else that has a content
    return data.decode("utf-8", "replace")


def may_hide_error(text: str) -> bool:
    """A look that every result can afford: for one character, which is quick, before one for a word."""
    return text[:1] in _ERROR_BEGINS or ("E" in text and "sError" in text) or ("_" in text and "s_error" in text)


def hides_error(data: bytes, is_error: bool | None) -> bool:  # noqa: FBT001 - as the framework says it
    """Errors of MCP servers hide one level down: a flag inside the text, or no flag and a text that begins so."""
    if is_error is None and _BEGINS_AS_ERROR.match(data):
        return True
    if b"sError" not in data and b"s_error" not in data:
        return False
    parts = (data,) if len(data) <= _LONGEST_LOOK else (data[:_LONGEST_LOOK], data[-_LONGEST_LOOK:])
    return any(
        part[max(0, found.start() - 4) : found.start()].lower().endswith((b"ise", b"is_e"))
        for part in parts
        for found in _HIDDEN_ERROR.finditer(part)
    )
