"""What is known of one tool in a turn: how often in a row it failed alike, or said the same whatever it was asked."""

from __future__ import annotations

from typing import TYPE_CHECKING

from otel_loopguard.core.history.bounded import EMPTY, kept
from otel_loopguard.core.values.queries import query_of

if TYPE_CHECKING:
    from otel_loopguard.core.history.state import Memory
    from otel_loopguard.core.model import Record
    from otel_loopguard.core.values.results import OutcomeFacts

_MOST_QUERIES = 32
_MOST_ANSWERS = 256
_MOST_TOOLS = 256


class ToolStats:
    """The streaks of one tool. They are of untried calls: what was tried is judged by its own results."""

    __slots__ = ("answers", "changes", "errors", "queries", "result", "same_results", "shape")

    def __init__(self) -> None:
        self.shape = self.errors = self.changes = self.result = self.same_results = 0
        self.answers: dict[int, None] = EMPTY
        self.queries: tuple[str, ...] = ()
        """Normalised queries since the last result that this tool had not given before."""

    def failed(self, shape: int, changes: int) -> None:
        """An untried call failed; a change, or another shape of error, begins the streak anew."""
        again = self.shape == shape and self.changes == changes
        self.errors = self.errors + 1 if again else 1
        self.shape, self.changes = shape, changes

    def succeeded(self, record: Record, outcome: OutcomeFacts) -> None:
        """An untried call brought a result."""
        self.errors = 0
        same = self.same_results and self.result == outcome.digest
        self.same_results = self.same_results + 1 if same else 1
        self.result = outcome.digest
        parameter = record.resolved.tool.contract.query
        if parameter is None:
            return
        query = query_of(record.resolved.arguments, parameter)
        if query is not None:
            known = outcome.empty or outcome.digest in self.answers
            self.queries = (*self.queries[-_MOST_QUERIES:], query) if known else (query,)
            self.answers = kept(self.answers, outcome.digest, _MOST_ANSWERS)


def tool_stats_of(memory: Memory, tool: str) -> ToolStats:
    """What the turn knows of this tool; the tool that came first is forgotten when there are too many."""
    stats = memory.tools.get(tool)
    if stats is None:
        if not memory.tools:
            memory.tools = {}
        elif len(memory.tools) >= _MOST_TOOLS:
            memory.tools.pop(next(iter(memory.tools)))
        stats = memory.tools[tool] = ToolStats()
    return stats
