"""Sets that remember the order in which things came, and forget the oldest when they are full."""

from __future__ import annotations

from typing import Any

EMPTY: Any = {}
"""Shared and never written to: an empty dictionary of one's own would be most of a short turn's memory."""


def kept(store: dict[Any, None], item: Any, most: int) -> dict[Any, None]:
    """The store with the item in it."""
    if not store:
        return {item: None}
    if item not in store and len(store) >= most:
        store.pop(next(iter(store)))
    store[item] = None
    return store
