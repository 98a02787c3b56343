"""Write the HTML report of a replay (``--html FILE``), with the decisions of the first policy."""

from __future__ import annotations

from typing import TYPE_CHECKING

from otel_loopguard import report
from otel_loopguard.cli.output import counted
from otel_loopguard.cli.replay.judge import shown_tool
from otel_loopguard.cli.replay.recorded_runs import is_known, seconds
from otel_loopguard.engine.vocabulary import Action, ToolCall

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from otel_loopguard.cli.replay.judge import PolicyJudge, TripOfRun
    from otel_loopguard.cli.replay.loop_rows import GuardedTurn
    from otel_loopguard.cli.replay.recorded_runs import RecordedRun
    from otel_loopguard.cli.replay.span_buffer import JudgedTurn
    from otel_loopguard.engine.compiled import CompiledPolicy
    from otel_loopguard.engine.policy.policy import Policy
    from otel_loopguard.telemetry.shown_calls import ShownCall


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
        decided = _Decided(self._compiled.policy, turn.trips[0], turn.guarded[0].figures.end, turn.first)
        calls = []
        for index, call in enumerate(turn.recorded):
            resolved, identity = call.resolve(self._compiled)
            tool = shown_tool(resolved.tool, call.registered)
            calls.append(decided.call(turn.first + index, tool, identity, failed=call.failed, at=call.at))
        part = f"1, from call {turn.first + 1}" if turn.first else 1
        before = None if turn.earlier is None else any(one.is_loop for one in turn.earlier[0])
        self._report.add(report.Run(turn.run_id, part, calls, _spent(turn), before, turn.guarded[0].rows))

    def write(self, title: str, lead: str, *, conditional: bool, shown: Sequence[tuple[int, ShownCall]]) -> None:
        """Write the file, with this title. The other parameters are as of ``Report.write``."""
        subtitle = f"judged by: {self._policy}"
        self._report.write(title=title, subtitle=subtitle, lead=lead, conditional=conditional, shown=shown)


def turns_of(
    judges: Sequence[PolicyJudge],
    run: RecordedRun,
    trips: Sequence[Sequence[TripOfRun]],
    guarded: Sequence[Mapping[int, GuardedTurn]],
) -> list[report.Run]:
    """Return the turns of a run for the report: its calls as numbers, with the decisions of the first policy."""
    compiled, turns = judges[0].compiled, []
    for position, guarded_turn in guarded[0].items():
        of_turn = [trip for trip in trips[0] if trip.turn == position]
        decided = _Decided(compiled.policy, of_turn, guarded_turn.figures.end)
        seen: dict[int, int] = {}
        calls = []
        for index, call in enumerate(run.turns[position]["calls"]):
            resolved, arguments = compiled.contracts.identify(ToolCall(call["tool"], call.get("args")))
            identity = seen.setdefault(arguments, len(seen))
            tool = shown_tool(resolved.tool, is_known(run.tools, call["tool"], resolved.tool.name))
            failed = bool(call.get("is_error"))
            calls.append(decided.call(index, tool, identity, failed=failed, at=seconds(call, "at")))
        turns.append(report.Run(run.run_id, position + 1, calls, loops=guarded_turn.rows))
    return turns


def _spent(turn: JudgedTurn) -> report.Spent | None:
    spent = turn.spent[0]
    every, in_loops = spent.all, spent.in_loops
    if not every.input + every.output:
        return None
    tokens = every.input + every.output, in_loops.input + in_loops.output
    agents = 0 if turn.ledger is None else turn.ledger.children
    return report.Spent(*tokens, every.cost, in_loops.cost, spent.currency, every.requests, agents)


class _Decided:
    """The decisions on the calls of a turn, or of a part of it."""

    def __init__(self, policy: Policy, trips: Sequence[TripOfRun], end: int | None, first: int = 0) -> None:
        """``end`` is the position of the call at which a guarded turn ends. ``first`` is as of ``JudgedTurn``."""
        self._end = end
        trips = [trip for trip in trips if not trip.of_request]
        self._trips = {trip.call: trip for trip in trips}
        self._whys = dict(_whys(policy, trips, is_part=first > 0))

    def call(self, position: int, tool: str, identity: int, *, failed: bool, at: float | None) -> report.Call:
        """Return the call at this position of the turn."""
        trip = self._trips.get(position)
        is_loop, mode, has_run = (False, "", False) if trip is None else (trip.is_loop, trip.mode, trip.has_run)
        if self._end is not None and position > self._end:
            return report.Call(tool, identity, "after", mode, at, has_run, is_loop)
        decision = report.decision(None if trip is None else trip.action, failed=failed)
        return report.Call(tool, identity, decision, mode, at, has_run, is_loop, self._whys.get(position, ""))


def _whys(policy: Policy, trips: Sequence[TripOfRun], *, is_part: bool) -> Iterator[tuple[int, str]]:
    """Yield the position of each trip with the limit that decided.

    ``is_part``: the trips are those of a later part of a turn, so the earlier refusals are not known.
    """
    number = 0
    for trip in trips:
        limit = {Action.CONCLUDE: policy.conclude_after, Action.ABORT: policy.abort_after}.get(trip.action, 0)
        before, number = number, number + (trip.action >= Action.REUSE)
        if trip.action < Action.CONCLUDE:
            yield trip.call, f"limit {trip.limit}"
        elif limit and limit <= (before if trip.action is Action.ABORT else number):
            steps = f"{counted(limit, 'call')} in a loop" if trip.has_run else counted(limit, "refusal")
            yield trip.call, f"after {steps}"
        elif not is_part and trip.action is Action.ABORT and policy.conclude_after:
            yield trip.call, "as nothing new came since its answer was asked for"
