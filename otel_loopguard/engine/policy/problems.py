"""A mistake in a policy, as a message: the place, the setting, its value and the remedy."""

from __future__ import annotations

import reprlib
from typing import TYPE_CHECKING, Any, NamedTuple

from otel_loopguard.engine.quoting import escaped

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

_NEAR_ENOUGH = 65
"""Above the score of two letters of three within a long name: "foo" is not near to "unknown_tool_repeat"."""
_LONGEST_VALUE = 60
_LONGEST_NAME = 200
_MOST_LISTED = 20
_short = reprlib.Repr()
"""Writes a value of any size and depth."""
_short.maxstring = _short.maxother = _short.maxlong = 4 * _LONGEST_VALUE
_short.maxlist = _short.maxtuple = _short.maxdict = _LONGEST_VALUE


class Problem(NamedTuple):
    """One mistake."""

    name: str
    """The setting, as TOML writes it: ``modes.cycle.block``."""
    place: str
    """The file and line, or the variable; empty if a traceback shows the place."""
    value: Any
    """The value; ``HIDDEN`` if it must not be shown."""
    remedy: str
    """What is wrong, and what would be right: "must be a whole number, 0 or more."."""

    def __str__(self) -> str:
        value = "" if self.value is HIDDEN else f" = {_quote(self.value)}"
        place = f"{self.place}: " if self.place else ""
        return escaped(f"{place}{_cut(self.name, _LONGEST_NAME)}{value}: {self.remedy}").replace("\n", " ")


def listed(problems: Sequence[Problem]) -> str:
    """List mistakes for a log line, the first 20: a file that is no policy at all may have thousands."""
    shown = [f"  - {problem}" for problem in problems[:_MOST_LISTED]]
    left = len(problems) - len(shown)
    return "\n".join([*shown, f"  - and {left:,} more"] if left else shown)


class _Hidden:
    """Stands for a value that must not be shown, or that does not exist."""


HIDDEN = _Hidden()


def _quote(value: Any) -> str:
    """Quote a value for a message, cut short."""
    return _cut("true" if value is True else "false" if value is False else _short.repr(value), _LONGEST_VALUE)


def _cut(text: str, longest: int) -> str:
    return text if len(text) <= longest else text[: longest - 1] + "…"


def suggestion_or_all(name: str, names: Collection[str]) -> str:
    """Suggest the nearest valid name for an invalid one, or list all of them."""
    return suggestion(name, names) or f"it must be one of {', '.join(sorted(names))}."


def suggestion(name: str, names: Collection[str]) -> str:
    """Suggest the nearest valid name, as a question; empty if none is near."""
    found = nearest(name, names)
    return "" if found is None else f"did you mean {found}?"


def nearest(name: str, names: Collection[str]) -> str | None:
    """Return the name that is spelled most like ``name``; None if none is near."""
    from rapidfuzz import process  # noqa: PLC0415 - takes 60 ms, and few programs need it

    found = process.extractOne(name[:_LONGEST_NAME], list(names), score_cutoff=_NEAR_ENOUGH)
    return None if found is None else found[0]
