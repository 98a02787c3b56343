"""Choose the limits that are raised, and by how much: as few as the target allows, each to the busiest good run."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from otel_loopguard.cli.calibrate.survey import MAX_CALLS
from otel_loopguard.engine.modes import DECLARED, Mode
from otel_loopguard.engine.quoting import is_plain_name
from otel_loopguard.engine.words import Kind

if TYPE_CHECKING:
    from collections.abc import Mapping

    from otel_loopguard.cli.calibrate.survey import Cause, ReachedLimit, Refused, Survey
    from otel_loopguard.cli.replay.judge import PolicyJudge
    from otel_loopguard.engine.rule import Rule

    Path = tuple[str, ...]

_STEPS = (
    "block_if_acted",
    "block_if_transient",
    "block_after_reads",
    "block_if_acknowledged",
    "no_news_block",
    "block",
)
"""The settings that refuse, the most specific ones first: ``block`` is the least of all limits of its mode."""


_DECLARED = DECLARED | {MAX_CALLS}
"""Limits that a policy declares (``cap``, ``once``, ``max_calls``). They are kept: runs cannot tell what is allowed."""


@dataclass
class LoosenedSettings:
    """The settings of the policy that is written, each with its reason."""

    values: dict[Path, Any] = field(default_factory=dict)
    reasons: dict[Path, str] = field(default_factory=dict)
    runs: Counter[Path] = field(default_factory=Counter)
    """The good runs that a setting is for."""
    busiest: dict[Path, str] = field(default_factory=dict)
    """The busiest of them."""

    def __post_init__(self) -> None:
        self._start = dict(self.values)

    @property
    def added(self) -> int:
        """The number of settings that the starting policy does not have, or has with another value."""
        return sum(value != self._start.get(path) for path, value in self.values.items())

    def add(self, path: Path, value: int | str, reason: str, good: Refused) -> None:
        """Set a value for the good runs that are refused without it."""
        self.runs[path] = max(self.runs[path], good.runs)
        self.busiest[path] = good.busiest
        before = f"{self._start[path]} before; " if path in self._start else ""
        self.values[path], self.reasons[path] = value, f"{before}{_times(self.runs[path], 'run')}: {reason}"

    def drop_overtaken(self) -> None:
        """Drop the limits that the ``block`` of their mode has overtaken: it is the least of them all."""
        for path, value in list(self.values.items()):
            block = _as_number(self.values.get((*path[:-1], "block")))
            if path[-1] in _STEPS[:-1] and isinstance(value, int) and value <= block:
                del self.values[path], self.reasons[path], self.runs[path]


def loosen(settings: LoosenedSettings, survey: Survey, target: float) -> bool:
    """Raise the limits that refuse more runs than the target allows. Return False if there is nothing to raise."""
    before = dict(settings.values)
    judge = survey.judges[1]
    for cause in sorted(_chosen(survey.refusals, int(target * survey.fitted.runs + 1e-9))):
        kind = ("tools", cause.tool, "kind")
        refused = sorted((reached, good) for reached, good in survey.refused.items() if reached.cause == cause)
        if _is_poll(cause, survey, judge) and kind not in settings.values:
            reason = f"its answer changed by itself after {_times(survey.changed[cause], 'refused call')}"
            settings.add(kind, "poll", reason, max(good for _, good in refused))
            continue
        for reached, good in refused:
            path = _setting(reached, judge)
            if good.count >= _as_number(settings.values.get(path)):
                reason = f"the busiest has {good.count}, refused at {reached.limit} ({good.busiest})"
                settings.add(path, good.count + 1, reason, good)
    settings.drop_overtaken()
    return settings.values != before


def can_be_loosened(cause: Cause) -> bool:
    """Return True if a setting can name the tool. One for all tools is only for tools that do not exist."""
    if cause.mode in _DECLARED:
        return False
    return cause.mode == Mode.UNKNOWN_TOOL_REPEAT if not cause.tool else bool(is_plain_name(cause.tool))


def _chosen(refusals: Mapping[frozenset[Cause], int], allowed: int) -> set[Cause]:
    """Return few causes without which no more runs are refused than allowed: those of most runs first."""
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
    """Return True if a reading tool was refused as stuck, and then its answer changed by itself.

    Tools of unknown kind are left as they are: a poll changes nothing, so that repeats after it would be refused.
    """
    if cause.mode != Mode.GENERIC_REPEAT or not survey.changed[cause]:
        return False
    tool = judge.compiled.contracts.tool(cause.tool, None)
    return tool.kind is Kind.READ and not tool.declared


def _setting(reached: ReachedLimit, judge: PolicyJudge) -> Path:
    """Return the path of the setting that holds a limit: the most specific one with its value, else ``block``."""
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


def _times(count: int, word: str) -> str:
    return f"{count:,} {word}{'' if count == 1 else 's'}"
