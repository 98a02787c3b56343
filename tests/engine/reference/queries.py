"""Normalised queries, and their similarity."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from tests.engine.reference.lists import WORDS

if TYPE_CHECKING:
    from tests.engine.reference.judge import Run

DANGEROUS = set(WORDS["dangerous"])
AUTO = (
    "query",
    "q",
    "search_query",
    "question",
    "search",
    "text",
    "prompt",
    "keywords",
    "search_term",
    "term",
    "sql",
    "user_query",
    "natural_language_query",
)


def query_of(run: Run) -> str | None:
    """The call's query, normalised; None if its contract names none."""
    name = getattr(run.contract, "query", None)
    if not name:
        return None
    arguments: Any = run.arguments
    if isinstance(arguments, str):
        return normalised(arguments) if name == "auto" else None
    if not isinstance(arguments, dict):
        return None
    names = AUTO if name == "auto" else (name,)
    text = next((arguments[n] for n in names if isinstance(arguments.get(n), str)), None)
    return None if text is None else normalised(text)


def normalised(text: str) -> str:
    """Convert to lower case, without punctuation, blanks folded, 512 characters."""
    return " ".join(re.sub(r"[^\w\s]|_", " ", text[:512].lower()).split())


def similar(one: str | None, other: str | None) -> bool:
    """Return True if both are at least three quarters alike, with equal numbers and equal dangerous words."""
    from rapidfuzz import fuzz

    if not one or not other:
        return False
    if DANGEROUS & set(one.split()) != DANGEROUS & set(other.split()):
        return False
    if re.findall(r"\d+", one) != re.findall(r"\d+", other):
        return False
    return fuzz.ratio(one, other) >= 75
