"""Find the first call of a turn at which some mode may trip. Most turns have none, and are not judged at all.

This is sound for the following reason. A *repeat* is a call with the tool and the arguments of an earlier call. Before
the first repeat, and before the first call to an unknown tool, every call is untried. Then

- modes about evidence, cycles, polls and effects read the history of a call, which is empty;
- ``error_repeat`` counts the errors of one tool since its last success, ``same_answer`` its equal answers in a row;
- ``no_novelty`` and ``global_circuit_breaker`` count calls without news. An untried call that succeeds is news, unless
  it only thinks. Both refuse repeats only;
- time makes no difference to a call that never ran;
- ``retry_limit``, ``similar_query``, ``max_calls`` and policies that count calls count calls.

These numbers are counted here, and never too low: the shapes of errors, the ids in answers, the strengths of calls
without news, the words of queries and the calls that a window forgets make no difference. A call without a trip leaves
only its outcome in the history. So the modes may be asked from any call on, if the history has the earlier ones.
"""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import orjson

from otel_loopguard.cli.replay.outcomes import is_failure, result_identity
from otel_loopguard.engine.policy.policy import Rule
from otel_loopguard.engine.values.answers import answer_outline
from otel_loopguard.engine.values.canonical import canonical
from otel_loopguard.engine.values.normalise import utf8
from otel_loopguard.engine.values.results import LONGEST_BRIEF
from otel_loopguard.engine.words import Kind, Mode

if TYPE_CHECKING:
    from collections.abc import Sequence

    from otel_loopguard.engine.policy.policy import Policy
    from otel_loopguard.engine.tools.contracts import Contracts, Tool

    Call = dict[str, Any]
    KnownCall = tuple["Limits", Kind, Any]
    """A resolved call: the limits of its tool, its kind, and its arguments."""

_T = TypeVar("_T")
_MOST_TOOLS = 4_096
_NEVER = 1 << 30
_SHORT = 32
"""Calls that are counted faster one tool at a time."""


# --- limits ------------------------------------------------------------------------------------------------------


class Limits(NamedTuple):
    """A tool, and the numbers of calls, none a repeat, at which a mode may trip."""

    name: str
    tool: Tool
    any_calls: int
    """Calls of this tool, whatever they hold: the lowest of the limits of one tool."""
    length: int
    """Calls in the turn, whatever they hold."""
    calls: int
    """Calls of this tool."""
    equal: int
    """Equal calls of this tool. Only policies that count calls have more than one."""
    errors: int
    """Errors of this tool since its last success."""
    answers: int
    """Equal answers of this tool in a row, of which the last is long."""
    brief: int
    """Equal answers of this tool in a row, if the last one is short."""
    row: int
    """Calls in a row, of any tools, that failed or only thought."""
    no_news: int
    """Such calls in the turn."""
    turn: int
    """Calls in the turn."""


