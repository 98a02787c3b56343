"""A dictionary in the order of insertion that forgets its oldest item when it is full."""

from __future__ import annotations

from typing import Any

EMPTY: Any = {}
"""Shared and never written to: an empty dictionary for each attribute would be most of the memory of a short turn."""


def kept(items: dict[Any, Any], key: Any, most: int, value: Any = None) -> dict[Any, Any]:
    """Return the dictionary with the key in it; without values it is a set. ``EMPTY`` becomes a new one."""
    if not items:
        return {key: value}
    if key not in items and len(items) >= most:
        items.pop(next(iter(items)))
    items[key] = value
    return items
