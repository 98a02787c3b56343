"""The words of this package: call, outcome, record, trip, decision."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Collection

    from typing_extensions import Self


class Action(enum.IntEnum):
    """The ladder, from doing nothing at all to ending the run."""

    OFF = 0
    OBSERVE = 1
    NUDGE = 2
    REUSE = 3
    BLOCK = 4
    ABORT = 5

    def __str__(self) -> str:
        return _ACTION_WORDS[self]


_ACTION_WORDS = ("off", "observe", "nudge", "reuse", "block", "abort")


class Mode(str, enum.Enum):
    """The shapes of a loop, in the order of their precedence."""

    UNKNOWN_TOOL_REPEAT = "unknown_tool_repeat"
    POLL_NO_PROGRESS = "poll_no_progress"
    PING_PONG = "ping_pong"
    CYCLE = "cycle"
    GENERIC_REPEAT = "generic_repeat"
    SIMILAR_QUERY = "similar_query"
    ERROR_REPEAT = "error_repeat"
    VOLATILE_REPEAT = "volatile_repeat"
    REPEATED_EFFECT = "repeated_effect"
    NO_NOVELTY = "no_novelty"
    RETRY_LIMIT = "retry_limit"
    GLOBAL_CIRCUIT_BREAKER = "global_circuit_breaker"

    def __str__(self) -> str:
        return self.value


class Kind(str, enum.Enum):
    """What a tool does, as far as loops are concerned. This table is the only place that says what a kind means."""

    _value_: str
    writes: bool
    """A run may change the world."""
    polls: bool
    """A run waits, or checks on something that is in progress."""
    is_evidence: bool
    """Equal results are evidence of a loop, and a call without news counts."""
    makes_laps: bool
    """A run is a step of a lap."""
    may_progress: bool
    """Numbers that move in one direction in its results are progress."""

    # fmt: off
    #                     writes  polls  is_evidence  makes_laps  may_progress
    READ = "read",        False,  False, True,        True,       True
    WRITE = "write",      True,   False, True,        True,       False
    SHELL = "shell",      True,   False, True,        True,       False
    POLL = "poll",        False,  True,  True,        True,       True
    WAIT = "wait",        False,  True,  True,        True,       False
    AGENT = "agent",      True,   False, True,        True,       False
    THINK = "think",      False,  False, True,        True,       False
    STEP = "step",        True,   False, False,       False,      False
    FINAL = "final",      False,  False, False,       False,      False
    HANDOFF = "handoff",  False,  False, False,       True,       False
    UNKNOWN = "unknown",  True,   False, True,        True,       True
    # fmt: on

    def __new__(cls, value: str, *columns: bool) -> Self:
        """Set the columns of the table as attributes."""
        kind = str.__new__(cls, value)
        kind._value_ = value
        kind.writes, kind.polls, kind.is_evidence, kind.makes_laps, kind.may_progress = columns
        return kind

    def __str__(self) -> str:
        return self._value_


class Sameness(str, enum.Enum):
    """How the result of a run compares with that of the last run of the same call."""

    FIRST = "first"
    SAME = "same"
    PROGRESS = "progress"
    ALIKE = "alike"
    DIFFERENT = "different"

    def __str__(self) -> str:
        return self.value


class Hints(NamedTuple):
    """What a tool's server says of it (MCP annotations); None where it does not say."""

    read_only: bool | None = None
    destructive: bool | None = None
    idempotent: bool | None = None


class ToolCall(NamedTuple):
    """One call as the model made it.

    ``known_tools`` are the names the framework has registered; None where it cannot be known, and then no
    call counts as one to an unknown tool. ``written`` is the turn's ``tick`` when the model made the call, where that
    is known: of what ended since then it has read nothing. ``may_exist``: there may be tools that are not registered.
    """

    tool: str
    arguments: Any = None
    call_id: str | None = None
    known_tools: Collection[str] | None = None
    hints: Hints | None = None
    written: int | None = None
    may_exist: bool = False

    @property
    def registered(self) -> bool | None:
        """Whether the tool exists; None where that cannot be known."""
        return None if self.known_tools is None else self.tool in self.known_tools


