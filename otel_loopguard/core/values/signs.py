"""What the text of a result or an error says: that something is not done yet, that a fault will pass.

The patterns decide. Before each stands a look for plain words, which C does in a fraction of the time: most texts
hold none of them, and every call passes here.
"""

from __future__ import annotations

import re

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
_LONGEST_LOOK = 4_096


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
