"""Write the HTML report of a replay (``--html FILE``), with the decisions of the first policy."""

from __future__ import annotations

from typing import TYPE_CHECKING

from otel_loopguard import report
from otel_loopguard.cli.replay.judge import shown_tool
from otel_loopguard.cli.replay.recorded_runs import is_known, seconds
from otel_loopguard.engine.vocabulary import ToolCall

if TYPE_CHECKING:
    from collections.abc import Sequence

    from otel_loopguard.cli.replay.judge import PolicyJudge, TripOfRun
    from otel_loopguard.cli.replay.recorded_runs import RecordedRun
    from otel_loopguard.cli.replay.span_buffer import JudgedTurn
    from otel_loopguard.cli.replay.token_sums import TokensSpent
    from otel_loopguard.engine.compiled import CompiledPolicy


class HtmlReport:
    """The HTML report of a replay."""

    def __init__(self, path: str, policy: str, compiled: CompiledPolicy) -> None:
        """``policy`` is the name of the first policy. Raise ``ReportError`` if the file cannot be written."""
        self._report = report.Report(path)
        self._policy = policy
        self._compiled = compiled

    def run(self, turns: Sequence[report.Run]) -> None:
        """Add the turns of a recorded run."""
        for turn in turns:
            self._report.add(turn)

    def turn(self, turn: JudgedTurn) -> None:
        """Add a turn of spans, or a part of it."""
        tripped = {trip.call - turn.first: trip for trip in turn.trips[0]}
        calls = []
        for index, call in enumerate(turn.recorded):
            resolved, identity = call.resolve(self._compiled)
            tool = shown_tool(resolved.tool, call.registered)
            calls.append(_call(tool, identity, tripped.get(index), failed=call.failed, at=call.at))
        part = f"1, from call {turn.first + 1}" if turn.first else 1
        before = None if turn.earlier is None else bool(turn.earlier[0])
        self._report.add(report.Run(turn.run_id, part, calls, _spent(turn.spent[0]), before))

    def write(self, title: str, *, conditional: bool) -> None:
        """Write the file, with this title. ``conditional`` is as of ``Report.write``."""
        self._report.write(title=title, subtitle=f"judged by: {self._policy}", conditional=conditional)


def turns_of(judges: Sequence[PolicyJudge], run: RecordedRun, trips: Sequence[Sequence[TripOfRun]]) -> list[report.Run]:
    """Return the turns of a run for the report: its calls as numbers, with the decisions of the first policy."""
    contracts, tripped = judges[0].compiled.contracts, {(trip.turn, trip.call): trip for trip in trips[0]}
    turns = []
    for position, turn in enumerate(run.turns):
        seen: dict[int, int] = {}
        calls = []
        for index, call in enumerate(turn["calls"]):
            resolved, arguments = contracts.identify(ToolCall(call["tool"], call.get("args")))
            identity = seen.setdefault(arguments, len(seen))
            failed, trip = bool(call.get("is_error")), tripped.get((position, index))
            tool = shown_tool(resolved.tool, is_known(run.tools, call["tool"], resolved.tool.name))
            calls.append(_call(tool, identity, trip, failed=failed, at=seconds(call, "at")))
        turns.append(report.Run(run.run_id, position + 1, calls))
    return turns


def _spent(spent: TokensSpent) -> report.Spent | None:
    every, in_loops = spent.all, spent.in_loops
    if not every.input + every.output:
        return None
    return report.Spent(every.input + every.output, in_loops.input + in_loops.output, every.cost, in_loops.cost)


def _call(tool: str, identity: int, trip: TripOfRun | None, *, failed: bool, at: float | None) -> report.Call:
    action, mode = (trip.action, trip.mode) if trip is not None else (None, "")
    has_run = trip is not None and trip.has_run
    return report.Call(tool, identity, report.decision(action, failed=failed), mode, at, has_run)
