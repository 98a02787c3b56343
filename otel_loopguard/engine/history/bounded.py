"""A set in the order of insertion that forgets its oldest item when it is full."""

from __future__ import annotations

from typing import Any

EMPTY: Any = {}
"""Shared and never written to: an empty dictionary for each attribute would be most of the memory of a short turn."""


def kept(items: dict[Any, None], item: Any, most: int) -> dict[Any, None]:
    """Return the set with the item in it. A set that was ``EMPTY`` becomes a new one."""
    if not items:
        return {item: None}
    if item not in items and len(items) >= most:
        items.pop(next(iter(items)))
    items[item] = None
    return items
