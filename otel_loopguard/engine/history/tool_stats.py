"""Statistics of one tool in one turn: equal failures and equal answers in a row, of calls that had not run before."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from otel_loopguard.engine.history.bounded import EMPTY, kept
from otel_loopguard.engine.values.answers import answer_fingerprint, answer_outline
from otel_loopguard.engine.values.emptiness import Emptiness
from otel_loopguard.engine.values.queries import query_of
from otel_loopguard.engine.vocabulary import Kind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from otel_loopguard.engine.values.fingerprint import Fingerprinter
    from otel_loopguard.engine.values.results import OutcomeFacts
    from otel_loopguard.engine.vocabulary import Record

_MOST_QUERIES = 32
_MOST_ANSWERS = 256
_MOST_ENDED = 64
_MOST_SKIPPED = 31
_END = 8
_30_BITS = 0x3FFFFFFF
"""The largest integer that takes 28 bytes and no more."""
_WRITE, _THINK, _READ, _POLL = Kind.WRITE, Kind.THINK, Kind.READ, Kind.POLL
_CONTENT, _VOID = Emptiness.CONTENT, Emptiness.VOID
_NOTHING = 1
"""Stands for the fingerprint of every answer that says that nothing was found."""


class ToolStats:
    """How often, in a row, one tool failed or answered in one way. Only calls count that had not run before."""

    __slots__ = (
        "answer", "answers", "begins", "brief", "changes", "empty", "ended", "ends", "errors", "outline", "queries",
        "result", "results", "shape", "skip", "skipped", "successes", "waits", "waived",
    )  # fmt: skip

    def __init__(self) -> None:
        self.shape = self.errors = self.changes = 0
        """The shape of the last error, the number of such errors in a row, and the turn's changes at the last one."""
        self.successes = 0
        """Untried calls that succeeded."""
        self.begins = self.ends = 0
        self.outline: int | None = None
        """The hashes of the first and last bytes of the last answer, and its outline, which is made only if one of the
        hashes equals that of the answer before (else None)."""
        self.result = self.answer = self.answers = 0
        """The fingerprint of the last answer, its fingerprint without ids (0 = not made), and the number of equal
        answers in a row."""
        self.skip = self.skipped = 0
        """How many answers get no fingerprint without ids before the next that does, and how many got none so far.

        The first number doubles each time that a fingerprint was made in vain."""
        self.brief = False
        """The last answer was short."""
        self.empty = False
        """The answers of the row say that nothing was found."""
        self.waived = 0
        """The refused calls of this row of empty answers on which the model insisted."""
        self.waits = False
        """A call of this tool ran as long as a number of its arguments said: its calls are waits."""
        self.ended: Sequence[int] = ()
        """The ticks at which the last calls of the current row ended, at most 64, without the row's first call."""
        self.results: dict[int, None] = EMPTY
        """The fingerprints of the last results of queries."""
        self.queries: tuple[str, ...] = ()
        """Normalised queries since the last result that this tool had not given before."""

    def add_failure(self, record: Record, facts: OutcomeFacts, changes: int, tick: int) -> None:
        """Count an untried call that failed. A change, or another shape of error, begins a new row.

        ``changes`` and ``tick``: the turn's counters.
        """
        shape = facts.shape
        continues = shape and self.errors and self.shape == shape and self.changes == changes
        self.errors = self.errors + 1 if continues else 1
        if facts.found is not None:
            self.errors = facts.found.row
        record.equal_in_row = self.errors
        self.shape, self.changes, self.outline, self.answers = shape, changes, None, 0
        if self.errors > 1:
            self._end(tick)
        else:
            self.ended = ()

    def add_result(self, record: Record, facts: OutcomeFacts, tick: int, fingerprinter: Fingerprinter) -> None:
        """Count an untried call that returned a result, and its query if a contract names one."""
        self.errors = 0
        self.successes += 1
        kind, tool = record.kind, record.resolved.tool
        if kind is not _THINK and (kind is not _WRITE or tool.moves_cursor):
            empty = facts.empty > (_CONTENT if kind is _READ or kind is _POLL else _VOID)
            if facts.found is not None:
                self.empty = empty
                self._continue_row(record, facts.found.row, tick)
            else:
                self.add_answer(record, facts.data, tick, fingerprinter, empty=empty)
        parameter = tool.contract.query
        if parameter is None:
            return
        query = query_of(record.resolved.arguments, parameter)
        if query is not None:
            seen_before = facts.empty or facts.digest in self.results
            self.queries = (*self.queries[-_MOST_QUERIES:], query) if seen_before else (query,)
            self.results = kept(self.results, facts.digest, _MOST_ANSWERS)

    def add_answer(self, record: Record, data: bytes, tick: int, fingerprinter: Fingerprinter, *, empty: bool) -> None:
        """Count an answer. It continues the row if it equals the last one, byte for byte or without ids.

        All answers that say that nothing was found are equal (``empty``), however they say it.
        """
        digest: int = _NOTHING if empty else record.result or 0
        self.empty = empty
        if digest == self.result and self.answers:
            self._continue_row(record, self.answers + 1, tick)
            return
        begins, ends = (fingerprinter.of(part) & _30_BITS for part in (data[:_END], data[-_END:]))
        outline, answer, same = None, 0, False
        self.skipped += 1
        if not empty and (begins == self.begins or ends == self.ends):
            arguments = record.resolved.arguments
            outline = answer_outline(data, arguments, fingerprinter)
            if outline == self.outline and self.skipped > self.skip:
                answer = answer_fingerprint(data, arguments, fingerprinter)
                same, self.skipped = answer == self.answer, 0
                self.skip = 0 if same or not self.answer else min(2 * self.skip + 1, _MOST_SKIPPED)
        self.begins, self.ends, self.outline, self.result, self.answer = begins, ends, outline, digest, answer
        self._continue_row(record, self.answers + 1 if same else 1, tick)

    def _continue_row(self, record: Record, answers: int, tick: int) -> None:
        self.brief = record.brief
        self.answers = record.equal_in_row = answers
        if answers > 1:
            self._end(tick)
        else:
            self.ended, self.waived = (), 0

    def _end(self, tick: int) -> None:
        self.ended = (*self.ended[1 - _MOST_ENDED :], tick)

    def known(self, count: int, written: int | None) -> int:
        """Return how many of the row's ``count`` calls had ended when the model wrote a call, at tick ``written``.

        None as ``written``: all of them. If all 64 remembered calls ended later, the others may have, too: 0.
        """
        if written is None:
            return count
        later = sum(tick > written for tick in self.ended)
        return 0 if later == _MOST_ENDED else count - later

    def to_list(self) -> list[Any]:
        """Return the statistics as plain values. Queries are left out: they are text of arguments."""
        return [
            self.shape, self.errors, self.changes, self.successes, self.result, self.answer, self.answers, self.brief,
            list(self.ended), list(self.results), self.begins, self.ends, self.outline, self.skip, self.skipped,
            self.waits, self.empty, self.waived,
        ]  # fmt: skip

    @classmethod
    def from_list(cls, values: list[Any]) -> ToolStats:
        """Restore the statistics that ``to_list`` returned."""
        stats = cls()
        (
            stats.shape, stats.errors, stats.changes, stats.successes, stats.result, stats.answer, stats.answers,
            stats.brief, stats.ended, results, stats.begins, stats.ends, stats.outline, stats.skip, stats.skipped,
            stats.waits, stats.empty, stats.waived,
        ) = values  # fmt: skip
        stats.results = dict.fromkeys(results) or EMPTY
        return stats
