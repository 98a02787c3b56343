"""Sum up one reading of the runs: what the starting policy and the policy found so far refuse, and the counts reached.

Memory does not grow with the number of runs: only sums are kept, and a bounded number of names.
"""

from __future__ import annotations

import enum
from collections import Counter
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from typing import TYPE_CHECKING, NamedTuple

from otel_loopguard import semconv
from otel_loopguard.cli.calibrate.proposed_budget import MostSpent
from otel_loopguard.cli.replay.judge import PolicyJudge, shown_tool
from otel_loopguard.cli.replay.line_judge import JudgedRun
from otel_loopguard.cli.replay.recorded_runs import is_known
from otel_loopguard.cli.replay.span_buffer import JudgedTurn
from otel_loopguard.engine.ledger import Ledger
from otel_loopguard.engine.modes import ROWS, Mode
from otel_loopguard.engine.quoting import clean_name
from otel_loopguard.engine.rule import Rule
from otel_loopguard.engine.vocabulary import Action, ToolCall

if TYPE_CHECKING:
    from collections.abc import Sequence

    from otel_loopguard.cli.replay.input_reader import Judged
    from otel_loopguard.cli.replay.judge import TripOfRun
    from otel_loopguard.cli.replay.recorded_runs import RecordedRun
    from otel_loopguard.engine.policy.policy import Policy

_MOST_NAMES = 4_096
_MOST_SETS = 10_000
_MOST_SHOWN = 10
_NO_ID = "None"
MAX_CALLS = "max_calls"
"""Stands for a mode in causes: the policy's bound on the calls of a turn, which is no mode."""


class ReasonLeftOut(str, enum.Enum):
    """The reason for which a run is not counted as good."""

    STUCK = "as stuck (the starting policy would have ended the run)"
    FAILED = "as failed (by its label)"
    NO_CALLS = "without calls"
    NO_EVIDENCE = "without results or arguments, so that no repeat can be judged"


class Cause(NamedTuple):
    """A cause of refusals."""

    tool: str
    """The tool that was refused; empty for names that a model made up."""
    mode: str


class ReachedLimit(NamedTuple):
    """A limit that refused a call."""

    cause: Cause
    limit: int


class Refused(NamedTuple):
    """The good runs that one limit refused."""

    runs: int
    count: int  # type: ignore[assignment]  # hides tuple.count
    """The highest count in these runs."""
    busiest: str
    """The name of the run with this count."""


class RefusedRun(NamedTuple):
    """A run with refused calls: its name, its first refusal, and the number of refusals."""

    run: str
    first: TripOfRun
    refusals: int


@dataclass
class Sample:
    """Sums of good runs: of those that the policy is fitted to, or of those that are held out."""

    runs: int = 0
    calls: int = 0
    before: int = 0
    """Runs with a refusal under the starting policy."""
    after: int = 0
    """Runs with a refusal under the policy found so far."""
    withheld_before: int = 0
    """Calls that the starting policy refuses, and whose recorded result was new."""
    withheld_after: int = 0
    """Calls that the policy found so far refuses, and whose recorded result was new."""


@dataclass
class HighestCount:
    """The highest count of a mode in the good runs, under the starting policy."""

    count: int = 0
    limit: int = 0
    """The limit that the count reached, for a refusal or a nudge; 0 for a mode with a probe."""
    is_refusal: bool = False
    """True if ``limit`` is one for refusals."""
    tripped: int = 0
    """Runs that were nudged or refused."""
    refused: int = 0


