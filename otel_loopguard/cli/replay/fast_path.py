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
from typing import TYPE_CHECKING, Any, NamedTuple

import orjson

from otel_loopguard.cli.replay.outcomes import is_failure, result_identity
from otel_loopguard.core.model import Kind, Mode
from otel_loopguard.core.policy.policy import Rule
from otel_loopguard.core.values.answers import answer_outline
from otel_loopguard.core.values.canonical import canonical
from otel_loopguard.core.values.normalise import utf8
from otel_loopguard.core.values.results import LONGEST_BRIEF

if TYPE_CHECKING:
    from collections.abc import Sequence

    from otel_loopguard.core.policy.policy import Policy
    from otel_loopguard.core.tools.contracts import Contracts, Tool

    Call = dict[str, Any]
    KnownCall = tuple["Limits", Kind, Any]
    """A resolved call: the limits of its tool, its kind, and its arguments."""

_MOST_TOOLS = 4_096
_NEVER = 1 << 30


# --- limits ------------------------------------------------------------------------------------------------------


class Limits(NamedTuple):
    """A tool, and the numbers of calls, none a repeat, at which a mode may trip."""

    name: str
    tool: Tool
    once: int
    """Calls in a turn that calls each tool only once."""
    calls: int
    """Calls of this tool."""
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
    calls, errors, answers, brief, row, no_news, turn = by_policy(tool, policy)
    query = _rule(tool, Mode.SIMILAR_QUERY, policy)
    calls = min(calls, _cap(tool, policy), _NEVER if tool.contract.query is None else _lowest(query.nudge, query.block))
    once = 1 if min(calls, errors, answers, brief) <= 1 else min(row, no_news, turn)
    return Limits(tool.name, tool, once, calls, errors, answers, brief, row, no_news, turn)


def _limits_of_results(tool: Tool, policy: Policy) -> tuple[int, ...]:
    errors, answers = _rule(tool, Mode.ERROR_REPEAT, policy), _rule(tool, Mode.SAME_ANSWER, policy)
    novelty, breaker = _rule(tool, Mode.NO_NOVELTY, policy), _rule(tool, Mode.GLOBAL_CIRCUIT_BREAKER, policy)
    return (
        1 if 1 in (errors.block, answers.block) else _NEVER,
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
    return 1 if lowest == 1 else _NEVER, _NEVER, _NEVER, _NEVER, _NEVER, _NEVER, turn


def _cap(tool: Tool, policy: Policy) -> int:
    cap, rule = tool.contract.cap, _rule(tool, Mode.RETRY_LIMIT, policy)
    return _NEVER if cap is None else min(cap + 1, _lowest(math.ceil(cap * (rule.nudge_at_share or 0))))


def _rule(tool: Tool, mode: Mode, policy: Policy) -> Rule:
    return tool.rules[mode] if not policy.order or mode in policy.order else _SILENT


_SILENT = Rule()


def _lowest(*limits: int | None) -> int:
    return min((limit for limit in limits if limit), default=_NEVER)


# --- turns -------------------------------------------------------------------------------------------------------


def is_short_and_varied(calls: Sequence[Call], names: set[str], limits: LimitsByTool) -> bool:
    """Return True if the turn is short and calls each tool once. Then no mode can trip, whatever the calls hold."""
    length = len(calls)
    if len(names) < length:
        return False
    for name in names:
        known = limits.simple.get(name)
        if known is None or length >= known.once:
            return False
    return True


def first_to_judge(
    calls: Sequence[Call], known: Sequence[KnownCall], arguments: Sequence[bytes] | None, limits: LimitsByTool
) -> int:
    """Return the position of the first call at which a mode may trip, or the number of calls. All tools exist.

    ``arguments`` are the canonical arguments; None if the calls are sure to differ.
    """
    end = len(known) if arguments is None else _first_repeat(known, arguments)
    if not _may_reach_limit(calls, known, end, limits):
        return end
    return _first_at_limit(calls, known, end) if _end_in_order(calls) else 0


def canonical_arguments(known: Sequence[KnownCall], contracts: Contracts) -> list[bytes]:
    """Return the arguments in the form in which equal calls are equal."""
    compared = [contracts.compared(limits.tool, arguments, kind) for limits, kind, arguments in known]
    return [canonical(arguments, fold_blanks=folds_blanks) for arguments, folds_blanks in compared]


def all_differ(known: Sequence[KnownCall], contracts: Contracts) -> bool:
    """Return True if no two of these calls can be equal, as far as is known without their canonical arguments.

    The canonical form folds blanks and line breaks in texts, 1.0 into 1, texts that hold JSON or a Python literal into
    their object, and no arguments into an empty object. Two equal calls, each written as JSON, are therefore the same
    once the characters are removed that folded blanks and numbers are written with. The other cases are searched for.
    All calls are written at once, with a mark between them. If a text holds the mark, there are too many parts.
    """
    compared = contracts.compared
    calls: list[tuple[Any, ...]] = [
        (_MARK, limits.name, compared(limits.tool, arguments, kind)[0] or None) for limits, kind, arguments in known
    ]
    calls.append((_MARK,))
    try:
        written = orjson.dumps(calls, option=orjson.OPT_SORT_KEYS).translate(None, _FOLDED)
    except (TypeError, ValueError):  # nested too deeply
        return False
    if _NOT_SURE.search(written):
        return False
    parts = written.split(_MARK_BYTES)
    return len(parts) == len(calls) + 1 == len(set(parts))


_MARK = "\x7f"
_MARK_BYTES = b'"\x7f"'
_FOLDED = b" \\tnr.0-"
"""Blanks, the letters that JSON writes line breaks and tabs with, and the difference between 1.0, -0.0 and 0."""
_NOT_SURE = re.compile(rb'"(?:[\[{(]|"\])')
"""A text that may hold an object, or a blank text, which is as good as no arguments."""


def _first_repeat(known: Sequence[KnownCall], arguments: Sequence[bytes]) -> int:
    seen: set[tuple[str, bytes]] = set()
    for position, data in enumerate(arguments):
        key = known[position][0].name, data
        if key in seen:
            return position
        seen.add(key)
    return len(known)


def _may_reach_limit(calls: Sequence[Call], known: Sequence[KnownCall], end: int, limits: LimitsByTool) -> bool:
    """Compare the numbers of the whole turn with the limits first: most turns are far from every limit."""
    most = len(known) + 1 - len({one.name for one, _, _ in known})  # calls of one tool
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
        calls = Counter(limits for limits, _, _ in known)
        self._counted = {limits.name for limits, count in calls.items() if count >= min(limits.answers, limits.brief)}
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
