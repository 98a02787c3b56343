"""The coding agents whose hooks are known, one file each. ``programs()`` finds them."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from pkgutil import iter_modules
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from otel_loopguard.hooks.programs.program import Program


@cache
def programs() -> dict[str, Program]:
    """Return the programs by name."""
    modules = (import_module(f"{__name__}.{info.name}") for info in iter_modules(__path__))
    found = (getattr(module, "PROGRAM", None) for module in modules)
    return {program.name: program for program in found if program is not None}
