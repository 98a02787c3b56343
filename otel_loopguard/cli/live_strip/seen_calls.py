"""Read the tool calls of a program from the file of its spans while it grows, and put them in one line."""

from __future__ import annotations

from collections import Counter
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from unicodedata import east_asian_width

import orjson

from otel_loopguard import semconv
from otel_loopguard.cli.output import counted
from otel_loopguard.cli.replay.recorded_turn import RecordedTurn
from otel_loopguard.cli.replay.token_sums import ModelRequest, Tokens, spent
from otel_loopguard.engine.quoting import clean_name
from otel_loopguard.engine.vocabulary import Action
from otel_loopguard.spans.ancestry import Ancestry
from otel_loopguard.spans.model_requests import usage_on_call
from otel_loopguard.spans.otlp import ModelSpan, spans_of

if TYPE_CHECKING:
    from pathlib import Path

    from otel_loopguard.cli.replay.judge import PolicyJudge
    from otel_loopguard.cli.replay.recorded_turn import JudgedCall
    from otel_loopguard.engine.vocabulary import Usage
    from otel_loopguard.spans.otlp import ToolSpan

_HEAD = " loopguard "
_MOST_BYTES = 1 << 20
_MOST = 1_000
"""The turns, calls and requests that are remembered."""
_ACTIONS: Final = {str(action): action for action in Action}


class _Mark(NamedTuple):
    """The sign of a call. No shape is wide in a terminal of an East Asian language."""

    shape: str
    plain: str
    """For terminals that do not have the shape."""
    colour: str


_NEW: Final = _Mark("▫", ".", "")
_AGAIN: Final = _Mark("▪", "o", "")
"""The turn has an equal call already."""
_TOLD: Final = _Mark("▴", "!", "33")
_REFUSED: Final = _Mark("✗", "x", "31")
_ENDED: Final = _Mark("▮", "#", "1;31")
"""The model was asked for an answer, or the run was ended."""


class _Call(NamedTuple):
    judged: Action
    mark: _Mark
    fate: str
    """The word under which the call is counted; empty for a call that ran and was to run."""


