"""Import the adapters of a room when somebody asks for all of them: a process that patches nothing imports none."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable


def on_demand(room: str, name: str, modules: Iterable[str], fact: str) -> Callable[[str], Any]:
    """Return the ``__getattr__`` of a package: its ``name`` is the tuple of the ``fact`` of each of these modules."""

    def look_up(asked: str) -> Any:
        if asked != name:
            raise AttributeError(f"module {room!r} has no attribute {asked!r}")
        found = tuple(getattr(import_module(f"{room}.{module}"), fact) for module in modules)
        setattr(sys.modules[room], name, found)
        return found

    return look_up
