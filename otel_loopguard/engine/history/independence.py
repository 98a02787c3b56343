"""Learn which tools leave the result of a call as it was, whatever they change.

A change may be one of something else: a note that is taken between two looks at a page does not change the page. If a
call's result stayed the same often enough after changes of a tool, and never was another one, then this tool's changes
are none for the call. That may be wrong, so the model may insist on a call that is refused because of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from otel_loopguard.engine.history.bounded import kept
from otel_loopguard.engine.history.history import MOST_TOOLS
from otel_loopguard.engine.vocabulary import Kind

if TYPE_CHECKING:
    from otel_loopguard.engine.history.call_stats import CallStats
    from otel_loopguard.engine.history.history import History
    from otel_loopguard.engine.vocabulary import Record

ANYBODY = 0
"""Stands for the tools behind events that were lost. No call is independent of it."""
_MOST_PAIRS = 1_024
_LOOKS = frozenset({Kind.READ, Kind.POLL, Kind.THINK})
_LOOKS_ENOUGH = 8
_ENOUGH = 15
"""A test that fails through 14 edits may be that hard."""
_NEVER = -1


def are_independent(history: History, record: Record, stats: CallStats) -> bool:
    """Return True if all that changed since the last run of a call was changed by tools of which it is independent."""
    tools, key, kind = _changed_since(history, stats), record.key, record.kind
    return 0 < len(tools) < MOST_TOOLS and all(_is_independent(history, tool, key, kind) for tool in tools)


def refused_call_is_independent(history: History, record: Record) -> bool:
    """Return True if the call that was refused last is independent of the tool of this one."""
    return _is_independent(history, record.resolved.tool.digest, history.refused_key, Kind.READ)


def learn(history: History, record: Record, stats: CallStats, *, same: bool) -> None:
    """Note whether the result of a call is the same, after the changes since its last run."""
    for tool in _changed_since(history, stats):
        pair = tool ^ record.key
        count = history.independent.pop(pair, 0)
        count = count + 1 if same and count != _NEVER else _NEVER
        history.independent = kept(history.independent, pair, _MOST_PAIRS, count)


def _changed_since(history: History, stats: CallStats) -> list[int]:
    return [tool for tool, change in history.changed_by.items() if change > stats.changes]


def _is_independent(history: History, tool: int, key: int, kind: Kind) -> bool:
    enough = _LOOKS_ENOUGH if kind in _LOOKS else _ENOUGH
    return tool != ANYBODY and history.independent.get(tool ^ key, 0) >= enough
