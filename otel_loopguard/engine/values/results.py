"""Turn an outcome into facts: its fingerprint, and if it is an error, pending, transient or empty.

This runs outside of any lock. Patterns find errors, results that are not done yet, and faults that will pass. A search
for plain words comes first: it takes a fraction of the time, and most texts contain none of the words.
"""

from __future__ import annotations

import re
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

import orjson

from otel_loopguard.engine.values.canonical import LARGEST_RESULT, ends_of, result_bytes
from otel_loopguard.engine.values.emptiness import LONGEST as LONGEST_EMPTY
from otel_loopguard.engine.values.emptiness import Emptiness, emptiness
from otel_loopguard.engine.values.fingerprint import error_text
from otel_loopguard.engine.values.normalise import utf8
from otel_loopguard.interrupts import pass_interrupt

if TYPE_CHECKING:
    from otel_loopguard.engine.values.fingerprint import Fingerprinter
    from otel_loopguard.engine.values.pending import PendingWords
    from otel_loopguard.engine.vocabulary import Outcome, Sameness

_LONGEST_REPORT = 300
"""Letters. A longer result is content, which may hold any word: it is not taken for a report such as "pending"."""
_LONGEST_SEARCHED = 4_096
_LONGEST_END = 4 * _LONGEST_SEARCHED
"""Bytes: four for each letter that is searched."""
_LONGEST_FIRST_KEY = 32
_LONGEST_UNWRAPPED = 65_536
_ERROR_FLAG = re.compile(r"(?<=i)s_?Error\\*[\"']?\s*[:=]\s*true", re.IGNORECASE)
"""``isError`` or ``is_error``, in JSON or Python, within a text or not."""
_ERROR_BEGINNING = re.compile(
    r"\s*(?:\[?[\"']?(?:text[\"']?\s*[:=]\s*[\"'])?"
    r"(?:(?:error|fatal|exception|traceback|failed to|(?:unknown|invalid|no such) (?:tool|function))\b|failure:"
    r"|tool \S{1,128} (?:was )?(?:not found|does not exist)|[45]\d\d:? (?-i:[A-Z]))"
    r"|\{\s*[\"']error[\"']\s*:(?!\s*(?:null|false|none|\"\"|'')))",
    re.IGNORECASE,
)
_ERROR_WORDS_BEGIN = frozenset({"err", "fat", "exc", "tra", "fai", "tex", "unk", "inv", "no ", "too"})
_ERROR_BEGINS_WITH = frozenset("45[\"' \t\n\r\v\f")
"""The beginnings of all texts that ``_ERROR_BEGINNING`` matches: of words, and other characters."""
_EXCEPTION = re.compile(r"\s*(?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception): ")
"""The name of an exception, as Python and Java print it."""
_LONGEST_EXCEPTION = 64
ERROR_SALT = 0x9E3779B97F4A7C15
"""An error never has the fingerprint of a result with the same text."""

