"""Replay the lines of files: each is a run, or holds spans. Any other line is reported and skipped."""

from __future__ import annotations

import sys
from collections import Counter
from dataclasses import asdict
from typing import IO, TYPE_CHECKING, Any

import orjson

from otel_loopguard.cli.output import write_line
from otel_loopguard.cli.replay import runs, sources
from otel_loopguard.cli.replay.html import Html
from otel_loopguard.cli.replay.judge import PolicyJudge, TripOfRun
from otel_loopguard.cli.replay.progress import Progress
from otel_loopguard.cli.replay.span_buffer import JudgedTurn, SpanBuffer
from otel_loopguard.cli.replay.summary import Missing, Summary, notes, tables
from otel_loopguard.core.model import Action
from otel_loopguard.spans import otlp
from otel_loopguard.spans.dialects import DIALECTS

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from otel_loopguard.cli.replay.sources import Line, Reader
    from otel_loopguard.cli.replay.spent import Spent
    from otel_loopguard.core.policy.policy import Policy

_MB = 1 << 20
_MOST_REPORTED = 20
_MISSHAPEN = (TypeError, ValueError, KeyError, AttributeError, IndexError, OverflowError)
"""The errors of a line that is JSON, but no run and no spans."""
_NOTHING_READ = (
    "no run and no tool span was found. replay reads runs, one JSON object a line, and the tool spans of OTLP JSON "
    f"lines, ours and those of {', '.join(row.name for row in DIALECTS)}. See docs/replay.md."
)


class Replay:
    """A replay of any number of inputs, under one policy or two."""

    def __init__(
        self,
        policies: Sequence[tuple[str, Policy]],
        *,
        json: bool,
        html: str | None = None,
        longest_line: int = sources.LONGEST_LINE,
    ) -> None:
        self._longest_line = longest_line
        self._policies = [policy for _, policy in policies]
        self._judges = [PolicyJudge(policy) for policy in self._policies]
        self._summaries = [Summary(name) for name, _ in policies]
        self._buffer = SpanBuffer(self._judges)
        self._json = json
        self._html = Html(html, policies[0][0], self._judges[0].compiled) if html is not None else None
        self._missing: Counter[Missing] = Counter()
        self._progress = Progress([], wanted=False)
        self._read = 0
        self.broken = self.calls = self.runs = 0
        self.nothing_read = False
        """True if one of the inputs has no run and no tool span."""

    @property
    def strongest(self) -> Action:
        """The strongest action of the first policy."""
        return self._summaries[0].strongest

    def files(self, readers: list[Reader]) -> None:
        """Replay every line of every input."""
        self._progress = Progress(readers, wanted=not self._json)
        for reader in readers:
            self._file(reader)
        self._add_turns(self._buffer.rest())
        self._missing[Missing.ORDER] += self._buffer.late
        self._progress.clear()
        if self._html is not None:
            self._html.write()

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
            self._progress.clear()
            print(f"{reader.name}: {_NOTHING_READ}", file=sys.stderr)

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
            self._replay(found, len(line.data))
        except BrokenPipeError:
            raise
        except _MISSHAPEN as error:
            message = (
                str(error)
                if isinstance(error, runs.NotARunError)
                else f"not of the right shape ({type(error).__name__})"
            )
            self._report(f"{name}:{line.number}", message)

    def _replay(self, found: Any, size: int) -> None:
        if "turns" in found:
            self._run(runs.read(found))
            self._read += 1
        elif "resourceSpans" in found:
            spans = list(otlp.spans_of(found))
            for span in spans:
                if isinstance(span, otlp.ModelSpan):
                    self._buffer.add_request(span)
                    continue
                self._add_turns(self._buffer.add(span, size // len(spans)))
                self._read += 1
        else:
            raise runs.NotARunError("neither a run (turns) nor OTLP (resourceSpans)")

    def _run(self, run: runs.Run) -> None:
        trips = [runs.replay(run, judge) for judge in self._judges]
        for fact in runs.missing(run):
            self._missing[fact] += 1
        self._add(run.run_id, run.success, run.calls, trips)
        if self._html is not None:
            self._html.run(run, trips[0])

    def _add_turns(self, turns: Iterable[JudgedTurn]) -> None:
        for turn in turns:
            self._missing[Missing.VALUES if turn.own else Missing.TOOLS_OF_SPANS] += 1
            self._missing[Missing.ARGUMENTS] += turn.without_arguments
            self._missing[Missing.RESULTS] += turn.without_result
            self._add(turn.run_id, None, turn.calls, turn.trips, turn.spent)
            self._missing[Missing.TOKENS] += turn.spent[0].all.unknown
            if self._html is not None:
                self._html.turn(turn)

    def _add(
        self,
        run_id: str,
        success: bool | None,  # noqa: FBT001 - a label
        calls: int,
        trips: Sequence[list[TripOfRun]],
        spent: Sequence[Spent] = (),
    ) -> None:
        self.runs += 1
        self.calls += calls
        for summary, found in zip(self._summaries, trips, strict=True):
            summary.add(run_id, success, found)
        for summary, tokens in zip(self._summaries, spent, strict=False):  # runs of one line have none
            summary.spent.add(tokens)
        if self._json:
            line: dict[str, Any] = {"run_id": run_id, "trips": _as_json(trips[0])}
            if spent and spent[0].all.requests:
                line["spent"] = asdict(spent[0])
            if len(trips) > 1:
                line["compared"] = _as_json(trips[1])
            _print_line(orjson.dumps(line, option=orjson.OPT_APPEND_NEWLINE))
        self._progress.step(self.calls, self.runs)

    def _report(self, place: str, fault: str) -> None:
        self.broken += 1
        self._progress.step(self.calls, self.runs)
        if self.broken <= _MOST_REPORTED:
            self._progress.clear()
            print(f"{place}: {fault}; skipped", file=sys.stderr)

    def print_tables(self, out: IO[str]) -> None:
        """Print the tables."""
        print(f"{self.runs:,} runs, {self.calls:,} calls\n", file=out)
        for text in tables(self._summaries):
            print(text + "\n", file=out)

    def print_notes(self, out: IO[str]) -> None:
        """Print the notes on calls that could not be judged, and on lines that could not be read."""
        found = list(notes(self._missing, self._policies))
        if found:
            print("not decided, or only in part:", *(f"  - {note}" for note in found), sep="\n", file=out)
        if self.broken:
            print(f"{self.broken:,} broken lines were skipped", file=sys.stderr)


def _print_line(line: bytes) -> None:
    try:
        write_line(sys.stdout, line)
    except BrokenPipeError:
        raise
    except OSError as error:  # the output is at fault, not the file that is read
        raise sources.OutputError(error) from error


def _as_json(trips: list[TripOfRun]) -> list[dict[str, Any]]:
    return [
        {"turn": trip.turn, "call": trip.call, "mode": trip.mode, "action": _ACTIONS[trip.action]} for trip in trips
    ]


_ACTIONS = tuple(map(str, Action))
