"""Read the lines of files, and judge each run. A line that is no run and holds no spans is reported and skipped."""

from __future__ import annotations

import sys
from collections import Counter
from typing import TYPE_CHECKING, Any

import orjson

from otel_loopguard.cli.replay import runs, sources
from otel_loopguard.cli.replay.progress import Progress
from otel_loopguard.cli.replay.span_buffer import SpanBuffer
from otel_loopguard.cli.replay.summary import Missing
from otel_loopguard.spans import otlp
from otel_loopguard.spans.dialects import DIALECTS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from otel_loopguard.cli.replay.judge import PolicyJudge
    from otel_loopguard.cli.replay.sources import Line, Reader
    from otel_loopguard.cli.replay.span_buffer import JudgedTurn

    Judged = runs.JudgedRun | JudgedTurn

_MB = 1 << 20
_MOST_REPORTED = 20
_MOST_WITHOUT_A_RUN = 3
"""The broken lines that are reported as long as nothing was read: most likely the file is another one."""
_KEYS = ("calls", "tool", "key")
"""The keys without which a line is broken. Another one may be part of the data, and is not shown."""
_MISSHAPEN = (TypeError, ValueError, KeyError, AttributeError, IndexError, OverflowError)
"""The errors of a line that is JSON, but no run and no spans."""
NOTHING_READ = (
    "no run and no tool span was found. Readable are runs, one JSON object a line, and the tool spans of OTLP JSON "
    f"lines, ours and those of {', '.join(row.name for row in DIALECTS)}. See docs/replay.md."
)


class Recording:
    """Reads any number of inputs once, judges their runs under some policies, and hands each run to ``add``.

    A run that ``add`` finds misshapen is a broken line, too.
    """

    def __init__(
        self,
        judges: list[PolicyJudge],
        add: Callable[[Judged], None],
        *,
        shows_progress: bool,
        title: str = "",
        reports: bool = True,
        longest_line: int = sources.LONGEST_LINE,
        if_nothing: str = NOTHING_READ,
    ) -> None:
        """``if_nothing`` is the sentence about an input without any run or tool span."""
        self._judges = judges
        self._add = add
        self._buffer = SpanBuffer(judges)
        self._shows_progress = shows_progress
        self._title = title
        self._reports = reports
        self._longest_line = longest_line
        self._if_nothing = if_nothing
        self._progress = Progress([], wanted=False)
        self._read = 0
        self.missing: Counter[Missing] = Counter()
        self.broken = self.calls = self.runs = 0
        self.nothing_read = False
        """True if one of the inputs has no run and no tool span."""

    def read(self, readers: list[Reader]) -> None:
        """Read every line of every input."""
        self._progress = Progress(readers, wanted=self._shows_progress, title=self._title)
        try:
            for reader in readers:
                self._file(reader)
            self._turns(self._buffer.rest())
        finally:
            self._progress.clear()
        self.missing[Missing.ORDER] += self._buffer.late

    def _file(self, reader: Reader) -> None:
        before = self._read
        try:
            for line in reader.lines():
                self._line(line, reader.name)
        except BrokenPipeError:
            raise
        except (OSError, EOFError, sources.unpacking_error()) as error:  # a packed file that is cut off
            self._report(reader.name, f"cannot be read to its end: {error}")
        if self._read == before:
            self.nothing_read = True
            self._say(f"{reader.name}: {self._if_nothing}")

    def _line(self, line: Line, name: str) -> None:
        if not line.whole:
            longer = f"the line is longer than {self._longest_line / _MB:g} MB; --longest-line allows a longer one"
            self._report(f"{name}:{line.number}", longer)
            return
        try:
            found = orjson.loads(line.data)
        except ValueError as error:
            self._report(f"{name}:{line.number}", f"no JSON: {str(error).partition(': line')[0]}")
            return
        try:
            self._judge(found, len(line.data))
        except BrokenPipeError:
            raise
        except _MISSHAPEN as error:
            self._report(f"{name}:{line.number}", _fault(error))

    def _judge(self, found: Any, size: int) -> None:
        if "turns" in found:
            run = runs.read(found)
            judged = runs.JudgedRun(run, tuple(runs.replay(run, judge) for judge in self._judges))
            self.missing.update(runs.missing(run))
            self._hand_over(judged)
            self._read += 1
        elif "resourceSpans" in found:
            spans = list(otlp.spans_of(found))
            for span in spans:
                if isinstance(span, otlp.ModelSpan):
                    self._buffer.add_request(span)
                    continue
                self._turns(self._buffer.add(span, size // len(spans)))
                self._read += 1
        else:
            raise runs.NotARunError("neither a run (turns) nor OTLP (resourceSpans)")

    @property
    def has_spans(self) -> bool:
        """True if turns were made of spans."""
        return bool(self.missing[Missing.VALUES] or self.missing[Missing.TOOLS_OF_SPANS])

    def _turns(self, turns: Iterable[JudgedTurn]) -> None:
        for turn in turns:
            is_new = turn.calls > 0 and turn.earlier is None
            if is_new:
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


def _fault(error: Exception) -> str:
    if isinstance(error, runs.NotARunError):
        return str(error)
    if isinstance(error, KeyError) and error.args[0] in _KEYS:
        return f"not of the right shape: {error.args[0]!r} is missing"
    return f"not of the right shape ({type(error).__name__})"
