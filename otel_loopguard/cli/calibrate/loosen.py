"""Raise the limits that refuse good runs: as few limits as the target allows, each above the busiest good run."""

from __future__ import annotations

import sys
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from otel_loopguard.cli.calibrate.survey import MAX_CALLS
from otel_loopguard.cli.output import counted
from otel_loopguard.engine.modes import DECLARED, Mode
from otel_loopguard.engine.policy.toml_lines import line_of, lines_of
from otel_loopguard.engine.quoting import is_plain_name
from otel_loopguard.engine.vocabulary import RUN_BUDGET, Kind
from otel_loopguard.policy_files.files import read_bytes
from otel_loopguard.policy_files.load import load_policy

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib  # type: ignore[import-not-found,unused-ignore]  # only there on Python 3.10

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from otel_loopguard.cli.calibrate.survey import Cause, ReachedLimit, Refused, Survey
    from otel_loopguard.cli.replay.judge import PolicyJudge
    from otel_loopguard.engine.rule import Rule

    SettingPath = tuple[str, ...]

_STEPS = (
    "block_if_acted",
    "block_if_transient",
    "block_after_reads",
    "block_if_acknowledged",
    "no_news_block",
    "block",
)
"""The settings with a limit for refusals, the most specific ones first: ``block`` is the lowest limit of a mode."""
_DECLARED = DECLARED | {MAX_CALLS, RUN_BUDGET}
"""Modes whose limits an owner declares (``cap``, ``once``, ``max_calls``, budgets): good runs cannot show them."""


@dataclass
class LoosenedSettings:
    """The settings of the policy that will be written."""

    values: dict[SettingPath, Any] = field(default_factory=dict)
    """By path, such as ``("tools", "read_file", "modes", "cycle", "block")``."""
    reasons: dict[SettingPath, str] = field(default_factory=dict)
    """The reason for each value, as a comment for the reader of the policy."""
    runs: Counter[SettingPath] = field(default_factory=Counter)
    """The number of good runs that need the setting."""
    busiest: dict[SettingPath, str] = field(default_factory=dict)
    """The one of these runs with the highest count."""

    def __post_init__(self) -> None:
        self._start = dict(self.values)

    @property
    def added(self) -> int:
        """The number of settings that are new, or differ from those of the starting policy."""
        return sum(value != self._start.get(path) for path, value in self.values.items())

    def add(self, path: SettingPath, value: int | str, reason: str, good: Refused) -> None:
        """Set a value that the good runs ``good`` need in order not to be refused."""
        self.runs[path] = max(self.runs[path], good.runs)
        self.busiest[path] = good.busiest
        before = f"{self._start[path]} before; " if path in self._start else ""
        self.values[path], self.reasons[path] = value, f"{before}{counted(self.runs[path], 'run')}: {reason}"

    def drop_overtaken(self) -> None:
        """Drop the limits that are no higher than the ``block`` of their mode, which must be the lowest limit."""
        for path, value in list(self.values.items()):
            block = _as_number(self.values.get((*path[:-1], "block")))
            if path[-1] in _STEPS[:-1] and isinstance(value, int) and value <= block:
                del self.values[path], self.reasons[path], self.runs[path]


def starting_settings(file: str | None) -> LoosenedSettings:
    """Return the settings of the policy file that calibration begins with, each with its line; none without a file.

    Raise a ``PolicyError`` that names all mistakes of the file.
    """
    if file is None:
        return LoosenedSettings()
    load_policy(file)
    text = read_bytes(file).decode("utf-8")
    lines, values = lines_of(text), dict(_flat(tomllib.loads(text), ()))
    return LoosenedSettings(values, {one: f"{Path(file).name}, line {line_of(one, lines)}" for one in values})


def _flat(table: dict[str, Any], path: SettingPath) -> Iterator[tuple[SettingPath, Any]]:
    for name, value in table.items():
        if isinstance(value, dict):
            yield from _flat(value, (*path, name))
        else:
            yield (*path, name), value


def loosen(settings: LoosenedSettings, survey: Survey, target: float) -> bool:
    """Raise limits until at most the share ``target`` of the fitted runs would be refused.

    Return False if nothing was changed: none is needed, or none would help.
    """
    before = dict(settings.values)
    judge = survey.judges[1]
    for cause in sorted(_chosen(survey.refusals, int(target * survey.fitted.runs + 1e-9))):
        kind = ("tools", cause.tool, "kind")
        refused = sorted((reached, good) for reached, good in survey.refused.items() if reached.cause == cause)
        if _is_poll(cause, survey, judge) and kind not in settings.values:
            reason = f"its answer changed by itself after {counted(survey.changed[cause], 'refused call')}"
            settings.add(kind, "poll", reason, max(good for _, good in refused))
            continue
        for reached, good in refused:
            path = setting_of(reached, judge)
            if good.count >= _as_number(settings.values.get(path)):
                reason = f"the busiest has {good.count}, refused at {reached.limit} ({good.busiest})"
                settings.add(path, good.count + 1, reason, good)
    settings.drop_overtaken()
    return settings.values != before


def can_be_loosened(cause: Cause) -> bool:
    """Return True if a limit can be raised for this cause: it is not declared, and its tool has a plain name.

    A cause without a tool stands for names that a model made up; of these only the mode of unknown tools has a limit.
    """
    if cause.mode in _DECLARED:
        return False
    return cause.mode == Mode.UNKNOWN_TOOL_REPEAT if not cause.tool else bool(is_plain_name(cause.tool))


def _chosen(refusals: Mapping[frozenset[Cause], int], allowed: int) -> set[Cause]:
    """Return few causes, those of most runs first: without them, at most ``allowed`` runs are refused."""
    left = dict(refusals)
    chosen: set[Cause] = set()
    while sum(left.values()) > allowed:
        weights: Counter[Cause] = Counter()
        for causes, runs in left.items():
            if all(map(can_be_loosened, causes)):
                weights.update(dict.fromkeys(causes - chosen, runs))
        if not weights:
            break
        chosen.add(max(weights, key=lambda cause: (weights[cause], cause)))
        left = {causes: runs for causes, runs in left.items() if not causes <= chosen}
    return chosen


def _is_poll(cause: Cause, survey: Survey, judge: PolicyJudge) -> bool:
    """Return True if a tool that reads was refused, and its result then turned out to have changed by itself.

    A tool of unknown kind is never called a poll: as one it would count as changing nothing, which is not known.
    """
    if cause.mode != Mode.GENERIC_REPEAT or not survey.changed[cause]:
        return False
    tool = judge.compiled.contracts.tool(cause.tool, None)
    return tool.kind is Kind.READ and not tool.declared


def setting_of(reached: ReachedLimit, judge: PolicyJudge) -> SettingPath:
    """Return the path of the setting that has this limit: the most specific one with its value, else ``block``."""
    tool, mode = reached.cause
    rules = judge.compiled.contracts.tool(tool, None).rules if tool else {}
    owners = (mode, Mode.POLL_NO_PROGRESS) if mode == Mode.GENERIC_REPEAT else (mode,)
    found = ((owner, step) for owner in owners for step in _STEPS if _has(rules.get(owner), step, reached.limit))
    owner, step = next(found, (mode, "block"))
    return (*(("tools", tool) if tool else ()), "modes", str(owner), step)


def _has(rule: Rule | None, step: str, limit: int) -> bool:
    return rule is not None and rule.settings.get(step) == limit


def _as_number(value: int | str | None) -> int:
    return value if isinstance(value, int) else 0
