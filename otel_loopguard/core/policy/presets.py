"""The policies that come with the package, by name."""

from __future__ import annotations

from functools import cache
from importlib.resources import files

_SUFFIX = ".toml"


@cache
def names() -> tuple[str, ...]:
    """Every preset there is, ``default`` among them."""
    found = (entry.name for entry in files("otel_loopguard").joinpath("presets").iterdir())
    return tuple(sorted(name[: -len(_SUFFIX)] for name in found if name.endswith(_SUFFIX)))


def text(name: str) -> str:
    """The preset as it stands in its file."""
    return (files("otel_loopguard") / "presets" / f"{name}{_SUFFIX}").read_text("utf-8")
