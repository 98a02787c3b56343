"""Load a policy from its sources. A later source wins, setting by setting.

The sources are: the defaults; the tools that the program declares in code; a preset; the policy file; the environment.
A ``Policy`` that code hands to ``instrument()`` or ``Guard`` replaces all of these except declared tools.

>>> from otel_loopguard.core.policy.load import load_environment
>>> loaded = load_environment({"OTEL_PYTHON_LOOPGUARD_ACTION": "observe"})
>>> str(loaded.policy.action), loaded.origins["action",], loaded.problems
('observe', 'OTEL_PYTHON_LOOPGUARD_ACTION', ())
"""

from __future__ import annotations

import sys
from functools import cache
from importlib.resources import files
from pathlib import Path as FilePath
from typing import TYPE_CHECKING, Any, NamedTuple

from otel_loopguard.core.policy import schema
from otel_loopguard.core.policy.check import Checker, must_be, nested
from otel_loopguard.core.policy.policy import Policy
from otel_loopguard.core.policy.problems import HIDDEN, Problem, suggestion_or_all
from otel_loopguard.core.policy.toml_lines import line_of, lines_of
from otel_loopguard.errors import PolicyError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib  # type: ignore[import-not-found,unused-ignore]  # only there on Python 3.10

if TYPE_CHECKING:
    from collections.abc import Mapping

    from otel_loopguard.core.policy.toml_lines import Path

PREFIX = "OTEL_PYTHON_LOOPGUARD_"
VARIABLES = (
    "ACTION", "PRESET", "CONFIG", "EVENTS", "CONVERSATION_ID", "ENFORCE_WITHOUT_TURN", "HASH_KEY",
    "HASH_KEY_FILE",
)  # fmt: skip


class LoadedPolicy(NamedTuple):
    """A policy, the origin of each of its settings, and every mistake in them.

    If there are mistakes, ``policy`` is the default one with the valid action and hash key of the environment, if any.
    So a mistake elsewhere never makes a guard refuse calls that was set to observe.
    """

    policy: Policy
    origins: Mapping[Path, str]
    problems: tuple[Problem, ...]
    file: str | None = None
    """The path of the policy file, if there is one."""
    notes: tuple[Problem, ...] = ()
    """Mistakes outside of the policy, such as an unknown variable."""

    def checked(self, source: str = "policy") -> Policy:
        """Return the policy; raise an error that names all mistakes if there are any."""
        if self.problems:
            raise PolicyError([str(problem) for problem in self.problems], source=source)
        return self.policy


class _Layers:
    """The settings of several sources, one over the other."""

    def __init__(self) -> None:
        self.values: dict[Path, Any] = {}
        self.origins: dict[Path, str] = {}
        self.problems: list[Problem] = []

    def preset(self, name: str) -> None:
        """Add the settings of a preset, under all others."""
        text = (files("otel_loopguard") / "presets" / f"{name}.toml").read_text("utf-8")
        checker = Checker(lambda _path: f"preset {name}", preset_names())
        checker.policy(tomllib.loads(text))
        for path, value in checker.values.items():
            if path not in self.values:
                self.values[path] = value
                self.origins[path] = f"preset {name}"

    def text(self, text: str, source: str) -> None:
        """Add the settings of a TOML text."""
        lines = lines_of(text)

        def place(path: Path) -> str:
            line = line_of(path, lines)
            return f"{source}, line {line}" if line else source

        try:
            table = tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            self.problems.append(Problem("(the file)", source, HIDDEN, f"this is not TOML: {error}."))
            return
        checker = Checker(place, preset_names())
        checker.policy(table)
        self.problems += checker.problems
        self.values.update(checker.values)
        self.origins.update({path: place(path) for path in checker.values})

    def file(self, path: str, named: str) -> None:
        """Add the settings of a file; ``named`` is the name for it in a message."""
        try:
            text = FilePath(path).read_text("utf-8")
        except (OSError, UnicodeDecodeError) as error:
            reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
            self.problems.append(Problem(named, path, HIDDEN, f"the policy file cannot be read: {reason}."))
            return
        self.text(text, path)

    def base_preset(self, preset: str | None) -> None:
        """Add the preset below the file: the given one, else the one that the file names."""
        name = preset or self.values.pop(("preset",), None)
        self.values.pop(("preset",), None)
        self.origins.pop(("preset",), None)
        if name is not None:
            self.preset(name)