_IS_STATUS = re.compile(
    r"(?:\bHTTP(?:/[\d.]+)?|\bstatus(?:[ _-]?code)?|\bcode|\berror|\bresponse)[\"']?[\s:=(\[]{1,3}[\"']?(?:429|5\d\d)\b"
    r"|\b(?:429|5\d\d):? (?:too many|internal server|bad gateway|service unavailable|gateway|server error)",
    re.IGNORECASE,
)
_IS_TIMEOUT = re.compile(r"\btime(?:d)?[ -]?out|\betimedout\b|Timeout(?:Error|Exception)?\b", re.IGNORECASE)
_TIMED_OUT = re.compile(
    r"\btimed[ -]?out|\betimedout\b|\btimeout(?:error|exception)\b"
    r"|\b(?:gateway|request|connection|connect|read|operation)[ -]time-?out\b"
    r"|\btime-?out (?:after|exceeded|expired|while|waiting)\b",
    re.IGNORECASE,
)
"""A time-out in a result, where "timeout: 20" may be a setting."""
_IS_UNREACHED = re.compile(
    r"connection (?:was |has been )?(?:refused|reset)|\beconn(?:refused|reset)\b"
    r"|\b(?:failed|could(?: not|n't)|cannot|unable) (?:to )?connect\b",
    re.IGNORECASE,
)
_IS_BUSY = re.compile(
    r"\boverloaded|\brate[ -]?limit|\btoo many requests|\bservice (?:is )?(?:temporarily )?unavailable"
    r"|\bcould not serialize|\bserialization failure|\bdeadlock|\block(?:ed| wait timeout)\b|\btemporar(?:y|ily)\b"
    r"|\btry again (?:later|in)\b|\bretry[ -]after\b",
    re.IGNORECASE,
)
_BUSY_WORDS = (
    "limit", "overloaded", "unavailable", "too many", "serializ", "deadlock", "lock", "tempor", "try again", "retry",
)  # fmt: skip
"""Each of the phrases above has one of them."""
_RETRY_AFTER = re.compile(
    r"(?:retry|try again)[ _-]?(?:after|in)[\"']?[\s:=]{0,3}[\"']?(\d{1,5}(?:\.\d{1,3})?) ?(m(?!s)|h)?"
)
_SECONDS_OF = {None: 1, "m": 60, "h": 3_600}
_ONLY_STATUS = re.compile(r"\W*(?:429|5\d\d)\W*")
_STATUS_NUMBER = re.compile(r"429|5\d\d")
_STATUS_CONTEXT = 40
_MOST_NUMBERS = 64

LONGEST_BRIEF = 80
_CONTENT = Emptiness.CONTENT


class Findings(NamedTuple):
    """The findings of a guard about an outcome, as the span of the call has them; see ``Record``."""

    sameness: Sameness
    news: bool
    row: int
    turns_without_news: int | None = None
    acted: bool = False


class OutcomeFacts(NamedTuple):
    """The facts about an outcome that the history needs."""

    digest: int
    """The keyed fingerprint of the result, or of the error."""
    data: bytes
    """The bytes for a detailed comparison; dropped with this object."""
    is_error: bool
    shape: int
    """The keyed fingerprint of an error's shape; 0 for a result, and for an error without one."""
    transient: bool
    """True if another attempt may help: an error, or a short result that reports one, is a fault that may pass."""
    pending: bool
    """True if a short result says that work is not done yet."""
    empty: Emptiness
    """CONTENT for an error, too."""
    brief: bool
    """True if it has up to 80 bytes, as an acknowledgement has."""
    over: bool = False
    """True if a short result says that nothing is left to wait for."""
    retry_after: float = 0.0
    """The seconds after which a short result, or an error, asks to be tried again; 0 if it does not say."""
    found: Findings | None = None
    """The findings of the guard that compared the outcome, if it was compared before and the bytes are gone."""


def outcome_facts(
    outcome: Outcome, arguments: Any, fingerprinter: Fingerprinter, pending_words: PendingWords | None
) -> OutcomeFacts:
    """Fingerprint an outcome, and search its text.

    ``pending_words=None``: do not ask if a result is pending or transient.
    """
    result = outcome.result
    if outcome.error is not None:
        return _error_facts(error_text(outcome.error), arguments, fingerprinter)
    if type(result) is str:
        text = result if len(result) <= LARGEST_RESULT else ends_of(result)
        data = utf8(text)
    else:
        data = result_bytes(result)
        ends = data if len(data) <= 2 * _LONGEST_END else data[:_LONGEST_END] + data[-_LONGEST_END:]
        text = ends.decode("utf-8", "replace")
    if outcome.is_error or (outcome.is_error is None and is_error_text(text)):
        return _error_facts(_mcp_error_text(data), arguments, fingerprinter)
    digest = outcome.digest if outcome.digest is not None else fingerprinter.of(data)
    pending = transient = over = False
    after = 0.0
    length = len(data)
    if pending_words is not None and len(text) <= _LONGEST_REPORT:
        lower = text.lower()
        transient = is_transient(text, lower, timeout=_TIMED_OUT)
        # A refused connection that is no error of the tool is that of a server which the tool was asked about.
        pending = pending_words.are_in(lower) or (transient and _is_unreached(text, lower))
        over = not (pending or transient) and pending_words.say_that_it_is_over(lower)
        after = retry_after(lower)
    empty = emptiness(text) if length <= LONGEST_EMPTY else _CONTENT
    # Nearly every call's; see ``nothing_seen``.
    return tuple.__new__(
        OutcomeFacts, (digest, data, False, 0, transient, pending, empty, length <= LONGEST_BRIEF, over, after, None)
    )


