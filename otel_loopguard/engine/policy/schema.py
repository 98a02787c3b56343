"""Every setting of a policy: a description of its valid values, and the function that parses them.

Files and code are checked alike. Values that only code can give (an ``Action``, a tuple) are accepted as well as text.
"""

from __future__ import annotations

import string
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from otel_loopguard.engine.words import Action, Kind, Mode
from otel_loopguard.interrupts import pass_interrupt

if TYPE_CHECKING:
    from collections.abc import Callable


class Setting(NamedTuple):
    """A description of the valid values, and a function that returns the parsed value, or None if it is invalid."""

    description: str
    parse: Callable[[Any], Any]
    words: tuple[str, ...] = ()
    """The valid words, if there are only a few."""


def _count(value: Any) -> int | None:
    is_number = isinstance(value, int) and not isinstance(value, bool)
    return value if is_number and 0 <= value <= sys.maxsize else None


def _number(value: Any) -> float | None:
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return float(value) if is_number and 0 <= value <= sys.float_info.max else None


def _share(value: Any) -> float | None:
    number = _number(value)
    return number if number is not None and number <= 1 else None


def _flag(value: Any) -> bool | None:
    return value if isinstance(value, bool) else None


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None


def _action(value: Any) -> Action | None:
    if isinstance(value, Action):
        return value
    return Action[value.upper()] if isinstance(value, str) and value.lower() in ACTIONS else None


def _texts(value: Any) -> tuple[str, ...] | None:
    valid = isinstance(value, (list, tuple, set, frozenset)) and all(isinstance(item, str) and item for item in value)
    return tuple(value) if valid else None


def _modes(value: Any) -> tuple[str, ...] | None:
    texts = _texts(value)
    return tuple(map(str, texts)) if texts is not None and set(texts) <= set(MODES) else None


def _functions(value: Any) -> tuple[Any, ...] | None:
    return tuple(value) if isinstance(value, (list, tuple)) and all(map(callable, value)) else None


def _route(value: Any) -> dict[str, Any] | None:
    if not isinstance(value, Mapping) or not set(value) <= {"tool", "args"} or "tool" not in value:
        return None
    route = {key: (item,) if isinstance(item, str) else _texts(item) for key, item in value.items()}
    return None if None in route.values() else route


def _choice(*words: str) -> Setting:
    return Setting(f"one of {', '.join(words)}", lambda value: value if value in words else None, words)


def _sentence(value: Any) -> str | None:
    if not isinstance(value, str):
        return None
    try:
        fields = [found for found in string.Formatter().parse(value) if found[1] is not None]
    except ValueError as error:  # a single brace
        pass_interrupt(error)
        return None
    # Plain names only: the result of {tool:d} or {count:>{limit}} depends on the values.
    valid = all(name in PLACEHOLDERS and not (spec or conversion) for _, name, spec, conversion in fields)
    return value if valid else None


MODES = tuple(str(mode) for mode in Mode)
ACTIONS = tuple(str(action) for action in Action)
KINDS = tuple(str(kind) for kind in Kind)
PLACEHOLDERS = ("tool", "count", "limit", "period", "before", "laps", "wait")

COUNT = Setting("a whole number, 0 or more", _count)
SECONDS = Setting("a number of seconds, 0 or more", _number)
SHARE = Setting("a number from 0 to 1", _share)
FLAG = Setting("true or false", _flag)
TEXT = Setting("a text that is not empty", _text)
TEXTS = Setting("a list of texts", _texts)
ACTION = Setting(f"one of {', '.join(ACTIONS)}", _action, ACTIONS)
SENTENCE = Setting(f"a text; {{...}} may hold {', '.join(PLACEHOLDERS)} alone, and other braces are doubled", _sentence)

