"""Find the settings of a policy file that have no effect: limits that other limits come before, and actions.

The guard itself is asked: it judges some sample loops with the limit, and with one that no loop reaches. If the limit
changes none of the loops that it decides by default, it has no effect. A limit that decides none is not judged.
"""

from __future__ import annotations

import itertools
import re
from dataclasses import replace
from fnmatch import fnmatchcase, translate
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

from otel_loopguard.engine.modes import DEFAULT_RULES, ROWS, Mode
from otel_loopguard.engine.policy.check import dotted
from otel_loopguard.engine.policy.policy import Policy, ToolContract
from otel_loopguard.engine.policy.problems import Problem
from otel_loopguard.engine.quoting import ordinal
from otel_loopguard.engine.rule import Rule
from otel_loopguard.engine.tools.contracts import Contracts, specificity
from otel_loopguard.engine.vocabulary import Action, Outcome, ToolCall
from otel_loopguard.environment_variables import PREFIX
from otel_loopguard.guard.guard import Guard

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from otel_loopguard.engine.policy.toml_lines import Path
    from otel_loopguard.policy_files.load import LoadedPolicy

    Calls = Callable[[str], Iterator[tuple[ToolCall, Outcome]]]

_LONGEST = 48
"""The calls of a sample loop. A higher limit is judged only if the loop is refused before."""
_NEVER = 1_000_000
"""A limit that no sample loop reaches. 0 would switch off the whole mode, with its other limits."""
_KEY = b"of sample loops"
_SECONDS = 0.5
"""The time between two calls: too short to count as a pause."""
_BY_KIND = ("read_page", "update_record", "frobnicate", "get_status", "run_command")
"""A tool of each kind, for limits that hold for all tools."""
_OTHERS = ("read_other", "write_other")
"""Tools for the calls between those of a loop."""
_WILD = frozenset("*?[")
_OF_TURN = (Mode.NO_NOVELTY, Mode.GLOBAL_CIRCUIT_BREAKER)
"""Modes that count the calls of all tools. A loop of one tool cannot tell whether a limit of this tool is reached."""
_TEXT = "The orders of the customer are listed below, the newest one first, each with its number and state."
"""A result that is longer than an acknowledgement."""


class Loop(NamedTuple):
    """A kind of loop."""

    name: str
    """As messages name it."""
    calls: Calls
    """Takes the name of a tool; yields the calls of the loop, each with its outcome."""


class Judged(NamedTuple):
    """The guard's reaction to a loop. Calls are numbered from 1."""

    refused: tuple[int, ...]
    nudged: tuple[int, ...]
    mode: str
    """The mode of the first refusal; empty without one."""


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
    Loop("equal calls with news from reading in between", _between(_OTHERS[0])),
    Loop("equal calls with writes in between", _between(_OTHERS[1])),
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
    """Yield a problem for each limit and action of the policy file that has no effect. Each names the reason."""
    yield from _above_ceiling(loaded)
    yield from _out_of_scope(loaded)
    yield from _ended_first(loaded)
    yield from _without_prices(loaded)
    # A policy that refuses nothing yet is judged as if it did. No fingerprint leaves, so any key will do.
    policy = replace(loaded.policy, action=max(loaded.policy.action, Action.BLOCK), hash_key=_KEY)
    remedies = _Remedies(policy)
    for path, origin in loaded.origins.items():
        mode, value = _mode_of(path), _value_at(policy, path)
        if loaded.file is None or not origin.startswith(loaded.file) or mode is None or not value:
            continue
        if value == _default(path) or (path[0] == "tools" and mode in _OF_TURN):
            continue
        with_it = ROWS[mode].runs_with if mode in ROWS else ()
        if policy.order and not {mode, *with_it} & set(policy.order):
            yield Problem(dotted(path), origin, value, f"has no effect: `order` leaves {mode} out.")
            continue
        if mode in policy.own_rows:  # no sample loop is known to be one of a user's own detector
            continue
        remedy = remedies.of(path, value)
        if remedy is not None:
            yield Problem(dotted(path), origin, value, remedy)


def _above_ceiling(loaded: LoadedPolicy) -> Iterator[Problem]:
    """Yield the actions of tools and modes, and the limits ``abort``, that the policy's own action does not allow.

    If the environment sets that action, it is meant to lower those of the file: then there are none.
    """
    ceiling = loaded.policy.action
    if loaded.file is None or loaded.origins.get(("action",), "").startswith(PREFIX):
        return
    for path, origin in loaded.origins.items():
        value = _value_at(loaded.policy, path)
        if not origin.startswith(loaded.file) or len(path) == 1:
            continue
        if path[-1] == "action" and value > ceiling:
            remedy = f'{ceiling} is the policy\'s `action`, the ceiling of all others: set `action = "{value}"` there'
            lower = "a lower one for other tools and modes, if they need it"
            yield Problem(dotted(path), origin, str(value), f"has no effect above {ceiling}: {remedy}, and {lower}.")
        elif path[-1] == "abort" and value > 0 and ceiling < Action.ABORT:
            remedy = f'the policy\'s `action` is {ceiling}: only with `action = "abort"` there a limit ends the run.'
            yield Problem(dotted(path), origin, value, f"has no effect: {remedy}")


