"""The reference's view of a value: canonical text, masks, shapes. Slow, without hashes or bounds."""

from __future__ import annotations

import ast
import functools
import json
import re
from dataclasses import dataclass
from typing import Any

from tests.engine.reference.lists import WORDS

HOLE = "\x00"
VIEW = 8192
HALF = VIEW // 2

_DATE = r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:[.,]\d+)?)?(?:Z|[+-]\d\d:?\d\d)?"
_HTTP_DATE = (
    r"(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun), \d\d (?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec) \d{4} "
    r"\d\d:\d\d:\d\d(?: GMT| [+-]\d{4})?"
)
_UUID = r"(?<![0-9A-Za-z])[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}(?![0-9A-Za-z])"
_HEX = r"(?<![0-9A-Za-z])(?:0x)?(?=[0-9a-fA-F]*[0-9])(?=[0-9a-fA-F]*[a-fA-F])[0-9a-fA-F]{7,}(?![0-9A-Za-z])"
_LONG = r"(?<![0-9.])\d{10,}(?:\.\d+)?(?![0-9])"
IDS = re.compile(f"0x[0-9A-Fa-f]+|{_UUID}|{_HEX}")
VOLATILE = re.compile("|".join((_DATE, _HTTP_DATE, _UUID, _HEX, _LONG)))
DURATION = re.compile(r"(?<![\w.])\d+(?:\.\d+)?\s?(?:ns|us|µs|ms|s|secs?|seconds?|mins?|minutes?|hours?)(?!\w)")
NAMED_DURATION = re.compile(
    r"(?<![A-Za-z])((?:latency|duration|elapsed|took)[\w ]{0,12}[:=]?\s?)\d+(?:\.\d+)?", re.IGNORECASE
)
DURATION_WORDS = {"latency", "duration", "elapsed", "took"}
NUMBERED_WORD = re.compile(r"\w*\d\w*(?:[.:/-]\w*\d\w*)*")
NUMBER = re.compile(r"\d+(?:\.\d+)?")


def words(name: str) -> list[str]:
    """The words of a name in lower case."""
    spaced = re.sub(r"([a-z0-9])([A-Z])", r"\1 \2", name)
    spaced = re.sub(r"([A-Z]+)([A-Z][a-z])", r"\1 \2", spaced)
    return [word.lower() for word in re.split(r"[^A-Za-z0-9]+", spaced) if word]


def number(value: float) -> str:
    """The text of a number; 1 and 1.0 are one number."""
    if isinstance(value, float) and value == value and abs(value) != float("inf") and value == int(value):  # noqa: PLR0124
        return str(int(value))
    return repr(value)


def canonical(value: Any) -> str:
    """The plain text of a value: keys sorted at every depth, 1 = 1.0, True is not 1."""
    if isinstance(value, bool) or value is None:
        return json.dumps(value)
    if isinstance(value, str):
        return json.dumps(value)
    return number(value) if isinstance(value, (int, float)) else _composite(value)


