"""Where a policy comes from, in one order: a later source wins, setting by setting.

The defaults; then what the program declares of its tools in code; then a preset; then the policy file; then the
environment. A ``Policy`` that code hands to ``instrument()`` or ``Guard`` is taken as it is, instead of all these.

>>> from otel_loopguard.core.policy.load import load_policy
>>> loaded = load_policy({"OTEL_PYTHON_LOOPGUARD_ACTION": "observe"})
>>> str(loaded.policy.action), loaded.origins["action",], loaded.problems
('observe', 'OTEL_PYTHON_LOOPGUARD_ACTION', ())
"""

from __future__ import annotations

import sys
from pathlib import Path as FilePath
from typing import TYPE_CHECKING, Any, NamedTuple

from otel_loopguard.core.policy import presets, schema
from otel_loopguard.core.policy.check import Checker, nested
from otel_loopguard.core.policy.policy import Policy
from otel_loopguard.core.policy.problems import HIDDEN, Problem, meant, nearest
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


def _policy(values: Mapping[Path, Any]) -> Policy:
    """The policy that these settings make."""
    return Policy(**nested(values))


class LoadedPolicy(NamedTuple):
    """A policy, where each of its settings came from, and every mistake that was found on the way.

    Where there are mistakes, ``policy`` is the default one; only an action and a hash key that the environment gives
    correctly are kept, so that a mistake elsewhere never makes the guard refuse more than it was told to.
    """

    policy: Policy
    origins: Mapping[Path, str]
    problems: tuple[Problem, ...]
    file: str | None = None
    """The policy file that the environment names."""
    notes: tuple[Problem, ...] = ()
    """What is wrong beside the policy, such as a variable that nobody reads."""

    def checked(self, source: str = "policy") -> Policy:
        """The policy; if there are mistakes, an error that names them all."""
        if self.problems:
            raise PolicyError([str(problem) for problem in self.problems], source=source)
        return self.policy


class _Layers:
    def __init__(self) -> None:
        self.values: dict[Path, Any] = {}
        self.origins: dict[Path, str] = {}
        self.problems: list[Problem] = []

    def preset(self, name: str) -> None:
        """Settings under everything that is there already."""
        checker = Checker(lambda _path: f"preset {name}", presets.names())
        checker.policy(tomllib.loads(presets.text(name)))
        for path, value in checker.values.items():
            if path not in self.values:
                self.values[path] = value
                self.origins[path] = f"preset {name}"

    def text(self, text: str, source: str) -> None:
        """Settings of a TOML text."""
        lines = lines_of(text)

        def place(path: Path) -> str:
            line = line_of(path, lines)
            return f"{source}, line {line}" if line else source

        try:
            table = tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            self.problems.append(Problem("(the file)", source, HIDDEN, f"this is not TOML: {error}."))
            return
        checker = Checker(place, presets.names())
        checker.policy(table)
        self.problems += checker.problems
        self.values.update(checker.values)
        self.origins.update({path: place(path) for path in checker.values})

    def file(self, path: str, named: str) -> None:
        """Settings of a file."""
        try:
            text = FilePath(path).read_text("utf-8")
        except (OSError, UnicodeDecodeError) as error:
            reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
            self.problems.append(Problem(named, path, HIDDEN, f"the policy file cannot be read: {reason}."))
            return
        self.text(text, path)

    def below(self, preset: str | None) -> None:
        """The preset that the others lie on: the one that is named, else the one that the file names."""
        name = preset or self.values.pop(("preset",), None)
        self.values.pop(("preset",), None)
        self.origins.pop(("preset",), None)
        if name is not None:
            self.preset(name)


def load_policy(environ: Mapping[str, str]) -> LoadedPolicy:
    """The policy that the environment describes. Never raises: mistakes are in ``problems``."""
    layers = _Layers()
    given = {name: environ[PREFIX + name] for name in VARIABLES if environ.get(PREFIX + name)}
    file, preset = given.get("CONFIG"), given.get("PRESET")
    if file:
        layers.file(file, PREFIX + "CONFIG")
    if preset and preset not in presets.names():
        remedy = f"no such preset; {nearest(preset, presets.names())}"
        layers.problems.append(Problem(PREFIX + "PRESET", "environment", preset, remedy))
        preset = None
    layers.below(preset)
    _from_variables(layers, given)
    if not layers.problems:
        return LoadedPolicy(_policy(layers.values), layers.origins, (), file, _unread(environ))
    kept: dict[Path, Any] = {}
    for name in ("action", "hash_key"):
        if layers.origins.get((name,), "").startswith(PREFIX) and (name,) in layers.values:
            kept[name,] = layers.values[name,]
    return LoadedPolicy(
        _policy(kept), {path: layers.origins[path] for path in kept}, tuple(layers.problems), file, _unread(environ)
    )


def _unread(environ: Mapping[str, str]) -> tuple[Problem, ...]:
    """The variables that look like ours and that nobody reads."""
    names = (variable.removeprefix(PREFIX) for variable in sorted(environ) if variable.startswith(PREFIX))
    return tuple(
        Problem(PREFIX + name, "environment", HIDDEN, f"no such variable; {nearest(name, VARIABLES)}")
        for name in names
        if name not in VARIABLES
    )


def _from_variables(layers: _Layers, given: Mapping[str, str]) -> None:
    action = given.get("ACTION", "").strip().lower()
    if action in schema.ACTIONS:
        layers.values["action",] = schema.ACTION.accept(action)
        layers.origins["action",] = PREFIX + "ACTION"
    elif action:
        remedy = f"must be {schema.ACTION.what}; {meant(action, schema.ACTIONS)}"
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


def load_file(path: str, preset: str | None = None) -> LoadedPolicy:
    """The policy of a file, over a preset if one is named."""
    layers = _Layers()
    layers.file(path, "policy file")
    layers.below(preset)
    if layers.problems:
        return LoadedPolicy(Policy(), {}, tuple(layers.problems), path)
    return LoadedPolicy(_policy(layers.values), layers.origins, (), path)


def load_text(text: str, source: str = "policy") -> LoadedPolicy:
    """The policy of a TOML text."""
    layers = _Layers()
    layers.text(text, source)
    layers.below(None)
    if layers.problems:
        return LoadedPolicy(Policy(), {}, tuple(layers.problems))
    return LoadedPolicy(_policy(layers.values), layers.origins, ())


def load_preset(name: str) -> LoadedPolicy:
    """A policy that comes with the package; a name that is none raises."""
    if name not in presets.names():
        raise PolicyError([f"no such preset: {name}; {nearest(name, presets.names())}"], source="preset")
    layers = _Layers()
    layers.preset(name)
    return LoadedPolicy(_policy(layers.values), layers.origins, ())
