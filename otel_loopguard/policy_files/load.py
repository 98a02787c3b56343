"""Load a policy from its sources. A later source wins, setting by setting.

The sources are: the defaults; the tools that the program declares in code; a preset; the policy file; the environment.
A ``Policy`` that code hands to ``instrument()`` or ``Guard`` replaces all of these except declared tools.

>>> from otel_loopguard.policy_files.load import load_environment
>>> loaded = load_environment({"OTEL_PYTHON_LOOPGUARD_ACTION": "observe"})
>>> str(loaded.policy.action), loaded.origins["action",], loaded.problems
('observe', 'OTEL_PYTHON_LOOPGUARD_ACTION', ())
"""

from __future__ import annotations

import sys
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from otel_loopguard.engine.detectors.presets import PRESETS
from otel_loopguard.engine.policy import schema
from otel_loopguard.engine.policy.check import Checker, ladder_problems, must_be, nested
from otel_loopguard.engine.policy.policy import Policy
from otel_loopguard.engine.policy.problems import HIDDEN, Problem, nearest, suggestion_or_all
from otel_loopguard.engine.policy.toml_lines import line_of, lines_of
from otel_loopguard.engine.settings import COUNT
from otel_loopguard.engine.vocabulary import Action
from otel_loopguard.environment_variables import PREFIX
from otel_loopguard.errors import PolicyError
from otel_loopguard.interrupts import pass_interrupt
from otel_loopguard.policy_files.files import UnreadableError, read_bytes
from otel_loopguard.policy_files.own_detectors import find

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib  # type: ignore[import-not-found,unused-ignore]  # only there on Python 3.10

if TYPE_CHECKING:
    from collections.abc import Mapping

    from otel_loopguard.engine.policy.toml_lines import Path

VARIABLES = (
    "ACTION", "SCOPE", "CONCLUDE_AFTER", "ABORT_AFTER", "PRESET", "CONFIG", "EVENTS", "GENAI_METRICS", "SUMMARY",
    "CONVERSATION_ID", "ENFORCE_WITHOUT_TURN", "HASH_KEY", "HASH_KEY_FILE",
    "STORE", "STORE_EXPIRY",
)  # fmt: skip
_BY_ENVIRONMENT = frozenset(PREFIX + name for name in VARIABLES)
_MOST_DOTS = 200
"""The most dots in one line. The parser's time grows with the square of the parts of a key: 10,000 take 2 s."""
_MOST_DIGITS = 20
_OF_TELEMETRY = ("EVENTS", "GENAI_METRICS", "SUMMARY", "CONVERSATION_ID")
WITH_MISTAKES = "the policy has mistakes"
"""The origin of the action of a policy with mistakes."""
SHORTEST_KEY = 16
"""Bytes. A shorter hash key may be found by trying."""


class LoadedPolicy(NamedTuple):
    """A policy, the origin of each of its settings, and every mistake in them.

    A policy with a mistake has the action of the environment, which is over every file, and the default limits. If the
    environment has none, or a wrong one, the policy only observes: the mistake may be in the line with the action.
    """

    policy: Policy
    origins: Mapping[Path, str]
    problems: tuple[Problem, ...]
    file: str | None = None
    """The path of the policy file, if there is one."""
    notes: tuple[Problem, ...] = ()
    """Mistakes that change no decision: a misspelt variable of telemetry, a hash key that is missing or short."""

    @property
    def in_force(self) -> str:
        """The policy that holds while there are mistakes, in words for a message."""
        if self.origins["action",] == WITH_MISTAKES:
            return "the guard observes and refuses nothing"
        return f"the action of the environment holds ({self.policy.action}), with the default limits"

    def checked(self, source: str = "policy") -> Policy:
        """Return the policy. Raise a ``PolicyError`` that names all mistakes if there are any."""
        if self.problems:
            raise PolicyError([str(problem) for problem in self.problems], source=source)
        return self.policy


