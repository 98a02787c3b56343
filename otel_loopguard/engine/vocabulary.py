"""The words that all rooms share: action, kind, call, outcome, trip, record, decision."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, get_args

if TYPE_CHECKING:
    from collections.abc import Collection

    from typing_extensions import Self

ActionWord = Literal["off", "observe", "nudge", "reuse", "block", "conclude", "abort"]
_ACTION_WORDS = get_args(ActionWord)


class Action(enum.IntEnum):
    """The ladder of actions, from doing nothing to ending the run."""

    OFF = 0
    """Judge nothing."""
    OBSERVE = 1
    """Report the loop, and say nothing to the model."""
    NUDGE = 2
    """Let the call run, and tell the model with its result."""
    REUSE = 3
    """Give the model the earlier result of the call instead of a run."""
    BLOCK = 4
    """Refuse the call; the model reads why."""
    CONCLUDE = 5
    """Refuse the call, and have the model answer without tools."""
    ABORT = 6
    """End the run with ``ToolLoopError``."""

    def __str__(self) -> str:
        return str(_ACTION_WORDS[self])


class Kind(str, enum.Enum):
    """What a tool does, as far as loops are concerned. What several places ask about a kind is a column here."""

    _value_: str
    writes: bool
    """A run may change the world."""
    polls: bool
    """A run waits, or checks on something that is in progress."""
    is_patient: bool
    """Its repetition is allowed longest: it waits, checks on something in progress, or ends the agent's part."""
    is_evidence: bool
    """Equal results are evidence of a loop, and a call without news counts."""
    makes_laps: bool
    """A run is a step of a lap."""
    may_progress: bool
    """Numbers that move in one direction in its results are progress."""

    # fmt: off
    #                     writes  polls  is_patient  is_evidence  makes_laps  may_progress
    READ = "read",        False,  False, False,      True,        True,       True
    WRITE = "write",      True,   False, False,      True,        True,       False
    SHELL = "shell",      True,   False, False,      True,        True,       False
    POLL = "poll",        False,  True,  True,       True,        True,       True
    WAIT = "wait",        False,  True,  True,       True,        False,      False
    AGENT = "agent",      True,   False, False,      True,        True,       False
    THINK = "think",      False,  False, False,      True,        True,       False
    STEP = "step",        True,   False, False,      False,       False,      False
    FINAL = "final",      False,  False, True,       True,        True,       False
    HANDOFF = "handoff",  False,  False, True,       True,        True,       False
    UNKNOWN = "unknown",  True,   False, False,      True,        True,       True
    # fmt: on

    __hash__ = str.__hash__

    def __new__(cls, value: str, *columns: bool) -> Self:
        """Set the columns of the table as attributes."""
        kind = str.__new__(cls, value)
        kind._value_ = value
        kind.writes, kind.polls, kind.is_patient, kind.is_evidence, kind.makes_laps, kind.may_progress = columns
        return kind

    def __str__(self) -> str:
        return self._value_


class Sameness(str, enum.Enum):
    """The comparison of a result with that of the last run of the same call."""

    FIRST = "first"
    """The call had not run."""
    SAME = "same"
    """Equal bytes, or equal once timestamps, ids and durations are masked."""
    PROGRESS = "progress"
    """Only numbers differ, and they move in one direction."""
    ALIKE = "alike"
    """Only ids and numbers differ."""
    DIFFERENT = "different"

    __hash__ = str.__hash__

    def __str__(self) -> str:
        return self.value


class Hints(NamedTuple):
    """The hints of a tool's server (MCP annotations); None for hints that it does not give."""

    read_only: bool | None = None
    destructive: bool | None = None
    idempotent: bool | None = None


class ToolCall(NamedTuple):
    """One call as the model made it."""

    tool: str
    arguments: Any = None
    call_id: str | None = None
    known_tools: Collection[str] | None = None
    """The registered tools; None if that cannot be known, and then no call counts as one to an unknown tool."""
    hints: Hints | None = None
    written: int | None = None
    """The turn's ``tick`` when the model wrote the call, if known: it had read no result that came later."""
    may_exist: bool = False
    """True if tools may exist that are not in ``known_tools``."""

    @property
    def registered(self) -> bool | None:
        """True if the tool exists; None if that cannot be known."""
        return None if self.known_tools is None else self.tool in self.known_tools


