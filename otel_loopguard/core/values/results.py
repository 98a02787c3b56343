"""What came back, fingerprinted: outside of any lock, and without keeping any of it.

Patterns find errors, results that are not done yet, and faults that will pass. A search for plain words comes first:
C does it in a fraction of the time, most texts hold none of the words, and every call passes here.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

import orjson

from otel_loopguard.core.values.canonical import result_bytes
from otel_loopguard.core.values.fingerprint import error_text
from otel_loopguard.core.values.normalise import utf8

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

_PENDING = re.compile(
    rb"\b(?:pending|queued|running|in[ _-]?progress|not[ _-](?:yet[ _-])?ready)\b|(?<![\d.])\d{1,2}(?:\.\d+)? ?%"
)
_PENDING_WORDS = (
    ("pending", re.compile(rb"pending\b(?<!\wpending)")),
    ("queued", re.compile(rb"queued\b(?<!\wqueued)")),
    ("running", re.compile(rb"running\b(?<!\wrunning)")),
    ("progress", re.compile(rb"progress\b(?:(?<=\bin[ _-]progress)|(?<=\binprogress))")),
    ("ready", re.compile(rb"ready\b(?:(?<=\bnot[ _-]ready)|(?<=\bnot[ _-]yet[ _-]ready))")),
)
"""The same, by word: a pattern that begins with plain letters is found by a search for them."""

_STATUS = (
    r"(?:\bHTTP(?:/[\d.]+)?|\bstatus(?:[ _-]?code)?|\bcode|\berror|\bresponse)[\"']?[\s:=(\[]{1,3}[\"']?(?:429|5\d\d)\b"
    r"|\b(?:429|5\d\d):? (?:too many|internal server|bad gateway|service unavailable|gateway|server error)"
)
_TIMEOUT = r"\btime(?:d)?[ -]?out|\betimedout\b|Timeout(?:Error|Exception)?\b"
_UNREACHED = r"connection (?:was |has been )?(?:refused|reset)|\beconn(?:refused|reset)\b"
_BUSY = r"\boverloaded|\brate[ -]?limit|\btoo many requests|\bservice (?:is )?(?:temporarily )?unavailable"
_TRANSIENT = re.compile("|".join((_STATUS, _TIMEOUT, _UNREACHED, _BUSY)), re.IGNORECASE)
_BY_SIGN = {name: re.compile(said, re.IGNORECASE) for name, said in
            (("status", _STATUS), ("timeout", _TIMEOUT), ("unreached", _UNREACHED), ("busy", _BUSY))}  # fmt: skip
"""The same, by what is looked for: of a text that may say one thing only that is asked."""
_NUMBER = re.compile(r"429|5\d\d")
_AROUND = 40


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


def says_pending(text: str, data: bytes) -> bool:
    """Whether a short result says that something is not done yet. ``data`` is the text's bytes."""
    lower = text.lower()
    if "%" in lower:
        return _PENDING.search(data.lower()) is not None
    queued = "q" in lower and "queued" in lower  # a rare letter: looking for it alone is quicker
    if queued or "pending" in lower or "running" in lower or "progress" in lower or "ready" in lower:
        return any(word in lower and pattern.search(data.lower()) for word, pattern in _PENDING_WORDS)
    return False


def is_transient(text: str) -> bool:
    """Whether an error says that trying again later may help."""
    text = text[:_LONGEST_LOOK]
    lower = text.lower()
    return (
        _says_status(text)
        or ("time" in lower and "out" in lower and _BY_SIGN["timeout"].search(text) is not None)
        or (("refused" in lower or "reset" in lower) and _BY_SIGN["unreached"].search(text) is not None)
        or (_may_be_busy(lower) and _BY_SIGN["busy"].search(text) is not None)
    )


def _says_status(text: str) -> bool:
    """A status stands beside a word that says so; a number of three digits may stand anywhere."""
    if "5" not in text and "429" not in text:
        return False
    return any(
        _BY_SIGN["status"].search(text, max(0, found.start() - _AROUND), found.end() + _AROUND)
        for found in _NUMBER.finditer(text)
    )


def _may_be_busy(lower: str) -> bool:
    return (
        ("rate" in lower and "limit" in lower)
        or "overloaded" in lower
        or "unavailable" in lower
        or "too many requests" in lower
    )
