"""Write the policy as TOML; its comments have the runs, the distance of each limit, the tools and the proof."""

from __future__ import annotations

from glob import escape
from itertools import groupby
from typing import TYPE_CHECKING

import orjson

from otel_loopguard.cli.calibrate.confidence import CONFIDENCE, runs_needed, upper_bound
from otel_loopguard.cli.calibrate.survey import Peak
from otel_loopguard.cli.replay.summary import table
from otel_loopguard.core.model import Kind, Mode
from otel_loopguard.core.policy.policy import DEFAULT_RULES
from otel_loopguard.version import __version__

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from otel_loopguard.cli.calibrate.loosen import Path, Settings
    from otel_loopguard.cli.calibrate.survey import Survey
    from otel_loopguard.core.tools.contracts import Tool

_DECLARED = frozenset({Mode.SIMILAR_QUERY, Mode.REPEATED_EFFECT})
"""Modes that only judge declared tools."""
_MOST_TOOLS = 20
_WIDTH = 100


def toml(settings: Settings) -> str:
    """Return the settings as TOML, each with its reason."""
    lines: list[str] = []
    for table_path, paths in groupby(sorted(settings.values), key=lambda path: path[:-1]):
        lines += ["", f"[{'.'.join(map(_key, _as_glob(table_path)))}]"]
        lines += [f"{path[-1]} = {_value(settings.values[path])}  # {settings.reasons[path]}" for path in paths]
    return "\n".join(lines).lstrip("\n") + ("\n" if lines else "")


def _as_glob(path: Path) -> Path:
    return (path[0], escape(path[1]), *path[2:]) if path[0] == "tools" else path


def _key(part: str) -> str:
    return part if part.replace("_", "").isalnum() and part.isascii() else orjson.dumps(part).decode()


def _value(value: int | str) -> str:
    return orjson.dumps(value).decode()


def comments(first: Survey, last: Survey, settings: Settings, target: float, notes: Iterable[str]) -> str:
    """Return the comments above the settings. ``first`` judged under the defaults, ``last`` under the settings."""
    lines = [
        f"Made by otel-loopguard {__version__} calibrate, --target-false-positives {100 * target:g}%",
        "",
        *_runs(last),
        "",
        *proof(last, target),
        "",
        *_limits(first),
        "",
        *_tools(first),
    ]
    notes = list(notes)
    if notes:
        lines += ["", "Not decided, or only in part:", *(f"- {note}" for note in notes)]
    if not settings.values:
        lines += [
            "",
            "No setting is needed, or none would help: this policy is the defaults.",
        ]
    return "".join(f"# {line}".rstrip() + "\n" for line in lines)


def proof(survey: Survey, target: float) -> list[str]:
    """Return the figures of the runs that were held out, and the confidence that they give."""
    rows = [
        [name, str(one.runs), str(one.before), str(one.after), str(one.withheld_before), str(one.withheld_after)]
        for name, one in (("fitted to", survey.fitted), ("held out", survey.held_out))
    ]
    head = ["", "runs", "refused before", "after", "new results withheld before", "after"]
    return [*table(head, rows).splitlines(), "", *_verdict(survey, target)]


def is_proven(survey: Survey, target: float) -> bool:
    """Return True if the runs that were held out prove the target."""
    held = survey.held_out
    return bool(held.runs) and upper_bound(held.after, held.runs) <= target


def _verdict(survey: Survey, target: float) -> Iterator[str]:
    held = survey.held_out
    if not held.runs:
        yield "NOT PROVEN: no run was held out. One in two is, by its id: more runs are needed."
        return
    bound = upper_bound(held.after, held.runs)
    rule = " (rule of three: 3 / runs)" if not held.after else ""
    yield f"{held.after:,} of {held.runs:,} good runs that were held out are refused: with {CONFIDENCE:.0%} confidence"
    yield f"at most {bound:.2%} of good runs are{rule}. The target is {100 * target:g}%."
    if bound <= target:
        yield "PROVEN: the target is met."
    elif held.after <= target * held.runs:
        yield f"TOO FEW RUNS to prove it: that takes {runs_needed(target):,} held out without a refusal, about"
        yield f"{2 * runs_needed(target):,} in all."
    else:
        yield "NOT MET by the runs that were held out."


def _runs(survey: Survey) -> Iterator[str]:
    fitted, held = survey.fitted, survey.held_out
    runs, calls = fitted.runs + held.runs, fitted.calls + held.calls
    yield f"Good runs: {runs:,}, of which {held.runs:,} were held out; calls: {calls:,}"
    for reason, count in survey.left_out.items():
        yield f"Left out {reason.value}: {count:,}"
    if survey.stuck_successes:
        yield f"Good by their label, or by --all-good, though they look stuck: {survey.stuck_successes:,}"
    if survey.stuck:
        yield f"Runs that look stuck: {', '.join(survey.stuck)}{', ...' if len(survey.stuck) > 9 else ''}"


def _limits(survey: Survey) -> Iterator[str]:
    yield "How far the busiest good run is from the limits of the defaults. Where a result proves less, the limit of a"
    yield "mode is higher than the one in the table: then the limit that was reached is named."
    rows = []
    for mode, rule in DEFAULT_RULES.items():
        peak = survey.peaks.get(str(mode), Peak())
        if not rule.block or not rule.nudge or (mode in _DECLARED and not peak.count):
            continue
        busiest = str(peak.count) if peak.count else f"below {rule.nudge}"
        if peak.limit:
            busiest += f", {'refused' if peak.is_refusal else 'nudged'} at {peak.limit}"
        rows.append([str(mode), str(rule.nudge), str(rule.block), busiest, str(peak.tripped), str(peak.refused)])
    yield from table(["mode", "nudge", "refuse", "busiest run", "runs tripped", "refused"], rows).splitlines()


def _tools(survey: Survey) -> Iterator[str]:
    contracts = survey.judges[0].compiled.contracts
    yield f"Tools: {len(survey.tools):,}. By their names (a declaration overrules a name), with the number of calls:"
    groups: dict[str, list[str]] = {}
    for name, calls in sorted(survey.tools.items(), key=lambda item: (-item[1], item[0])):
        groups.setdefault(_group(contracts.tool(name, None)), []).append(f"{name} ({calls:,})")
    for group, names in groups.items():
        left = f", and {len(names) - _MOST_TOOLS} more" if len(names) > _MOST_TOOLS else ""
        yield from _wrapped(f"- {group}: {', '.join(names[:_MOST_TOOLS])}{left}")


def _group(tool: Tool) -> str:
    if tool.kind.polls:
        return "polls or waits, which may have the same result 19 times"
    if tool.moves_cursor or tool.takes_next:
        return "may move a cursor or take the next item, so that each call has another result"
    if tool.kind is Kind.UNKNOWN:
        return "of unknown kind, taken for writes"
    return "writes, after which a repeat is no loop" if tool.kind.writes else "reads and others that change nothing"


def _wrapped(text: str) -> Iterator[str]:
    line = ""
    for word in text.split(" "):
        if line and len(line) + len(word) >= _WIDTH:
            yield line
            line = "  " + word
        else:
            line = f"{line} {word}" if line else word
    yield line