def _out_of_scope(loaded: LoadedPolicy) -> Iterator[Problem]:
    """Yield the settings about conversations of a policy that does not remember conversations."""
    policy, in_file = loaded.policy, loaded.file or " "
    is_left_out = bool(policy.order) and Mode.NO_NOVELTY not in policy.order
    for path, origin in loaded.origins.items():
        value, remedy = _value_at(policy, path), ""
        if path == ("scope",) and value == "conversation" and is_left_out:
            remedy = f"`order` leaves {Mode.NO_NOVELTY} out."
        elif policy.scope == "turn" and (path == ("conversation_idle",) or (path[-1] == "turns" and "modes" in path)):
            remedy = 'set `scope = "conversation"`, too.'
        if remedy and origin.startswith(in_file):
            yield Problem(dotted(path), origin, value, f"has no effect: {remedy}")


def _without_prices(loaded: LoadedPolicy) -> Iterator[Problem]:
    """Yield the budgets of cost of a policy without prices."""
    policy, in_file = loaded.policy, loaded.file or " "
    for path, origin in loaded.origins.items():
        if (
            path[0] == "budget"
            and path[-1] == "cost"
            and not policy.cost_per_million_tokens
            and origin.startswith(in_file)
        ):
            remedy = "has no effect: without a price in [cost_per_million_tokens] no request has a cost."
            yield Problem(dotted(path), origin, _value_at(policy, path), remedy)


def _ended_first(loaded: LoadedPolicy) -> Iterator[Problem]:
    """Yield ``abort_after`` if it ends a run before ``conclude_after``, which the file leaves as it is."""
    path, conclude = ("abort_after",), loaded.policy.conclude_after
    value, origin = loaded.policy.abort_after, loaded.origins.get(path, "")
    if loaded.file is not None and origin.startswith(loaded.file) and 0 < value <= conclude:
        remedy = f"ends the run without an answer, because `conclude_after` is {conclude}: set a lower one, or 0."
        yield Problem(dotted(path), origin, value, remedy)


class _Remedies:
    """Finds the limits of a policy that have no effect.

    A policy for hundreds of tools has many equal limits. So each is judged with the contracts of the tools in its loops
    only, and once for all tools that the guard tells apart by nothing but their names.
    """

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self._places = {glob: place for place, glob in enumerate(policy.tools)}
        self._patterns = [(glob, re.compile(translate(glob))) for glob in policy.tools if _WILD & set(glob)]
        self._named = Contracts(replace(policy, tools={}))
        self._found: dict[tuple[Any, ...], str | None] = {}
        self._matching = cache(self._globs_of)

    def of(self, path: Path, value: int) -> str | None:
        """Return why the limit of this path has no effect; None if it has one, or if that cannot be judged."""
        tools = _tools_of(path)
        names = (*tools, *(f"no_{tool}" for tool in tools), *_OTHERS)
        globs = sorted({glob for name in names for glob in self._matching(name)}, key=self._places.__getitem__)
        contracts = {glob: self._policy.tools[glob] for glob in globs}
        if any(one.route for one in contracts.values()):  # the calls may be those of any tool
            return _overtaken(self._policy, path, value)
        own = path[1] if path[0] == "tools" and not _WILD & set(path[1]) and not self._policy.detectors else None
        key = (
            tuple(part for part in path if part != own),
            value,
            tuple(("" if glob == own else glob, specificity(glob), repr(one)) for glob, one in contracts.items()),
            tuple((self._nature(name), *(glob for glob in self._matching(name) if glob != own)) for name in names),
        )
        if key not in self._found:
            self._found[key] = _overtaken(replace(self._policy, tools=contracts), path, value)
        return self._found[key]

    def _globs_of(self, name: str) -> tuple[str, ...]:
        wild = (glob for glob, pattern in self._patterns if pattern.match(name))
        return (*wild, name) if name in self._places and not _WILD & set(name) else tuple(wild)

    def _nature(self, name: str) -> tuple[Any, ...]:
        """Return what the guard concludes from the name of a tool."""
        tool = self._named.tool(name, None)
        return tool.kind, tool.takes_next, tool.moves_cursor, repr(tool.route)


