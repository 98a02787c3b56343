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

    from otel_loopguard.engine.history.conversation_texts import ConversationTexts
    from otel_loopguard.engine.history.history import History
    from otel_loopguard.engine.history.text_blocks import Blocks
    from otel_loopguard.engine.settings import Setting
    from otel_loopguard.engine.vocabulary import Record, Trip

    Check = Callable[[History, Record, Rule], Trip | None]
    TextCheck = Callable[[ConversationTexts, Rule], Trip | None]
    BlocksCheck = Callable[[Blocks, Rule], Trip | None]

OncePer = Literal["call", "tool", "laps", "turn"]
"""The trips whose nudges are counted together: of one call, of one tool, of laps of one length, or of the turn."""
Advice = Literal["use", "different", "nearest", "wait", "stop", "none"]
"""What the model is advised after the sentence: to use what it has, to do something different, to call one of the
nearest tools, to wait longer, to stop calling tools; none, if the sentence itself says what to do."""
NEVER = sys.maxsize
"""A limit that no count reaches."""


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
    """The sentences for one reason of a mode, and the advice with them. What is left open is taken from the mode."""

    refusal: str = ""
    nudge: str = ""
    advice: Advice | None = None


class About(NamedTuple):
    """The words of a mode for people: in the docs and the report."""

    title: str
    """A few words, for the report."""
    agent: str
    """Continues "the agent ..."."""
    told: str
    """The count at which the model is told, such as "3rd"."""
    refused: str
    """The count at which the call is refused, such as "10th"."""
    cause: str
    """What usually causes it, for who is paged."""
    precisely: tuple[str, str, str] | None = None
    """When it trips, and the calls at which the model is told, or that are refused, in every case."""


@dataclass(frozen=True, eq=False)
class Detector:
    """One mode: two checks, and every fact about it.

    ``untried``, ``judges_news``, ``concerns`` and ``may_trip_from`` say when it need not be asked. Left open, it is
    asked more often, and finds the same.
    """

    mode: str
    """The name of the mode."""
    rule: Rule = field(default_factory=Rule)
    """The default limits."""
    before: Check | None = None
    """``fn(history, record, rule) -> Trip | None``, asked before a call runs: may refuse it."""
    after: Check | None = None
    """``fn(history, record, rule) -> Trip | None``, asked with the result of a call: may nudge the model."""
    at_request: TextCheck | None = None
    """``fn(texts, rule) -> Trip | None``, asked before a request to a model, by the texts of its conversation."""
    at_reply: BlocksCheck | None = None
    """``fn(blocks, rule) -> Trip | None``, asked while the model writes, by the equal blocks at the end so far."""
    refusal: str = ""
    """The sentence in place of the result. ``{tool}``, ``{count}``, ``{limit}``, ``{before}`` are filled in."""
    nudge: str = ""
    """The sentence with the result."""
    tells_by_nudge: bool = False
    """True if ``nudge`` is also the sentence for a call that would have been refused, but has run."""
    reasons: Mapping[str, Sentences] = field(default_factory=dict)
    """Other sentences, by the reason of the trip."""
    settings: Mapping[str, Setting] = field(default_factory=dict)
    """The settings of this mode, beside those that every mode has."""
    once_per: OncePer = "call"
    """The trips whose nudges are counted together. They are due at the limit, and each time the count has doubled."""
    untried: bool = True
    """True if ``before`` also judges calls that have never run."""
    judges_news: bool = True
    """True if ``after`` also judges first runs that succeeded, as most runs are."""
    runs_with: tuple[str, ...] = ()
    """The modes that the policy's ``order`` turns on with this one."""
    may_trip_from: Callable[[Rule], Bound] | None = None
    """``fn(rule)``: the numbers of calls below which it cannot trip; None: it is always asked."""
    concerns: Callable[[Any, Any], bool] | None = None
    """``fn(tool, policy)``: True for a tool that the mode judges; None: it judges all."""
    declared: Callable[[Any, Any], Mapping[str, Any]] | None = None
    """``fn(contract, policy)``: the settings that a tool's contract, or the policy as a whole, gives this mode."""
    advice: Advice = "use"
    """What the model is advised after the sentence."""
    counts_calls: bool = False
    """True if it asks ``history.calls_of(record)``. For a user's detector the calls are counted in any case."""
    insisted_by_tool: bool = False
    """True if the model insists by any new call of the tool: the mode judges calls that have never run."""
    is_declared: bool = False
    """True if the user has declared its limits, so that they hold whatever a call returns."""
    judges_lost: bool = False
    """True if ``after`` judges only runs of calls whose earlier result the model has lost."""
    title: str = ""
    """A few words for a log line, if they are not those of ``about``."""
    about: About | None = None
    """Left open in a further row of a mode, which has only checks."""

    @cached_property
    def default(self) -> Rule:
        """The default limits, with None for each setting of the mode that is left open."""
        return Rule(**{**dict.fromkeys(self.settings), **self.rule.settings})

    @property
    def modes(self) -> tuple[str]:
        """The mode of its trips, in a tuple: a function as detector may have an attribute ``modes`` with several."""
        return (self.mode,)

    @property
    def all_settings(self) -> dict[str, Setting]:
        """The settings that a policy may give this mode."""
        return {**OF_EVERY_MODE, **self.settings}


def lowest(*limits: int | None) -> int:
    """Return the lowest limit that is neither 0 nor None; ``NEVER`` if there is none."""
    return min((limit for limit in limits if limit), default=NEVER)


def at_a_repeat(_rule: Rule) -> Bound:
    """Bound a detector that judges calls which were made before: no other call can trip it."""
    return {Counter.EQUAL: 2}
