"""Find the loops of a recorded run, and what the guard did about each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import orjson

from otel_loopguard import semconv
from otel_loopguard.cli.output import counted
from otel_loopguard.engine.quoting import clean_name
from otel_loopguard.engine.vocabulary import Action
from otel_loopguard.spans.ancestry import Ancestry
from otel_loopguard.spans.otlp import spans_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

MOST_ROWS = 10
_MOST_TOOLS = 3
_FEW = 2
"""So many different calls are a loop of equal ones. In a loop of more, each call of its tools counts."""
_ACTIONS = {str(action): action for action in Action}


class _Call(NamedTuple):
    """A call of a turn, as the guard recorded it."""

    tool: str
    arguments: str
    mode: str
    """Empty without a trip."""
    verdict: Action
    action: Action
    outcome: str
    has_run: bool

    @property
    def ran(self) -> bool:
        return self.has_run or self.outcome not in semconv.REFUSED_OUTCOMES

    @property
    def is_loop(self) -> bool:
        return self.verdict > Action.NUDGE


class Loops:
    """The loops of a run."""

    def __init__(self, spans: Path) -> None:
        """Read a file of OTLP JSON lines. A line that is not whole is left out: its process was killed."""
        self._turns: dict[str, dict[int, _Call]] = {}
        ancestry = Ancestry()
        with spans.open("rb") as lines:
            for line in lines:
                try:
                    found = list(spans_of(orjson.loads(line), ancestry))
                except orjson.JSONDecodeError:
                    continue
                for span in found:
                    if getattr(span, "own", False):
                        # A call that was resumed has a second span, which replaces the first.
                        self._turns.setdefault(span.turn, {})[span.order[0]] = _call(span.view.attributes)  # type: ignore[union-attr]  # a tool span
        self.rows = [row for calls in self._turns.values() for row in _rows(list(calls.values()))]
        """A row for each loop, such as ``search_orders x10: 2 ran, 7 refused, run ended at 10``."""

    @property
    def shown(self) -> list[str]:
        """The first rows, and a line with the number of the others."""
        left = len(self.rows) - MOST_ROWS
        return [*self.rows[:MOST_ROWS], *([f"... and {counted(left, 'more loop')}"] if left > 0 else [])]

    @property
    def calls(self) -> int:
        """The number of calls that the guard has judged."""
        return sum(map(len, self._turns.values()))


def _call(attributes: Mapping[str, Any]) -> _Call:
    def action(name: str) -> Action:
        return _ACTIONS.get(attributes.get(name, ""), Action.OFF)

    return _Call(
        clean_name(str(attributes.get(semconv.TOOL_NAME))),
        str(attributes[semconv.ARGUMENTS_HASH]),
        str(attributes.get(semconv.MODE, "")),
        action(semconv.VERDICT),
        action(semconv.ACTION),
        str(attributes.get(semconv.OUTCOME)),
        attributes.get(semconv.HAS_RUN) is True,
    )


def _rows(calls: list[_Call]) -> Iterator[str]:
    """Yield a row for each loop of a turn. Trips of one mode, or at equal calls, are one loop."""
    groups: list[tuple[set[str], set[tuple[str, str]]]] = []
    for call in calls:
        if call.is_loop:
            same, identity = {call.mode}, {(call.tool, call.arguments)}
            others = []
            for modes, identities in groups:
                if modes & same or identities & identity:
                    same |= modes
                    identity |= identities
                else:
                    others.append((modes, identities))
            groups = [*others, (same, identity)]
    for _, identities in groups:
        tools = {tool for tool, _ in identities}
        equal = len(identities) <= _FEW
        yield _row([one for one in calls if ((one.tool, one.arguments) in identities if equal else one.tool in tools)])


def _row(calls: list[_Call]) -> str:
    tools = list(dict.fromkeys(call.tool for call in calls))
    names = ", ".join(tools[:_MOST_TOOLS]) + (", ..." if len(tools) > _MOST_TOOLS else "")
    ended = next((number for number, call in enumerate(calls, 1) if call.action is Action.ABORT), None)
    answers = next((number for number, call in enumerate(calls, 1) if call.action is Action.CONCLUDE), None)
    is_observed = any(call.is_loop and call.action < Action.REUSE and not call.has_run for call in calls)
    parts = [f"{sum(call.ran for call in calls):,} ran"]
    if is_observed:  # their number is not known: not each of them is reported
        parts.append("only observed")
    for outcome, word in (("reused", "given an earlier result"), ("blocked", "refused")):
        number = sum(call.outcome == outcome and not call.has_run for call in calls)
        if number:
            parts.append(f"{number:,} {word}")
    if ended is not None:
        parts.append(f"run ended at {ended:,}")
    elif answers is not None:
        parts.append(f"tools withdrawn at {answers:,}")
    return f"{names} x{len(calls):,}: {', '.join(parts)}"