def _overtaken(policy: Policy, path: Path, value: int) -> str | None:
    """Return why the limit of this path has no effect, by the example of the loop that goes on longest.

    None if it has an effect, or cannot be judged.
    """
    drawn: list[tuple[str, Loop, Judged]] = []  # the loops that the limit decides, as judged without it

    def changes(other: int | None, tool: str, loop: Loop, without: Judged) -> bool:
        found = _judge(_with(policy, path, other), tool, loop)
        return found.nudged != without.nudged if "nudge" in path[-1] else found.refused != without.refused

    for tool, loop in itertools.product(_tools_of(path), LOOPS):
        if _decides(policy, path, tool, loop):
            drawn.append((tool, loop, _judge(_with(policy, path, _NEVER), tool, loop)))
            if not drawn[-1][-1].refused or changes(value, *drawn[-1]):
                return None
    if not drawn:
        return None
    tool, loop, latest = max(drawn, key=lambda one: one[-1].refused[0])
    place = latest.refused[0]
    named = loop.name if tool in path else f"{loop.name} of {tool}"
    reason = f"of {named}, {latest.mode} refuses the {ordinal(place)}; raise that limit, too."
    if not any(changes(None, *one) for one in drawn):  # as if the file did not have it
        return f"has no effect: {reason}"
    lower = range(min(value - 1, place), 0, -1)
    largest = next((number for number in lower if any(changes(number, *one) for one in drawn)), None)
    return None if largest is None else f"has no effect above {largest}: {reason}"


def _decides(policy: Policy, path: Path, tool: str, loop: Loop) -> bool:
    """Return True if this limit decides the loop as long as all other limits have their defaults.

    It does if the loop goes on differently under the next value; for the first loop, under any other value.
    """
    tools = {glob: replace(one, modes={}, cap=None, action=None) for glob, one in policy.tools.items()}
    base = replace(Policy(), counting=policy.counting, words=policy.words, tools=tools, hash_key=policy.hash_key)
    default = _default(path) or 2
    higher = _NEVER if loop is LOOPS[0] else default + 1
    one, other = (_judge(_with(base, path, value), tool, loop) for value in (default, higher))
    return one.nudged != other.nudged if "nudge" in path[-1] else one.refused != other.refused


def _judge(policy: Policy, tool: str, loop: Loop) -> Judged:
    """Have the guard judge a loop, until it ends the run or the loop has ``_LONGEST`` calls."""
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
    """Return the mode of a limit; None if the path is that of another setting."""
    if path == ("max_calls",):
        return Mode.GLOBAL_CIRCUIT_BREAKER
    if path[0] == "tools" and path[-1] == "cap":
        return Mode.RETRY_LIMIT
    is_limit = path[0] in ("modes", "tools") and "modes" in path and path[-1] in _limits()
    return path[-2] if is_limit else None


@cache
def _limits() -> frozenset[str]:
    """Return the settings of rules that are limits: their names begin with ``block`` or ``nudge``."""
    return frozenset(
        name
        for rule in DEFAULT_RULES.values()
        for name, value in vars(rule).items()
        if isinstance(value, int) and name.startswith(("block", "nudge"))
    )


def _default(path: Path) -> int:
    rule = DEFAULT_RULES.get(path[-2], Rule()) if "modes" in path else Rule()
    return rule.settings.get(path[-1]) or 0


def _tools_of(path: Path) -> Sequence[str]:
    """Return the tools whose loops a limit is tried on: those of ``_BY_KIND`` that it is for, and one of its glob."""
    if path[0] != "tools":
        return _BY_KIND
    return (*(tool for tool in _BY_KIND if fnmatchcase(tool, path[1])), path[1].translate(str.maketrans("*?", "xx")))


def _value_at(policy: Policy, path: Path) -> Any:
    one: Any = policy
    for part in path:
        one = one.get(part) if hasattr(one, "get") else getattr(one, part, None)
    return one


def _with(policy: Policy, path: Path, value: int | None) -> Policy:
    """Return the policy with another value of this setting; None removes the setting."""
    if len(path) == 1:
        return replace(policy, max_calls=value or 0)
    if path[0] == "modes":
        return replace(policy, modes=_with_rule(policy.modes, path, value))
    contract = policy.tools.get(path[1], ToolContract())
    if path[-1] == "cap":
        contract = replace(contract, cap=value or None)
    else:
        contract = replace(contract, modes=_with_rule(contract.modes, path, value))
    return replace(policy, tools={**policy.tools, path[1]: contract})


def _with_rule(modes: Mapping[str, Rule], path: Path, value: int | None) -> dict[str, Rule]:
    return {**modes, path[-2]: Rule(**{**modes.get(path[-2], Rule()).settings, path[-1]: value})}