class LimitsByTool:
    """The limits of the tools that were called so far, under one policy."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self.counts_calls = policy.counting == "calls"
        """Only the numbers of calls have limits."""
        self._limits: dict[Tool, Limits] = {}
        self.simple: dict[str, Limits] = {}
        """By the name in the call: tools that are no gateway and have no target to look up."""
        self.calls = self.errors = self.answers = self.row = self.turn = _NEVER
        """The lowest limits of all tools. ``row`` is the lower one of ``row`` and ``no_news``."""

    def of(self, name: str, tool: Tool) -> Limits:
        """Return the limits of a tool that was called by this name. Models make names up, so the number is bounded."""
        limits = self._limits.get(tool)
        if limits is None:
            if len(self._limits) >= _MOST_TOOLS:
                self._limits.clear()
                self.simple.clear()
            limits = self._limits[tool] = limits_of(tool, self._policy)
            self.calls = min(self.calls, limits.calls)
            self.errors = min(self.errors, limits.errors)
            self.answers = min(self.answers, limits.answers, limits.brief)
            self.row = min(self.row, limits.row, limits.no_news)
            self.turn = min(self.turn, limits.turn)
        if tool.name == name and tool.route is None and tool.contract.target is None:
            self.simple[name] = limits
        return limits


def limits_of(tool: Tool, policy: Policy) -> Limits:
    """Work out the limits of a tool under a policy."""
    by_policy = _limits_of_counts if policy.counting == "calls" else _limits_of_results
    calls, equal, errors, answers, brief, row, no_news, turn = by_policy(tool, policy)
    query = _rule(tool, Mode.SIMILAR_QUERY, policy)
    calls = min(calls, _cap(tool, policy), _NEVER if tool.contract.query is None else _lowest(query.nudge, query.block))
    any_calls, length = min(calls, equal, errors, answers, brief), min(row, no_news, turn)
    return Limits(tool.name, tool, any_calls, length, calls, equal, errors, answers, brief, row, no_news, turn)


def _limits_of_results(tool: Tool, policy: Policy) -> tuple[int, ...]:
    errors, answers = _rule(tool, Mode.ERROR_REPEAT, policy), _rule(tool, Mode.SAME_ANSWER, policy)
    novelty, breaker = _rule(tool, Mode.NO_NOVELTY, policy), _rule(tool, Mode.GLOBAL_CIRCUIT_BREAKER, policy)
    return (
        1 if 1 in (errors.block, answers.block) else _NEVER,
        2,
        _lowest(errors.nudge, (errors.block or _NEVER) - 1),
        _lowest(answers.nudge, (answers.block or _NEVER) - 1),
        _lowest(2 * (answers.nudge or 0)),
        _lowest(novelty.nudge, breaker.nudge),
        _lowest(breaker.no_news_nudge),
        policy.max_calls + 1 if policy.max_calls else _NEVER,
    )


def _limits_of_counts(tool: Tool, policy: Policy) -> tuple[int, ...]:
    counts = [_rule(tool, mode, policy) for mode in (Mode.GENERIC_REPEAT, Mode.POLL_NO_PROGRESS, Mode.PING_PONG)]
    lowest = min(_lowest(rule.nudge, rule.block, rule.abort) for rule in counts)  # 1: without any repeat
    breaker, most = _rule(tool, Mode.GLOBAL_CIRCUIT_BREAKER, policy), policy.max_calls
    turn = _lowest(breaker.block, most and most + 1, most and math.ceil(most * (breaker.nudge_at_share or 0)))
    return 1 if lowest == 1 else _NEVER, lowest, _NEVER, _NEVER, _NEVER, _NEVER, _NEVER, turn


def _cap(tool: Tool, policy: Policy) -> int:
    cap, rule = tool.contract.cap, _rule(tool, Mode.RETRY_LIMIT, policy)
    return _NEVER if cap is None else min(cap + 1, _lowest(math.ceil(cap * (rule.nudge_at_share or 0))))


def _rule(tool: Tool, mode: Mode, policy: Policy) -> Rule:
    return tool.rules[mode] if not policy.order or mode in policy.order else _SILENT


_SILENT = Rule()


def _lowest(*limits: int | None) -> int:
    return min((limit for limit in limits if limit), default=_NEVER)


# --- turns -------------------------------------------------------------------------------------------------------


def is_short_and_varied(names: Sequence[str], distinct: set[str], limits: LimitsByTool) -> bool:
    """Return True if the turn is short and has few calls of each tool: no mode can trip, whatever the calls hold.

    ``names`` are those of the calls.
    """
    length = len(names)
    number_of = names.count if length <= _SHORT else Counter(names).__getitem__
    for name in distinct:
        known = limits.simple.get(name)
        if known is None or length >= known.length:
            return False
        if known.any_calls <= number_of(name):
            return False
    return True


def first_to_judge(
    calls: Sequence[Call], known: Sequence[KnownCall], identities: Sequence[bytes], limits: LimitsByTool
) -> int:
    """Return the position of the first call at which a mode may trip, or the number of calls. All tools exist."""
    end = _first_equal(known, identities)
    if limits.counts_calls:
        return _first_count(known, end)
    if not _may_reach_limit(calls, known, end, limits):
        return end
    return _first_at_limit(calls, known, end) if _end_in_order(calls) else 0


def identities(known: Sequence[KnownCall], contracts: Contracts) -> list[bytes]:
    """Return bytes that are the same for equal calls of one tool among these, and differ for others.

    They are empty for the only call of a tool. Else the canonical form of the arguments is such a form. It takes long,
    and most calls differ without it: so a call has it only if another one has the same folded form, or if a text of a
    call of its tool may hold an object.
    """
    names = [limits.name for limits, _, _ in known]
    several = _repeated(names)
    if not several:
        return [b""] * len(known)
    compared = contracts.compared
    often = [
        (limits.name, compared(limits.tool, arguments, kind))
        for limits, kind, arguments in known
        if limits.name in several
    ]
    found = _folded(often)
    same, doubtful = _repeated(found), _MAY_HOLD_OBJECT.search(b"".join(found))
    if same or doubtful:
        unsure = {name for (name, _), part in zip(often, found, strict=True) if _MAY_HOLD_OBJECT.search(part)}
        found = [
            canonical(arguments, fold_blanks=folds_blanks) if part in same or name in unsure else part
            for (name, (arguments, folds_blanks)), part in zip(often, found, strict=True)
        ]
    if len(found) == len(known):
        return found
    rest = iter(found)
    return [next(rest) if name in several else b"" for name in names]


def _repeated(items: Sequence[_T]) -> set[_T]:
    """Return the items that are there more than once."""
    seen = set(items)
    if len(seen) == len(items):
        return set()
    seen.clear()
    return {item for item in items if item in seen or seen.add(item)}  # type: ignore[func-returns-value]  # it is None


def _folded(calls: Sequence[tuple[str, tuple[Any, bool]]]) -> list[bytes]:
    """Write each call as JSON without the characters that equal arguments may differ in; empty if that is not possible.

    The canonical form folds blanks and line breaks in texts, 1.0 into 1, texts that hold JSON or a Python literal into
    their object, and no arguments into an empty object. All calls are written at once, with a mark between them. If a
    text holds the mark, there are too many parts.
    """
    marked: list[tuple[Any, ...]] = [(_MARK, name, arguments or None) for name, (arguments, _) in calls]
    marked.append((_MARK,))
    try:
        written = orjson.dumps(marked, option=orjson.OPT_SORT_KEYS).translate(None, _FOLDED)
    except (TypeError, ValueError):  # nested too deeply
        written = b""
    parts = written.split(_MARK_BYTES)[1:-1]
    return parts if len(parts) == len(calls) else [b""] * len(calls)


_MARK = "\x7f"
_MARK_BYTES = b'"\x7f"'
_FOLDED = b" \\tnr.0-"
"""Blanks, the letters that JSON writes line breaks and tabs with, and the difference between 1.0, -0.0 and 0."""
_MAY_HOLD_OBJECT = re.compile(rb'"(?:[\[{(]|"\])')
"""A text that may hold an object, or a blank text, which is as good as no arguments."""


def _first_equal(known: Sequence[KnownCall], identities: Sequence[bytes]) -> int:
    """Return the position of the first call that reaches the limit of equal calls: mostly the first repeat."""
    several = [identity for identity in identities if identity]
    if len(set(several)) == len(several):
        return len(known)
    made: defaultdict[tuple[str, bytes], int] = defaultdict(int)
    for position, identity in enumerate(identities):
        limits = known[position][0]
        key = limits.name, identity
        made[key] += 1
        if made[key] >= limits.equal:
            return position
    return len(known)


def _first_count(known: Sequence[KnownCall], end: int) -> int:
    """Return the position of the first of these calls that reaches a limit of a policy that counts calls."""
    made: defaultdict[str, int] = defaultdict(int)
    for position in range(end):
        limits = known[position][0]
        made[limits.name] += 1
        if made[limits.name] >= limits.calls or position + 1 >= limits.turn:
            return position
    return end


def _may_reach_limit(calls: Sequence[Call], known: Sequence[KnownCall], end: int, limits: LimitsByTool) -> bool:
    """Compare the numbers of the whole turn with the limits first: most turns are far from every limit."""
    names = [limits.name for limits, _, _ in known]
    numbers = map(names.count, set(names)) if len(names) <= _SHORT else Counter(names).values()
    most = max(numbers)  # calls of one tool
    if most >= min(limits.calls, limits.answers) or end >= limits.turn:
        return True
    if most < limits.errors and end < limits.row:
        return False
    failures = [kind for _, kind, _ in known].count(Kind.THINK)
    for call in calls:
        if type(call.get("result")) is not str:
            return True
        failures += is_failure(call)
    return failures >= min(limits.errors, limits.row)


def _end_in_order(calls: Sequence[Call]) -> bool:
    """Return True if the calls are sure to end in the order in which they begin; see ``Timeline``."""
    begun = before = -math.inf
    for call in calls:
        at, end = call.get("at"), call.get("ended")
        if at is not None:
            begun = max(begun, at)
        now = begun if end is None else max(begun, end)
        if now < before:
            return False
        before = now
    return True


def _first_at_limit(calls: Sequence[Call], known: Sequence[KnownCall], end: int) -> int:
    """Return the position of the first of these untried calls that reaches a limit; ``end`` if there is none."""
    made: defaultdict[str, int] = defaultdict(int)
    errors: defaultdict[str, int] = defaultdict(int)
    answers = _AnswerRows(known[:end])
    row = no_news = 0
    for position in range(end):
        call, (limits, kind, _) = calls[position], known[position]
        name = limits.name
        if type(call.get("result")) is not str:
            return position  # it may hold an error
        made[name] += 1
        fails = is_failure(call)
        errors[name] = errors[name] + 1 if fails else 0
        if fails or kind is Kind.THINK:
            row, no_news = row + 1, no_news + 1
        elif kind.is_evidence:
            row = 0
        if made[name] >= limits.calls or errors[name] >= limits.errors:
            return position
        if row >= limits.row or no_news >= limits.no_news or position + 1 >= limits.turn:
            return position
        if answers.reach_limit(known[position], call, fails=fails):
            return position
    return end


class _AnswerRows:
    """The rows of equal answers of each tool. Two results with one outline are taken to be one answer."""

    def __init__(self, known: Sequence[KnownCall]) -> None:
        calls = Counter([limits.name for limits, _, _ in known])
        self._counted = {one.name for one, _, _ in known if calls[one.name] >= min(one.answers, one.brief)}
        self._last: dict[str, tuple[int | str, int, int]] = {}

    def reach_limit(self, known: KnownCall, call: Call, *, fails: bool) -> bool:
        """Count a call. Return True if its row is as long as one may be without a trip."""
        limits, kind, arguments = known
        name = limits.name
        acts = kind is Kind.WRITE and not limits.tool.moves_cursor
        if name not in self._counted or acts or kind is Kind.THINK or not kind.is_evidence:
            return False
        if fails:
            self._last.pop(name, None)
            return False
        data = utf8(call["result"])
        result, outline = result_identity(call), answer_outline(data, arguments)
        last_result, last_outline, count = self._last.get(name, ("", 0, 0))
        count = count + 1 if count and (result == last_result or outline == last_outline) else 1
        self._last[name] = result, outline, count
        return count >= (limits.brief if len(data) <= LONGEST_BRIEF else limits.answers)
