"""Replay a turn under a policy that counts calls: the straight way past ``TurnJudge``.

Such a policy judges a call by the calls that began before it, whatever they returned. So the window of calls and the
detectors are those of a live turn, and no outcome is read. Of a refused call one more fact is wanted: whether its
result was new. It was, if the call was not made before, and was not, if every run of it has the same result. In any
other case, and where results, times or parallel calls matter, ``replay`` gives up. The turn is then replayed as any
other one, which is the specification of this way.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from otel_loopguard.cli.replay.judge import TripOfRun, shown_tool
from otel_loopguard.cli.replay.outcomes import FINGERPRINTER
from otel_loopguard.cli.replay.timeline import are_one_by_one
from otel_loopguard.engine import decide
from otel_loopguard.engine.tools.contracts import ResolvedCall
from otel_loopguard.engine.words import Action, Record

if TYPE_CHECKING:
    from collections.abc import Sequence

    from otel_loopguard.cli.replay.fast_path import Call, KnownCall
    from otel_loopguard.cli.replay.judge import PolicyJudge

_MOST_CALLS = 256
"""A history forgets calls of a longer turn."""
_LONGEST_RESULT = 1 << 20
_HASHES = frozenset({str, type(None)})


def replay(  # noqa: PLR0917 - the facts of a turn; it is called once a turn
    judge: PolicyJudge,
    tools: frozenset[str] | None,
    number: int,
    calls: Sequence[Call],
    known: Sequence[KnownCall],
    identities: Sequence[bytes],
    first: int,
) -> list[TripOfRun] | None:
    """Return the trips of a turn, or None if more than its calls matters. No mode is asked before that at ``first``."""
    compiled = judge.compiled
    history = compiled.new_history()
    window: Any = history.window  # every policy that counts calls has one
    if not compiled.judges or len(calls) > _MOST_CALLS or not are_one_by_one(calls):
        return None
    if not all(type(call.get("result_hash")) in _HASHES for call in calls):  # a broken line
        return None
    if any(limits.tool.contract.reuse or (kind.polls and window.has_poll_mode) for limits, kind, _ in known):
        return None
    found: list[TripOfRun] = []
    record = Record()  # of each call in turn: nothing keeps it
    record.at = record.written = record.stats = None
    record.news, record.error = True, False
    seen: dict[int, Call | None] = {}
    for position, call in enumerate(calls):
        limits, kind, given = known[position]
        tool = limits.tool
        record.resolved = tuple.__new__(ResolvedCall, (tool, given, kind))
        record.kind, record.tool, record.index, record.trip = kind, tool.name, position, None
        record.registered = tool.name in tools if tools is not None and tool.name == call["tool"] else None
        record.key = key = FINGERPRINTER.of(identities[position]) ^ tool.digest
        is_new = key not in seen
        if is_new:
            seen[key] = call
        elif not _has_result_of(call, seen[key]):
            seen[key] = None
        trip = decide.before(history, record, compiled, Action.ABORT) if position >= first else None
        if trip is not None and trip.action >= Action.REUSE and seen[key] is None:
            return None
        history.calls += 1
        window.add(record)
        if tool.contract.cap is not None:
            history.started_by_tool = counts = history.started_by_tool or {}
            counts[tool.digest] = counts.get(tool.digest, 0) + 1
        if trip is None and position >= first:
            trip = decide.after(history, record, compiled, Action.ABORT)
        if trip is not None and trip.action >= Action.NUDGE:
            lost, shown = trip.action >= Action.REUSE and is_new, shown_tool(tool, record.registered)
            found.append(TripOfRun(number, position, shown, str(trip.mode), trip.action, trip.count, lost, trip.limit))
    return found


def _has_result_of(call: Call, other: Call | None) -> bool:
    """Return True if two calls are sure to have the same result."""
    result = call.get("result")
    return (
        other is not None
        and type(result) is str
        and len(result) < _LONGEST_RESULT
        and result == other.get("result")
        and call.get("is_error") == other.get("is_error")
        and call.get("result_hash") == other.get("result_hash")
    )
