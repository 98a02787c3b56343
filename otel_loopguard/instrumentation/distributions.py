"""Find the installed distributions that a module belongs to."""

from __future__ import annotations

from functools import cache
from importlib.metadata import distributions


def distributions_of(module: str) -> dict[str, str]:
    """Return the version of each distribution that has this module, by name. A program's own module is in none: {}."""
    return _by_top_level().get(module.partition(".")[0], {})


@cache
def _by_top_level() -> dict[str, dict[str, str]]:
    # Not packages_distributions(): in Python 3.10 it knows only distributions with a top_level.txt, which not every
    # build writes.
    found: dict[str, dict[str, str]] = {}
    for one in distributions():
        declared = (one.read_text("top_level.txt") or "").split()
        listed = [file.parts[0].removesuffix(".py") for file in one.files or () if file.suffix == ".py"]
        for top in {*declared, *listed}:
            found.setdefault(top, {})[one.metadata["Name"]] = one.version
    return found
