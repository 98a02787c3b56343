"""Find the limits of a policy that no call ever reaches, because another limit refuses it before.

No table has the limits that come before others: the guard itself is asked. It judges drawn loops under the policy, with
the setting and with the setting switched off. A setting that changes nothing in the loops that it decides by default is
without effect. One that decides none of these loops is not judged.
"""

from __future__ import annotations

import itertools
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

from otel_loopguard.core.guard import Guard
from otel_loopguard.core.model import Action, Mode, Outcome, ToolCall
from otel_loopguard.core.policy.check import dotted
from otel_loopguard.core.policy.policy import DEFAULT_RULES, Policy, Rule, ToolContract
from otel_loopguard.core.policy.problems import Problem

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from otel_loopguard.core.policy.load import LoadedPolicy
    from otel_loopguard.core.policy.toml_lines import Path

    Calls = Callable[[str], Iterator[tuple[ToolCall, Outcome]]]

_LONGEST = 48
"""The calls of a loop. A limit above is judged only if the loop is refused before."""
_SECONDS = 0.5
"""Between two calls: so short that no time counts."""
_BY_KIND = ("read_page", "update_record", "frobnicate", "get_status", "run_command")
"""Tools of several kinds, for limits that hold for all tools."""
_LAPS = (Mode.PING_PONG, Mode.CYCLE)
_OF_TURN = (Mode.NO_NOVELTY, Mode.GLOBAL_CIRCUIT_BREAKER)
"""Modes that count the calls of all tools. A loop of one tool cannot tell whether a limit of this tool is reached."""
_TEXT = "The orders of the customer are listed below, the newest one first."


class Loop(NamedTuple):
    """A kind of loop, as a message names it, and its calls with this tool."""

    name: str
    calls: Calls


class Judged(NamedTuple):
    """The places of the calls that were refused, and of those that were nudged; the mode of the first refusal."""

    refused: tuple[int, ...]
    nudged: tuple[int, ...]
    mode: str


def _same(outcome: Outcome) -> Calls:
    return lambda tool: itertools.repeat((ToolCall(tool, {"key": "a"}), outcome))


def _lap(period: int) -> Calls:
    steps = [_word(step) for step in range(period)]
    return lambda tool: itertools.cycle([(ToolCall(tool, {"key": word}), Outcome(f"{_TEXT} {word}")) for word in steps])


def _others(outcome: Callable[[str], Outcome]) -> Calls:
    return lambda tool: ((ToolCall(tool, {"key": word}), outcome(word)) for word in map(_word, itertools.count()))


def _between(other: str) -> Calls:
    def calls(tool: str) -> Iterator[tuple[ToolCall, Outcome]]:
        for word in map(_word, itertools.count()):
            yield ToolCall(tool, {"key": "a"}), Outcome(_TEXT)
            yield ToolCall(other, {"key": word}), Outcome(f"{_TEXT} {word}")

    return calls


def _numbered(tool: str) -> Iterator[tuple[ToolCall, Outcome]]:
    for number in itertools.count():
        other = f"{(number * 7919) % 10007:05d}"  # to and fro, so that it is no progress
        yield ToolCall(tool, {"key": "a"}), Outcome(f"{_TEXT} Request {other}.")


def _queries(tool: str) -> Iterator[tuple[ToolCall, Outcome]]:
    for words in itertools.permutations(("refund", "policy", "late", "orders", "customers")):
        yield ToolCall(tool, {"query": " ".join(words)}), Outcome("No documents were found for this query.")


def _unregistered(tool: str) -> Iterator[tuple[ToolCall, Outcome]]:
    for _ in itertools.count():
        yield ToolCall(f"no_{tool}", {"key": "a"}, known_tools=(tool,)), Outcome(error="there is no such tool")


def _word(number: int) -> str:
    return "".join("bcdfghjklm"[int(digit)] + "aeiouaeiou"[int(digit)] for digit in f"{number:03d}")


_BAD_KEY = Outcome(error="ValueError: the key is not valid")
LOOPS = (
    Loop("equal calls with equal results", _same(Outcome(_TEXT))),
    Loop("equal calls that are acknowledged", _same(Outcome("ok"))),
    Loop("equal calls with equal errors", _same(_BAD_KEY)),
    Loop("equal calls with transient errors", _same(Outcome(error="503 Service Unavailable"))),
    Loop("equal calls that are not done yet", _same(Outcome("The job is still running."))),
    Loop("equal calls whose results differ in a number", _numbered),
    Loop("equal calls with news from reading in between", _between("read_other")),
    Loop("equal calls with writes in between", _between("write_other")),
    Loop("two calls in turn", _lap(2)),
    Loop("three calls in turn", _lap(3)),
    Loop("twelve calls in turn", _lap(12)),
    Loop("different calls with equal errors", _others(lambda _word: _BAD_KEY)),
    Loop("different calls with equal answers", _others(lambda _word: Outcome(_TEXT))),
    Loop("different calls with news", _others(lambda word: Outcome(f"{_TEXT} {word}"))),
    Loop("similar queries", _queries),
    Loop("calls of a tool that does not exist", _unregistered),
)


