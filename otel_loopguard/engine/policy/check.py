"""Check a policy's tables: parse them into a flat list of settings, and collect every mistake.

The tables are those of a TOML text, or the fields of a ``Policy`` made in code. Both are checked alike.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from typing import TYPE_CHECKING, Any

from otel_loopguard.engine.detectors.row import Detector
from otel_loopguard.engine.modes import ROWS
from otel_loopguard.engine.policy import own_rows, schema
from otel_loopguard.engine.policy.problems import HIDDEN, Problem, suggestion, suggestion_or_all
from otel_loopguard.engine.rule import Rule
from otel_loopguard.engine.settings import SENTENCE, TEXTS
from otel_loopguard.errors import PolicyError

if TYPE_CHECKING:
    from collections.abc import Callable

    from otel_loopguard.engine.policy.toml_lines import Path
    from otel_loopguard.engine.settings import Setting

    Place = Callable[[Path], str]
    Find = Callable[[str], Detector | str]
    """Returns the detector of this name, or what is wrong with it."""

_TABLES = ("modes", "tools", "words", "sentences", "cost_per_million_tokens", "budget")
_ONLY_IN_CODE = {
    "hash_key": "a key does not belong in this file; set OTEL_PYTHON_LOOPGUARD_HASH_KEY or ..._HASH_KEY_FILE.",
    "on_end": "a function can only be given in code: Policy(on_end=...).",
    "on_trip": "a function can only be given in code: Policy(on_trip=...).",
}


def explicit_settings(one: Any) -> dict[str, Any]:
    """Return the settings of a ``Policy``, ``Rule`` or ``ToolContract`` that do not have their default."""
    if isinstance(one, Rule):
        return one.settings
    given = ((field, getattr(one, field.name)) for field in fields(one))
    return {
        field.name: value
        for field, value in given
        if (value is not field.default if field.default_factory is MISSING else value != {})
    }


class Checker:
    """Checks the tables of one source of settings, and collects the mistakes.

    ``place`` returns the file and line of a setting; None if the source is code. ``presets`` are the valid names of
    presets. ``find`` imports a detector that the source names; None if the source may not name any.
    """

    def __init__(self, place: Place | None = None, presets: tuple[str, ...] = (), find: Find | None = None) -> None:
        self.values: dict[Path, Any] = {}
        """Every valid setting, by its path."""
        self.problems: list[Problem] = []
        self._place = place or (lambda _path: "")
        self._presets = presets
        self._find = find
        self._settings = {**schema.POLICY} if place else {**schema.POLICY, **schema.CODE}
        self._in_code = place is None
        self._rows: dict[str, Detector] = {str(mode): row for mode, row in ROWS.items()}
        self._any_mode = False

    def tables(self, source: str) -> dict[str, Any]:
        """Return the parsed settings as tables. Raise a ``PolicyError`` that names all mistakes if there are any."""
        if self.problems:
            raise PolicyError([str(problem) for problem in self.problems], source=source)
        return nested(self.values)

    def policy(self, table: Mapping[str, Any]) -> None:
        """Check a whole policy. If a detector of the user is a function, modes may have any name."""
        # Detectors first: they have modes of their own.
        for name, value in sorted(table.items(), key=lambda item: item[0] != "detectors"):
            path = (name,)
            if name == "detectors":
                self._detectors(path, value)
            elif name in self._settings:
                self._set(path, self._settings[name], value)
            elif name in _TABLES:
                self._table(path, value)
            elif name == "preset":
                if isinstance(value, str) and value in self._presets:
                    self.values[path] = value
                else:
                    self._report(path, value, f"no such preset; {suggestion_or_all(str(value), self._presets)}")
            elif name in _ONLY_IN_CODE:
                self._report(path, HIDDEN, _ONLY_IN_CODE[name])
            else:
                known = (*schema.POLICY, *_TABLES, "preset")
                self._report(path, value, f"no such setting; {suggestion_or_all(name, known)}")
        if self._in_code:
            self.problems += ladder_problems(self.values, lambda _path: "")

    def _detectors(self, path: Path, value: Any) -> None:
        """Take the detectors of the user. Their modes are known from then on."""
        if self._in_code:
            self._set(path, self._settings["detectors"], value)
            found = self.values.get(path, ())
        else:
            found = self._imported(path, value)
        self._any_mode = any(not isinstance(one, Detector) for one in found)
        for row in found:
            faults = list(own_rows.faults(row, self._rows)) if isinstance(row, Detector) else []
            for fault in faults:
                self._report(path, str(row.mode), f"{fault}.")
            if isinstance(row, Detector) and not faults:
                self._rows[row.mode] = row
        self._settings["order"] = schema.order_of(self._rows)

    def _imported(self, path: Path, value: Any) -> tuple[Detector, ...]:
        """Import the detectors that a file names, in the form ``MODULE:NAME``."""
        names = TEXTS.parse(value)
        if self._find is None:
            self._report(path, value, "only your own policy file may name detectors, because they are code.")
        elif names is None:
            self._report(path, value, 'must be a list of texts in the form "MODULE:NAME", such as "own_detector:ROW".')
        else:
            found = [(name, self._find(name)) for name in names]
            for name, one in found:
                if isinstance(one, str):
                    self._report(path, name, one)
            self.values[path] = rows = tuple(one for _, one in found if isinstance(one, Detector))
            return rows
        return ()

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
            elif path[0] == "cost_per_million_tokens":
                self._price(inner, item)
            elif path[0] == "budget":
                self._budget(inner, item)
            else:
                self._sentence(inner, item)

    def _rule(self, path: Path, value: Any) -> None:
        mode = path[-1]
        if not self._is_mode(mode):
            self._report(path, HIDDEN, f"no such mode; {suggestion_or_all(mode, self._rows)}")
            return
        own = self._rows[mode].all_settings if mode in self._rows else schema.RULE
        if isinstance(value, Rule):  # it may be that of several modes
            own = {**schema.RULE, **own}
        for name, item in self._items(path, value, "a Rule", ".".join(path)).items():
            if name in own:
                self._set((*path, name), own[name], item)
            elif name in schema.RULE:
                belongs = ", ".join(schema.OF_MODES[name])
                self._report((*path, name), item, f"{mode} has no such setting; it is one of {belongs}.")
            else:
                self._report((*path, name), item, f"no such setting of a mode; {suggestion_or_all(name, own)}")

    def _tool(self, path: Path, value: Any) -> None:
        self._glob(path, "a glob of tool names", "read_*")
        self.contract(path, self._items(path, value, "a ToolContract", f'tools."{path[-1]}"'))

    def _glob(self, path: Path, expected: str, example: str) -> None:
        glob = path[-1]
        if not glob or glob.count("[") > glob.count("]"):
            self._report(path, HIDDEN, f'must be {expected}, such as "{example}"; a [ needs its ].')

    def contract(self, path: Path, table: Mapping[str, Any]) -> None:
        """Check the settings of one tool. The path is empty for a contract made in code: it has no tool yet."""
        for name, value in table.items():
            inner = (*path, name)
            if name in schema.CONTRACT:
                self._set(inner, schema.CONTRACT[name], value)
            elif name != "modes":
                remedy = f"no such setting of a tool; {suggestion_or_all(name, (*schema.CONTRACT, 'modes'))}"
                self._report(inner, value, remedy)
            else:
                for mode, rule in self._items(inner, value, "a mapping", f"{dotted(inner)}.MODE").items():
                    self._rule((*inner, mode), rule)

    def _words(self, path: Path, value: Any) -> None:
        if path[-1] not in schema.WORDS:
            self._report(path, value, f"no such list of words; {suggestion_or_all(path[-1], schema.WORDS)}")
        else:
            self._set(path, TEXTS, value)

    def _price(self, path: Path, value: Any) -> None:
        self._glob(path, "a glob of model names", "gpt-5*")
        prices = self._items(path, value, "a mapping", f'cost_per_million_tokens."{path[-1]}"')
        for name, item in prices.items():
            if name in schema.PRICE:
                self._set((*path, name), schema.PRICE[name], item)
            else:
                quotes = " The name of a model that has a dot is put in quotes." if isinstance(item, Mapping) else ""
                self._report((*path, name), item, f"no such price; {suggestion_or_all(name, schema.PRICE)}{quotes}")
        missing = [name for name in ("input", "output") if name not in prices]
        if isinstance(value, Mapping) and missing:
            self._report(path, HIDDEN, f"the price of {' and of '.join(missing)} is missing.")

    def _budget(self, path: Path, value: Any) -> None:
        scope = path[-1]
        if scope in schema.BUDGET:
            self._set(path, schema.BUDGET[scope], value)
        elif scope not in schema.BUDGETS:
            remedy = suggestion_or_all(scope, (*schema.BUDGETS, *schema.BUDGET))
            self._report(path, HIDDEN, f"no such part of a budget; {remedy}")
        else:
            accounts = schema.BUDGETS[scope]
            for name, limit in self._items(path, value, "a mapping", dotted(path)).items():
                if name in accounts:
                    self._set((*path, name), accounts[name], limit)
                else:
                    remedy = suggestion_or_all(name, accounts)
                    self._report((*path, name), limit, f"no such account of a {scope}; {remedy}")

    def _sentence(self, path: Path, value: Any) -> None:
        if isinstance(value, Mapping):  # [sentences.generic_repeat] nudge = "..."
            for step, sentence in self._items(path, value, "a mapping", ".".join(path)).items():
                name = path[-1] if step == "refusal" else f"{path[-1]}.{step}"
                self._one_sentence((*path, step), name, sentence)
        else:
            self._one_sentence(path, path[-1], value)

    def _one_sentence(self, path: Path, name: str, value: Any) -> None:
        mode, _, step = name.partition(".")
        if not (self._is_mode(mode) or name == schema.CONCLUSION):
            self._report(path, value, f"no such mode; {suggestion_or_all(mode, self._rows)}")
        elif step and mode in self._rows and step not in schema.SENTENCES:
            self._report(path, value, f"no such sentence; {suggestion_or_all(step, schema.SENTENCES)}")
        elif SENTENCE.parse(value) is None:
            self._report(path, value, f"must be {SENTENCE.description}.")
        else:
            self.values["sentences", mode if step == "refusal" else name] = value

    def _is_mode(self, name: str) -> bool:
        return self._any_mode or name in self._rows

    def _items(self, path: Path, value: Any, expected: str, table: str) -> Mapping[str, Any]:
        """Return the items of a table that are not None; of a ``Rule`` or ``ToolContract``, its explicit settings."""
        if isinstance(value, Mapping):
            return {str(name): item for name, item in value.items() if item is not None}
        if isinstance(value, Rule) or (is_dataclass(value) and not isinstance(value, type)):
            return explicit_settings(value)
        self._report(path, value, f"must be {expected}." if self._in_code else f"must be a table: [{table}]")
        return {}

    def _set(self, path: Path, setting: Setting, value: Any) -> None:
        parsed = setting.parse(value)
        if parsed is None:
            value = HIDDEN if path == ("hash_key",) else value
            self._report(path, value, must_be(setting, value))
        else:
            self.values[path] = parsed

    def _report(self, path: Path, value: Any, remedy: str) -> None:
        self.problems.append(Problem(dotted(path), self._place(path), value, remedy))


def ladder_problems(values: Mapping[Path, Any], place: Place) -> list[Problem]:
    """Return a problem if ``conclude_after`` is not below ``abort_after``, so that the run would end first.

    ``values``: the settings of all sources, by path.
    """
    conclude, abort = values.get(("conclude_after",)), values.get(("abort_after",), schema.ABORT_AFTER)
    if conclude is None or not 0 < abort <= conclude:
        return []
    remedy = f"must be less than abort_after, which is {abort}; 0 switches either one off."
    return [Problem("conclude_after", place(("conclude_after",)), conclude, remedy)]


def must_be(setting: Setting, value: Any) -> str:
    """Describe the valid values, and suggest the nearest word for an invalid one."""
    words = [word for word in (value if isinstance(value, (list, tuple)) else [value]) if isinstance(word, str)]
    suggestions = (suggestion(word, setting.words) for word in words if word not in setting.words)
    nearest = next(filter(None, suggestions), "")
    return f"must be {setting.description}; {nearest}" if nearest else f"must be {setting.description}."


def nested(values: Mapping[Path, Any]) -> dict[str, Any]:
    """Turn settings by path into tables: ``{("modes", "cycle", "block"): 3}`` into ``{"modes": {"cycle": ...}}``."""
    top: dict[str, Any] = {}
    for path, value in values.items():
        table = top
        for part in path[:-1]:
            table = table.setdefault(part, {})
        table[path[-1]] = value
    return top


def dotted(path: Path) -> str:
    """Write a path as in TOML: ``tools."read_*".cap``."""
    return ".".join(part if part.replace("_", "a").replace("-", "a").isalnum() else f'"{part}"' for part in path)