class _Layers:
    """The settings of several sources, one over the other."""

    def __init__(self) -> None:
        self.values: dict[Path, Any] = {}
        self.origins: dict[Path, str] = {}
        self.problems: list[Problem] = []
        self.notes: list[Problem] = []

    def preset(self, name: str) -> None:
        """Add the settings of a preset, under all others."""
        checker = Checker(lambda _path: f"preset {name}", preset_names())
        checker.policy(PRESETS[name].table if name in PRESETS else {})
        for path, value in checker.values.items():
            if path not in self.values:
                self.values[path] = value
                self.origins[path] = f"preset {name}"

    def text(self, text: str, source: str, own_file: str | None = None) -> None:
        """Add the settings of a TOML text. ``own_file``: the user's own policy file, which alone may name detectors."""
        crowded = next((n for n, line in enumerate(text.splitlines(), 1) if line.count(".") > _MOST_DOTS), None)
        if crowded is not None:
            remedy = f"a line with more than {_MOST_DOTS} dots; a long list may have several lines."
            self.problems.append(Problem("(the file)", f"{source}, line {crowded}", HIDDEN, remedy))
            return
        try:
            table = tomllib.loads(text)
        except Exception as error:  # noqa: BLE001 - of a nested table RecursionError, of a long number ValueError
            pass_interrupt(error)
            reason = error if isinstance(error, tomllib.TOMLDecodeError) else type(error).__name__
            self.problems.append(Problem("(the file)", source, HIDDEN, f"this is not TOML: {reason}."))
            return
        lines = lines_of(text)

        def place(path: Path) -> str:
            line = line_of(path, lines)
            return f"{source}, line {line}" if line else source

        checker = Checker(place, preset_names(), None if own_file is None else partial(find, own_file))
        checker.policy(table)
        self.problems += checker.problems
        self.values.update(checker.values)
        self.origins.update({path: place(path) for path in checker.values})

    def file(self, path: str, named: str) -> None:
        """Add the settings of the user's own file. ``named``: what a message calls it if it cannot be read."""
        try:
            text = read_bytes(path).decode("utf-8")
        except (UnreadableError, UnicodeDecodeError) as error:
            reason = error if isinstance(error, UnreadableError) else "it is not UTF-8 text"
            self.problems.append(Problem(named, path, HIDDEN, f"cannot be read: {reason}."))
            return
        self.text(text, path, path)

    def base_preset(self, preset: str | None) -> None:
        """Add the preset below the file: the given one, else the one that the file names."""
        name = preset or self.values.pop(("preset",), None)
        self.values.pop(("preset",), None)
        self.origins.pop(("preset",), None)
        if name is not None:
            self.preset(name)
            own, order = self.values.get(("detectors",), ()), self.values.get(("order",), ())
            if order and self.origins["order",] == f"preset {name}":  # no preset knows the user's modes
                self.values["order",] = (*order, *(row.mode for row in own))

    def loaded(self, file: str | None = None) -> LoadedPolicy:
        """Make the policy. With a mistake, the settings of the environment hold, and without its action it observes."""
        self.problems += ladder_problems(self.values, self.origins.__getitem__)
        if self.problems:
            self.origins = {path: origin for path, origin in self.origins.items() if origin in _BY_ENVIRONMENT}
            self.values = {path: self.values[path] for path in self.origins}
            self.values.setdefault(("action",), Action.OBSERVE)
            self.origins.setdefault(("action",), WITH_MISTAKES)
        return LoadedPolicy(Policy(**nested(self.values)), self.origins, tuple(self.problems), file, tuple(self.notes))


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
    _add_word(layers, given, "ACTION")
    _add_word(layers, given, "SCOPE")
    _add_count(layers, given, "CONCLUDE_AFTER")
    _add_count(layers, given, "ABORT_AFTER")
    _add_hash_key(layers, given)
    _report_unknown(layers, environ)
    return layers.loaded(file)


def _report_unknown(layers: _Layers, environ: Mapping[str, str]) -> None:
    """Report each variable with the package's prefix that does not exist.

    It may have been meant to make the guard observe (``..._MODE=shadow``, ``..._ENFORCE=false``). So it is a mistake in
    the policy, unless its name is near that of a variable which decides nothing.
    """
    for variable in sorted(environ):
        name = variable.removeprefix(PREFIX)
        if name in VARIABLES or name == variable:
            continue
        near = nearest(name, VARIABLES)
        valid = f"it must be one of {', '.join(sorted(_BY_ENVIRONMENT))}."
        remedy = valid if near is None else f"did you mean {PREFIX}{near}?"
        problem = Problem(variable, "environment", HIDDEN, f"no such variable; {remedy}")
        (layers.notes if near in _OF_TELEMETRY else layers.problems).append(problem)


