"""Judge one line of a recording. A run is judged; spans are only parsed, because those of a turn are in many lines.

No line depends on another one, so a line may be judged in any process.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import orjson

from otel_loopguard.cli.replay import recorded_runs
from otel_loopguard.cli.replay.sources import End

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from otel_loopguard.cli.replay.judge import PolicyJudge, TripOfRun
    from otel_loopguard.cli.replay.loop_rows import GuardedTurn
    from otel_loopguard.cli.replay.recorded_runs import RecordedRun
    from otel_loopguard.cli.replay.sources import Line
    from otel_loopguard.cli.replay.summary import Missing

    Guarded = tuple[dict[int, GuardedTurn], ...]
    Extract = Callable[[Sequence[PolicyJudge], RecordedRun, tuple[list[TripOfRun], ...], Guarded], Any]
    """Takes the judges, a run, its trips by judge, and its ``JudgedRun.guarded``.

    Returns what is needed of the run later. The rest is dropped.
    """

_KEYS = ("calls", "tool", "key")
"""The keys that messages about broken lines may name. Any other key may be part of the data."""
MISSHAPEN = (TypeError, ValueError, KeyError, AttributeError, IndexError, OverflowError)
"""The errors of a line that is JSON, but no run and no spans."""


class JudgedRun(NamedTuple):
    """A run that was judged."""

    run_id: str
    success: bool | None
    calls: int
    trips: tuple[list[TripOfRun], ...]
    """One list for each judge."""
    missing: tuple[Missing, ...]
    """The facts that the run does not have."""
    extract: Any
    """The value that ``Extract`` returned; None without one."""
    guarded: tuple[dict[int, GuardedTurn], ...] = ()
    """The turns as the guard would have had them, by their positions, for each judge."""


class SpanLine(NamedTuple):
    """A parsed line of spans."""

    content: dict[str, Any]
    size: int
    """The bytes of the line."""


Outcome: TypeAlias = "JudgedRun | SpanLine | str"
"""The judgement of a line, or a text that says why it is broken."""


class LineJudge:
    """Judges the run of a line by each policy."""

    def __init__(self, judges: Sequence[PolicyJudge], extract: Extract | None = None) -> None:
        self._judges = judges
        self._extract = extract

    def outcome(self, item: Line | End) -> Outcome:
        """Return the outcome of a line; of the end of an input its fault, empty if there is none."""
        return item.fault if item.fault or isinstance(item, End) else self.judge(item.data)

    def judge(self, data: bytes) -> Outcome:
        """Return the outcome of the bytes of a line."""
        try:
            found = orjson.loads(data)
        except ValueError as error:
            return f"no JSON: {str(error).partition(': line')[0]}"
        try:
            if "turns" in found:
                return self._run(found)
            if "resourceSpans" in found or "resourceLogs" in found:
                return SpanLine(found, len(data))
        except MISSHAPEN as error:
            return fault_of(error)
        return "neither a run (it has no `turns`) nor OTLP (it has no `resourceSpans` and no `resourceLogs`)"

    def _run(self, found: dict[str, Any]) -> JudgedRun:
        run = recorded_runs.read(found)
        judged = [recorded_runs.replay(run, judge) for judge in self._judges]
        trips, turns = tuple([one for one, _ in judged]), tuple([one for _, one in judged])
        extract = None if self._extract is None else self._extract(self._judges, run, trips, turns)
        return JudgedRun(run.run_id, run.success, run.calls, trips, recorded_runs.missing(run), extract, turns)


def fault_of(error: Exception) -> str:
    """Return the fault of a line, from one of the errors in ``MISSHAPEN``."""
    if isinstance(error, recorded_runs.NotARunError):
        return str(error)
    if isinstance(error, KeyError) and error.args[0] in _KEYS:
        return f"not of the right shape: {error.args[0]!r} is missing"
    return f"not of the right shape ({type(error).__name__})"
