"""Replay the runs of files by one policy or two: sum up, print, and write the report."""

from __future__ import annotations

import sys
from dataclasses import asdict
from itertools import repeat
from typing import IO, TYPE_CHECKING, Any

import orjson

from otel_loopguard.cli.ledger_words import TurnsSpent, spent_in_words
from otel_loopguard.cli.output import counted, write_line
from otel_loopguard.cli.replay.html import HtmlReport, turns_of
from otel_loopguard.cli.replay.input_reader import NOTHING_READ, InputReader
from otel_loopguard.cli.replay.judge import PolicyJudge, TripOfRun
from otel_loopguard.cli.replay.line_judge import JudgedRun
from otel_loopguard.cli.replay.summary import (
    Summary,
    ends_in_words,
    most_expensive,
    notes,
    tables,
    verdict,
    watch_notes,
    watch_tables,
)
from otel_loopguard.cli.replay.text_rows import text_rows
from otel_loopguard.engine.vocabulary import Action
from otel_loopguard.errors import LoopGuardError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from otel_loopguard.cli.replay.input_reader import Judged
    from otel_loopguard.cli.replay.loop_rows import GuardedTurn
    from otel_loopguard.cli.replay.sources import Reader
    from otel_loopguard.cli.replay.span_buffer import JudgedTurn
    from otel_loopguard.engine.policy.policy import Policy
    from otel_loopguard.telemetry.shown_calls import ShownCall