def ineffective(loaded: LoadedPolicy) -> Iterator[Problem]:
    """Name each limit of a file that has no effect, with the limit that comes before it."""
    policy = loaded.policy
    if policy.action < Action.BLOCK:  # to be judged as it will be when it refuses
        policy = replace(policy, action=Action.BLOCK)
    for path, origin in loaded.origins.items():
        mode, value = _mode_of(path), _value_at(policy, path)
        if loaded.file is None or not origin.startswith(loaded.file) or mode is None or not value:
            continue
        if value == _default(path) or (path[0] == "tools" and mode in _OF_TURN):
            continue
        if policy.order and mode not in policy.order and not (mode in _LAPS and set(_LAPS) & set(policy.order)):
            yield Problem(dotted(path), origin, value, f"has no effect: `order` leaves {mode} out.")
            continue
        reason = _overtaken(policy, path)
        if reason is not None:
            yield Problem(dotted(path), origin, value, f"has no effect: {reason}.")


def _overtaken(policy: Policy, path: Path) -> str | None:
    """Name the limit that comes before this one, by the loop that goes on longest.

    None if it has an effect, or cannot be judged.
    """
    reason, latest, nudges = None, 0, "nudge" in path[-1]
    for tool, loop in itertools.product(_tools_of(path), LOOPS):
        if not _decides(policy, path, tool, loop):
            continue
        found, off = _judge(policy, tool, loop), _judge(_with(policy, path, 0), tool, loop)
        if not found.refused or (found.nudged != off.nudged if nudges else found.refused != off.refused):
            return None
        if found.refused[0] > latest:
            latest = found.refused[0]
            reason = f"of {loop.name}, {found.mode} refuses the {_ordinal(latest)}; raise that limit, too"
    return reason


def _decides(policy: Policy, path: Path, tool: str, loop: Loop) -> bool:
    """Return True if this limit decides the loop when all other limits have their defaults."""
    tools = {glob: replace(one, modes={}, cap=None, action=None) for glob, one in policy.tools.items()}
    base = Policy(counting=policy.counting, words=policy.words, tools=tools)
    default = _default(path) or 2
    one, other = (_judge(_with(base, path, value), tool, loop) for value in (default, default + 1))
    return one.nudged != other.nudged if "nudge" in path[-1] else one.refused != other.refused


def _judge(policy: Policy, tool: str, loop: Loop) -> Judged:
    """Have the guard judge a loop, up to its end by the guard."""
    times = itertools.count(0.0, _SECONDS)
    refused: list[int] = []
    nudged: list[int] = []
    mode = ""
    with Guard(policy, clock=lambda: next(times)).turn() as turn:
        for place, (call, outcome) in enumerate(itertools.islice(loop.calls(tool), _LONGEST), 1):
            decision = turn.begin(call)
            if decision.runs:
                decision = turn.end(call, outcome)
            elif not mode and decision.trip is not None:
                mode = decision.trip.mode
            if not decision.runs:
                refused.append(place)
            elif decision.action is Action.NUDGE:
                nudged.append(place)
            if decision.action is Action.ABORT:
                break
    return Judged(tuple(refused), tuple(nudged), str(mode))


# --- the limits ----------------------------------------------------------------------------------------------------


def _mode_of(path: Path) -> str | None:
    """Return the mode that a limit belongs to; None for a setting that is no limit."""
    if path == ("max_calls",):
        return Mode.GLOBAL_CIRCUIT_BREAKER
    if path[0] == "tools" and path[-1] == "cap":
        return Mode.RETRY_LIMIT
    is_limit = path[0] in ("modes", "tools") and "modes" in path and path[-1] in _limits()
    return path[-2] if is_limit else None


@cache
def _limits() -> frozenset[str]:
    """The settings of a rule that count calls, by their names: ``block...`` and ``nudge...``."""
    return frozenset(
        name
        for rule in DEFAULT_RULES.values()
        for name, value in vars(rule).items()
        if isinstance(value, int) and name.startswith(("block", "nudge"))
    )


def _default(path: Path) -> int:
    return (getattr(DEFAULT_RULES[path[-2]], path[-1]) or 0) if "modes" in path else 0


def _tools_of(path: Path) -> Sequence[str]:
    """The tools to draw the loops with: one that the glob matches, or some of several kinds."""
    if path[0] != "tools":
        return _BY_KIND
    return (path[1].translate(str.maketrans("*?", "xx")),)


def _value_at(policy: Policy, path: Path) -> Any:
    one: Any = policy
    for part in path:
        one = one.get(part) if hasattr(one, "get") else getattr(one, part, None)
    return one


def _with(policy: Policy, path: Path, value: int) -> Policy:
    """Return the policy with another value of this setting."""
    if len(path) == 1:
        return replace(policy, max_calls=value)
    if path[0] == "modes":
        return replace(policy, modes=_with_rule(policy.modes, path, value))
    contract = policy.tools.get(path[1], ToolContract())
    if path[-1] == "cap":
        contract = replace(contract, cap=value or None)
    else:
        contract = replace(contract, modes=_with_rule(contract.modes, path, value))
    return replace(policy, tools={**policy.tools, path[1]: contract})


def _with_rule(modes: Mapping[str, Rule], path: Path, value: int) -> dict[str, Rule]:
    changed: Mapping[str, Any] = {path[-1]: value}
    return {**modes, path[-2]: replace(modes.get(path[-2], Rule()), **changed)}


def _ordinal(number: int) -> str:
    last = "th" if 10 <= number % 100 <= 20 else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{last}"
