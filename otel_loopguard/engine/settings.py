"""The settings of policies: for each, its valid values in words, and the function that parses them.

Files and code are checked alike. Values that only code can give (an ``Action``, a tuple) are accepted as well as text.
"""

from __future__ import annotations

import string
import sys
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from otel_loopguard.engine.vocabulary import Action
from otel_loopguard.interrupts import pass_interrupt

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass(frozen=True)
class Setting:
    """One setting: its valid values, how they are parsed, and what it does. ``Setting.count("The run that ...")``."""

    description: str
    """The valid values in words, such as "a whole number, 0 or more"."""
    parse: Callable[[Any], Any]
    """Returns the parsed value; None if it is invalid."""
    words: tuple[str, ...] = ()
    """The valid words, if there are only a few."""
    meaning: str = ""
    """What the setting does, for the page on policies."""

    @classmethod
    def count(cls, meaning: str) -> Setting:
        """Return a setting that takes a whole number, 0 or more."""
        return replace(COUNT, meaning=meaning)

    @classmethod
    def seconds(cls, meaning: str) -> Setting:
        """Return a setting that takes a number of seconds, 0 or more."""
        return replace(SECONDS, meaning=meaning)

    @classmethod
    def number(cls, meaning: str) -> Setting:
        """Return a setting that takes a number, 0 or more."""
        return replace(NUMBER, meaning=meaning)

    @classmethod
    def share(cls, meaning: str) -> Setting:
        """Return a setting that takes a number from 0 to 1."""
        return replace(SHARE, meaning=meaning)

    @classmethod
    def flag(cls, meaning: str) -> Setting:
        """Return a setting that takes true or false."""
        return replace(FLAG, meaning=meaning)


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


def _texts(value: Any) -> tuple[str, ...] | None:
    valid = isinstance(value, (list, tuple, set, frozenset)) and all(isinstance(item, str) and item for item in value)
    return tuple(value) if valid else None


def _action(value: Any) -> Action | None:
    if isinstance(value, Action):
        return value
    return Action[value.upper()] if isinstance(value, str) and value.lower() in ACTIONS else None


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


ACTIONS = tuple(str(action) for action in Action)
PLACEHOLDERS = ("tool", "count", "limit", "period", "before", "laps", "wait")

COUNT = Setting("a whole number, 0 or more", _count)
NUMBER = Setting("a number, 0 or more", _number)
SECONDS = Setting("a number of seconds, 0 or more", _number)
SHARE = Setting("a number from 0 to 1", _share)
FLAG = Setting("true or false", _flag)
TEXT = Setting("a text that is not empty", _text)
TEXTS = Setting("a list of texts", _texts)
ACTION = Setting(f"one of {', '.join(ACTIONS)}", _action, ACTIONS)
SENTENCE = Setting(f"a text; {{...}} may hold {', '.join(PLACEHOLDERS)} alone, and other braces are doubled", _sentence)