class Replay:
    """A replay of any number of inputs by one policy or two, each with its name."""

    def __init__(
        self,
        policies: Sequence[tuple[str, Policy]],
        *,
        json: bool,
        html: str | None = None,
        jobs: int = 1,
        if_nothing: str = NOTHING_READ,
    ) -> None:
        """``html`` is the path of the report, if one is wanted. With ``json`` a line is printed for each run.

        ``if_nothing`` is the sentence about an input without any run or tool span.
        """
        self._policies = [policy for _, policy in policies]
        judges = [PolicyJudge(policy) for policy in self._policies]
        self._recording = InputReader(
            judges,
            self._add,
            extract=None if html is None else turns_of,
            jobs=jobs,
            shows_progress=not json,
            if_nothing=if_nothing,
        )
        self._summaries = [Summary(name) for name, _ in policies]
        self._spent = TurnsSpent()
        self._json = json
        self._html = HtmlReport(html, policies[0][0], judges[0].compiled) if html is not None else None

    @property
    def strongest(self) -> Action:
        """The strongest action that the first policy would have taken; ``OFF`` without a trip."""
        return self._summaries[0].strongest

    @property
    def is_complete(self) -> bool:
        """True if every line was read, and every input had a run or a tool span."""
        return not (self._recording.broken or self._recording.nothing_read)

    @property
    def is_empty(self) -> bool:
        """True if no run was read."""
        return not self._recording.runs

    @property
    def calls(self) -> int:
        """The number of calls that were read."""
        return self._recording.calls

    def files(self, readers: list[Reader]) -> None:
        """Replay all lines of these inputs, in order."""
        self._recording.read(readers)

    def write_report(
        self, title: str, *, unit: str = "turn", conditional: bool = True, shown: Sequence[tuple[int, ShownCall]] = ()
    ) -> None:
        """Write the HTML report with this title, if one is wanted. ``unit`` is the word for a run.

        ``conditional``: the page says "would be refused", as the guard was not there or did not refuse.
        ``shown`` is as of ``Report.write``.
        """
        if self._html is not None:
            said = verdict(self._summaries[0], self._recording.runs, self.calls, unit=unit, conditional=conditional)
            self._html.write(title, said, conditional=conditional, shown=shown)

    def _add(self, judged: Judged) -> None:
        trips = judged.trips
        if isinstance(judged, JudgedRun):
            success, earlier = judged.success, None
            guarded = [_by_turn(judged.run_id, turns) for turns in judged.guarded]
        else:
            success, earlier = None, judged.earlier
            guarded = [{judged.run_id: turn} for turn in judged.guarded]
            self._count_spent(judged)
            if not (judged.calls or trips[0]):
                return
        for summary, found, before, turns in zip(
            self._summaries, trips, earlier or repeat(None), guarded, strict=False
        ):
            summary.add(success, found, before, turns)
        if self._json:
            self._print_json(judged)
        if self._html is None:
            return
        if isinstance(judged, JudgedRun):
            self._html.run(judged.extract)
        else:
            self._html.turn(judged)

    def _count_spent(self, turn: JudgedTurn) -> None:
        for summary, tokens in zip(self._summaries, turn.spent, strict=True):
            summary.spent.add(tokens)
        if turn.ledger is not None and turn.ledger.requests and not turn.is_nested:
            self._spent.add(turn.run_id, turn.ledger)

    def _print_json(self, judged: Judged) -> None:
        line: dict[str, Any] = {"run_id": judged.run_id, "trips": _as_json(judged.trips[0])}
        if judged.run_id in self._recording.ends:
            line["end"] = self._recording.ends[judged.run_id]
        if not isinstance(judged, JudgedRun):
            if judged.spent[0].all.requests:
                line["spent"] = asdict(judged.spent[0])
            if judged.ledger is not None and judged.ledger.requests:
                line["ledger"] = {name: number for name, number in judged.ledger._asdict().items() if number}
        if len(judged.trips) > 1:
            line["compared"] = _as_json(judged.trips[1])
        _print_line(orjson.dumps(line, option=orjson.OPT_APPEND_NEWLINE))

    def print_tables(self, out: IO[str]) -> None:
        """Print the tables of a replay."""
        print(f"{counted(self._recording.runs, 'run')}, {counted(self.calls, 'call')}", file=out)
        self._print_spent(out)
        for text in tables(self._summaries):
            print(text + "\n", file=out)

    def print_watch(self, out: IO[str]) -> None:
        """Print the result of a watch: the verdict, the tables, and what could not be judged."""
        summary = self._summaries[0]
        print(verdict(summary, self._recording.runs, self.calls), file=out)
        self._print_spent(out)
        for text in watch_tables(summary):
            print(text + "\n", file=out)
        self._print_notes(watch_notes(self._recording.missing, summary, self._policies), out)

    def _print_spent(self, out: IO[str]) -> None:
        """Print how turns ended, what they spent, and the most expensive ones."""
        spent, currency = self._spent, self._policies[0].currency or ""
        lines = ends_in_words(self._recording.ends.values())
        if spent.total.requests:
            lines.append(f"spent: {spent_in_words(spent.total, currency)}")
        print(*lines, "", sep="\n", file=out)
        self.print_texts(out)
        if len(spent) > 1:
            print(most_expensive(spent, currency) + "\n", file=out)

    def print_texts(self, out: IO[str]) -> None:
        """Print a row for each loop of texts that the spans of the guard's own turns tell."""
        found = [f"{turn}: {row}" for turn, trips in self._recording.asked.items() for row in text_rows(trips)]
        if found:
            print("loops of words, and what was done:", *(f"  {row}" for row in found), "", sep="\n", file=out)

    def print_notes(self, out: IO[str]) -> None:
        """Print the notes on calls that could not be judged, and on lines that could not be read."""
        self._print_notes(notes(self._recording.missing, self._policies), out)

    def _print_notes(self, notes_: Iterable[str], out: IO[str]) -> None:
        found = list(notes_)
        if found:
            print("not decided, or only in part:", *(f"  - {note}" for note in found), sep="\n", file=out)
        if self._recording.broken:
            print(f"{counted(self._recording.broken, 'broken line')} skipped", file=sys.stderr)


def _by_turn(run_id: str, turns: Mapping[int, GuardedTurn]) -> dict[str, GuardedTurn]:
    """Return the turns of a run by their names."""
    return {f"{run_id}, turn {position + 1}": turn for position, turn in turns.items()}


def _print_line(line: bytes) -> None:
    try:
        write_line(sys.stdout, line)
    except BrokenPipeError:
        raise
    except OSError as error:  # the output is at fault, not the file that is read
        raise LoopGuardError(f"standard output: {error.strerror or error}") from error


def _as_json(trips: list[TripOfRun]) -> list[dict[str, Any]]:
    """Return the trips of a run for JSON. As on spans, an index counts from 0; numbers in tables count from 1."""
    return [
        {"turn": trip.turn, "call": trip.call, "mode": trip.mode, "action": _ACTIONS[trip.action]} for trip in trips
    ]


_ACTIONS = tuple(map(str, Action))