def load_environment(environ: Mapping[str, str]) -> LoadedPolicy:
    """Load the policy that the environment describes. Never raises: mistakes are in ``problems``."""
    layers = _Layers()
    given = {name: environ[PREFIX + name] for name in VARIABLES if environ.get(PREFIX + name)}
    file, preset = given.get("CONFIG"), given.get("PRESET")
    if file:
        layers.file(file, PREFIX + "CONFIG")
    if preset and preset not in preset_names():
        remedy = f"no such preset; {suggestion_or_all(preset, preset_names())}"
        layers.problems.append(Problem(PREFIX + "PRESET", "environment", preset, remedy))
        preset = None
    layers.base_preset(preset)
    _from_variables(layers, given)
    if not layers.problems:
        return LoadedPolicy(Policy(**nested(layers.values)), layers.origins, (), file, _unknown_variables(environ))
    kept: dict[Path, Any] = {}
    for name in ("action", "hash_key"):
        if layers.origins.get((name,), "").startswith(PREFIX) and (name,) in layers.values:
            kept[name,] = layers.values[name,]
    origins = {path: layers.origins[path] for path in kept}
    return LoadedPolicy(Policy(**nested(kept)), origins, tuple(layers.problems), file, _unknown_variables(environ))


def _unknown_variables(environ: Mapping[str, str]) -> tuple[Problem, ...]:
    """List the variables with the package's prefix that do not exist."""
    names = (variable.removeprefix(PREFIX) for variable in sorted(environ) if variable.startswith(PREFIX))
    return tuple(
        Problem(PREFIX + name, "environment", HIDDEN, f"no such variable; {suggestion_or_all(name, VARIABLES)}")
        for name in names
        if name not in VARIABLES
    )


def _from_variables(layers: _Layers, given: Mapping[str, str]) -> None:
    action = given.get("ACTION", "").strip().lower()
    if action in schema.ACTIONS:
        layers.values["action",] = schema.ACTION.parse(action)
        layers.origins["action",] = PREFIX + "ACTION"
    elif action:
        remedy = must_be(schema.ACTION, action)
        layers.problems.append(Problem(PREFIX + "ACTION", "environment", action, remedy))
    key: bytes | None = None
    if "HASH_KEY" in given:
        key, layers.origins["hash_key",] = given["HASH_KEY"].encode(), PREFIX + "HASH_KEY"
    elif "HASH_KEY_FILE" in given:
        layers.origins["hash_key",] = PREFIX + "HASH_KEY_FILE"
        key = _key_of_file(layers, given["HASH_KEY_FILE"])
    if key:
        layers.values["hash_key",] = key


def _key_of_file(layers: _Layers, path: str) -> bytes | None:
    name = PREFIX + "HASH_KEY_FILE"
    try:
        key = FilePath(path).read_bytes().strip()
    except OSError as error:
        remedy = f"the file of the hash key cannot be read: {error.strerror}."
        layers.problems.append(Problem(name, "environment", HIDDEN, remedy))
        return None
    if not key:
        layers.problems.append(Problem(name, "environment", HIDDEN, "the file of the hash key is empty."))
    return key


def load_policy(path: str, preset: str | None = None) -> Policy:
    """Load the policy of a file, over a preset if one is given; raise one error that names every mistake."""
    return load_file(path, preset).checked(path)


def load_file(path: str, preset: str | None = None) -> LoadedPolicy:
    """Load the policy of a file, over a preset if one is given."""
    layers = _Layers()
    layers.file(path, "policy file")
    layers.base_preset(preset)
    if layers.problems:
        return LoadedPolicy(Policy(), {}, tuple(layers.problems), path)
    return LoadedPolicy(Policy(**nested(layers.values)), layers.origins, (), path)


def load_text(text: str, source: str = "policy") -> LoadedPolicy:
    """Load the policy of a TOML text."""
    layers = _Layers()
    layers.text(text, source)
    layers.base_preset(None)
    if layers.problems:
        return LoadedPolicy(Policy(), {}, tuple(layers.problems))
    return LoadedPolicy(Policy(**nested(layers.values)), layers.origins, ())


@cache
def preset_names() -> tuple[str, ...]:
    """Return the names of all presets, ``default`` included."""
    found = (entry.name for entry in files("otel_loopguard").joinpath("presets").iterdir())
    return tuple(sorted(name.removesuffix(".toml") for name in found if name.endswith(".toml")))


def load_preset(name: str) -> LoadedPolicy:
    """Load a policy that comes with the package; raise an error if there is none of this name."""
    if name not in preset_names():
        raise PolicyError([f"no such preset: {name}; {suggestion_or_all(name, preset_names())}"], source="preset")
    layers = _Layers()
    layers.preset(name)
    return LoadedPolicy(Policy(**nested(layers.values)), layers.origins, ())
