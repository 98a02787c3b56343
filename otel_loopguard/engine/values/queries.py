"""Compare search queries: normalised, and never similar where a dangerous word or a number differs."""

from __future__ import annotations

import re
from typing import Any

from otel_loopguard.engine.values import introspect

_LONGEST_QUERY = 512
_PUNCTUATION = re.compile(r"[^\w\s]")
_NUMBERS = re.compile(r"\d+")
_PARAMETERS = (
    "query", "q", "search_query", "search_term", "term", "user_query", "natural_language_query", "question", "search",
    "sql", "text", "prompt", "keywords",
)  # fmt: skip


def query_of(arguments: Any, parameter: str | None) -> str | None:
    """Return the normalised query of a call; None if it has none.

    ``parameter``: the name that the tool's contract gives; "auto" takes the first that is usual for queries.
    """
    if parameter is None:
        return None
    arguments = introspect.as_builtin(arguments)
    if type(arguments) is str:
        return _normalise(arguments)
    if type(arguments) is not dict:
        return None
    for name in _PARAMETERS if parameter == "auto" else (parameter,):
        value = introspect.as_builtin(arguments.get(name))
        if type(value) is str:
            return _normalise(value)
    return None


def similar(one: str, other: str, similarity: float, dangerous: frozenset[str]) -> bool:
    """Return True if two normalised queries are similar: ``similarity`` is the least ratio, from 0 to 1."""
    from rapidfuzz import fuzz  # noqa: PLC0415 - takes 60 ms, and few programs need it

    if fuzz.ratio(one, other, score_cutoff=similarity * 100) < similarity * 100:
        return False
    if _NUMBERS.findall(one) != _NUMBERS.findall(other):
        return False
    return not (set(one.split()) ^ set(other.split())) & dangerous


def _normalise(query: str) -> str:
    """Lower the case, strip punctuation, fold blanks, and keep only the beginning of a long query."""
    return " ".join(_PUNCTUATION.sub(" ", query[:_LONGEST_QUERY].lower()).split())
