"""The settings of a policy, each with its valid values. Those of one mode come from the row of its detector."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from otel_loopguard.engine.detectors import run_budget
from otel_loopguard.engine.detectors.row import Detector
from otel_loopguard.engine.modes import ROWS
from otel_loopguard.engine.rule import OF_EVERY_MODE
from otel_loopguard.engine.settings import ACTION, COUNT, FLAG, NUMBER, SECONDS, TEXT, TEXTS, Setting
from otel_loopguard.engine.vocabulary import Kind

if TYPE_CHECKING:
    from collections.abc import Collection


def order_of(modes: Collection[str]) -> Setting:
    """Return the setting ``order``: a list of some of these modes."""
    known = tuple(map(str, modes))

    def parse(value: Any) -> tuple[str, ...] | None:
        texts = TEXTS.parse(value)
        return tuple(map(str, texts)) if texts is not None and set(texts) <= set(known) else None

    return Setting(f"a list of modes ({', '.join(known)})", parse, known)


def _is_detector(value: Any) -> bool:
    return isinstance(value, Detector) or callable(value)


def _functions(value: Any) -> tuple[Any, ...] | None:
    return tuple(value) if isinstance(value, (list, tuple)) and all(map(_is_detector, value)) else None


def _route(value: Any) -> dict[str, Any] | None:
    if not isinstance(value, Mapping) or not set(value) <= {"tool", "args"} or "tool" not in value:
        return None
    route = {key: (item,) if isinstance(item, str) else TEXTS.parse(item) for key, item in value.items()}
    return None if None in route.values() else route


def _choice(*words: str) -> Setting:
    return Setting(f"one of {', '.join(words)}", lambda value: value if value in words else None, words)


def _currency(value: Any) -> str | None:
    return value if isinstance(value, str) and re.fullmatch("[A-Z]{3}", value) else None


KINDS = tuple(str(kind) for kind in Kind)

ABORT_AFTER = 10
"""The default of ``abort_after``, which the check of ``conclude_after`` needs, too."""
POLICY: Mapping[str, Setting] = {
    "action": ACTION,
    "conclude_after": COUNT,
    "abort_after": COUNT,
    "max_calls": COUNT,
    "scope": _choice("turn", "conversation"),
    "conversation_idle": SECONDS,
    "counting": _choice("results", "calls"),
    "order": order_of(ROWS),
    "window": SECONDS,
    "window_calls": COUNT,
    "records": _choice("ran", "all"),
    "arguments": _choice("identical", "normalised"),
    "refusal": _choice("json", "mode", "text"),
    "mark": TEXT,
    "currency": Setting("a code of three capital letters (ISO 4217), such as USD", _currency),
    "dangerous": TEXTS,
}
CODE: Mapping[str, Setting] = {
    "detectors": Setting("a list of functions (history, record, rule) -> Trip | None, or of Detectors", _functions),
    "on_trip": Setting("a function (trip) -> Action | None", lambda value: value if callable(value) else None),
    "on_end": Setting("a function (ended) -> None", lambda value: value if callable(value) else None),
    "hash_key": Setting("bytes", lambda value: value if isinstance(value, bytes) else None),
}
"""Settings that only code can give."""
RULE: Mapping[str, Setting] = {
    **OF_EVERY_MODE,
    **{name: setting for row in ROWS.values() for name, setting in row.settings.items()},
}
"""Every setting that some mode has."""
OF_MODES: Mapping[str, tuple[str, ...]] = {
    name: tuple(str(mode) for mode, row in ROWS.items() if name in row.settings)
    for name in RULE
    if name not in OF_EVERY_MODE
}
"""By setting that not every mode has: the modes that have it."""
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
BUDGETS = run_budget.SCOPES
"""By scope of a budget: its accounts."""
BUDGET = run_budget.SETTINGS
PRICE: Mapping[str, Setting] = {
    "input": NUMBER,
    "cached_input": NUMBER,
    "output": NUMBER,
}
WORDS = ("poll", "wait", "read", "write", "shell", "agent", "think", "take", "final", "handoff", "cursor", "pending")
SENTENCES = ("refusal", "nudge", "abort")
CONCLUSION = "conclude"
"""The name of the sentence for a model request without tools, which belongs to no mode."""
