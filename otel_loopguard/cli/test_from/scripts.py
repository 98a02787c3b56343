"""Write the calls of a recorded turn as a script: letters in place of arguments, and made-up words as results.

What the guard read in a result is in the words, such as "pending"; equal results have equal words.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from otel_loopguard.cli.replay.judge import shown_tool
from otel_loopguard.engine.values.emptiness import Emptiness
from otel_loopguard.engine.vocabulary import Sameness
from otel_loopguard.testing.loops import ScriptedCall

if TYPE_CHECKING:
    from collections.abc import Sequence

    from otel_loopguard.cli.replay.recorded_turn import JudgedCall
    from otel_loopguard.engine.vocabulary import Record

_LONG = ": more than 80 bytes, as an answer has them, while an acknowledgement of an act is shorter"
_EMPTY = {Emptiness.VOID: "", Emptiness.NOTHING: "no results"}


class Detail(NamedTuple):
    """The facts that a script has, apart from the order and the equality of its calls."""

    times: bool = False
    lengths: bool = False
    kinds: bool = False
    existence: bool = False
    """Which tools exist."""


class Script(NamedTuple):
    """The calls of a loop, and the arguments of ``assert_stopped``."""

    calls: tuple[ScriptedCall, ...]
    kinds: tuple[tuple[str, str], ...] = ()
    unknown: tuple[str, ...] | None = None
    have_run: bool = False


def script_of(calls: Sequence[JudgedCall], detail: Detail) -> Script:
    """Return the script of these calls of a turn, of which the last one is to be stopped."""
    tools = [tool_of(one.record) for one in calls]
    kinds = {tool: str(one.record.kind) for tool, one in zip(tools, calls, strict=True)} if detail.kinds else {}
    unknown = {tool for tool, one in zip(tools, calls, strict=True) if one.record.registered is False}
    arguments, results, ended = _Letters(), _Results(calls, lengths=detail.lengths), calls[0].call.at
    scripted = []
    for tool, one in zip(tools, calls, strict=True):
        pause, took, ended = _times(one, ended) if detail.times else (0.0, 0.0, None)
        scripted.append(
            ScriptedCall(tool, arguments.of(one.record.arguments).lower(), results.of(one.record), pause, took)
        )
    return Script(
        tuple(scripted),
        tuple(sorted(kinds.items())),
        tuple(sorted(unknown)) if detail.existence else None,
        calls[-1].call.has_run,
    )


def tool_of(record: Record) -> str:
    """Return the name of a call's tool, with a hash in place of a name that a model made up."""
    return shown_tool(record.resolved.tool, record.registered)


def _times(one: JudgedCall, before: float | None) -> tuple[float, float, float | None]:
    """Return the idle seconds before a call, its own, and the time of its end."""
    at, ended = one.call.at, one.call.ended
    if at is None:
        return 0.0, 0.0, before
    pause = max(at - (at if before is None else before) - one.call.thought, 0.0)
    ended = at if ended is None else max(at, ended)
    return round(pause, 1), round(ended - at, 1), ended


class _Letters:
    """Gives each value a letter, in the order in which they come: A to Z, then A2."""

    def __init__(self) -> None:
        self._given: dict[object, str] = {}

    def of(self, value: object) -> str:
        number = len(self._given)
        letter = chr(ord("A") + number % 26) + (str(number // 26 + 1) if number > 25 else "")
        return self._given.setdefault(value, letter)


class _Results:
    """Makes up the result of each call, from the findings of the guard about the recorded one."""

    def __init__(self, calls: Sequence[JudgedCall], *, lengths: bool) -> None:
        self._letters = _Letters()
        self._lengths = lengths
        self._pending = {(one.record.key, one.record.result) for one in calls if one.record.pending}
        """A first result is not searched for such words, but an equal one after it is."""
        self._rising = {one.record.key for one in calls if one.record.sameness is Sameness.PROGRESS}
        self._varying = {one.record.key for one in calls if one.record.sameness is Sameness.ALIKE}
        self._last: dict[int, str] = {}
        """The last result of each call."""
        self._errors: dict[str, str] = {}
        """The last error of each tool."""
        self._number = 0

    def of(self, record: Record) -> str:
        """Return the result; of a call that was refused when it was recorded, that of its last run."""
        text = self._last.get(record.key)
        if text is None or (record.result is not None and record.sameness is not Sameness.SAME):
            text = self._errors.get(record.tool) if record.error and not record.news else None
            text = text or self._made_up(record)
        self._last[record.key] = text
        if record.error:
            self._errors[record.tool] = text
        return text

    def _made_up(self, record: Record) -> str:
        numbered = record.key in self._rising or record.key in self._varying
        letter = self._letters.of((record.error, "" if numbered else record.result))
        text = f"text {letter}"
        if record.error:
            text = f"Error 503: service unavailable, {letter}" if record.transient else f"Error: {letter}"
        elif (record.key, record.result) in self._pending:
            text = f"pending {letter}"
        elif record.retry_after:
            text = f"retry after {record.retry_after:g} seconds, {letter}"
        elif record.transient:
            text = f"temporarily unavailable, {letter}"
        elif record.over:
            text = f"completed {letter}"
        elif record.empty:
            return _EMPTY[Emptiness(record.empty)]
        if numbered:
            self._number += 1  # a number that moves in one direction is progress
            number = self._number * 37 % 100 if record.key in self._varying else self._number
            text += f", number {number + 100}"
        return text if record.brief or record.error or not self._lengths else text + _LONG
