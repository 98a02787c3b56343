"""How far into a turn no mode can have anything to say: most turns are plain from beginning to end, and need no judge.

Why that is sound. A *repeat* is a call with the tool and the arguments of an earlier one. Up to the first repeat, and
to the first call to a tool that does not exist, every call is untried, and then

- modes that weigh evidence, laps, polls and effects ask what is known of a call: nothing yet;
- ``error_repeat`` asks for errors of one tool since it last succeeded, or for equal results of one tool in a row;
- ``no_novelty`` and ``global_circuit_breaker`` ask for calls without news: an untried call that succeeds is news,
  unless it only thinks. Their refusals are of repeats alone;
- ``retry_limit``, ``similar_query``, ``max_calls`` and policies that count calls ask for a number of calls.

Here these are counted, and never too low: that some kinds are exempt, that errors differ in shape and queries in
words, and what a window forgets is left out. A call without a trip leaves nothing behind but what is remembered of its
outcome, so the modes may be asked from any call on, if the history was told of the earlier ones.
"""

from __future__ import annotations

import re
from collections import defaultdict
from typing import TYPE_CHECKING, Any

import orjson

from otel_loopguard.cli.replay.outcomes import failed, told_apart
from otel_loopguard.core.model import Kind
from otel_loopguard.core.values.canonical import canonical

if TYPE_CHECKING:
    from collections.abc import Sequence

    from otel_loopguard.cli.replay.limits import Limits, Tools

    Call = dict[str, Any]
    Read = tuple[Limits, Kind, Any]
    """A call as it is understood: its tool, what it does, and its arguments."""


def calls_each_once(calls: Sequence[Call], names: set[str], tools: Tools) -> bool:
    """Whether this is a short turn that calls different tools: that is plain without a look at what was said."""
    length = len(calls)
    if len(names) < length:
        return False
    for name in names:
        limits = tools.simple.get(name)
        if limits is None or length >= limits.once:
            return False
    return True


def until(calls: Sequence[Call], read: Sequence[Read], written: Sequence[bytes] | None, tools: Tools) -> int:
    """The position of the first call that a mode may have something to say about; or how many calls there are.

    ``written`` are the canonical arguments, if the calls are not sure to differ. All tools exist.
    """
    end = len(read) if written is None else _first_repeat(read, written)
    return _first_beyond(calls, read, end) if _may_go_beyond(calls, read, end, tools) else end


def canonical_arguments(read: Sequence[Read]) -> list[bytes]:
    """What tells the calls of a tool apart."""
    return [canonical(arguments, fold_blanks=kind is not Kind.WRITE) for _, kind, arguments in read]


def sure_to_differ(read: Sequence[Read]) -> bool:
    """Whether no two of these calls can be the same, as far as can be told without the canonical form of arguments.

    What that form folds is blanks and line breaks in texts, 1.0 into 1, texts that hold JSON or a Python literal into
    their object, and nothing into an empty object. So of two that are the same, each written as it stands, nothing
    differs once the characters are taken out that blanks and numbers are folded by; the rest is looked for. All are
    written in one go, a mark between them: where a text holds the mark, there are too many parts.
    """
    calls: list[tuple[Any, ...]] = [(_MARK, limits.name, arguments or None) for limits, _, arguments in read]
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
"""Blanks, and the letters that JSON writes line breaks and tabs with; what 1.0, -0.0 and 0 differ in."""
_NOT_SURE = re.compile(rb'"(?:[\[{(]|"\])')
"""A text that may hold an object, or is blank, and so as good as no arguments."""


def _first_repeat(read: Sequence[Read], written: Sequence[bytes]) -> int:
    seen: set[tuple[str, bytes]] = set()
    for position, data in enumerate(written):
        key = read[position][0].name, data
        if key in seen:
            return position
        seen.add(key)
    return len(read)


def _may_go_beyond(calls: Sequence[Call], read: Sequence[Read], end: int, tools: Tools) -> bool:
    """A first look, at the numbers of the whole turn: most turns are far from every limit."""
    most = len(read) + 1 - len({limits.name for limits, _, _ in read})  # calls of one tool
    if most >= tools.calls or end >= tools.turn:
        return True
    if most < min(tools.errors, tools.equal) and end < tools.row:
        return False
    failures = [kind for _, kind, _ in read].count(Kind.THINK)
    for call in calls:
        result = call.get("result")
        if type(result) is not str:
            return True
        if call.get("is_error") or "rror" in result:  # as every text has that tells of an error
            failures += 1
    if failures >= min(tools.errors, tools.row):
        return True
    return most >= tools.equal and len(calls) - len(set(map(told_apart, calls))) >= tools.equal - 1


def _first_beyond(calls: Sequence[Call], read: Sequence[Read], end: int) -> int:
    """The position of the first of these untried calls with which a limit is reached; ``end``, if there is none."""
    made: defaultdict[str, int] = defaultdict(int)
    errors: defaultdict[str, int] = defaultdict(int)
    equal: defaultdict[str, int] = defaultdict(int)
    answers: dict[str, int | str] = {}
    row = barren = 0
    for position in range(end):
        call, (limits, kind, _) = calls[position], read[position]
        name = limits.name
        if type(call.get("result")) is not str:
            return position  # an error may hide in it
        made[name] += 1
        fails = failed(call)
        errors[name] = errors[name] + 1 if fails else 0
        if not fails and kind.is_evidence and not kind.polls:
            answer = told_apart(call)
            equal[name] = equal[name] + 1 if answers.get(name) == answer else 1
            answers[name] = answer
        if fails or kind is Kind.THINK:
            row, barren = row + 1, barren + 1
        elif not kind.polls:
            row = 0
        if made[name] >= limits.calls or errors[name] >= limits.errors or equal[name] >= limits.equal:
            return position
        if row >= limits.row or barren >= limits.barren or position + 1 >= limits.turn:
            return position
    return end