@dataclass
class Survey:
    """The sums of one reading."""

    judges: list[PolicyJudge]
    """Of the starting policy, of the policy found so far, and of the probes."""
    probed: tuple[Mode, ...] = ()
    """The modes of the probes, in the order of their judges."""
    all_good: bool = False
    """Count every run as good, also if it looks stuck or is labelled as failed."""
    fitted: Sample = field(default_factory=Sample)
    held_out: Sample = field(default_factory=Sample)
    left_out: Counter[ReasonLeftOut] = field(default_factory=Counter)
    still_refused: list[RefusedRun] = field(default_factory=list)
    """The first ten good runs, fitted or held out, in which the policy found so far refuses calls."""
    stuck: list[RefusedRun] = field(default_factory=list)
    """The first ten runs that look stuck, whether they are left out or not."""
    stuck_successes: int = 0
    """Runs that look stuck and count as good, by their label or ``all_good``."""
    peaks: dict[str, HighestCount] = field(default_factory=dict)
    tools: Counter[str] = field(default_factory=Counter)
    """Calls by tool."""
    refusals: Counter[frozenset[Cause]] = field(default_factory=Counter)
    """The number of fitted runs in which the policy found so far refuses calls, by all causes of a run together."""
    refused: dict[ReachedLimit, Refused] = field(default_factory=dict)
    """These runs, by each limit that refused a call of them."""
    changed: Counter[Cause] = field(default_factory=Counter)
    """Refused calls of these runs whose recorded result was new: it had changed by itself."""
    most_spent: MostSpent = field(default_factory=MostSpent)
    """Of one message of the user, in all good runs."""
    _number: int = 0

    def add(self, judged: Judged) -> None:
        """Add a judged run."""
        self._number += 1
        before, after = judged.trips[0], judged.trips[1]
        reason = self._left_out(judged)
        if reason is not None:
            self.left_out[reason] += 1
            return
        name = judged.run_id if judged.run_id != _NO_ID else str(self._number)
        sample = self.held_out if _is_held_out(name) else self.fitted
        sample.runs += 1
        sample.calls += judged.calls
        sample.before += _refuses(before)
        sample.after += _refuses(after)
        sample.withheld_before += sum(trip.lost for trip in before)
        sample.withheld_after += sum(trip.lost for trip in after)
        self._count_tools(judged)
        self._count_peaks(judged)
        spent = judged.extract.spent if isinstance(judged, JudgedRun) else judged.ledger
        if spent is not None and not (isinstance(judged, JudgedTurn) and judged.is_nested):
            self.most_spent.add(spent, clean_name(name))
        if not _refuses(after):
            return
        _add_run(self.still_refused, name, after)
        if sample is self.fitted:
            self._add_causes(after, clean_name(name))

    def _left_out(self, judged: Judged) -> ReasonLeftOut | None:
        success = judged.success if isinstance(judged, JudgedRun) else None
        if not judged.calls:
            return ReasonLeftOut.NO_CALLS
        if not _has_evidence(judged):
            return ReasonLeftOut.NO_EVIDENCE
        if success is False and not self.all_good:
            return ReasonLeftOut.FAILED
        if any(trip.action >= Action.CONCLUDE for trip in judged.trips[0]):
            _add_run(self.stuck, judged.run_id, judged.trips[0])
            if not (success or self.all_good):
                return ReasonLeftOut.STUCK
            self.stuck_successes += 1
        return None

    def _count_tools(self, judged: Judged) -> None:
        tools = judged.extract.tools if isinstance(judged, JudgedRun) else _tools_of_turn(judged, self.judges[0])
        for shown, calls in tools.items():
            if shown in self.tools or len(self.tools) < _MOST_NAMES:
                self.tools[shown] += calls

    def _count_peaks(self, judged: Judged) -> None:
        for trip in judged.trips[0]:
            peak, is_refusal = self.peaks.setdefault(trip.mode, HighestCount()), trip.action >= Action.REUSE
            found, best = (is_refusal, trip.count, -trip.limit), (peak.is_refusal, peak.count, -peak.limit)
            if trip.mode not in self.probed and found > best:
                peak.is_refusal, peak.count, peak.limit = is_refusal, trip.count, trip.limit
        for mode, trips in zip(self.probed, judged.trips[2:], strict=True):
            counts = [trip.count for trip in trips if trip.action >= Action.REUSE]
            peak = self.peaks.setdefault(mode, HighestCount())
            peak.count = max(peak.count, *counts, 0)
        refusing = {trip.mode for trip in judged.trips[0] if trip.action >= Action.REUSE}
        for tripped in {trip.mode for trip in judged.trips[0]}:
            peak = self.peaks.setdefault(tripped, HighestCount())
            peak.tripped += 1
            peak.refused += tripped in refusing

    def _add_causes(self, trips: list[TripOfRun], run: str) -> None:
        counts: dict[ReachedLimit, int] = {}
        for trip in trips:
            if trip.action < Action.REUSE:
                continue
            reached = self.reached(trip)
            counts[reached] = max(counts.get(reached, 0), trip.count)
            self.changed[reached.cause] += trip.lost
        for reached, count in counts.items():
            known = self.refused.get(reached, Refused(0, 0, ""))
            most = max((known.count, known.busiest), (count, run))  # so that the order of the runs does not matter
            self.refused[reached] = Refused(known.runs + 1, *most)
        found = frozenset(reached.cause for reached in counts)
        if found not in self.refusals and len(self.refusals) >= _MOST_SETS:
            found = frozenset([Cause("", next(iter(found)).mode)])
        self.refusals[found] += 1

    def reached(self, trip: TripOfRun) -> ReachedLimit:
        """Return the limit that a refusal reached, and its cause. Beyond 10,000 limits the tool is left out."""
        if trip.mode == Mode.GLOBAL_CIRCUIT_BREAKER and trip.limit == self.judges[1].compiled.policy.max_calls:
            return ReachedLimit(Cause("", MAX_CALLS), trip.limit)
        reached = ReachedLimit(
            Cause("" if trip.tool.startswith(semconv.UNKNOWN_TOOL) else trip.tool, trip.mode), trip.limit
        )
        is_new = reached not in self.refused and len(self.refused) >= _MOST_SETS
        return ReachedLimit(Cause("", trip.mode), trip.limit) if is_new else reached