class Outcome(NamedTuple):
    """What came back: a result, an error (an exception or its text), or a result that is an error (``is_error``)."""

    result: Any = None
    error: BaseException | str | None = None
    is_error: bool | None = None
    """None where the framework does not say: then the result itself is asked."""
    cancelled: bool = False
    digest: int | None = None
    """The result's fingerprint where it was hashed while it streamed past, or was recorded elsewhere."""
    exists: bool = False
    """The tool turned out to exist, though it is not registered."""
    keep: Any = None
    """What to give again in place of the result, where that has something beside it, such as an artifact."""


class Trip(NamedTuple):
    """A loop was seen. ``verdict`` is what the rules want, ``action`` what is done under the ceiling."""

    mode: str
    tool: str
    count: int  # type: ignore[assignment]  # hides tuple.count, which nobody asks of a trip
    limit: int
    verdict: Action
    action: Action = Action.OBSERVE
    kind: Kind = Kind.UNKNOWN
    period: int = 1
    first_seen_index: int = 0
    insistable: bool = False
    """The call was never tried: made once more, it runs."""
    reason: str = ""
    """Which of its mode's sentences fits; a key of ``wording``, never a value."""


class Record:
    """One call, fingerprinted; never its values. Made at ``begin``, completed at ``end``."""

    __slots__ = (
        "arguments", "at", "changed_between", "child_news", "concurrent", "error", "index", "key", "kind", "news",
        "pending", "polled", "registered", "resolved", "result", "resumed", "sameness", "since", "stats", "tick",
        "tool", "transient", "trip",
    )  # fmt: skip

    arguments: int
    at: float
    changed_between: bool
    """Something may have changed between the last run of this call and this one."""
    child_news: bool
    """A run nested inside this call brought news."""
    concurrent: bool
    """Started before the last result of the same call was known: it adds nothing to any count."""
    error: bool
    index: int
    key: int
    kind: Kind
    news: bool
    pending: bool
    """The result says that something is not done yet."""
    polled: bool
    registered: bool | None
    resolved: Any
    """The ``ResolvedCall``: the tool behind its gateway, with its contract."""
    result: int | None
    resumed: bool
    """It was started before, an interrupt cut it short, and it counts already."""
    sameness: Sameness | None
    since: tuple[int, int, int, int]
    stats: Any
    """The ``CallStats`` of this call; None until it has run."""
    tick: int
    tool: str
    transient: bool
    trip: Trip | None

    @property
    def attempt(self) -> int:
        """Which attempt at this call this is, counted from the first equal run; refused ones are attempts, too."""
        return 1 if self.stats is None else int(self.stats.equal + max(self.stats.refused, 1))

    @property
    def arguments_hash(self) -> str:
        """The keyed fingerprint of the arguments."""
        return hash_text(self.arguments)

    @property
    def result_hash(self) -> str | None:
        """The keyed fingerprint of the result, if there is one."""
        return None if self.result is None or self.error else hash_text(self.result)

    @property
    def error_hash(self) -> str | None:
        """The keyed fingerprint of the error, if the call failed."""
        return hash_text(self.result) if self.error and self.result is not None else None


def hash_text(digest: int) -> str:
    """A digest as it is shown: algorithm, then sixteen hexadecimal digits."""
    return f"blake2b-64:{digest:016x}"


class Decision(NamedTuple):
    """What is to be done with a call (from ``begin``), or with its result (from ``end``)."""

    action: Action | None = None
    """None: nothing was seen. OBSERVE: something was, and nothing is done."""
    trip: Trip | None = None
    message: str | None = None
    """What the model shall read: a refusal in place of the result, or a nudge beside it."""
    result: Any = None
    """The earlier result, where the action is REUSE."""
    record: Any = None
    """The call's ``Record``."""
    recovered: tuple[Trip, ...] = ()
    """Earlier trips after which this call brought news again."""
    mark: str | None = None
    """The policy's mark, where this is a refusal and the policy has one."""
    notes: tuple[Any, ...] = ()
    """The parts of ``message`` that ``Turn.redeliver`` can deliver later: messages of the user, and the nudge."""

    @property
    def runs(self) -> bool:
        """Whether the tool is to be run."""
        return self.action is None or self.action < Action.REUSE


def nothing_seen(record: Record | None) -> Decision:
    """The decision about nearly every call. Made without a look at names and defaults: that is half its cost."""
    return tuple.__new__(Decision, (None, None, None, None, record, (), None, ()))
