"""The shape of a detector: everything about one mode is in its row, and all tables are derived from the rows.

A detector is two plain functions of ``(history, record, rule)``: ``before`` may refuse a call before it is dispatched,
``after`` may nudge the model with its result. Each returns a ``Trip`` or None. They only read the history and the
record.
"""

from __future__ import annotations

import enum
import sys
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

from otel_loopguard.engine.rule import OF_EVERY_MODE, Rule

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from otel_loopguard.engine.history.history import History
    from otel_loopguard.engine.settings import Setting
    from otel_loopguard.engine.words import Record, Trip

    Check = Callable[[History, Record, Rule], Trip | None]

OncePer = Literal["call", "tool", "laps", "turn"]
Advice = Literal["use", "different", "nearest", "wait", "stop", "none"]
"""To use what the model has, or to do something different; the nearest tools; to wait longer, if the call has run; to
stop calling tools; or nothing, because the sentence says what to do."""
NEVER = sys.maxsize


class Counter(enum.Enum):
    """The numbers by which ``may_trip_from`` says that a detector cannot trip yet.

    Each counts the earlier calls of the turn, and the call at hand as one more of them. A reader of recorded calls may
    count too much, and never too little.
    """

    EQUAL = "calls of the tool with these arguments"
    FAILED = "calls of the tool that failed since one succeeded"
    ANSWERED_ALIKE = "untried calls of the tool in a row with one answer; a repeat ends no row"
    OF_TOOL = "calls of the tool"
    UNKNOWN = "calls of tools that do not exist"
    VAIN = "calls in a row that failed, only thought, or were made before"
    VAIN_IN_TURN = "such calls, in a row or not"
    CALLS = "calls"


Bound: TypeAlias = "Mapping[Counter, int]"
"""The detector cannot trip while each of these counters is below its number."""


class Sentences(NamedTuple):
    """The sentences of a mode for one reason, and the advice with them. What is left open is that of the mode."""

    refusal: str = ""
    nudge: str = ""
    advice: Advice | None = None


class About(NamedTuple):
    """The words of a mode for people: in the README, the docs, the report."""

    title: str
    """A few words, for the report."""
    agent: str
    """Continues "the agent ..."."""
    told: str
    """The call at which the model is told."""
    refused: str
    """The call that is refused."""
    cause: str
    """What usually causes it, for who is paged."""
    precisely: tuple[str, str, str] | None = None
    """When it trips, and the calls at which the model is told, or that are refused, in every case."""


@dataclass(frozen=True, eq=False)
class Detector:
    """One mode. What is left open is asked of the detector at each call, which costs time and never a trip."""

    mode: str
    """Its name."""
    rule: Rule = field(default_factory=Rule)
    """The default limits."""
    before: Check | None = None
    """May refuse a call."""
    after: Check | None = None
    """May nudge the model with a result."""
    refusal: str = ""
    """The sentence in place of the result. ``{tool}``, ``{count}``, ``{limit}``, ``{before}`` are filled in."""
    nudge: str = ""
    """The sentence with the result."""
    tells_by_nudge: bool = False
    """A call that was to be refused, and has run all the same, comes with the nudge instead of the refusal."""
    reasons: Mapping[str, Sentences] = field(default_factory=dict)
    """Other sentences, by the reason of the trip."""
    settings: Mapping[str, Setting] = field(default_factory=dict)
    """The settings of this mode, beside those that every mode has."""
    once_per: OncePer = "call"
    """What shares one count of nudges: they are due at the limit, and at twice and four times the limit."""
    untried: bool = True
    """``before`` also judges calls that have never run."""
    judges_news: bool = True
    """``after`` also judges first runs that succeeded, as most runs are."""
    runs_with: tuple[str, ...] = ()
    """The modes that the policy's ``order`` turns on with this one."""
    may_trip_from: Callable[[Rule], Bound] | None = None
    """The numbers of calls below which it cannot trip. Without it the detector is always asked."""
    concerns: Callable[[Any, Any], bool] | None = None
    """True for the tools (``Tool``), under a policy, that the mode has to do with; None means all."""
    declared: Callable[[Any, Any], Mapping[str, Any]] | None = None
    """The settings that a tool's contract, or the policy as a whole, gives this mode."""
    advice: Advice = "use"
    """What the model reads after the sentence."""
    counts_calls: bool = False
    """It asks ``history.calls_of(record)``. The calls are counted for detectors of the user in any case."""
    half_opens: bool = False
    """It judges calls that have never run: after a refusal the next new call of the tool runs."""
    is_declared: bool = False
    """The user has declared its limits: they hold whatever a call returns."""
    judges_lost: bool = False
    """``after`` judges the runs of calls whose earlier result the model has lost, and no others."""
    about: About | None = None
    """Left open in a further row of a mode, which has only checks."""

    @cached_property
    def default(self) -> Rule:
        """The default limits, with None for settings that are open."""
        return Rule(**{**dict.fromkeys(self.settings), **self.rule.settings})

    @property
    def modes(self) -> tuple[str]:
        """The modes of its trips, as any detector of a user may declare them."""
        return (self.mode,)

    @property
    def all_settings(self) -> dict[str, Setting]:
        """The settings that a policy may give this mode."""
        return {**OF_EVERY_MODE, **self.settings}


def lowest(*limits: int | None) -> int:
    """Return the lowest limit that is set."""
    return min((limit for limit in limits if limit), default=NEVER)


def at_a_repeat(_rule: Rule) -> Bound:
    """Bound a detector that judges calls which were made before: no other call can trip it."""
    return {Counter.EQUAL: 2}
