"""Keep at most so many items in a dictionary: the oldest is forgotten first."""

from __future__ import annotations

from typing import Any

EMPTY: Any = {}
"""Shared and never written to: an empty dictionary for each attribute would be most of the memory of a short turn."""


def kept(items: dict[Any, Any], key: Any, most: int, value: Any = None) -> dict[Any, Any]:
    """Add a key, and return the dictionary. If it has ``most`` keys, the oldest one is dropped first.

    It is changed in place, unless it is empty: then it is a new one, because ``EMPTY`` is shared.
    """
    if not items:
        return {key: value}
    if key not in items and len(items) >= most:
        items.pop(next(iter(items)))
    items[key] = value
    return items
