"""Import all adapters of a package when somebody asks for all: a process that patches nothing imports none."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable


def on_demand(room: str, name: str, modules: Iterable[str], fact: str) -> Callable[[str], Any]:
    """Return a ``__getattr__`` for the package ``room``, which imports the modules when ``name`` is first read.

    The value is a tuple with the attribute ``fact`` of each module: ``FRAMEWORKS`` has the ``FRAMEWORK`` of each.
    """

    def look_up(asked: str) -> Any:
        if asked != name:
            raise AttributeError(f"module {room!r} has no attribute {asked!r}")
        found = tuple(getattr(import_module(f"{room}.{module}"), fact) for module in modules)
        setattr(sys.modules[room], name, found)
        return found

    return look_up
