"""Sum up a replay, and lay its tables and notes out as text."""

from __future__ import annotations

import enum
from collections import Counter
from typing import TYPE_CHECKING

from otel_loopguard.cli.output import counted
from otel_loopguard.cli.replay.judge import reached
from otel_loopguard.cli.replay.loop_rows import AFTER
from otel_loopguard.cli.replay.token_sums import TokensSpent
from otel_loopguard.engine.vocabulary import Action
from otel_loopguard.guard.ending import CANCELLED, ENDS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from otel_loopguard.cli.ledger_words import TurnsSpent
    from otel_loopguard.cli.replay.judge import Reached, TripOfRun
    from otel_loopguard.cli.replay.loop_rows import GuardedTurn
    from otel_loopguard.engine.policy.policy import Policy

MOST_LOOPS = 10
MOST_TOOLS = 15
_MOST_NAMES = 10_000
_NUDGE, _CONCLUDE, _ABORT = Action.NUDGE, Action.CONCLUDE, Action.ABORT
OUTCOMES = {True: "successful", False: "failed", None: "unlabelled"}


class Missing(str, enum.Enum):
    """A fact that a recording may lack, so that some mode cannot be judged, or only in part."""

    TIMES = "times"
    TOOLS = "tools"
    """The list of tools that exist, of a run."""
    VALUES = "values"
    """Arguments and results: our own spans have only their fingerprints."""
    TOOLS_OF_SPANS = "tools of spans"
    """The list of tools that exist, in spans of other instrumentations."""
    ARGUMENTS = "arguments"
    RESULTS = "results"
    ORDER = "order"
    """The place of a span that came too late."""
    TOKENS = "tokens"