class KnownArguments(NamedTuple):
    """Stands for the arguments of a call that another process has read: their fingerprint, and the call's kind."""

    digest: int
    kind: str


class Outcome(NamedTuple):
    """The outcome of a call: a result or an error (an exception, its text, or a result with ``is_error``)."""

    result: Any = None
    error: BaseException | str | None = None
    is_error: bool | None = None
    """True if ``result`` is an error. None if the framework does not say: then the text of the result decides."""
    cancelled: bool = False
    """True if the call ended without an outcome."""
    digest: int | None = None
    """The fingerprint of the result, if it was made before, as for a stream or a recording."""
    exists: bool = False
    """True if the tool exists, though it is not registered."""
    keep: Any = None
    """The object that REUSE gives again in place of ``result``, for results with another part, such as an artifact."""


EMPTY_ANSWERS = "empty"
"""The reason of a trip for untried calls whose answers say that nothing was found: it is never why a run ends."""
OVER_TURNS = "turns"
"""The reason of a trip for which the turns of a conversation are the loop."""
USER_STOP = "user_stop"
"""The mode of the trips of a run whose user asked it to stop. ``on_trip`` is not called: the user has decided."""
RUN_BUDGET = "run_budget"
"""The mode of the trips of a run that has spent its budget."""
NO_LOOPS = frozenset({USER_STOP, RUN_BUDGET})
"""The modes of trips that are no loops."""
_POLL = "poll_no_progress"


class Trip(NamedTuple):
    """A detected loop. ``verdict`` is the action that the rules want, ``action`` the one that the ceiling allows."""

    mode: str
    tool: str
    count: int  # type: ignore[assignment]  # hides tuple.count, which no caller needs
    """What the mode counts, with this call."""
    limit: int
    """The limit at this call. ``count`` may be above it, if earlier repeats proved less."""
    verdict: Action
    action: Action = Action.OBSERVE
    kind: Kind = Kind.UNKNOWN
    period: int = 1
    """The number of calls in a lap; 1 if one call is repeated."""
    first_seen_index: int = 0
    """The index in the turn of the loop's first call."""
    insistable: bool = False
    """True if the model may insist: once it was refused as often as ``price`` says, the call runs."""
    reason: str = ""
    """Selects one of the mode's sentences (``Detector.reasons``); never a value of a call."""
    wait: int = 0
    """The seconds after which the refused call runs again; 0 if time does not lift the refusal."""
    alone: bool = False
    """True if no other call was started since the last run of this one."""
    price: int = 1
    """The refusals that buy one run of a call on which the model may insist: 1, doubled by each one in vain."""

    @property
    def is_loop(self) -> bool:
        """True if the turn loops: not after the user's stop or a budget, nor for a poll that may rightly wait on."""
        return self.mode not in NO_LOOPS and (self.mode != _POLL or self.verdict is not Action.NUDGE)

    @property
    def ends_no_run(self) -> bool:
        """True if the refusal of this call does not count for the end of the run."""
        return self.reason == EMPTY_ANSWERS or (self.is_budget and self.reason.endswith((".children", ".depth")))

    @property
    def is_budget(self) -> bool:
        """True if a budget of the run is spent."""
        return self.mode == RUN_BUDGET


class First(str, enum.Enum):
    """The place of a trip in its turn: the first with its action, else with both its mode and action, or neither."""

    ACTION = "action"
    MODE = "mode"
    NO = "no"

    def __str__(self) -> str:
        return self.value


