"""Turn an outcome into facts: its fingerprint, and if it is an error, pending, transient or empty.

This runs outside of any lock, and no value is kept. Patterns find errors, results that are not done yet, and faults
that will pass. A search for plain words comes first: C does it in a fraction of the time, most texts contain none of
the words, and every call passes here.
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
_LONGEST_SEARCHED = 4_096
_LONGEST_UNWRAPPED = 65_536
_ERROR_FLAG = re.compile(rb"rror\\*[\"']?\s*[:=]\s*[Tt][Rr][Uu][Ee]")
"""The rest of ``isError`` or ``is_error``: ``re`` is quick with a pattern that begins with plain letters."""
_ERROR_PREFIX = re.compile(rb"\s*(?:\[?[\"']?(?:text[\"']?\s*[:=]\s*[\"'])?)Error\b")
_ERROR_PREFIX_STARTS = frozenset("E[\"'t \t\n\r\v\f")
"""The first characters of all texts that ``_ERROR_PREFIX`` matches."""
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
"""``_PENDING`` as one pattern for each word. Each begins with plain letters."""

_IS_STATUS = re.compile(
    r"(?:\bHTTP(?:/[\d.]+)?|\bstatus(?:[ _-]?code)?|\bcode|\berror|\bresponse)[\"']?[\s:=(\[]{1,3}[\"']?(?:429|5\d\d)\b"
    r"|\b(?:429|5\d\d):? (?:too many|internal server|bad gateway|service unavailable|gateway|server error)",
    re.IGNORECASE,
)
_IS_TIMEOUT = re.compile(r"\btime(?:d)?[ -]?out|\betimedout\b|Timeout(?:Error|Exception)?\b", re.IGNORECASE)
_IS_UNREACHED = re.compile(r"connection (?:was |has been )?(?:refused|reset)|\beconn(?:refused|reset)\b", re.IGNORECASE)
_IS_BUSY = re.compile(
    r"\boverloaded|\brate[ -]?limit|\btoo many requests|\bservice (?:is )?(?:temporarily )?unavailable", re.IGNORECASE
)
_STATUS_NUMBER = re.compile(r"429|5\d\d")
_STATUS_CONTEXT = 40

_EMPTY = (b"", b"[]", b"{}", b"null", b'""')
_LONGEST_EMPTY = 4


class OutcomeFacts(NamedTuple):
    """The facts about an outcome that the history needs."""

    digest: int
    data: bytes
    """The bytes for a detailed comparison; dropped with this object."""
    is_error: bool
    shape: int
    transient: bool
    pending: bool
    empty: bool
    sameness: Sameness | None = None
    """The comparison with the last result of this call, if it was made elsewhere and the bytes are gone."""


def outcome_facts(outcome: Outcome, arguments: Any, fingerprinter: Fingerprinter) -> OutcomeFacts:
    """Fingerprint an outcome and search its text."""
    result = outcome.result
    if outcome.error is not None:
        return _error_facts(error_text(outcome.error), arguments, fingerprinter)
    if type(result) is str:
        text, data = result, utf8(result)
    else:
        data = result_bytes(result)
        text = data.decode("utf-8", "replace")
    if outcome.is_error or (may_contain_error(text) and contains_error(data, outcome.is_error)):
        return _error_facts(_mcp_error_text(data), arguments, fingerprinter)
    digest = outcome.digest if outcome.digest is not None else fingerprinter.of(data)
    pending = len(text) <= _LONGEST_PENDING and is_pending(text, data)
    empty = len(data) <= _LONGEST_EMPTY and data in _EMPTY
    return tuple.__new__(OutcomeFacts, (digest, data, False, 0, False, pending, empty, None))  # nearly every call's


def _error_facts(text: str, arguments: Any, fingerprinter: Fingerprinter) -> OutcomeFacts:
    data = result_bytes(text)
    return OutcomeFacts(
        digest=fingerprinter.of(data) ^ ERROR_SALT,
        data=data,
        is_error=True,
        shape=fingerprinter.error_shape(text, arguments),
        transient=is_transient(text),
        pending=False,
        empty=False,
    )


def _mcp_error_text(data: bytes) -> str:
    """Return the text of an error; that of an MCP result is in its content."""
    if data[:1] == b"{" and b'"content"' in data and len(data) <= _LONGEST_UNWRAPPED:
        try:
            texts = [part["text"] for part in orjson.loads(data)["content"] if part.get("type") == "text"]
            return "\n".join(texts)
        except (ValueError, TypeError, KeyError, AttributeError):
            return data.decode("utf-8", "replace")  # no MCP result, but it has a content
    return data.decode("utf-8", "replace")


def may_contain_error(text: str) -> bool:
    """Return False for nearly every result, at little cost: a search for one character comes before one for a word."""
    return text[:1] in _ERROR_PREFIX_STARTS or ("E" in text and "sError" in text) or ("_" in text and "s_error" in text)


def contains_error(data: bytes, is_error: bool | None) -> bool:  # noqa: FBT001 - the flag as the framework gives it
    """MCP servers report errors inside the text: an ``isError`` flag, or a leading "Error" where no flag is given."""
    if is_error is None and _ERROR_PREFIX.match(data):
        return True
    if b"sError" not in data and b"s_error" not in data:
        return False
    parts = (data,) if len(data) <= _LONGEST_SEARCHED else (data[:_LONGEST_SEARCHED], data[-_LONGEST_SEARCHED:])
    return any(
        part[max(0, found.start() - 4) : found.start()].lower().endswith((b"ise", b"is_e"))
        for part in parts
        for found in _ERROR_FLAG.finditer(part)
    )


def is_pending(text: str, data: bytes) -> bool:
    """Return True if a short result reports that something is not done yet. ``data``: the bytes of the text."""
    lower = text.lower()
    if "%" in lower:
        return _PENDING.search(data.lower()) is not None
    queued = "q" in lower and "queued" in lower  # a rare letter: a search for it alone is quicker
    if queued or "pending" in lower or "running" in lower or "progress" in lower or "ready" in lower:
        return any(word in lower and pattern.search(data.lower()) for word, pattern in _PENDING_WORDS)
    return False


def is_transient(text: str) -> bool:
    """Return True if another attempt may help against this error."""
    text = text[:_LONGEST_SEARCHED]
    lower = text.lower()
    return (
        _has_transient_status(text)
        or ("time" in lower and "out" in lower and _IS_TIMEOUT.search(text) is not None)
        or (("refused" in lower or "reset" in lower) and _IS_UNREACHED.search(text) is not None)
        or (_may_be_busy(lower) and _IS_BUSY.search(text) is not None)
    )


def _has_transient_status(text: str) -> bool:
    """Return True if a status 429 or 5xx is next to a word for it; other numbers of three digits are common."""
    if "5" not in text and "429" not in text:
        return False
    return any(
        _IS_STATUS.search(text, max(0, found.start() - _STATUS_CONTEXT), found.end() + _STATUS_CONTEXT)
        for found in _STATUS_NUMBER.finditer(text)
    )


def _may_be_busy(lower: str) -> bool:
    return (
        ("rate" in lower and "limit" in lower)
        or "overloaded" in lower
        or "unavailable" in lower
        or "too many requests" in lower
    )
