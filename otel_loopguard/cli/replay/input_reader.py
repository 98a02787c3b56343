"""Read the lines of files, and judge each run. Broken lines are reported and skipped."""

from __future__ import annotations

import sys
from collections import Counter
from typing import TYPE_CHECKING, Any

from otel_loopguard.cli.replay import sources
from otel_loopguard.cli.replay.line_judge import MISSHAPEN, JudgedRun, LineJudge, SpanLine, fault_of
from otel_loopguard.cli.replay.progress import Progress
from otel_loopguard.cli.replay.sources import End
from otel_loopguard.cli.replay.span_buffer import SpanBuffer
from otel_loopguard.cli.replay.summary import Missing
from otel_loopguard.cli.replay.workers import Workers
from otel_loopguard.errors import DOCS
from otel_loopguard.spans import otlp, otlp_logs
from otel_loopguard.spans.dialects import DIALECTS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from otel_loopguard.cli.replay.judge import PolicyJudge
    from otel_loopguard.cli.replay.line_judge import Extract, Outcome
    from otel_loopguard.cli.replay.sources import Line, Reader
    from otel_loopguard.cli.replay.span_buffer import JudgedTurn

    Judged = JudgedRun | JudgedTurn

SMALL = 8 << 20
"""Bytes of runs. Worker processes are started only for more: one process needs about 0.1 s for this much."""
_MOST_REPORTED = 20
_MOST_WITHOUT_A_RUN = 3
"""Broken lines that are reported as long as no run was read: most likely the file is no recording at all."""
NOTHING_READ = (
    "no run and no tool span was found. Give a file of runs, one JSON object a line, or of OTLP JSON lines with tool "
    f"spans of this package or of {', '.join(row.name for row in DIALECTS)}: {DOCS}/replay.md"
)


class InputReader:
    """Reads inputs once, judges their runs by each judge, and hands every run to ``add`` in the order of the inputs.

    With several ``jobs`` the runs of large inputs are judged in that many processes. Spans are judged in this one.
    """

    def __init__(
        self,
        judges: list[PolicyJudge],
        add: Callable[[Judged], None],
        *,
        extract: Extract | None = None,
        jobs: int = 1,
        shows_progress: bool,
        title: str = "",
        reports: bool = True,
        if_nothing: str = NOTHING_READ,
    ) -> None:
        """``title`` stands before the progress line. Without ``reports`` no fault is written.

        ``if_nothing`` is the sentence about an input without any run or tool span.
        """
        self._line_judge = LineJudge(judges, extract)
        self._add = add
        self._jobs = 1 if any(judge.compiled.custom for judge in judges) else jobs  # not every user's code can be sent
        self._buffer = SpanBuffer(judges)
        self._shows_progress = shows_progress
        self._title = title
        self._reports = reports
        self._if_nothing = if_nothing
        self._progress = Progress([], wanted=False)
        self._read = 0
        self.missing: Counter[Missing] = Counter()
        """The number of runs, calls or spans that do not have a fact."""
        self.broken = self.calls = self.runs = 0
        self.nothing_read = False
        """True if an input has no run and no tool span."""

    def read(self, readers: list[Reader]) -> None:
        """Read all lines of these inputs, in order."""
        self._progress = Progress(readers, wanted=self._shows_progress, title=self._title)
        before = 0
        try:
            for item, outcome in self._judged(sources.read(readers)):
                if not isinstance(item, End):
                    self._take(item, outcome)
                    continue
                if item.fault:
                    self._report(item.name, item.fault)
                if self._read == before:
                    self.nothing_read = True
                    self._say(f"{item.name}: {self._if_nothing}")
                before = self._read
            self._turns(self._buffer.rest())
        finally:
            self._progress.clear()
        self.missing[Missing.ORDER] += self._buffer.late

    def _judged(self, items: Iterator[Line | End]) -> Iterator[tuple[Line | End, Outcome]]:
        """Yield each line with its outcome, and each end of an input with its fault."""
        judge, size = self._line_judge.outcome, 0
        for item in items:
            outcome = judge(item)
            yield item, outcome
            if self._jobs > 1 and isinstance(outcome, JudgedRun) and not isinstance(item, End):
                size += len(item.data)
                if size > SMALL:
                    break
        else:
            return
        with Workers(self._line_judge, self._jobs) as workers:
            if workers.fault:
                self._say(f"otel-loopguard: one process judges all runs: {workers.fault}")
            yield from workers.judged(items)

    def _take(self, line: Line, outcome: Outcome) -> None:
        if isinstance(outcome, JudgedRun):
            self.missing.update(outcome.missing)
            self._hand_over(outcome)
            self._read += 1
        elif isinstance(outcome, SpanLine):
            try:
                self._spans(outcome)
            except MISSHAPEN as error:
                self._report(f"{line.name}:{line.number}", fault_of(error))
        else:
            self._report(f"{line.name}:{line.number}", outcome)

    def _spans(self, line: SpanLine) -> None:
        spans = list(otlp_logs.read_line(line.content, self._buffer.ancestry))
        for span in spans:
            if isinstance(span, otlp.ModelSpan):
                self._buffer.add_request(span)
                self._read += bool(span.messages)
                continue
            self._turns(self._buffer.add(span, line.size // len(spans)))
            self._read += 1

    @property
    def ends(self) -> Mapping[str, str]:
        """The ends of turns by their ids, as far as the guard's own spans tell them."""
        return self._buffer.ancestry.ends

    @property
    def asked(self) -> Mapping[str, list[Mapping[str, Any]]]:
        """The trips of model requests by the ids of their turns, as far as the guard's own spans tell them."""
        return self._buffer.ancestry.asked

    @property
    def has_spans(self) -> bool:
        """True if an input had tool spans."""
        return bool(self.missing[Missing.VALUES] or self.missing[Missing.TOOLS_OF_SPANS])

    def _turns(self, turns: Iterable[JudgedTurn]) -> None:
        for turn in turns:
            is_new = (turn.calls > 0 or bool(turn.trips[0])) and turn.earlier is None
            if is_new and turn.calls:
                self.missing[Missing.VALUES if turn.own else Missing.TOOLS_OF_SPANS] += 1
            self.missing[Missing.ARGUMENTS] += turn.without_arguments
            self.missing[Missing.RESULTS] += turn.without_result
            self.missing[Missing.TOKENS] += turn.spent[0].all.unknown
            self._hand_over(turn, is_new=is_new)

    def _hand_over(self, judged: Judged, *, is_new: bool = True) -> None:
        self.runs += is_new
        self.calls += judged.calls
        self._add(judged)
        self._progress.step(self.calls, self.runs)

    def _report(self, place: str, fault: str) -> None:
        self.broken += 1
        self._progress.step(self.calls, self.runs)
        if self.broken <= (_MOST_REPORTED if self._read else _MOST_WITHOUT_A_RUN):
            self._say(f"{place}: {fault}; skipped")

    def _say(self, sentence: str) -> None:
        if self._reports:
            self._progress.clear()
            print(sentence, file=sys.stderr)
