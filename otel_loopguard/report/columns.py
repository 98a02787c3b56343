"""Store runs as columns of small numbers, so that a report of 100,000 calls is about a megabyte.

All calls are counted; only the first ``MOST_CALLS`` are kept for the timeline.
"""

from __future__ import annotations

from array import array
from math import isfinite
from typing import TYPE_CHECKING, Any

from otel_loopguard.engine.quoting import clean_name
from otel_loopguard.report.records import DECISIONS, TRIPS, Spent

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from otel_loopguard.report.records import Call, Run

MOST_CALLS = 250_000
"""Calls that the timeline shows. Later ones are only counted, and the page says so."""
MOST_NAMES = 10_000
"""Names of tools, and names of modes. Later ones are shown as ``(others)``."""
MOST_LOOPS = 100
"""Rows of loops. Later ones are only counted."""
MOST_BINS = 60
"""Parts of the time, or of the order, in which trips are counted."""
_LONGEST_NAME = 120
_CODES = {word: code for code, word in enumerate(DECISIONS)}
_TRIPS = range(_CODES[TRIPS[0]], _CODES[TRIPS[-1]] + 1)


class Names:
    """Numbers names in the order in which they come. ``first`` have the numbers from 0.

    A model may make up names, so there are at most about ``most``, each as ``shown`` returns it.
    """

    def __init__(self, *first: str, most: int = MOST_NAMES, shown: Callable[[str], str] = clean_name) -> None:
        self.list = list(first)
        self._most = most
        self._shown = shown
        self._numbers = {name: number for number, name in enumerate(first)}

    def number(self, name: str) -> int:
        """Return the number of a name, which is a new one for a new name."""
        found = self._numbers.get(name)
        if found is None:
            shown = self._shown(name) if len(self.list) < self._most else "(others)"
            found = self._numbers.get(shown)
            if found is None:
                found = self._numbers[shown] = len(self.list)
                self.list.append(shown)
            if len(self.list) < self._most:
                self._numbers[name] = found
        return found


def harmless(name: str) -> str:
    """Return an id or title cut to 120 characters, with ``?`` for characters that are not printable."""
    cut = name if len(name) <= _LONGEST_NAME else name[: _LONGEST_NAME - 1] + "…"
    return "".join(character if character.isprintable() else "?" for character in cut)


