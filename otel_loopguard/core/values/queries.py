"""Queries as they are compared: normalised, and never similar where a dangerous word or a number differs."""

from __future__ import annotations

import re
from typing import Any

from rapidfuzz import fuzz

from otel_loopguard.core.values import introspect

_LONGEST_QUERY = 512
_PUNCTUATION = re.compile(r"[^\w\s]")
_NUMBERS = re.compile(r"\d+")
_PARAMETERS = ("query", "q", "search_query", "question", "search", "text", "prompt", "keywords")


def query_of(arguments: Any, parameter: str | None) -> str | None:
    """The normalised query of a call, if its tool's contract names the parameter (or says "auto")."""
    if parameter is None:
        return None
    arguments = introspect.as_builtin(arguments)
    if type(arguments) is str:
        return normalised(arguments)
    if type(arguments) is not dict:
        return None
    for name in _PARAMETERS if parameter == "auto" else (parameter,):
        value = introspect.as_builtin(arguments.get(name))
        if type(value) is str:
            return normalised(value)
    return None


def normalised(query: str) -> str:
    """Lower case, punctuation stripped, blanks folded; only the beginning of a long one."""
    return " ".join(_PUNCTUATION.sub(" ", query[:_LONGEST_QUERY].lower()).split())


def similar(one: str, other: str, similarity: float, dangerous: frozenset[str]) -> bool:
    """Whether two normalised queries ask the same."""
    if fuzz.ratio(one, other, score_cutoff=similarity * 100) < similarity * 100:
        return False
    if _NUMBERS.findall(one) != _NUMBERS.findall(other):
        return False
    return not (set(one.split()) ^ set(other.split())) & dangerous