class Record:
    """The fingerprints of one call, never its values. Made at ``begin``, completed at ``end``."""

    # A field that most records never need has its value in the class: to set them all would cost each call more. Slots
    # with ``__getattr__`` would, too: Python reads no attribute of such a class fast, from 3.11 on.
    acted: bool = False
    """True if the result is the receipt of the last run with another id: the call has acted again."""
    alone: bool = False
    """True if no other call was started since the last run of this one."""
    arguments: int
    """The keyed fingerprint of the arguments."""
    around: int = 0
    """The number of equal calls that still run around the turn of this one."""
    at: float | None
    """The time of the start, by the guard's clock; None if it was not recorded."""
    beyond: bool = False
    """True if the call is beyond a limit, and runs because it waited."""
    brief: bool = False
    """True if the result has up to 80 bytes."""
    capped: Trip | None = None
    """The trip of a call that the rules refuse and the ceiling lets run, whether or not it is due to be reported."""
    changed_between: bool = False
    """True if something may have changed between the last run of this call and this one."""
    child_news: bool = False
    """True if a nested turn inside this call brought news."""
    concurrent: bool = False
    """True if it was started before the last equal call ended: it is no evidence."""
    empty: int = 0
    """Above 0 if the result says nothing, or that nothing was found; see ``Emptiness``."""
    error: bool = False
    gap: float
    """The seconds before the call in which no call of the turn started or ended; 0 if times were not recorded."""
    thinking: float = 0.0
    """Those of ``gap`` in which the model thought."""
    wall: float
    """The turn's idle clock at the start with the seconds in which the model thought."""
    haste: float = 1.0
    """The weight of this run in all counts: 1 if it did not wait, less if it did."""
    idle: float
    """The turn's idle clock at the start, in seconds."""
    index: int
    """The position of the call in its turn, from 0, refused calls included."""
    key: int
    """Identifies the call in the history: the tool and the arguments in one number."""
    kind: Kind
    limit: Any = None
    """The ``Limit`` of a call that has run before: which run is refused, and why. None for a first run."""
    lost: int = 0
    """How often the model has lost a result of this call, if it has lost the last one; else 0."""
    news: bool = False
    """True if the outcome is one that this call did not have before."""
    over: bool = False
    """True if a short result says that nothing is left to wait for."""
    pending: bool = False
    """True if the result says that work is not done yet."""
    place: Any = None
    """The ``PlaceInTree`` of the call, if the policy has budgets."""
    registered: bool | None = None
    """True if the tool exists; None if that cannot be known."""
    resolved: Any
    """The ``ResolvedCall``: tool, arguments and kind, of a dispatcher those of the tool behind it."""
    debtor: int | None = None
    """The call or the tool whose refusals the model has paid this run with; None if it did not insist."""
    equal_in_row: int = 0
    """The number of untried calls of the tool, in a row, with this error or this answer; 0 if it does not count."""
    retry_after: float = 0.0
    """The seconds after which the outcome asks to be tried again; 0 if it does not say."""
    result: int | None = None
    """The keyed fingerprint of the result or the error; None until the call has ended."""
    resumed: bool = False
    """True if it was started before an interrupt, and is counted already."""
    sameness: Sameness | None = None
    since: tuple[int, int, int]
    """News, changes and waits of other calls since the last run of this call; of the turn if it never ran."""
    stats: Any = None
    """The ``CallStats`` of this call; None until it has run."""
    tick: int
    """The turn's tick at the start."""
    tool: str
    transient: bool = False
    """True if the outcome is a fault that may pass, such as a timeout."""
    trip: Trip | None = None
    unproven: bool = False
    """True if the state that judged it may have missed an event."""
    turns_without_news: int | None = None
    """The turns of the conversation in a row, before this one, that brought no news; None if they are not counted."""
    waited: bool = False
    """True if enough time has passed since the last run, so that the call is not refused for its repetition."""
    waits: bool = False
    """True if its run was a wait of at least 3 seconds."""
    written: int | None = None
    """The turn's tick when the model wrote the call, if known."""

    @property
    def attempt(self) -> int:
        """The number of this attempt, from the first equal run on, refused ones included. Ask before the call ends."""
        return 1 if self.stats is None else int(self.stats.equal + max(self.stats.refused, 1))

    @property
    def ran_in_vain(self) -> bool:
        """True if the call ran before, and this run brought nothing new while nothing had changed.

        False for a run that waited, for one whose earlier result the model had lost, and for a tool of kind ``step``.
        """
        if self.stats is None or self.result is None or self.news or not self.kind.is_evidence:
            return False
        return not (self.changed_between or self.waited or self.concurrent or self.lost)

    @property
    def arguments_hash(self) -> str:
        """The keyed fingerprint of the arguments."""
        return hash_text(self.arguments)

    @property
    def result_hash(self) -> str | None:
        """The keyed fingerprint of the result; None if there is none, or if it is an error."""
        return None if self.result is None or self.error else hash_text(self.result)

    @property
    def error_hash(self) -> str | None:
        """The keyed fingerprint of the error; None unless the call failed."""
        return hash_text(self.result) if self.error and self.result is not None else None