def probes(policy: Policy) -> dict[Mode, PolicyJudge]:
    """Return a judge for each mode whose limits for nudge and refusal are not neighbours.

    It judges by this mode alone and refuses where the policy nudges, so that its trips show counts between the two.
    """
    found = {}
    for mode in Mode:
        rule = policy.rule(mode)
        if ROWS[mode].at_request or not (rule.nudge and rule.block and rule.nudge + 1 < rule.block):
            continue
        also = {"no_news_block": rule.settings["no_news_nudge"]} if "no_news_nudge" in rule.settings else {}
        at_nudge = Rule(**{**rule.settings, "block": rule.nudge, **also})
        alone = replace(policy, order=(mode,), modes={mode: at_nudge}, max_calls=0, conclude_after=0, abort_after=0)
        found[mode] = PolicyJudge(alone)
    return found


def _add_run(runs: list[RefusedRun], name: str, trips: list[TripOfRun]) -> None:
    if len(runs) < _MOST_SHOWN:
        refusals = [trip for trip in trips if trip.action >= Action.REUSE]
        runs.append(RefusedRun(clean_name(name), refusals[0], len(refusals)))


def _refuses(trips: list[TripOfRun]) -> bool:
    return any(trip.action >= Action.REUSE for trip in trips)


def _is_held_out(name: str) -> bool:
    """Return True for about half of the names: a run is on the same side in each reading, wherever it is recorded."""
    return bool(blake2b(name.encode("utf-8", "replace"), digest_size=1).digest()[0] & 1)


def _has_evidence(judged: Judged) -> bool:
    if isinstance(judged, JudgedRun):
        facts: RunFacts = judged.extract
        return facts.has_evidence
    return judged.without_arguments + judged.without_result < judged.calls


def _tools_of_turn(judged: JudgedTurn, judge: PolicyJudge) -> Counter[str]:
    return Counter(shown_tool(call.resolve(judge.compiled)[0].tool, call.registered) for call in judged.recorded)


class RunFacts(NamedTuple):
    """The facts of a run that a survey needs, apart from its trips."""

    has_evidence: bool
    """True if a call has a recorded result: without any, no repeat can be judged."""
    tools: Counter[str]
    """The number of calls, by the name of the tool as ``shown_tool`` returns it."""
    spent: Ledger
    """The calls of its longest turn."""


def facts_of(judges: Sequence[PolicyJudge], run: RecordedRun, _trips: object, _guarded: object) -> RunFacts:
    """Return the facts of a run; its tools are those of the first judge's policy."""
    contracts, known, tools, has_evidence = judges[0].compiled.contracts, run.tools, Counter[str](), False
    for turn in run.turns:
        for call in turn["calls"]:
            has_evidence = has_evidence or call.get("result") is not None or bool(call.get("result_hash"))
            tool = contracts.tool(call["tool"], None)
            if tool.route is not None:
                tool = contracts.resolve(ToolCall(call["tool"], call.get("args"))).tool
            tools[shown_tool(tool, is_known(known, call["tool"], tool.name))] += 1
    return RunFacts(has_evidence, tools, Ledger(calls=max((len(turn["calls"]) for turn in run.turns), default=0)))