ABORT_AFTER = 10
"""The default, which ``conclude_after`` is compared with."""
POLICY: Mapping[str, Setting] = {
    "action": ACTION,
    "conclude_after": COUNT,
    "abort_after": COUNT,
    "max_calls": COUNT,
    "scope": _choice("turn", "conversation"),
    "conversation_idle": SECONDS,
    "counting": _choice("results", "calls"),
    "order": Setting(f"a list of modes ({', '.join(MODES)})", _modes, MODES),
    "window": SECONDS,
    "window_calls": COUNT,
    "records": _choice("ran", "all"),
    "refusal": _choice("json", "mode", "text"),
    "mark": TEXT,
    "dangerous": TEXTS,
}
CODE: Mapping[str, Setting] = {
    "detectors": Setting("a list of functions (history, call, rule) -> Trip | None", _functions),
    "on_trip": Setting("a function (trip) -> Action | None", lambda value: value if callable(value) else None),
    "hash_key": Setting("bytes", lambda value: value if isinstance(value, bytes) else None),
}
"""Settings that only code can give."""
RULE: Mapping[str, Setting] = {
    "nudge": COUNT,
    "block": COUNT,
    "abort": COUNT,
    "action": ACTION,
    "once": FLAG,
    "block_after_reads": COUNT,
    "block_if_transient": COUNT,
    "nudge_after_changes": COUNT,
    "nudge_any_result": COUNT,
    "block_if_acted": COUNT,
    "block_if_acknowledged": COUNT,
    "fresh_after_news": COUNT,
    "block_if_destructive": COUNT,
    "similarity": SHARE,
    "max_period": Setting(
        "a whole number from 2 to 32", lambda value: value if _count(value) in range(2, 33) else None
    ),
    "min_interval": SECONDS,
    "min_interval_share": SHARE,
    "block_if_slow": COUNT,
    "patience": SECONDS,
    "nudge_at_share": SHARE,
    "no_news_nudge": COUNT,
    "no_news_block": COUNT,
    "turns": COUNT,
}
OF_MODES: Mapping[str, tuple[str, ...]] = {
    "abort": ("generic_repeat",),
    "block_after_reads": ("generic_repeat",),
    "nudge_after_changes": ("generic_repeat",),
    "block_if_transient": ("generic_repeat", "ping_pong", "cycle"),
    "nudge_any_result": ("volatile_repeat",),
    "block_if_acted": ("generic_repeat",),
    "block_if_acknowledged": ("generic_repeat",),
    "fresh_after_news": ("generic_repeat",),
    "block_if_destructive": ("repeated_effect",),
    "similarity": ("similar_query",),
    "max_period": ("cycle",),
    "min_interval": ("poll_no_progress",),
    "min_interval_share": ("poll_no_progress",),
    "block_if_slow": ("poll_no_progress",),
    "patience": ("poll_no_progress",),
    "nudge_at_share": ("retry_limit", "global_circuit_breaker"),
    "no_news_nudge": ("global_circuit_breaker",),
    "no_news_block": ("global_circuit_breaker",),
    "turns": ("no_novelty",),
}
"""Settings that only these modes have; all other settings are for every mode."""
RENAMED: Mapping[str, str] = {
    "reading": "block_after_reads",
    "transient": "block_if_transient",
    "changed": "nudge_after_changes",
    "any_result": "nudge_any_result",
    "hinted": "block_if_destructive",
    "longest": "max_period",
    "apart": "min_interval",
    "share": "nudge_at_share",
    "barren_nudge": "no_news_nudge",
    "barren_block": "no_news_block",
}
"""Old names of settings of a mode, from before the first release."""
CONTRACT: Mapping[str, Setting] = {
    "kind": Setting(f"one of {', '.join(KINDS)}", lambda value: Kind(value) if value in KINDS else None, KINDS),
    "query": TEXT,
    "volatile": TEXTS,
    "target": TEXT,
    "cap": COUNT,
    "once": FLAG,
    "reuse": FLAG,
    "route": Setting("a table { tool = parameter, args = parameter }; a list of parameters is taken in order", _route),
    "interval": SECONDS,
    "patience": SECONDS,
    "action": ACTION,
}
PRICE: Mapping[str, Setting] = {
    "input": Setting("a number, 0 or more", _number),
    "cached_input": Setting("a number, 0 or more", _number),
    "output": Setting("a number, 0 or more", _number),
}
WORDS = ("poll", "wait", "read", "write", "shell", "agent", "think", "take", "final", "handoff", "cursor", "pending")
SENTENCES = ("refusal", "nudge", "abort")
CONCLUSION = "conclude"
"""The name of the sentence for a model request without tools, which belongs to no mode."""
