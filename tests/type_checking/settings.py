"""The types of a policy's settings for type checkers and editors, made from the schema and the detectors' rows.

``python -m tests.type_checking.settings`` writes them.
"""

from __future__ import annotations

import subprocess
import sys
from dataclasses import fields
from pathlib import Path
from textwrap import fill

from otel_loopguard.engine.modes import ROWS
from otel_loopguard.engine.policy import schema
from otel_loopguard.engine.policy.policy import Policy, ToolContract
from otel_loopguard.engine.settings import ACTIONS

FILE = Path(__file__).resolve().parents[2] / "otel_loopguard/engine/policy/typed.py"
NAMES = {ACTIONS: "Action | ActionWord", schema.KINDS: f"Kind | Literal{list(schema.KINDS)}"}
PROBES = {"bool": True, "float": 0.5, "int": 3, "str": "USD", "Texts": ["text"], "Route": {"tool": "text"}}
"""By type: a value of it, in an order in which each type comes before those that take its value, too."""
NOT_IN_SCHEMA = {
    "modes": "ModeSettings | Mapping[str, Rule | RuleSettings]",
    "tools": "Mapping[str, ToolContract | ToolSettings]",
    "words": "Mapping[str, Texts]",
    "sentences": "Mapping[str, str | Mapping[str, str]]",
    "cost_per_million_tokens": "Mapping[str, Mapping[str, float]]",
    "budget": "Mapping[str, Mapping[str, float] | Action | ActionWord]",
    "detectors": "Sequence[Detector | Callable[[History, Record, Rule], Trip | None]]",
    "on_trip": "Callable[[Trip], Action | str | Awaitable[Action | str | None] | None]",
    "on_end": "Callable[[EndedTurn], object]",
    "hash_key": "bytes",
}
"""The tables, and what only code can give."""
HEAD = '''"""The settings of policies as types, for ``Policy``, ``ToolContract``, ``@tool`` and the tables of these.

Made by ``python -m tests.type_checking.settings``. Only type checkers and editors import this file.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal, TypeAlias, TypedDict

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from otel_loopguard.engine.detectors.row import Detector
    from otel_loopguard.engine.history.history import History
    from otel_loopguard.engine.policy.policy import ToolContract
    from otel_loopguard.engine.rule import Rule
    from otel_loopguard.engine.vocabulary import Action, ActionWord, Kind, Record, Trip
    from otel_loopguard.guard.ending import EndedTurn

Texts: TypeAlias = list[str] | tuple[str, ...] | set[str] | frozenset[str]
Route: TypeAlias = Mapping[str, str | Texts]
'''


def taken(setting) -> str:
    """Return the type of the values that a setting takes."""
    if setting.words in NAMES:
        return NAMES[setting.words]
    if any(setting.parse(word) is not None for word in setting.words):
        return f"Literal{list(setting.words)}"
    probes = {**PROBES, "Texts": [*setting.words[:1]] or PROBES["Texts"]}
    return next(name for name, value in probes.items() if setting.parse(value) is not None)


def _class(name: str, about: str, types: dict[str, str]) -> str:
    lines = [f'    """{about}"""', "", *(f"    {key}: {value}" for key, value in types.items())]
    return "\n".join([f"class {name}(TypedDict, total=False):", *lines])


def _of_a_rule(name: str) -> str:
    setting, modes = schema.RULE[name], " and ".join(f"``{mode}``" for mode in schema.OF_MODES.get(name, ()))
    about = f"Of {modes}. {setting.meaning}" if modes else setting.meaning
    text = fill(f'    """{about}', 117, subsequent_indent="    ")
    return f'{taken(setting)} | None\n{text}"""'


def _of_fields(one, settings, others) -> dict[str, str]:
    """Return the types by field: with None where None is the default."""
    known = {**{name: taken(setting) for name, setting in settings.items()}, **others}
    return {field.name: known[field.name] + (" | None" if field.default is None else "") for field in fields(one)}


def written() -> str:
    """Return the text of the file."""
    parts = [
        HEAD,
        _class("RuleSettings", "The settings of a mode.", {name: _of_a_rule(name) for name in schema.RULE}),
        _class("ModeSettings", "The settings by mode.", dict.fromkeys(ROWS, "Rule | RuleSettings")),
        _class("ToolSettings", "The settings of a tool.", _of_fields(ToolContract, schema.CONTRACT, NOT_IN_SCHEMA)),
        _class("PolicySettings", "The settings of a policy.", _of_fields(Policy, schema.POLICY, NOT_IN_SCHEMA)),
    ]
    command = [sys.executable, "-m", "ruff", "format", "--stdin-filename", FILE, "-"]
    return subprocess.run(command, input="\n\n".join(parts), capture_output=True, text=True, check=True).stdout


if __name__ == "__main__":
    FILE.write_text(written(), "utf-8")