def hash_text(digest: int) -> str:
    """Format a fingerprint: the algorithm, then sixteen hexadecimal digits."""
    return f"blake2b-64:{digest:016x}"


class Decision(NamedTuple):
    """The decision about a call (from ``begin``), or about its result (from ``end``)."""

    action: Action | None = None
    """None: no loop. OBSERVE: a loop, and nothing is said to the model."""
    trip: Trip | None = None
    message: str | None = None
    """The text for the model: a refusal in place of the result, or a sentence with it; None to say nothing."""
    result: Any = None
    """The earlier result, if the action is REUSE."""
    record: Any = None
    """The call's ``Record``; None if the call was not judged."""
    recovered: tuple[Trip, ...] = ()
    """Earlier trips after which this call brought news again."""
    mark: str | None = None
    """The policy's mark, if this is a refusal and the policy has one."""
    notes: tuple[Any, ...] = ()
    """The parts of ``message`` that ``Turn.redeliver`` can deliver later: messages of the user, and the nudge."""
    repeated: bool = False
    """True if the call had run and was counted before, in this process or in another one of a shared turn."""

    @property
    def runs(self) -> bool:
        """True if the tool may run."""
        return self.action is None or self.action < Action.REUSE

    @property
    def is_loop_step(self) -> bool:
        """True if the call was refused, or would have been under a higher ceiling, or ran in vain.

        Its tokens then count as those of a loop. Ask about a call that runs once it has ended. False if the user had
        asked to stop.
        """
        return is_loop_step(self.trip, self.record)


def is_loop_step(trip: Trip | None, record: Record | None) -> bool:
    """Return True if a call with this trip was refused, or would have been under a higher ceiling, or ran in vain."""
    if trip is not None and trip.verdict >= Action.REUSE:
        return trip.mode not in NO_LOOPS
    return record is not None and record.ran_in_vain


def nothing_seen(record: Record | None) -> Decision:
    """Return the decision for a call without a loop."""
    # The constructor takes twice the time. With the three others that stay (``Began``, ``OutcomeFacts``, ``Verdict``)
    # that is 2 % of a guarded call.
    return tuple.__new__(Decision, (None, None, None, None, record, (), None, (), False))


MOST_TOKENS = 10**9
"""A larger number in a response is no number of tokens, and would spoil a sum for good."""


class Usage(NamedTuple):
    """The tokens of one model request. None: the response does not have the number, as in many streams."""

    model: str
    input_tokens: int | None = None
    """All tokens of the input, also those from the provider's cache."""
    output_tokens: int | None = None
    cached_tokens: int = 0
    """The part of ``input_tokens`` that was read from the provider's cache."""

    @classmethod
    def of(cls, model: Any, input_tokens: Any, output_tokens: Any, cached_tokens: Any = 0) -> Usage:
        """Take the figures of a response; a value that is no number of tokens is unknown."""
        model = model if type(model) is str else ""
        return cls(model, _tokens(input_tokens), _tokens(output_tokens), _tokens(cached_tokens) or 0)

    @property
    def has_tokens(self) -> bool:
        """True if one of the numbers is known."""
        return self.input_tokens is not None or self.output_tokens is not None


def _tokens(value: Any) -> int | None:
    return value if type(value) is int and 0 <= value <= MOST_TOKENS else None