def _add_word(layers: _Layers, given: Mapping[str, str], variable: str) -> None:
    word, name, setting = given.get(variable, "").strip().lower(), PREFIX + variable, schema.POLICY[variable.lower()]
    if word in setting.words:
        layers.values[variable.lower(),], layers.origins[variable.lower(),] = setting.parse(word), name
    elif word:
        layers.problems.append(Problem(name, "environment", word, must_be(setting, word)))


def _add_count(layers: _Layers, given: Mapping[str, str], variable: str) -> None:
    text, name, setting = given.get(variable, "").strip(), PREFIX + variable, variable.lower()
    number = COUNT.parse(int(text)) if text.isdecimal() and len(text) < _MOST_DIGITS else None
    if number is not None:
        layers.values[setting,], layers.origins[setting,] = number, name
    elif text:
        layers.problems.append(Problem(name, "environment", text, must_be(COUNT, text)))


def _add_hash_key(layers: _Layers, given: Mapping[str, str]) -> None:
    key, name, note = key_of_environment({PREFIX + variable: value for variable, value in given.items()})
    if key:
        layers.values["hash_key",], layers.origins["hash_key",] = key, name
    if note is not None:
        layers.notes.append(note)


def key_of_environment(environ: Mapping[str, str]) -> tuple[bytes | None, str, Problem | None]:
    """Return the hash key of the environment or None, the name of its variable, and what is wrong with it or None.

    A key that cannot be read changes no decision, so the guard goes on with a random one.
    """
    name, file = PREFIX + "HASH_KEY", environ.get(PREFIX + "HASH_KEY_FILE")
    key = environ.get(name, "").encode("utf-8", "surrogateescape")
    remedy = ""
    if not key and file:
        name = PREFIX + "HASH_KEY_FILE"
        try:
            key = read_bytes(file).strip()
            remedy = "" if key else "the file of the hash key is empty; going on with a random key."
        except UnreadableError as error:
            remedy = f"the file of the hash key cannot be read: {error}; going on with a random key."
    remedy = short_key(key) if key else remedy
    return key or None, name, Problem(name, "environment", HIDDEN, remedy) if remedy else None


def short_key(key: bytes | None) -> str:
    """Return a warning about a hash key that may be found by trying; empty if it is long enough, or None (random)."""
    if key is None or len(key) >= SHORTEST_KEY:
        return ""
    return (
        f"the hash key has {len(key)} bytes: who knows one call can find it by trying, and then the arguments of other "
        f"calls. Take at least {SHORTEST_KEY} random bytes, such as those of `openssl rand -hex 32`."
    )


def load_policy(path: str, preset: str | None = None) -> Policy:
    """Load the policy of a TOML file, over a preset if one is given. Raise a ``PolicyError`` that has all mistakes."""
    return load_file(path, preset).checked(path)


def load_file(path: str, preset: str | None = None) -> LoadedPolicy:
    """Load the policy of a TOML file, over a preset if one is given. Never raises: mistakes are in ``problems``."""
    layers = _Layers()
    layers.file(path, "policy file")
    layers.base_preset(preset)
    return layers.loaded(path)


def load_text(text: str, source: str = "policy", own_file: str | None = None) -> LoadedPolicy:
    """Load the policy of a TOML text. Never raises: mistakes are in ``problems``.

    ``source``: what a message calls the text. ``own_file``: the user's own policy file, if the text comes from it.
    """
    layers = _Layers()
    layers.text(text, source, own_file)
    layers.base_preset(None)
    return layers.loaded()


def preset_names() -> tuple[str, ...]:
    """Return the names of all presets, ``default`` included."""
    return tuple(sorted({"default", *PRESETS}))


def load_preset(name: str) -> LoadedPolicy:
    """Load a policy that comes with the package. Raise a ``PolicyError`` if there is none of this name."""
    if name not in preset_names():
        raise PolicyError([f"no such preset: {name}; {suggestion_or_all(name, preset_names())}"], source="preset")
    layers = _Layers()
    layers.preset(name)
    return layers.loaded()
