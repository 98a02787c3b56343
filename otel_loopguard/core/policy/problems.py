"""How a mistake in a policy is told: where, what, and what to do about it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from rapidfuzz import process

if TYPE_CHECKING:
    from collections.abc import Collection

_NEAR_ENOUGH = 60
_LONGEST_VALUE = 60


class Problem(NamedTuple):
    """One mistake."""

    name: str
    """The setting, dotted, as it would be written in TOML."""
    place: str
    """The file and line, or the variable; nothing where a traceback tells the place."""
    value: Any
    """What stands there; ``HIDDEN`` for what must not be shown."""
    remedy: str
    """What is wrong, and what would be right."""

    def __str__(self) -> str:
        value = "" if self.value is HIDDEN else f" = {shown(self.value)}"
        place = f"{self.place}: " if self.place else ""
        return f"{place}{self.name}{value}: {self.remedy}"


class _Hidden:
    """Stands for a value that is a secret, or is no value at all."""


HIDDEN = _Hidden()


def shown(value: Any) -> str:
    """A value as it is quoted in a message, cut short."""
    text = "true" if value is True else "false" if value is False else repr(value)
    return text if len(text) <= _LONGEST_VALUE else text[: _LONGEST_VALUE - 1] + "…"


def nearest(name: str, names: Collection[str]) -> str:
    """What to say of a name that is none: the nearest right one, or all of them."""
    return meant(name, names) or f"there is {', '.join(sorted(names))}."


def meant(name: str, names: Collection[str]) -> str:
    """The nearest right name, as a question; nothing if none is near."""
    found = process.extractOne(name, list(names), score_cutoff=_NEAR_ENOUGH)
    return "" if found is None else f"did you mean {found[0]}?"
