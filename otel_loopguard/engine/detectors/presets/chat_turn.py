"""``chat_turn``: within one chat turn a tool call is skipped that is beyond its cap, or that was made before.

In this order: if the tool's cap is reached, if the same call ran already, or if a similar query ran already. Results
are ignored. Only calls that ran count.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from otel_loopguard.engine.detectors import retry_limit, similar_query
from otel_loopguard.engine.detectors.presets import equal_calls
from otel_loopguard.engine.detectors.presets.preset import Preset
from otel_loopguard.engine.detectors.presets.window import window_at
from otel_loopguard.engine.detectors.row import Counter, Detector, lowest
from otel_loopguard.engine.detectors.trips import trip
from otel_loopguard.engine.rule import Rule
from otel_loopguard.engine.values.queries import query_of, similar
from otel_loopguard.engine.vocabulary import Action, Record, Trip

if TYPE_CHECKING:
    from otel_loopguard.engine.history.history import History


def similar_before(history: History, record: Record, rule: Rule) -> Trip | None:
    """Refuse a query that was made in nearly the same words."""
    tool = record.resolved.tool
    query = query_of(record.resolved.arguments, tool.contract.query)
    if query is None or not rule.block:
        return None
    earlier = window_at(history, record).queries(tool.digest)
    count = sum(similar(query, one, rule.similarity or 1.0, tool.dangerous) for one in earlier) + 1
    return trip(record, SIMILAR.mode, count, rule.block, Action.BLOCK) if count >= rule.block else None


SIMILAR = Detector(
    similar_query.ROW.mode,
    rule=Rule(nudge=0, block=2, similarity=0.75),
    settings=similar_query.ROW.settings,
    before=similar_before,
    may_trip_from=lambda rule: {Counter.OF_TOOL: lowest(rule.block)},
    refusal="{before} queries much like this one were made with {tool}.",
    nudge="This is query {count} of much the same wording.",
)
_SEARCHES = {"cap": 2, "query": "auto"}
PRESET = Preset(
    "chat_turn",
    rows=(
        replace(retry_limit.ROW, rule=Rule(nudge_at_share=0.0)),
        replace(equal_calls.ROW, rule=Rule(nudge=0, block=2)),
        SIMILAR,
    ),
    settings={"action": "block", "records": "ran", "refusal": "text"},
    tools={
        "*": {"cap": 3},
        "search_knowledge": _SEARCHES,
        "semantic_search": _SEARCHES,
        "search_codebase": _SEARCHES,
        "smart_query_database": _SEARCHES,
        "query_database": _SEARCHES,
        "composio_execute": {"cap": 2, "route": {"tool": []}},  # judged as itself, not as the tool behind it
        "read_file": {"cap": 3},
        "write_file": {"cap": 2},
        "list_directory": {"cap": 2},
    },
    sentences={
        "retry_limit": "Tool '{tool}' has reached its execution limit ({limit}) for this turn",
        "generic_repeat": "Tool '{tool}' was already executed with identical parameters",
        "similar_query": "Tool '{tool}' was already executed with a similar query",
    },
)