def _composite(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ",".join(sorted(f"{canonical(str(k))}:{canonical(v)}" for k, v in value.items())) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ",".join(canonical(item) for item in value) + "]"
    if isinstance(value, (set, frozenset)):
        return "<" + ",".join(sorted(canonical(item) for item in value)) + ">"
    return f"{type(value).__name__}:{value!r}"


def parsed(text: str) -> Any:
    """The object that a text stands for: JSON or a Python literal of a dict or list; else the text."""
    stripped = text.strip()
    if stripped[:1] not in ("{", "["):
        return text
    for read in (json.loads, ast.literal_eval):
        try:
            value = read(stripped)
        except (ValueError, SyntaxError, RecursionError, MemoryError):
            continue
        if isinstance(value, (dict, list)):
            return value
    return text


def fold(value: Any, key: str = "") -> Any:
    """Strip single-line strings and fold runs of blanks in them; in ``sql`` and ``query`` line breaks too."""
    if isinstance(value, dict):
        return {k: fold(v, str(k)) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [fold(item, key) for item in value]
    if isinstance(value, str):
        if key in ("sql", "query"):
            return re.sub(r"[ \t\r\n]+", " ", value).strip(" ")
        if "\n" not in value and "\r" not in value:
            return re.sub(r"[ \t]+", " ", value).strip(" ")
    return value


def arguments_text(arguments: Any, *, loose: bool) -> str:
    """The text by which arguments are compared."""
    if arguments is None or (isinstance(arguments, str) and not arguments.strip(" \t\r\n")):
        arguments = {}
    value = parsed(arguments) if isinstance(arguments, str) else arguments
    return canonical(fold(value) if loose else value)


def unwrapped(result: Any) -> Any:
    """A result as the model reads it: the text inside MCP's content, else the result itself."""
    if isinstance(result, dict) and isinstance(result.get("content"), list):
        items = result["content"]
        texts = [i.get("text") for i in items if isinstance(i, dict) and i.get("type") == "text"]
        if items and len(texts) == len(items) and all(isinstance(text, str) for text in texts):
            return "\n".join(texts)
    return result


def result_text(result: Any) -> str:
    """The bytes of a result."""
    inner = unwrapped(result)
    return inner if isinstance(inner, str) else canonical(inner)


def shown_text(result: Any) -> str:
    """The text of a result as the model reads it: keys in their own order."""
    inner = unwrapped(result)
    if isinstance(inner, str):
        return inner
    try:
        return json.dumps(inner)
    except (TypeError, ValueError, RecursionError):
        return str(inner)


@dataclass(frozen=True)
class View:
    """A result with its volatile parts masked."""

    text: str
    has_values: bool
    outside: str = ""


@functools.cache
def view(text: str, *, masked: bool, durations: bool, volatile: frozenset[str]) -> View:
    """The masked text of a result; ``durations`` masks values like ``3.2s`` too."""
    outside = ""
    value: Any = text
    if len(text) > VIEW:
        outside, value = text[HALF:-HALF], text[:HALF] + text[-HALF:]
    else:
        value = parsed(text)
    if isinstance(value, str):
        hidden = _mask_text(value, durations) if masked else value
        return View(hidden, bool(re.search(r"\w", hidden)), outside)
    found: list[bool] = []
    shown = _mask_json(value, masked, durations, volatile, found)
    return View(canonical(shown), any(found), outside)


def _mask_text(text: str, durations: bool) -> str:
    hidden = NAMED_DURATION.sub(rf"\1{HOLE}", VOLATILE.sub(HOLE, text))
    return DURATION.sub(HOLE, hidden) if durations else hidden


def _mask_json(value: Any, masked: bool, durations: bool, volatile: frozenset[str], found: list[bool]) -> Any:
    """Mask the value; ``found`` gets True for every leaf with something left to see, else False."""
    if isinstance(value, dict) and value:
        out = {}
        for key, item in value.items():
            if str(key) in volatile or (masked and DURATION_WORDS & set(words(str(key)))):
                out[key] = HOLE
            else:
                out[key] = _mask_json(item, masked, durations, volatile, found)
        return out
    if isinstance(value, (list, tuple)) and value:
        return [_mask_json(item, masked, durations, volatile, found) for item in value]
    if isinstance(value, str):
        inner = parsed(value)
        if not isinstance(inner, str):
            return _mask_json(inner, masked, durations, volatile, found)
        hidden = _mask_text(value, durations) if masked else value
        found.append(not value or bool(re.search(r"\w", hidden)))
        return hidden
    if isinstance(value, (int, float)) and not isinstance(value, bool) and masked:
        hidden = VOLATILE.sub(HOLE, number(value))
        found.append(hidden != HOLE)
        return hidden if HOLE in hidden else value
    found.append(True)
    return value


def shape(text: str) -> str:
    """A text without any word that has a digit in it."""
    return " ".join(NUMBERED_WORD.sub("", text.replace(HOLE, "")).split())


def leaves(value: Any) -> list[str]:
    """All plain values of the arguments as text."""
    if isinstance(value, str):
        inner = parsed(value)
        return [value] if isinstance(inner, str) else [value, *leaves(inner)]
    if isinstance(value, dict):
        return [leaf for item in value.values() for leaf in leaves(item)]
    if isinstance(value, (list, tuple)):
        return [leaf for item in value for leaf in leaves(item)]
    return [] if value is None or isinstance(value, bool) else [str(value)]


def error_shape(text: str, arguments: Any) -> str:
    """An error in which digits, ids, quoted text and the call's own arguments are masked; "" for a bare exit code."""
    if EXIT_CODE.fullmatch(text.strip()):
        return ""
    for leaf in sorted(set(leaves(arguments)), key=len, reverse=True):
        if leaf.strip():
            text = re.sub(rf"(?<!\w){re.escape(leaf.strip())}(?!\w)", HOLE, text)
    text = re.sub(r"'[^'\n]*'|\"[^\"\n]*\"|`[^`\n]*`", HOLE, text)
    return re.sub(r"\d+", HOLE, IDS.sub(HOLE, text))


TRANSIENT = re.compile(
    r"\b(?:http(?:/[\d.]+)?|status|code|error|response)(?:[ _-]?code)?[\s:=\"'(\[]{1,4}(?:429|5\d\d)\b"
    r"|too many requests|\b(?:429|5\d\d):? (?:internal )?server error|service unavailable|bad gateway"
    r"|gateway time-?out|time[d -]{0,2}out|timeouterror"
    r"|connection (?:was |has been )?(?:refused|reset)|connection(?:refused|reset)|econnre(?:fused|set)|overloaded"
    r"|rate[ -]?limit"
    r"|could not serialize|serialization failure|\bdeadlock|\block(?:ed| wait timeout)\b|\btemporar(?:y|ily)\b"
    r"|\btry again (?:later|in)\b|\bretry[ -]after\b|\b(?:failed to|could not|couldn't|cannot|unable to) connect\b",
    re.IGNORECASE,
)
ONLY_TRANSIENT = re.compile(r"\s*(?:429|5\d\d)\s*")
UNREACHED = re.compile(
    r"connection (?:was |has been )?(?:refused|reset)|\beconnre(?:fused|set)\b"
    r"|\b(?:failed to|could not|couldn't|cannot|unable to) connect\b",
    re.IGNORECASE,
)


def _any_of(phrases: list[str]) -> str:
    """A pattern for phrases; those in scripts without blanks are found inside of words."""
    return "|".join(
        re.escape(phrase) if phrase[0] > "\u2e80" else rf"\b(?:{re.escape(phrase)})\b".replace(r"\ ", "[ _-]")
        for phrase in phrases
    )


PART_OF = re.compile(
    r"(?<![\d.])([0-9]+) ?(?:of|out of|/) ?([0-9]+) (?:\w+ )*?(?:available|ready|running|updated|completed?|done)\b"
)
OVER = re.compile(rf"(?:{_any_of(WORDS['ended'])})(?![\"']?\s*[:=])", re.IGNORECASE)
AGAIN_AFTER = re.compile(
    r"(?:retry|try again)[ _-]?(?:after|in)[\"']?[\s:=]{0,3}[\"']?([0-9.]+) ?(m(?!s)|h)?", re.IGNORECASE
)
PENDING = re.compile(
    rf"{_any_of(WORDS['pending'])}|(?<![\d.])\d{{1,2}}(?:\.\d+)? ?%"
    r"|\b(?:ready|done|completed?|finished)[\"']?\s?[:=]\s?[\"']?(?:false|no)\b",
    re.IGNORECASE,
)
SHORT = 300
BRIEF = 80
ERROR_START = re.compile(
    r"\s*(?:(?:error|fatal|exception|traceback|failed to|failure:)(?![a-z])|(?-i:[45]\d\d [A-Z])"
    r"|(?:unknown|invalid|no such) (?:tool|function)\b|tool \S+ (?:was )?(?:not found|does not exist))",
    re.IGNORECASE,
)
ERROR_FIELD = re.compile(r"\s*\{\s*\"error\"\s*:\s*(?!null|false)")
HIDDEN_ERROR = re.compile(r"isError\"?\s*[=:]\s*[Tt]rue")
EXIT_CODE = re.compile(
    r"[\w .]{0,30}exit(?:ed)?(?: with)?(?: (?:non-?zero )?(?:code|status))?:?\s*-?\d+\.?", re.IGNORECASE
)


def says_pending(text: str) -> bool:
    """Return True if a short result means that something is still going on."""
    if len(text) > SHORT:
        return False
    part = PART_OF.search(text.lower())
    return bool(PENDING.search(text) or UNREACHED.search(text) or (part and int(part[1]) < int(part[2])))


def says_over(text: str, *, failed: bool) -> bool:
    """Return True if a result says that nothing is left to wait for."""
    if says_transient(text, failed=failed):
        return False
    return failed or (len(text) <= SHORT and not says_pending(text) and bool(OVER.search(text)))


def again_after(text: str, *, failed: bool) -> float:
    """The seconds after which a short result, or an error, asks to be tried again."""
    found = AGAIN_AFTER.search(text) if failed or len(text) <= SHORT else None
    return float(found[1]) * {None: 1, "m": 60, "h": 3600}[found[2]] if found else 0.0


def seconds_named(arguments: Any) -> list[float]:
    """The numbers of seconds in the arguments of a wait."""
    values = arguments.values() if isinstance(arguments, dict) else [arguments]
    texts = [str(value) for value in values if isinstance(value, (str, int, float)) and not isinstance(value, bool)]
    found = [re.search(r"(?:^|\bsleep )\s*([0-9]+(?:[.][0-9]+)?)", text) for text in texts]
    numbers = [float(one[1]) for one in found if one]
    return [number / (1000 if number >= 1000 else 1) for number in numbers if number > 0]


def says_transient(text: str, *, failed: bool) -> bool:
    """Return True if an error, or a short result, means that the same may work later."""
    return (failed or len(text) <= SHORT) and bool(TRANSIENT.search(text) or ONLY_TRANSIENT.fullmatch(text))


def says_error(text: str) -> bool:
    """Return True if a text that the framework calls neither result nor error is an error."""
    return bool(ERROR_START.match(text) or ERROR_FIELD.match(text) or HIDDEN_ERROR.search(text[:VIEW]))


NAMED = re.compile(
    r"(?<![A-Za-z])(?:(?:[A-Za-z0-9_]*_)?(?:id|pid|uid|ref|run|process|session)|[A-Za-z0-9]*[a-z](?:Id|ID))"
    r"(?![a-z]{2})[\"']?[:=# ]{0,2}[\"']?(?-i:[A-Za-z]{0,9})(\d+)",
    re.IGNORECASE,
)
MOST_NAMES = 32


def named_numbers(text: str) -> set[str]:
    """The numbers that name something: they have a name such as ``id`` before them."""
    return {match.group(1) for match in list(NAMED.finditer(text))[:MOST_NAMES]}


def without_names(text: str, names: set[str]) -> str:
    """A text without the numbers that name something."""
    return NUMBER.sub(lambda match: HOLE if match.group() in names else match.group(), text)


CODE = re.compile(r"(?<![\w.-])(?=[\w-]*[0-9])(?=[\w-]*[A-Za-z])[\w-]{8,}(?![\w.])", re.ASCII)
TIME = re.compile(
    "|".join((_DATE, _HTTP_DATE, r"(?<![0-9A-Za-z])\d{10,13}(?:\.\d+)?(?![0-9A-Za-z])", DURATION.pattern))
)


def values(text: str, shown: View) -> str:
    """What may be news in a result: all but ids, codes and times; all but times, if nothing else is in it."""
    if not shown.has_values:
        return TIME.sub("", text)
    nameless = without_names(shown.text, named_numbers(shown.text))
    rest = nameless if re.search(r"\w", NAMED.sub("", shown.text)) else shown.text
    return CODE.sub(HOLE, rest)


ALWAYS_SILENT = {"request_id", "idempotency_key", "nonce", "trace_id", "correlation_id"}
REASONS = {"explanation", "reasoning", "rationale", "thought", "thoughts", "justification"}
HAND_OVERS = {
    "reason", "message", "task_description", "context", "summary", "instructions", "input", "details", "notes", "task",
}  # fmt: skip
DESCRIPTIONS = {"description", "reason", "purpose", "intent"}


def silent(name: str, kind: str) -> bool:
    """Return True if an argument of this name says nothing about what a call does."""
    plain_name = "_".join(words(name))
    if plain_name in ALWAYS_SILENT:
        return True
    if kind == "handoff":
        return plain_name in HAND_OVERS | REASONS | DESCRIPTIONS
    if plain_name in REASONS:
        return kind not in ("think", "agent", "final")
    return plain_name in DESCRIPTIONS and kind in ("read", "poll", "shell")


def telling(arguments: Any, kind: str) -> Any:
    """The arguments that say something; all of them, if none does."""
    if not isinstance(arguments, dict):
        return arguments
    kept = {key: value for key, value in arguments.items() if not silent(str(key), kind)}
    return kept if kept or kind == "handoff" else arguments


def answer_outline(text: str, arguments: Any) -> str:
    """A result without its ids and without what it repeats of its call's own arguments."""
    masked = view(text, masked=True, durations=False, volatile=frozenset()).text
    for leaf in sorted(set(leaves(arguments)), key=len, reverse=True):
        if leaf.strip():
            masked = re.sub(rf"(?<!\w){re.escape(leaf.strip())}(?!\w)", HOLE, masked)
    return masked
