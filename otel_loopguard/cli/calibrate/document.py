"""Write the policy as TOML, with comments: the proof, the runs, how far they are from each limit, and the tools."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, Any

import orjson

from otel_loopguard.cli.calibrate.loosen import can_be_loosened
from otel_loopguard.cli.calibrate.survey import HighestCount, ReasonLeftOut
from otel_loopguard.cli.output import counted
from otel_loopguard.cli.replay.summary import table
from otel_loopguard.engine.modes import DEFAULT_RULES, ROWS, Mode
from otel_loopguard.engine.policy.check import dotted
from otel_loopguard.engine.vocabulary import Kind
from otel_loopguard.version import __version__

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from otel_loopguard.cli.calibrate.loosen import LoosenedSettings, SettingPath
    from otel_loopguard.cli.calibrate.survey import RefusedRun, Survey
    from otel_loopguard.engine.tools.contracts import Tool

_OF_FEW_CALLS = {mode for mode, row in ROWS.items() if row.concerns or row.at_request} | {Mode.NESTED_REPEAT}
"""Modes that judge only tools that a policy or code declares something of, or what no recording of calls has."""
_MOST_TOOLS = 20
_WIDTH = 100


def toml(settings: LoosenedSettings) -> str:
    """Return the settings as TOML, each with its reason as a comment; empty without settings."""
    lines: list[str] = []
    for table_path, paths in groupby(sorted(settings.values, key=_tables_last), key=lambda path: path[:-1]):
        lines += ["", f"[{'.'.join(map(_key, table_path))}]"] if table_path else []
        lines += [f"{_key(path[-1])} = {_value(settings.values[path])}  # {settings.reasons[path]}" for path in paths]
    return "\n".join(lines).lstrip("\n") + ("\n" if lines else "")


def _tables_last(path: SettingPath) -> tuple[SettingPath, SettingPath]:
    return path[:-1], path


def _key(part: str) -> str:
    return part if part.replace("_", "").isalnum() and part.isascii() else orjson.dumps(part).decode()


def _value(value: Any) -> str:
    return orjson.dumps(value).decode()


def comments(first: Survey, last: Survey, settings: LoosenedSettings, head: list[str], notes: Iterable[str]) -> str:
    """Return the comments above the settings, as lines that begin with ``#``.

    ``first`` and ``last`` are the first and the last reading, ``head`` the first lines. ``notes`` say what could not be
    judged.
    """
    parts = [head, list(_runs(last)), list(_limits(first)), list(_tools(first))]
    not_decided, refused = [f"- {note}" for note in notes], list(still_refused(last))
    if not_decided:
        parts.append(["Not decided, or only in part:", *not_decided])
    if refused:
        parts.append(refused)
    if not settings.added:
        parts.append(["No setting was added: none is needed, or none would help."])
    return commented(line for part in parts for line in ("", *part)).partition("\n")[2]


def commented(lines: Iterable[str]) -> str:
    """Return lines as comments; empty without lines."""
    return "".join(f"# {line}".rstrip() + "\n" for line in lines)


def title(arguments: str) -> str:
    """Return the first line of the file, with these arguments of the command."""
    return f"Made by otel-loopguard {__version__} calibrate, {arguments}"


def _runs(survey: Survey) -> Iterator[str]:
    fitted, held = survey.fitted, survey.held_out
    runs, calls = fitted.runs + held.runs, fitted.calls + held.calls
    yield f"Good runs: {runs:,}, of which {held.runs:,} were held out; calls: {calls:,}"
    for reason, count in survey.left_out.items():
        yield f"Left out {reason.value}: {count:,}"
    yield from stuck(survey)


def stuck(survey: Survey) -> Iterator[str]:
    """Yield lines that name the runs that look stuck, with the first refused call of each; none without such runs."""
    number = survey.stuck_successes + survey.left_out[ReasonLeftOut.STUCK]
    if not number:
        return
    good = f", {survey.stuck_successes:,} of them good by label or by --all-good" if survey.stuck_successes else ""
    yield f"{counted(number, 'run')} look{'s' if number == 1 else ''} stuck{good}:"
    yield from _named(survey.stuck, number)


def still_refused(survey: Survey) -> Iterator[str]:
    """Yield lines that name the good runs with calls that the policy refuses, and the first of these calls."""
    number = survey.fitted.after + survey.held_out.after
    if not number:
        return
    yield f"{counted(number, 'good run')} {'is' if number == 1 else 'are'} still refused:"
    yield from _named(survey.still_refused, number)
    if not all(can_be_loosened(survey.reached(one.first).cause) for one in survey.still_refused):
        yield "Not raised: declared limits (cap, once, max_calls, budget), and those of a tool without a plain name."


def _named(runs: list[RefusedRun], number: int) -> Iterator[str]:
    for one in runs:
        place = f"turn {one.first.turn + 1}, call {one.first.call + 1}"
        yield f"- {one.run}: {one.first.mode} of {one.first.tool} at {place}; {counted(one.refusals, 'call')} refused"
    if number > len(runs):
        yield f"- and {number - len(runs):,} more"


def rare(settings: LoosenedSettings) -> Iterator[str]:
    """Yield a line for each setting that a single run needs, with the name of the run."""
    for path, runs in settings.runs.items():
        if runs == 1:
            yield f"- {dotted(path)} = {_value(settings.values[path])}: {settings.busiest[path]}"


def _limits(survey: Survey) -> Iterator[str]:
    yield "How far the busiest good run is from the limits of the starting policy. Where a result proves less, a mode"
    yield "has a higher limit than the one in the table: then the limit that was reached is named."
    policy = survey.judges[0].compiled.policy
    rows = []
    for mode in policy.order or DEFAULT_RULES:
        peak, rule = survey.peaks.get(str(mode), HighestCount()), policy.rule(mode)
        if not rule.block or not rule.nudge or (mode in _OF_FEW_CALLS and not peak.count):
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
        return "polls or waits, which may have the same result many times"
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