class Columns:
    """Collects runs, and returns the data of the page."""

    def __init__(self, most_calls: int = MOST_CALLS) -> None:
        self._most_calls = most_calls
        self._tools, self._modes, self._runs = Names(), Names(""), Names(most=most_calls, shown=harmless)
        self._whys = Names("", shown=harmless)
        self._counts: dict[int, list[int]] = {}
        self._turns: dict[str, list[Any]] = {"run": [], "name": [], "first": [], "looping": []}
        self._calls = {name: array("I") for name in ("tool", "same", "decision", "mode", "why")}
        self._times = array("d")
        self._timed = True
        self._trips: tuple[Any, ...] = (array("Q"), array("d"), array("I"), array("B"))
        self._span = (float("inf"), float("-inf"))
        self._spent: list[Spent | None] = []
        """The tokens of each turn that is kept for the timeline."""
        self._all_spent: Spent | None = None
        self._loops: list[tuple[str, str, str]] = []
        """The names of run and turn, and the row."""
        self._all_loops = self._all_calls = self._all_turns = self._looping = self._kept_out = 0

    def add(self, run: Run) -> None:
        """Add one turn."""
        if not run.calls:
            return
        kept = len(self._times) + len(run.calls) <= self._most_calls
        if kept:
            self._turns["run"].append(self._runs.number(run.run_id))
            self._turns["name"].append(harmless(str(run.turn)))
            self._turns["first"].append(len(self._times))
            self._spent.append(run.spent)
        same: dict[tuple[str, int], int] = {}
        looping = False
        for call in run.calls:
            numbers = (self._tools.number(call.tool), _code(call), self._modes.number(call.mode))
            looping |= call.loops
            self._count(call, numbers)
            if kept:
                # Equal calls get a number within their turn, so the report holds no digest either.
                self._keep(call, numbers, same.setdefault((call.tool, call.identity), len(same)))
        if kept:
            self._turns["looping"].append(int(looping))
        left = MOST_LOOPS - len(self._loops)
        self._loops += [(harmless(run.run_id), harmless(str(run.turn)), row) for row in run.loops[:left]]
        self._all_loops += len(run.loops)
        self._all_turns += run.looped_before is None
        self._looping += looping and not run.looped_before
        if run.spent is not None:
            self._all_spent = run.spent if self._all_spent is None else _sum(self._all_spent, run.spent)

    def _count(self, call: Call, numbers: tuple[int, int, int]) -> None:
        tool, code, mode = numbers
        self._counts.setdefault(tool, [0] * len(DECISIONS))[code] += 1
        at = call.at
        if at is None or not isfinite(at):
            self._timed, at = False, 0.0
        self._span = min(self._span[0], at), max(self._span[1], at)
        if code in _TRIPS:
            for column, value in zip(self._trips, (self._all_calls, at, mode, code), strict=True):
                column.append(value)
        self._all_calls += 1
        self._kept_out += call.is_kept_out

    def _keep(self, call: Call, numbers: tuple[int, int, int], same: int) -> None:
        tool, code, mode = numbers
        why = self._whys.number(call.why)
        for name, value in (("tool", tool), ("same", same), ("decision", code), ("mode", mode), ("why", why)):
            self._calls[name].append(value)
        self._times.append(call.at or 0.0)

    def to_json(self) -> dict[str, Any]:
        """Return the data of the page, of types that JSON has."""
        timed = self._timed and self._all_calls > 0
        positions, times, modes, codes = self._trips
        ends = self._span if timed else (0.0, float(max(self._all_calls - 1, 0)))
        return {
            "decisions": list(DECISIONS),
            "totals": {
                "turns": self._all_turns,
                "calls": self._all_calls,
                "looping": self._looping,
                "kept_out": self._kept_out,
            },
            "tools": self._tools.list,
            "counts": [self._counts[number] for number in range(len(self._tools.list))],
            "modes": self._modes.list,
            "whys": self._whys.list,
            "loops": {"rows": self._loops, "all": self._all_loops},
            "runs": self._runs.list,
            "turns": self._turns,
            "spent": None if self._all_spent is None else self._spent_to_json(self._all_spent),
            "calls": {name: column.tolist() for name, column in self._calls.items()},
            "at": [round(at, 3) for at in self._times] if timed else None,
            "over": {"timed": timed, **_binned(times if timed else positions, modes, codes, ends)},
        }

    def _spent_to_json(self, total: Spent) -> dict[str, Any]:
        turns = [None if one is None else (one.tokens, one.in_loops, one.requests, one.agents) for one in self._spent]
        return {**total._asdict(), "turns": turns}


def _binned(
    places: Sequence[float], modes: Sequence[int], codes: Sequence[int], ends: tuple[float, float]
) -> dict[str, Any]:
    """Count trips by mode and decision in ``MOST_BINS`` bins of equal width.

    ``places`` are the times of the trips, or their positions among all calls. ``ends`` are those of the first and the
    last call. ``modes`` and ``codes`` are the numbers of mode and decision of each trip.
    """
    start, last = ends if places else (0.0, 0.0)
    width = ((last - start) or 1.0) / MOST_BINS
    rows: dict[tuple[int, int], list[int]] = {}
    for place, mode, code in zip(places, modes, codes, strict=True):
        row = rows.setdefault((mode, code), [0] * MOST_BINS)
        row[min(int((place - start) / width), MOST_BINS - 1)] += 1
    return {"start": start, "width": width, "rows": [[*key, row] for key, row in sorted(rows.items())]}


def _sum(one: Spent, other: Spent) -> Spent:
    def add(first: float | None, second: float | None) -> float | None:
        return second if first is None else first + (second or 0.0)

    costs = add(one.cost, other.cost), add(one.cost_in_loops, other.cost_in_loops)
    currency, requests = one.currency or other.currency, one.requests + other.requests
    return Spent(one.tokens + other.tokens, one.in_loops + other.in_loops, *costs, currency, requests)


def _code(call: Call) -> int:
    try:
        return _CODES[call.decision]
    except KeyError:
        msg = f"the decision {call.decision!r} of a call of {call.tool} must be one of {', '.join(DECISIONS)}"
        raise ValueError(msg) from None