class Summary:
    """The sums of a replay by one policy. Counters are by the label of the run: True, False or None."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.runs: Counter[bool | None] = Counter()
        self.looping = 0
        """The number of runs with a loop."""
        self.told = 0
        """The number of runs that were not stopped, whose model would have been told something."""
        self.over = 0
        """The number of runs without a loop that were stopped by a budget."""
        self.nudged: Counter[bool | None] = Counter()
        self.refused: Counter[bool | None] = Counter()
        self.concluded: Counter[bool | None] = Counter()
        """Runs whose model would have been asked for its answer."""
        self.aborted: Counter[bool | None] = Counter()
        """Runs that would have been ended with an error."""
        self.spared: Counter[bool | None] = Counter()
        """Calls that would not have run, and whose recorded result was not new."""
        self.lost: Counter[bool | None] = Counter()
        """Calls that would not have run, and whose recorded result was new."""
        self.modes: Counter[tuple[str, str]] = Counter()
        """Calls by mode and action. After the end of a guarded turn no more is taken."""
        self.tools: Counter[tuple[str, str]] = Counter()
        self.loops: list[tuple[str, str]] = []
        """The names of runs or turns, and the rows of their loops: the first ones."""
        self.budgets: list[tuple[str, str]] = []
        """The names of runs or turns, and the rows of their budgets: the first ones."""
        self.all_budgets = self.all_loops = self.ran = self.refused_calls = self.asked = self.ended = self.repeats = (
            self.refusable
        ) = 0
        self.spent = TokensSpent()
        self.strongest = Action.OFF

    def add(
        self,
        success: bool | None,  # noqa: FBT001 - a label
        trips: Sequence[TripOfRun],
        earlier: Reached | None = None,
        guarded: Mapping[str, GuardedTurn] | None = None,
    ) -> None:
        """Add a run, or a part of one. ``earlier`` is what its earlier parts reached; None for the first part.

        ``guarded`` is what a guarded turn does, by the name of the turn.
        """
        self.runs[success] += earlier is None
        for name, turn in (guarded or {}).items():
            ran, refused, end = turn.figures
            self.ran += ran
            self.refused_calls += refused
            self.asked += turn.is_concluded
            self.ended += end is not None and end >= 0 and not turn.is_concluded
            self.all_loops += len(turn.rows)
            self.loops += [(name, row) for row in turn.rows[: MOST_LOOPS - len(self.loops)]]
            self.all_budgets += len(turn.budgets)
            self.budgets += [(name, row) for row in turn.budgets[: MOST_LOOPS - len(self.budgets)]]
        if not trips:
            return
        before = earlier or frozenset()
        after = reached(trips, before)
        loops, looped = (any(one.is_loop for one in each) for each in (after, before))
        stops, stopped = (any(one.stops for one in each) for each in (after, before))
        self.looping += loops and not looped
        self.over += (stops and not loops) - (stopped and not looped)
        self.told += (not stops and not before) - (stops and not stopped and bool(before))
        self.strongest = max(self.strongest, *(one.action for one in after))
        self.refused[success] += any(one.is_refused for one in after) and not any(one.is_refused for one in before)
        new = {one.action for one in after} - {one.action for one in before}
        for counter, action in ((self.nudged, _NUDGE), (self.concluded, _CONCLUDE), (self.aborted, _ABORT)):
            counter[success] += action in new
        for trip in trips:
            done = AFTER if trip.is_after else str(trip.action)
            self.modes[trip.mode, done] += 1
            self.refusable += trip.is_refused
            self.repeats += trip.is_loop and trip.has_run and not trip.of_request
            tool = trip.tool if len(self.tools) < _MOST_NAMES else "(others)"  # models make up names without end
            self.tools[tool, done] += 1
            if trip.is_kept_out:
                (self.lost if trip.lost else self.spared)[success] += 1


def tables(summaries: Sequence[Summary]) -> Iterable[str]:
    """Yield the tables of a replay. Each has all policies side by side."""
    if len(summaries) > 1:
        yield "policies: " + ", ".join(summary.name for summary in summaries)
    yield _outcomes(summaries)
    yield from (_spent(summary, f"tokens ({summary.name}):") for summary in summaries if summary.spent.all.requests)
    yield _by("mode", [summary.modes for summary in summaries], summaries)
    yield _by("tool", [summary.tools for summary in summaries], summaries)
    for summary in summaries:
        if summary.loops:
            yield _loops(summary, f"loops, and what a guarded run does ({summary.name}):")
        if summary.budgets:
            yield _budgets(summary, f"budgets, and what a guarded run does ({summary.name}):")


def verdict(summary: Summary, turns: int, calls: int, *, unit: str = "turn", conditional: bool = True) -> str:
    """Return what a policy would have done about this many turns and calls: two figures, and what they are.

    ``unit`` is the word for a turn. Unless ``conditional``, the guard has done it, and there is one figure.
    """
    told = f"{counted(summary.told, unit)} told, not stopped." if summary.told else ""
    if summary.over:
        stopped = "would have been stopped" if conditional else "stopped"
        told = f"{counted(summary.over, unit)} {stopped} by a budget.{' ' * bool(told)}{told}"
    if not summary.looping:
        line = f"No loop in {counted(calls, 'call')} of {counted(turns, unit)}.{' ' * bool(told)}{told}"
        return f"{line}\n{_guarded(summary)}" if summary.over and conditional else line
    lost, all_calls, figures = sum(summary.lost.values()), counted(calls, "call"), []
    if summary.refusable:
        new = f" ({lost:,} of them had a new result)" if lost else ""
        stopped = "would have been refused" if conditional else "did not run"
        figures.append(f"{summary.refusable:,} of {all_calls} {stopped}{new}")
    if summary.repeats:
        figures.append(f"{summary.repeats:,} of {all_calls} were steps of loops, and ran before the guard saw them")
    lines = [f"{summary.looping:,} of {counted(turns, unit)} looped{': ' if figures else ''}{' and '.join(figures)}."]
    if conditional:
        lines.append(_guarded(summary))
    return "\n".join([*lines, *([told] if told else [])])


def _guarded(summary: Summary) -> str:
    """Return what guarded turns do: the second figure."""
    parts = [f"{summary.ran:,} ran"]
    if summary.refused_calls:
        parts.append(f"{summary.refused_calls:,} refused")
    if summary.asked:
        parts.append(f"{counted(summary.asked, 'turn')} asked for an answer")
    if summary.ended:
        parts.append(f"{counted(summary.ended, 'turn')} ended by the guard")
    return f"Guarded: {', '.join(parts)}."


_ENDS = {CANCELLED: "left without an answer"}


def ends_in_words(ends: Iterable[str]) -> list[str]:
    """Return a line about how turns ended, such as ``3 turns ended: 2 answered, 1 aborted``; none without turns."""
    number = Counter(ends)
    parts = [f"{number[end]:,} {_ENDS.get(end, end)}" for end in ENDS if number[end]]
    return [f"{counted(sum(number.values()), 'turn')} ended: {', '.join(parts)}"] if parts else []


def watch_tables(summary: Summary) -> Iterable[str]:
    """Yield the tables of a watch: those of one policy, without labels of runs."""
    if summary.spent.all.requests:
        yield _spent(summary, "tokens:")
    if summary.modes:
        yield _by("mode", [summary.modes], [summary])
        yield _by("tool", [summary.tools], [summary])
    if summary.loops:
        yield _loops(summary, "the loops, and what a guarded run does:")
    if summary.budgets:
        yield _budgets(summary, "the budgets, and what a guarded run does:")


def _outcomes(summaries: Sequence[Summary]) -> str:
    head = ["runs", "", *(name for summary in summaries for name in _columns(summary, summaries))]
    rows = []
    for success, word in OUTCOMES.items():
        if any(summary.runs[success] for summary in summaries):
            row = [word, str(summaries[0].runs[success])]
            for one in summaries:
                counters = (one.nudged, one.refused, one.concluded, one.aborted, one.spared, one.lost)
                row += [str(counter[success]) for counter in counters]
            rows.append(row)
    return table(head, rows)


def _columns(summary: Summary, summaries: Sequence[Summary]) -> list[str]:
    words = ["nudged", "refused", "concluded", "aborted", "calls spared", "calls lost"]
    return [f"{word} ({summary.name})" for word in words] if len(summaries) > 1 else words


def _spent(summary: Summary, title: str) -> str:
    spent = summary.spent
    parts = {"all": spent.all, "in loops (all their calls were repeats)": spent.in_loops}
    if spent.after_end.requests:
        parts["after the end under this policy (estimate)"] = spent.after_end
    has_cost = spent.all.cost is not None
    cost = f"cost ({spent.currency})" if spent.currency else "cost"
    head = ["model requests", "number", "input tokens", "output tokens", *([cost] if has_cost else [])]
    rows = [
        [word, str(one.requests), str(one.input), str(one.output), *([f"{one.cost or 0:.4f}"] if has_cost else [])]
        for word, one in parts.items()
    ]
    return f"{title}\n" + table(head, rows)


def _by(word: str, counts: Sequence[Counter[tuple[str, str]]], summaries: Sequence[Summary]) -> str:
    totals: Counter[str] = Counter()
    for counter in counts:
        for (name, _), count in counter.items():
            totals[name] += count
    actions = [
        action
        for action in (*map(str, Action), AFTER)
        if any((name, action) in each for each in counts for name in totals)
    ]
    if not totals:
        return f"no trips by {word}"
    head = [f"calls by {word}"]
    for summary in summaries:
        head += [f"{action} ({summary.name})" if len(summaries) > 1 else str(action) for action in actions]
    names = [name for name, _ in totals.most_common(MOST_TOOLS)]
    rows = [[name, *(str(each[name, action]) for each in counts for action in actions)] for name in names]
    left = len(totals) - len(names)
    return table(head, rows) + (f"\n... and {left} more" if left > 0 else "")


def _loops(summary: Summary, title: str) -> str:
    return _rows(title, summary.loops, summary.all_loops, "more loop")


def _budgets(summary: Summary, title: str) -> str:
    return _rows(title, summary.budgets, summary.all_budgets, "more budget")


def _rows(title: str, rows: Sequence[tuple[str, str]], number: int, more: str) -> str:
    left = number - len(rows)
    lines = [title, *(f"  {_printable(run)}: {row}" for run, row in rows)]
    return "\n".join([*lines, *([f"  ... and {counted(left, more)}"] if left else [])])


def most_expensive(spent: TurnsSpent, currency: str) -> str:
    """Return a table of the most expensive turns."""
    rows = [
        [name, *map(str, (one.requests, one.calls, one.tokens, one.loop_tokens, f"{one.cost:.4f}", one.children))]
        for name, one in spent.most_expensive()
    ]
    cost = f"cost ({currency})" if currency else "cost"
    head = ["turns, the most expensive first", "requests", "calls", "tokens", "in loops", cost, "agents"]
    kept = [place for place in range(len(head)) if place < 4 or any(float(row[place]) for row in rows)]
    shown = table([head[place] for place in kept], [[row[place] for place in kept] for row in rows])
    return shown + (f"\n... and {counted(spent.left, 'more turn')}" if spent.left else "")


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table as lines of text: words to the left, numbers to the right."""
    shown = [[_printable(cell) for cell in row] for row in rows]
    widths = [max(len(row[column]) for row in (list(head), *shown)) for column in range(len(head))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(head, widths, strict=True)).rstrip()]
    lines.append("  ".join("-" * width for width in widths))
    for row in shown:
        cells = (
            cell.rjust(width) if _is_number(cell) else cell.ljust(width)
            for cell, width in zip(row, widths, strict=True)
        )
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)


