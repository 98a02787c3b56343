"""A policy as tables of TOML becomes a flat list of settings; every mistake on the way is written down, none raised."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from otel_loopguard.core import settings
from otel_loopguard.core.problems import HIDDEN, Problem, meant, nearest

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from otel_loopguard.core.settings import Setting
    from otel_loopguard.core.toml_lines import Path

    Place = Callable[[Path], str]

_TABLES = ("modes", "tools", "words", "sentences")
_NOT_HERE = {
    "hash_key": "a key does not belong into this file; set OTEL_PYTHON_LOOPGUARD_HASH_KEY or ..._HASH_KEY_FILE.",
    "detectors": "functions can only be given in code: Policy(detectors=[...]).",
    "on_trip": "a function can only be given in code: Policy(on_trip=...).",
}


class Checker:
    """Walks the tables of one source."""

    def __init__(self, place: Place, presets: tuple[str, ...] = ()) -> None:
        self.values: dict[Path, Any] = {}
        """Every setting that is right, by its path."""
        self.problems: list[Problem] = []
        self._place = place
        self._presets = presets

    def policy(self, table: Mapping[str, Any]) -> None:
        """The whole of it."""
        for name, value in table.items():
            path = (name,)
            if name in settings.POLICY:
                self._set(path, settings.POLICY[name], value)
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
                known = (*settings.POLICY, *_TABLES, "preset")
                self._wrong(path, value, f"no such setting; {nearest(name, known)}")

    def _table(self, path: Path, value: Any) -> None:
        if not isinstance(value, dict):
            self._wrong(path, value, f"must be a table: [{path[0]}]")
            return
        for name, item in value.items():
            inner = (*path, name)
            if path[0] == "modes":
                self._rule(inner, item)
            elif path[0] == "tools":
                self._contract(inner, item)
            elif path[0] == "words":
                self._words(inner, item)
            else:
                self._sentence(inner, item)

    def _rule(self, path: Path, value: Any) -> None:
        mode = path[-1]
        if mode not in settings.MODES:
            self._wrong(path, HIDDEN, f"no such mode; {nearest(mode, settings.MODES)}")
            return
        if not isinstance(value, dict):
            self._wrong(path, value, f"must be a table: [{'.'.join(path)}]")
            return
        own = [name for name in settings.RULE if mode in settings.OF_MODES.get(name, (mode,))]
        for name, item in value.items():
            if name in own:
                self._set((*path, name), settings.RULE[name], item)
            elif name in settings.RULE:
                belongs = ", ".join(settings.OF_MODES[name])
                self._wrong((*path, name), item, f"{mode} has no such setting; it is one of {belongs}.")
            else:
                self._wrong((*path, name), item, f"no such setting of a mode; {nearest(name, own)}")

    def _contract(self, path: Path, value: Any) -> None:
        glob = path[-1]
        if not glob or glob.count("[") > glob.count("]"):
            self._wrong(path, HIDDEN, 'must be a glob of tool names, such as "read_*"; a [ needs its ].')
        if not isinstance(value, dict):
            self._wrong(path, value, f'must be a table: [tools."{glob}"]')
            return
        for name, item in value.items():
            inner = (*path, name)
            if name in settings.CONTRACT:
                self._set(inner, settings.CONTRACT[name], item)
            elif name != "modes":
                self._wrong(inner, item, f"no such setting of a tool; {nearest(name, (*settings.CONTRACT, 'modes'))}")
            elif isinstance(item, dict):
                for mode, rule in item.items():
                    self._rule((*inner, mode), rule)
            else:
                self._wrong(inner, item, f'must be a table: [tools."{glob}".modes.MODE]')

    def _words(self, path: Path, value: Any) -> None:
        if path[-1] not in settings.WORDS:
            self._wrong(path, value, f"no such list of words; {nearest(path[-1], settings.WORDS)}")
        else:
            self._set(path, settings.TEXTS, value)

    def _sentence(self, path: Path, value: Any) -> None:
        if isinstance(value, dict):  # [sentences.generic_repeat] nudge = "..."
            for step, sentence in value.items():
                name = path[-1] if step == "refusal" else f"{path[-1]}.{step}"
                self._one_sentence((*path, step), name, sentence)
        else:
            self._one_sentence(path, path[-1], value)

    def _one_sentence(self, path: Path, name: str, value: Any) -> None:
        mode, _, step = name.partition(".")
        if mode not in settings.MODES:
            self._wrong(path, value, f"no such mode; {nearest(mode, settings.MODES)}")
        elif step and step not in settings.SENTENCES:
            self._wrong(path, value, f"no such sentence; {nearest(step, settings.SENTENCES)}")
        elif settings.SENTENCE.accept(value) is None:
            self._wrong(path, value, f"must be {settings.SENTENCE.what}.")
        else:
            self.values["sentences", mode if step == "refusal" else name] = value

    def _set(self, path: Path, setting: Setting, value: Any) -> None:
        understood = setting.accept(value)
        if understood is None:
            self._wrong(path, value, f"must be {setting.what}{_meant(value, setting)}")
        else:
            self.values[path] = understood

    def _wrong(self, path: Path, value: Any, remedy: str) -> None:
        self.problems.append(Problem(dotted(path), self._place(path), value, remedy))


def _meant(value: Any, setting: Setting) -> str:
    """The end of the sentence: the nearest of the words that a setting takes, if one is near."""
    words = [word for word in (value if isinstance(value, list) else [value]) if isinstance(word, str)]
    found = next((near for word in words if word not in setting.words and (near := meant(word, setting.words))), "")
    return f"; {found}" if found else "."


def dotted(path: Path) -> str:
    """A path as it is written in TOML."""
    return ".".join(part if part.replace("_", "a").replace("-", "a").isalnum() else f'"{part}"' for part in path)
