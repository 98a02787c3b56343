"""Statistics of one tool in one turn: equal failures and equal results in a row, of calls that had not run before."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from otel_loopguard.core.history.bounded import EMPTY, kept
from otel_loopguard.core.values.queries import query_of

if TYPE_CHECKING:
    from otel_loopguard.core.model import Record
    from otel_loopguard.core.values.results import OutcomeFacts

_MOST_QUERIES = 32
_MOST_ANSWERS = 256


class ToolStats:
    """The rows of one tool. Only untried calls count: a call that was tried is judged by its own results."""

    __slots__ = ("answers", "changes", "errors", "queries", "result", "same_results", "shape")

    def __init__(self) -> None:
        self.shape = self.errors = self.changes = 0
        """The shape of the last error, the number of such errors in a row, and the turn's changes at the last one."""
        self.result = self.same_results = 0
        """The last result, and the number of equal ones in a row."""
        self.answers: dict[int, None] = EMPTY
        """The results of queries so far."""
        self.queries: tuple[str, ...] = ()
        """Normalised queries since the last result that this tool had not given before."""

    def add_failure(self, shape: int, changes: int) -> None:
        """Count an untried call that failed. A change, or another shape of error, begins a new row."""
        continues = self.shape == shape and self.changes == changes
        self.errors = self.errors + 1 if continues else 1
        self.shape, self.changes = shape, changes

    def add_result(self, record: Record, facts: OutcomeFacts) -> None:
        """Count an untried call that returned a result."""
        self.errors = 0
        same = self.same_results and self.result == facts.digest
        self.same_results = self.same_results + 1 if same else 1
        self.result = facts.digest
        parameter = record.resolved.tool.contract.query
        if parameter is None:
            return
        query = query_of(record.resolved.arguments, parameter)
        if query is not None:
            seen_before = facts.empty or facts.digest in self.answers
            self.queries = (*self.queries[-_MOST_QUERIES:], query) if seen_before else (query,)
            self.answers = kept(self.answers, facts.digest, _MOST_ANSWERS)

    def to_list(self) -> list[Any]:
        """Return the statistics as plain values. Queries are left out: they are text of arguments."""
        return [self.shape, self.errors, self.changes, self.result, self.same_results, list(self.answers)]

    @classmethod
    def from_list(cls, values: list[Any]) -> ToolStats:
        """Restore the statistics that ``to_list`` returned."""
        stats = cls()
        stats.shape, stats.errors, stats.changes, stats.result, stats.same_results, answers = values
        stats.answers = dict.fromkeys(answers) or EMPTY
        return stats
