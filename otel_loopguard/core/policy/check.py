"""A policy as tables becomes a flat list of settings; every mistake on the way is written down.

The tables are those of a TOML text, or those that a ``Policy`` made in code amounts to: both are held to the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from typing import TYPE_CHECKING, Any

from otel_loopguard.core.policy import schema
from otel_loopguard.core.policy.problems import HIDDEN, Problem, meant, nearest
from otel_loopguard.errors import PolicyError

if TYPE_CHECKING:
    from collections.abc import Callable

    from otel_loopguard.core.policy.schema import Setting
    from otel_loopguard.core.policy.toml_lines import Path

    Place = Callable[[Path], str]

_TABLES = ("modes", "tools", "words", "sentences")
_NOT_HERE = {
    "hash_key": "a key does not belong into this file; set OTEL_PYTHON_LOOPGUARD_HASH_KEY or ..._HASH_KEY_FILE.",
    "detectors": "functions can only be given in code: Policy(detectors=[...]).",
    "on_trip": "a function can only be given in code: Policy(on_trip=...).",
}


def said(one: Any) -> dict[str, Any]:
    """What a ``Policy``, ``Rule`` or ``ToolContract`` says: all that is not left at its default."""
    given = ((field, getattr(one, field.name)) for field in fields(one))
    return {
        field.name: value
        for field, value in given
        if (value is not field.default if field.default_factory is MISSING else value != {})
    }


class Checker:
    """Walks the tables of one source; without a place they are those of code."""

    def __init__(self, place: Place | None = None, presets: tuple[str, ...] = ()) -> None:
        self.values: dict[Path, Any] = {}
        """Every setting that is right, by its path."""
        self.problems: list[Problem] = []
        self._place = place or (lambda _path: "")
        self._presets = presets
        self._settings = schema.POLICY if place else {**schema.POLICY, **schema.CODE}
        self._in_code = place is None
        self._own_modes = False

    def tables(self, source: str) -> dict[str, Any]:
        """The settings as tables again, each understood; if there were mistakes, an error that names them all."""
        if self.problems:
            raise PolicyError([str(problem) for problem in self.problems], source=source)
        return nested(self.values)

    def policy(self, table: Mapping[str, Any]) -> None:
        """The whole of it. Detectors of one's own have modes of their own, whatever these are called."""
        self._own_modes = self._in_code and bool(table.get("detectors"))
        for name, value in table.items():
            path = (name,)
            if name in self._settings:
                self._set(path, self._settings[name], value)
            elif name in _TABLES:
                self._table(path, value)
            elif name == "preset":
                if isinstance(value, str) and value in self._presets:
                    self.values[path] = value
                else:
                    self._wrong(path, value, f"no such preset; {nearest(str(value), self._presets)}")
            elif name in _NOT_HERE:
                self._wrong(path, HIDDEN, _NOT_HERE[name])
            else:
                known = (*schema.POLICY, *_TABLES, "preset")
                self._wrong(path, value, f"no such setting; {nearest(name, known)}")

    def _table(self, path: Path, value: Any) -> None:
        items = self._items(path, value, "a mapping", path[0])
        for name, item in items.items():
            inner = (*path, name)
            if path[0] == "modes":
                self._rule(inner, item)
            elif path[0] == "tools":
                self._tool(inner, item)
            elif path[0] == "words":
                self._words(inner, item)
            else:
                self._sentence(inner, item)

    def _rule(self, path: Path, value: Any) -> None:
        mode = path[-1]
        if not self._is_mode(mode):
            self._wrong(path, HIDDEN, f"no such mode; {nearest(mode, schema.MODES)}")
            return
        own = list(schema.RULE)
        if mode in schema.MODES and isinstance(value, Mapping):  # a Rule may be that of several modes
            own = [name for name in own if mode in schema.OF_MODES.get(name, (mode,))]
        for name, item in self._items(path, value, "a Rule", ".".join(path)).items():
            if name in own:
                self._set((*path, name), schema.RULE[name], item)
            elif name in schema.RULE:
                belongs = ", ".join(schema.OF_MODES[name])
                self._wrong((*path, name), item, f"{mode} has no such setting; it is one of {belongs}.")
            elif name in schema.RENAMED:
                self._wrong((*path, name), item, f"no such setting; it is called {schema.RENAMED[name]} now.")
            else:
                self._wrong((*path, name), item, f"no such setting of a mode; {nearest(name, own)}")

    def _tool(self, path: Path, value: Any) -> None:
        glob = path[-1]
        if not glob or glob.count("[") > glob.count("]"):
            self._wrong(path, HIDDEN, 'must be a glob of tool names, such as "read_*"; a [ needs its ].')
        self.contract(path, self._items(path, value, "a ToolContract", f'tools."{glob}"'))

    def contract(self, path: Path, table: Mapping[str, Any]) -> None:
        """What is said of one tool; without a path it is not yet said of which."""
        for name, value in table.items():
            inner = (*path, name)
            if name in schema.CONTRACT:
                self._set(inner, schema.CONTRACT[name], value)
            elif name != "modes":
                self._wrong(inner, value, f"no such setting of a tool; {nearest(name, (*schema.CONTRACT, 'modes'))}")
            else:
                for mode, rule in self._items(inner, value, "a mapping", f"{dotted(inner)}.MODE").items():
                    self._rule((*inner, mode), rule)

    def _words(self, path: Path, value: Any) -> None:
        if path[-1] not in schema.WORDS:
            self._wrong(path, value, f"no such list of words; {nearest(path[-1], schema.WORDS)}")
        else:
            self._set(path, schema.TEXTS, value)

    def _sentence(self, path: Path, value: Any) -> None:
        if isinstance(value, Mapping):  # [sentences.generic_repeat] nudge = "..."
            for step, sentence in self._items(path, value, "a mapping", ".".join(path)).items():
                name = path[-1] if step == "refusal" else f"{path[-1]}.{step}"
                self._one_sentence((*path, step), name, sentence)
        else:
            self._one_sentence(path, path[-1], value)

    def _one_sentence(self, path: Path, name: str, value: Any) -> None:
        mode, _, step = name.partition(".")
        if not self._is_mode(mode):
            self._wrong(path, value, f"no such mode; {nearest(mode, schema.MODES)}")
        elif step and mode in schema.MODES and step not in schema.SENTENCES:
            self._wrong(path, value, f"no such sentence; {nearest(step, schema.SENTENCES)}")
        elif schema.SENTENCE.accept(value) is None:
            self._wrong(path, value, f"must be {schema.SENTENCE.what}.")
        else:
            self.values["sentences", mode if step == "refusal" else name] = value

    def _is_mode(self, name: str) -> bool:
        return self._own_modes or name in schema.MODES

    def _items(self, path: Path, value: Any, what: str, table: str) -> Mapping[str, Any]:
        """What stands in a table; a ``Rule`` or a ``ToolContract`` is the table of what it says."""
        if isinstance(value, Mapping):
            return {str(name): item for name, item in value.items()}
        if is_dataclass(value) and not isinstance(value, type):
            return said(value)
        self._wrong(path, value, f"must be {what}." if self._in_code else f"must be a table: [{table}]")
        return {}

    def _set(self, path: Path, setting: Setting, value: Any) -> None:
        resolved = setting.accept(value)
        if resolved is None:
            value = HIDDEN if path == ("hash_key",) else value
            self._wrong(path, value, f"must be {setting.what}{_meant(value, setting)}")
        else:
            self.values[path] = resolved

    def _wrong(self, path: Path, value: Any, remedy: str) -> None:
        self.problems.append(Problem(dotted(path), self._place(path), value, remedy))


def _meant(value: Any, setting: Setting) -> str:
    """The end of the sentence: the nearest of the words that a setting takes, if one is near."""
    words = [word for word in (value if isinstance(value, (list, tuple)) else [value]) if isinstance(word, str)]
    found = next((near for word in words if word not in setting.words and (near := meant(word, setting.words))), "")
    return f"; {found}" if found else "."


def nested(values: Mapping[Path, Any]) -> dict[str, Any]:
    """A flat list of settings as the tables in which they stand."""
    top: dict[str, Any] = {}
    for path, value in values.items():
        table = top
        for part in path[:-1]:
            table = table.setdefault(part, {})
        table[path[-1]] = value
    return top


def dotted(path: Path) -> str:
    """A path as it is written in TOML."""
    return ".".join(part if part.replace("_", "a").replace("-", "a").isalnum() else f'"{part}"' for part in path)
