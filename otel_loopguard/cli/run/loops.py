"""Find the loops of a recorded run, and what the guard did about each."""

from __future__ import annotations

from typing import TYPE_CHECKING

import orjson

from otel_loopguard import semconv
from otel_loopguard.cli.ledger_words import TurnsSpent, spent_in_words
from otel_loopguard.cli.output import counted
from otel_loopguard.cli.replay import loop_rows
from otel_loopguard.cli.replay.loop_rows import LoopCall
from otel_loopguard.cli.replay.text_rows import action_of, text_rows
from otel_loopguard.engine.quoting import clean_name
from otel_loopguard.engine.vocabulary import RUN_BUDGET, Action
from otel_loopguard.spans.ancestry import Ancestry
from otel_loopguard.spans.otlp import ToolSpan, spans_of

if TYPE_CHECKING:
    from pathlib import Path

    from otel_loopguard.spans.dialects import SpanView

MOST_ROWS = 10
_FATES = {"reused": loop_rows.REUSED, "blocked": loop_rows.REFUSED, "aborted": loop_rows.ENDED}
"""By outcome; of all others the call ran."""


class Loops:
    """The loops of a run."""

    def __init__(self, spans: Path) -> None:
        """Read a file of OTLP JSON lines. A line that is not whole is left out: its process was killed."""
        self._turns: dict[str, dict[int, LoopCall]] = {}
        self._had_run: set[bool] = set()
        """Whether the guard saw a call of a loop only when it had run: of all of them."""
        read: set[str] = set()
        """The turns whose model requests the guard reads, so that it can withdraw the tools."""
        ancestry = Ancestry()
        with spans.open("rb") as lines:
            for line in lines:
                try:
                    found = list(spans_of(orjson.loads(line), ancestry))
                except orjson.JSONDecodeError:
                    continue
                for span in found:
                    if isinstance(span, ToolSpan) and span.own:
                        if span.read().request_was_read:
                            read.add(span.turn)
                        call = _call(span.view, withdraws=span.turn in read)
                        # A call that was resumed has a second span, which replaces the first.
                        self._turns.setdefault(span.turn, {})[span.order[0]] = call
                        if call.is_loop:
                            self._had_run.add(span.read().has_run)
        self.ends = ancestry.ends
        """How the turns ended, by their ids."""
        self.spent = TurnsSpent()
        """The sums of the turns that are not nested, as far as their spans tell."""
        for turn, ledger in ancestry.ledgers.items():
            if ledger.requests and turn.rpartition("/")[0] not in {*ancestry.ledgers, *self._turns}:
                self.spent.add(turn, ledger)
        turns = [list(calls.values()) for calls in self._turns.values()]
        self.rows = [row for calls in turns for row in loop_rows.rows(calls)]
        """A row for each loop, such as ``search_orders x10: 2 ran, 7 refused, run ended at 10``."""
        self.rows += [row for trips in ancestry.asked.values() for row in text_rows(trips)]
        self.budgets = [row for calls in turns for row in loop_rows.budget_rows(calls)]
        """A row for each budget that was spent."""

    @property
    def only_told(self) -> bool:
        """True if there are loops, and none of their calls could be refused: they were read in model requests."""
        return self._had_run == {True}

    @property
    def shown(self) -> list[str]:
        """The first rows, and a line with the number of the others."""
        left = len(self.rows) - MOST_ROWS
        more = [f"... and {counted(left, 'more loop')}"] if left > 0 else []
        return [*self.rows[:MOST_ROWS], *more, *self.budgets[:MOST_ROWS]]

    def in_words(self, currency: str) -> str:
        """Return the calls with what else the turns spent, and the number of loops."""
        found = counted(len(self.rows), "loop") if self.rows else "no loop"
        if not self.spent.total.requests:
            return f"{counted(self.calls, 'tool call')}, {found}."
        spent = spent_in_words(self.spent.total._replace(calls=self.calls), currency, calls="tool call")
        return f"{counted(len(self.spent), 'turn')}, {spent}; {found}."

    @property
    def calls(self) -> int:
        """The number of calls that the guard has judged."""
        return sum(map(len, self._turns.values()))


def _call(view: SpanView, *, withdraws: bool) -> LoopCall:
    attributes = view.attributes
    has_run, outcome = attributes.get(semconv.HAS_RUN) is True, attributes.get(semconv.OUTCOME)
    mode = str(attributes.get(semconv.MODE, ""))
    taken, is_beyond = action_of(attributes, semconv.ACTION), action_of(attributes, semconv.VERDICT) > Action.NUDGE
    return LoopCall(
        clean_name(str(attributes.get(semconv.TOOL_NAME))),
        attributes[semconv.ARGUMENTS_HASH],
        mode,
        is_beyond and mode != RUN_BUDGET,
        loop_rows.RAN if has_run else _FATES.get(str(outcome), loop_rows.RAN),
        taken if taken is Action.ABORT or (taken is Action.CONCLUDE and withdraws) else None,
        is_observed=is_beyond and taken < Action.NUDGE,
        is_nudged=taken is Action.NUDGE,
        budget=next((str(of[semconv.BUDGET_ACCOUNT]) for _, of in view.events if semconv.BUDGET_ACCOUNT in of), ""),
    )
