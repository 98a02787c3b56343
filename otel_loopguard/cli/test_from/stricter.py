"""Look for lower limits that stop the loops earlier, and no other run of the recording."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from otel_loopguard import semconv
from otel_loopguard.cli.calibrate.loosen import LoosenedSettings, setting_of
from otel_loopguard.cli.calibrate.survey import Cause, ReachedLimit
from otel_loopguard.cli.replay.judge import PolicyJudge
from otel_loopguard.cli.test_from.recorded_loops import LoopFinder
from otel_loopguard.engine.modes import Mode
from otel_loopguard.engine.policy.policy import Policy, ToolContract
from otel_loopguard.engine.quoting import is_plain_name
from otel_loopguard.engine.rule import Rule
from otel_loopguard.engine.vocabulary import Action

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from otel_loopguard.cli.calibrate.loosen import SettingPath
    from otel_loopguard.cli.replay.input_reader import Judged
    from otel_loopguard.cli.replay.judge import TripOfRun
    from otel_loopguard.cli.test_from.recorded_loops import RecordedLoop

_SHARES = (4, 2, 4 / 3)
"""The limits that are tried: a quarter, a half and three quarters of those that were reached."""
_LOWEST = 3
"""A limit of 3 or less is lowered by one."""


class Stricter(NamedTuple):
    """Limits that would have stopped loops earlier."""

    settings: LoosenedSettings
    """Those that stop no other run of the recording."""
    too_strict: Mapping[SettingPath, int]
    """The settings of which each value stops other runs, and how many of them the highest one stops."""


class _Attempt:
    """Lower limits, by which some loops are stopped earlier."""

    def __init__(self, share: float, loops: Sequence[tuple[str, RecordedLoop]], judge: PolicyJudge) -> None:
        """Divide the limit of each loop by ``share``, and keep those that stop its script earlier."""
        self.values: dict[SettingPath, tuple[int, str]] = {}
        """The value of each setting, and what it does."""
        self.policy = policy = judge.compiled.policy
        self.others: Counter[SettingPath] = Counter()
        """The runs that only this setting stops."""
        self._paths: dict[tuple[str, str], SettingPath] = {}
        for name, loop in loops:
            path, value = _path(loop, judge), _lower(loop.trip.limit, share)
            if path is None or loop.script is None or value >= loop.trip.limit:
                continue
            number = LoopFinder(_with(policy, path, value)).stopped_at(loop.script)
            if 0 < number < len(loop.script.calls) and value <= self.values.get(path, (value,))[0]:
                self.values[path] = value, f"{name}: call {number}, not {len(loop.script.calls)}"
                self.policy = _with(self.policy, path, value)
                self._paths[_cause(loop.tool), loop.trip.mode] = path

    def add(self, trips: Iterable[TripOfRun]) -> None:
        """Count a run that the policy itself does not stop."""
        stopped = {(_cause(trip.tool), trip.mode) for trip in trips if trip.action >= Action.REUSE}
        self.others.update({self._paths[one] for one in stopped if one in self._paths})


def stricter(
    loops: Sequence[tuple[str, RecordedLoop]], judge: PolicyJudge, read: Callable[[list[PolicyJudge], Any], None]
) -> Stricter:
    """Return the lowest limits that stop the loops earlier, and no other run.

    ``loops`` are those that have a test, by its name. ``read(judges, add)`` reads the recording again.
    """
    tried = [one for share in _SHARES if (one := _Attempt(share, loops, judge)).values]
    found = Stricter(LoosenedSettings(), {})
    if not tried:
        return found

    def add(judged: Judged) -> None:
        first, *others = judged.trips
        if not any(trip.action >= Action.REUSE for trip in first):
            for one, trips in zip(tried, others, strict=True):
                one.add(trips)

    read([judge, *(PolicyJudge(one.policy) for one in tried)], add)
    others = {path: one.others[path] for one in tried for path in one.values}
    for one in reversed(tried):
        for path, (value, reason) in one.values.items():
            if not one.others[path]:
                found.settings.values[path], found.settings.reasons[path] = value, reason
    return found._replace(too_strict={path: runs for path, runs in others.items() if path not in found.settings.values})


def _cause(tool: str) -> str:
    """Return the tool that a setting is for: none for names that a model made up."""
    return "" if tool.startswith(semconv.UNKNOWN_TOOL) else tool


def _path(loop: RecordedLoop, judge: PolicyJudge) -> SettingPath | None:
    """Return the path of the setting that the loop has reached; None if no single one can be lowered for its tool."""
    tool, mode = loop.tool, loop.trip.mode
    if mode == Mode.RETRY_LIMIT:
        return ("tools", tool, "cap")
    made_up = not _cause(tool)
    if mode == Mode.GLOBAL_CIRCUIT_BREAKER or (made_up and mode != Mode.UNKNOWN_TOOL_REPEAT) or not is_plain_name(tool):
        return None
    return setting_of(ReachedLimit(Cause(_cause(tool), mode), loop.trip.limit), judge)


def _with(policy: Policy, path: SettingPath, value: int) -> Policy:
    """Return the policy with a setting of a tool or of a mode."""
    if path[0] == "modes":
        _, mode, step = path
        rule = _rule(step, value).over(policy.modes.get(mode, Rule()))
        return replace(policy, modes={**policy.modes, mode: rule})
    _, tool, *rest = path
    own = ToolContract(cap=value) if rest == ["cap"] else ToolContract(modes={rest[1]: _rule(rest[2], value)})
    return replace(policy, tools={**policy.tools, tool: own.over(policy.tools.get(tool, ToolContract()))})


def _lower(limit: int, share: float) -> int:
    return max(min(_LOWEST, limit - 1), int(limit / share))


def _rule(step: str, value: int) -> Rule:
    settings: dict[str, Any] = {step: value}
    return Rule(**settings)
