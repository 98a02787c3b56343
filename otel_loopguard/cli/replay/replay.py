"""From lines to trips: each line is a run, or holds spans; what is neither is reported and skipped."""

from __future__ import annotations

import sys
from collections import Counter
from typing import IO, TYPE_CHECKING, Any

import orjson

from otel_loopguard.cli.replay import runs, sources, undecided
from otel_loopguard.cli.replay.html import Html
from otel_loopguard.cli.replay.judge import Judge, Tripped
from otel_loopguard.cli.replay.progress import Progress
from otel_loopguard.cli.replay.span_buffer import Judged, Window
from otel_loopguard.cli.replay.summary import Summary, tables
from otel_loopguard.core.model import Action
from otel_loopguard.spans import otlp
from otel_loopguard.spans.dialects import DIALECTS

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from otel_loopguard.cli.replay.sources import Line, Reader
    from otel_loopguard.core.policy.policy import Policy

_MOST_REPORTED = 20
_MISSHAPEN = (TypeError, ValueError, KeyError, AttributeError, IndexError, OverflowError)
"""What a line raises that is JSON but not of the shape that it should be."""
_NOTHING_READ = (
    "no run and no tool span was found. replay reads runs, one JSON object a line, and the tool spans of OTLP JSON "
    f"lines, ours and those of {', '.join(row.name for row in DIALECTS)}. See docs/replay.md."
)


class Replay:
    """One replay of any number of inputs under one policy, or two."""

    def __init__(self, policies: Sequence[tuple[str, Policy]], *, json: bool, html: str | None = None) -> None:
        self._policies = [policy for _, policy in policies]
        self._judges = [Judge(policy) for policy in self._policies]
        self._summaries = [Summary(name) for name, _ in policies]
        self._window = Window(self._judges)
        self._json = json
        self._html = Html(html, policies[0][0], self._judges[0].compiled) if html is not None else None
        self._missing: Counter[str] = Counter()
        self._progress = Progress([], wanted=False)
        self._read = 0
        self.broken = self.calls = self.runs = 0
        self.nothing_read = False
        """True if one of the inputs has no run and no tool span."""

    @property
    def strongest(self) -> Action:
        """The strongest thing that the first policy did."""
        return self._summaries[0].strongest

    def files(self, readers: list[Reader]) -> None:
        """Every line of every input."""
        self._progress = Progress(readers, wanted=not self._json)
        for reader in readers:
            self._file(reader)
        self._judged(self._window.rest())
        self._missing[undecided.LATE] += self._window.late
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
        except (OSError, EOFError, sources.unpacking_error()) as error:  # a packed file that ends too early
            self._report(reader.name, f"cannot be read to its end: {error}")
        if self._read == before:
            self.nothing_read = True
            self._progress.clear()
            print(f"{reader.name}: {_NOTHING_READ}", file=sys.stderr)

    def _line(self, line: Line, name: str) -> None:
        if not line.whole:
            self._report(f"{name}:{line.number}", "the line is too long")
            return
        try:
            found = orjson.loads(line.data)
        except ValueError as error:
            self._report(f"{name}:{line.number}", f"no JSON: {str(error).partition(': line')[0]}")
            return
        try:
            self._found(found)
        except BrokenPipeError:
            raise
        except _MISSHAPEN as error:
            told = (
                str(error)
                if isinstance(error, runs.NotARunError)
                else f"not of the right shape ({type(error).__name__})"
            )
            self._report(f"{name}:{line.number}", told)

    def _found(self, found: Any) -> None:
        if "turns" in found:
            self._run(runs.read(found))
            self._read += 1
        elif "resourceSpans" in found:
            for span in list(otlp.tool_spans(found)):
                self._judged(self._window.add(span))
                self._read += 1
        else:
            raise runs.NotARunError("neither a run (turns) nor OTLP (resourceSpans)")

    def _run(self, run: runs.Run) -> None:
        trips = [runs.replay(run, judge) for judge in self._judges]
        for what in runs.undecided(run):
            self._missing[what] += 1
        self._add(run.run_id, run.success, run.calls, trips)
        if self._html is not None:
            self._html.run(run, trips[0])

    def _judged(self, turns: Iterable[Judged]) -> None:
        for turn in turns:
            self._missing[undecided.OWN if turn.own else undecided.FOREIGN] += 1
            self._missing[undecided.NO_ARGUMENTS] += turn.unknown_arguments
            self._missing[undecided.NO_RESULTS] += turn.unknown_results
            self._add(turn.run_id, None, turn.calls, turn.trips)
            if self._html is not None:
                self._html.turn(turn)

    def _add(self, run_id: str, success: bool | None, calls: int, trips: Sequence[list[Tripped]]) -> None:  # noqa: FBT001
        self.runs += 1
        self.calls += calls
        for summary, found in zip(self._summaries, trips, strict=True):
            summary.add(run_id, success, found)
        if self._json:
            line: dict[str, Any] = {"run_id": run_id, "trips": _plain(trips[0])}
            if len(trips) > 1:
                line["compared"] = _plain(trips[1])
            _print_line(orjson.dumps(line, option=orjson.OPT_APPEND_NEWLINE))
        self._progress.step(self.calls, self.runs)

    def _report(self, place: str, what: str) -> None:
        self.broken += 1
        if self.broken <= _MOST_REPORTED:
            self._progress.clear()
            print(f"{place}: {what}; skipped", file=sys.stderr)

    def print_tables(self, out: IO[str]) -> None:
        """What was found."""
        print(f"{self.runs:,} runs, {self.calls:,} calls\n", file=out)
        for text in tables(self._summaries):
            print(text + "\n", file=out)

    def print_notes(self, out: IO[str]) -> None:
        """What could not be decided, and what could not be read."""
        found = list(undecided.notes(self._missing, self._policies))
        if found:
            print("not decided, or only in part:", *(f"  - {note}" for note in found), sep="\n", file=out)
        if self.broken:
            print(f"{self.broken:,} broken lines were skipped", file=sys.stderr)


def _print_line(line: bytes) -> None:
    try:
        sys.stdout.buffer.write(line)
    except BrokenPipeError:
        raise
    except OSError as error:  # not the fault of the file that is read just now
        raise sources.OutputError(error) from error


def _plain(trips: list[Tripped]) -> list[dict[str, Any]]:
    return [
        {"turn": trip.turn, "call": trip.call, "mode": trip.mode, "action": _ACTIONS[trip.action]} for trip in trips
    ]


_ACTIONS = tuple(map(str, Action))
