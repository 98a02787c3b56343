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

_TRANSIENT = re.compile(
    r"(?:\bHTTP(?:/[\d.]+)?|\bstatus(?:[ _-]?code)?|\bcode|\berror|\bresponse)[\"']?[\s:=(\[]{1,3}[\"']?(?:429|5\d\d)\b"
    r"|\b(?:429|5\d\d):? (?:too many|internal server|bad gateway|service unavailable|gateway|server error)"
    r"|\btime(?:d)?[ -]?out|connection (?:was |has been )?(?:refused|reset)|\beconn(?:refused|reset)\b|\betimedout\b"
    r"|\boverloaded|\brate[ -]?limit|\btoo many requests|\bservice (?:is )?(?:temporarily )?unavailable"
    r"|Timeout(?:Error|Exception)?\b",
    re.IGNORECASE,
)
_STATUS = re.compile(r"5\d\d")
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
    likely = (
        "429" in text
        or ("5" in text and _STATUS.search(text) is not None)
        or ("time" in lower and "out" in lower)
        or ("rate" in lower and "limit" in lower)
        or "refused" in lower
        or "reset" in lower
        or "overloaded" in lower
        or "too many requests" in lower
        or "unavailable" in lower
    )
    return likely and _TRANSIENT.search(text) is not None