def _is_number(cell: str) -> bool:
    return cell.replace(".", "", 1).isdigit()


def _printable(cell: str) -> str:
    """Return a cell with ``?`` for unprintable characters, cut to 60: a model may have made up the name."""
    text = "".join(character if character.isprintable() else "?" for character in cell)
    return text if len(text) <= 60 else text[:59] + "…"


_OF_SPANS = (Missing.VALUES, Missing.TOOLS_OF_SPANS)


def watch_notes(missing: Mapping[Missing, int], summary: Summary, policies: Sequence[Policy]) -> Iterator[str]:
    """Yield a sentence for each missing fact for which the verdict of a watch may be wrong."""
    if missing.get(Missing.VALUES) and not summary.looping:
        yield "similar_query: a watch keeps no queries, so a loop of nearly equal ones is not found."
    yield from notes({one: count for one, count in missing.items() if one not in _OF_SPANS}, policies)


def notes(missing: Mapping[Missing, int], policies: Sequence[Policy]) -> Iterator[str]:
    """Yield a sentence for each missing fact, with the number of runs, calls or spans without it."""
    if count := missing.get(Missing.TIMES):
        runs = f"{counted(count, 'run')} without times"
        yield f"{runs}: no call counts as made after a pause, and `patience` is not judged."
        if any(policy.counting == "calls" and policy.window for policy in policies):
            yield f"window: {runs}: all calls of a turn are taken to be within one window."
    if count := missing.get(Missing.TOOLS):
        yield f"unknown_tool_repeat: not judged in {counted(count, 'run')} without a list of the tools."
    if count := missing.get(Missing.VALUES):
        yield f"similar_query: not judged where spans hold fingerprints and no queries (turns: {count:,})."
        yield "the modes that compare results: judged by the comparisons that the guard recorded."
    if count := missing.get(Missing.TOOLS_OF_SPANS):
        traces = counted(count, "trace")
        yield f"unknown_tool_repeat: not judged in {traces} of other instrumentations, without a list of the tools."
    if missing.get(Missing.VALUES) or missing.get(Missing.TOOLS_OF_SPANS) or missing.get(Missing.TOOLS):
        yield "repeated_effect: what a tool's server says of it is not recorded; only tools declared `once` are judged."
    if count := missing.get(Missing.ARGUMENTS):
        yield f"{counted(count, 'call')} without arguments in the span: counted, and not judged."
    if count := missing.get(Missing.RESULTS):
        spans = counted(count, "span")
        yield f"every mode but the counting ones: {spans} without a result; each is taken as a new one."
    if count := missing.get(Missing.TOKENS):
        yield f"tokens: {counted(count, 'model request')} without all of its numbers."
    if count := missing.get(Missing.ORDER):
        yield f"{counted(count, 'span')} came after the rest of the turn was judged: the order is not the recorded one."