def _error_facts(text: str, arguments: Any, fingerprinter: Fingerprinter) -> OutcomeFacts:
    data = result_bytes(text)
    head = text[:_LONGEST_SEARCHED]
    lower = head.lower()
    # Any two faults look alike in an empty object.
    tells_nothing = text[:1] == "{" and len(text) <= LONGEST_EMPTY and emptiness(text) > _CONTENT
    transient = is_transient(head, lower) or _ONLY_STATUS.fullmatch(head) is not None
    return OutcomeFacts(
        digest=fingerprinter.of(data) ^ ERROR_SALT,
        data=data,
        is_error=True,
        shape=0 if tells_nothing else fingerprinter.error_shape(text, arguments),
        transient=transient,
        pending=False,
        empty=_CONTENT,
        brief=len(data) <= LONGEST_BRIEF,
        retry_after=retry_after(lower),
    )


def _mcp_error_text(data: bytes) -> str:
    """Return the text of an error result; of an MCP result, that in its ``content``."""
    if data[:1] == b"{" and b'"content"' in data and len(data) <= _LONGEST_UNWRAPPED:
        try:
            texts = [part["text"] for part in orjson.loads(data)["content"] if part.get("type") == "text"]
            return "\n".join(texts)
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            pass_interrupt(error)
            return data.decode("utf-8", "replace")  # no MCP result, but it has a content
    return data.decode("utf-8", "replace")


def is_error_text(text: str) -> bool:
    """Return True if a result is an error, by its text alone: for frameworks and servers that give no flag.

    A search for one character comes before one for a word: it is faster, and nearly all results end here.
    """
    first = text[:1]
    if first == "{":
        may_begin = "error" in text[:_LONGEST_FIRST_KEY].lower()
    else:
        may_begin = first in _ERROR_BEGINS_WITH or text[:3].lower() in _ERROR_WORDS_BEGIN
    if may_begin and _ERROR_BEGINNING.match(text[:_LONGEST_SEARCHED]):
        return True
    head = text[:_LONGEST_EXCEPTION]
    if ":" in head and ("rror: " in head or "xception: " in head) and _EXCEPTION.match(head):
        return True
    if len(text) > _LONGEST_SEARCHED:
        text = f"{text[:_LONGEST_SEARCHED]}\0{text[-_LONGEST_SEARCHED:]}"
    may_have_flag = ("E" in text and "sError" in text) or ("_" in text and "s_error" in text)
    return may_have_flag and _ERROR_FLAG.search(text) is not None


def is_transient(text: str, lower: str, *, timeout: re.Pattern[str] = _IS_TIMEOUT) -> bool:
    """Return True if a text reports a fault that may pass (503, timeout, overloaded). ``lower``: it in lower case."""
    return (
        (("5" in text or ("9" in text and "429" in text)) and _has_transient_status(text))
        or ("time" in lower and "out" in lower and timeout.search(text) is not None)
        or _is_unreached(text, lower)
        or (any(word in lower for word in _BUSY_WORDS) and _IS_BUSY.search(text) is not None)
    )


def _is_unreached(text: str, lower: str) -> bool:
    return ("refused" in lower or "reset" in lower or "connect" in lower) and _IS_UNREACHED.search(text) is not None


def retry_after(lower: str) -> float:
    """Return the seconds after which a text in lower case asks to be tried again; 0 if it does not say."""
    found = _RETRY_AFTER.search(lower) if "retry" in lower or "try again" in lower else None
    return 0.0 if found is None else float(found[1]) * _SECONDS_OF[found[2]]


def _has_transient_status(text: str) -> bool:
    """Return True if a status 429 or 5xx is next to a word for it; other numbers of three digits are common."""
    for found in islice(_STATUS_NUMBER.finditer(text), _MOST_NUMBERS):
        start, end = found.span()
        if _IS_STATUS.search(text, max(0, start - _STATUS_CONTEXT), end + _STATUS_CONTEXT):
            return True
    return False
