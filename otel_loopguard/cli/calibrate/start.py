"""Read the policy that calibration begins with: a policy file, setting by setting, else the defaults."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from otel_loopguard.cli.calibrate.loosen import LoosenedSettings
from otel_loopguard.engine.policy.toml_lines import line_of, lines_of
from otel_loopguard.policy_files.files import read_bytes
from otel_loopguard.policy_files.load import load_policy

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib  # type: ignore[import-not-found,unused-ignore]  # only there on Python 3.10

if TYPE_CHECKING:
    from collections.abc import Iterator


def read(path: str | None) -> LoosenedSettings:
    """Return the settings of a policy file, each with its line; raise an error that names all mistakes."""
    if path is None:
        return LoosenedSettings()
    load_policy(path)
    text = read_bytes(path).decode("utf-8")
    lines, values = lines_of(text), dict(_flat(tomllib.loads(text), ()))
    return LoosenedSettings(values, {one: f"{Path(path).name}, line {line_of(one, lines)}" for one in values})


def _flat(table: dict[str, Any], path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    for name, value in table.items():
        if isinstance(value, dict):
            yield from _flat(value, (*path, name))
        else:
            yield (*path, name), value