class SeenCalls:
    """The calls and the tokens that the file has so far."""

    def __init__(self, spans: Path, policy: PolicyJudge, *, encoding: str = "utf-8", colours: bool = True) -> None:
        """Open the file of OTLP JSON lines. The line will have colours, and the shapes that the encoding has."""
        self._file = spans.open("rb")
        self._rest = b""
        self._ancestry = Ancestry()
        self._policy = policy
        self._turns: dict[str, RecordedTurn] = {}
        self._judged: list[JudgedCall] = []
        self._head = f"\x1b[7m{_HEAD}\x1b[m" if colours else _HEAD
        self._signs = {mark: _sign(mark, encoding, colours=colours) for mark in (_NEW, _AGAIN, _TOLD, _REFUSED, _ENDED)}
        self._calls: dict[tuple[str, int], _Call] = {}
        """By turn and position. A call that was resumed has two spans, and the second one replaces the first."""
        self._equal: Counter[tuple[str, ...]] = Counter()
        """The number of calls of a turn to a tool, and of those with equal arguments."""
        self._number = 0
        self._fates: Counter[str] = Counter()
        self._repeated: tuple[str, ...] = ()
        """The call that is named: the last one with a trip, else the last repeat."""
        self._has_tripped = False
        self._tokens = Tokens()
        """Of our own spans, which have the tokens of the request that wrote the call."""
        self._others = Tokens()
        """Of the spans of other instrumentations."""
        self._inside: dict[str, Tokens] = {}
        """The part of it that is of spans inside this one: a framework and its client both have a span of a request."""

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def read(self) -> None:
        """Read what was appended. A line that is not whole yet is kept; one that is no JSON is left out."""
        *lines, self._rest = (self._rest + self._file.read(_MOST_BYTES)).split(b"\n")
        for line in lines:
            try:
                found = list(spans_of(orjson.loads(line), self._ancestry))
            except orjson.JSONDecodeError:
                continue
            for span in found:
                if isinstance(span, ModelSpan):
                    self._add_request(span)
                elif span.own:
                    self._add(span)
        for known in (self._calls, self._equal, self._inside, self._turns):
            _forget_oldest(known)

    def _tokens_of(self, usage: Usage) -> Tokens:
        return spent([ModelRequest(usage, ())], (), None, self._policy.compiled.prices).all

    def _add_request(self, span: ModelSpan) -> None:
        tokens, inner = self._tokens_of(span.usage), self._inside.pop(span.span, Tokens())
        self._others.add(tokens)
        self._others.add(Tokens(input=-inner.input, output=-inner.output, cost=inner.cost and -inner.cost))
        if span.parent:
            self._inside.setdefault(span.parent, Tokens()).add(tokens)

    def _add(self, span: ToolSpan) -> None:
        attributes = span.view.attributes
        key = span.turn, span.order[0]
        of_tool = (span.turn, clean_name(str(attributes.get(semconv.TOOL_NAME))))
        equal = (*of_tool, str(attributes[semconv.ARGUMENTS_HASH]))
        before = self._calls.get(key)
        if before is None:
            self._equal.update([equal, of_tool])
            self._number += 1
            usage = usage_on_call(attributes)
            if usage is not None:
                self._tokens.add(self._tokens_of(usage))
            judged = self._judge(span)
        else:
            self._fates[before.fate] -= 1
            judged = before.judged
        taken, fate = _ACTIONS.get(attributes.get(semconv.ACTION, ""), Action.OFF), ""
        if attributes.get(semconv.OUTCOME) in semconv.REFUSED_OUTCOMES:
            taken, fate = max(taken, Action.BLOCK), "refused"
        elif judged >= Action.REUSE > taken and attributes.get(semconv.HAS_RUN) is not True:
            fate = "would be refused"
        step, times = taken if taken >= Action.NUDGE else judged, self._equal[equal]
        has_tripped = step >= Action.NUDGE
        if has_tripped or (times > 1 and not self._has_tripped):
            self._has_tripped, self._repeated = has_tripped, equal
        self._calls[key] = _Call(judged, _mark(step, times), fate)
        self._fates[fate] += 1

    def _judge(self, span: ToolSpan) -> Action:
        """Return what the policy does about a call that is not refused. Few trips of a long loop are on its spans."""
        turn = self._turns.get(span.turn)
        if turn is None:
            turn = self._turns[span.turn] = RecordedTurn(self._policy.state(), self._judged.append)
            turn.state.heeds = True  # the refusals were made
        turn.begin(span.read())
        turn.end_until(None)
        steps = [one.trip.action for one in self._judged if one.trip is not None]
        self._judged.clear()
        return max(steps, default=Action.OFF)

    def line(self, columns: int) -> str:
        """Return the line, of at most so many columns: the newest calls, and the sums. It is empty before a call."""
        if not self._calls:
            return ""
        fates = [f"{number:,} {fate}" for fate, number in self._fates.items() if fate and number]
        parts = [self._name(), ", ".join([counted(self._number, "call"), *fates])]
        tokens = self._tokens if self._tokens.requests else self._others
        if tokens.input or tokens.output:
            parts.append(f"{tokens.input + tokens.output:,} tokens")
        if tokens.cost is not None:
            parts.append(f"cost {tokens.cost:.4f} {self._policy.compiled.prices.currency}".rstrip())
        sums = _cut(" | ".join(filter(None, parts)), columns - len(f"{_HEAD} c "))
        room = columns - len(f"{_HEAD}  ") - sum(map(_width, sums))
        return f"{self._head} {self._marks(room)} {sums}"

    def _name(self) -> str:
        """Return the tool of the repeated call, and how often it was called with these arguments, or with any."""
        if not self._repeated:
            return ""
        times = self._equal[self._repeated]
        return f"{self._repeated[1]} x{times if times > 1 else self._equal[self._repeated[:2]]:,}"

    def _marks(self, most: int) -> str:
        newest = islice(reversed(self._calls.values()), most)
        return "".join(reversed([self._signs[call.mark] for call in newest]))


def _forget_oldest(known: dict[Any, Any]) -> None:
    for key in list(islice(known, max(len(known) - _MOST, 0))):
        del known[key]


def _sign(mark: _Mark, encoding: str, *, colours: bool) -> str:
    try:
        mark.shape.encode(encoding)
        sign = mark.shape
    except UnicodeEncodeError:
        sign = mark.plain
    return f"\x1b[{mark.colour}m{sign}\x1b[m" if colours and mark.colour else sign


def _mark(step: Action, times: int) -> _Mark:
    if step >= Action.CONCLUDE:
        return _ENDED
    if step >= Action.REUSE:
        return _REFUSED
    if step is Action.NUDGE:
        return _TOLD
    return _AGAIN if times > 1 else _NEW


def _width(character: str) -> int:
    return 2 if east_asian_width(character) in "WF" else 1


def _cut(text: str, columns: int) -> str:
    """Return as much of the text as fits."""
    while sum(map(_width, text)) > columns:
        text = text[:-1]
    return text
