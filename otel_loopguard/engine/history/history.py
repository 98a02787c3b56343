"""The state of one turn: all that its detectors look at, bounded in every part, and writable to bytes.

Three counters carry the idea of the package: ``news`` (results not seen before), ``changes`` (news that may have
changed the world, or proves that it changed) and ``waits``. The evidence of a call depends on how far they moved
since its last run, without the call's own part in them.
"""

from __future__ import annotations

import json
import math
from array import array
from base64 import b85decode, b85encode
from typing import TYPE_CHECKING, Any

import orjson

from otel_loopguard.engine.history.bounded import EMPTY, kept
from otel_loopguard.engine.history.call_stats import LINE_LENGTH, CallStats
from otel_loopguard.engine.history.losses import Losses
from otel_loopguard.engine.history.tool_stats import ToolStats
from otel_loopguard.engine.ledger import NOTHING_SPENT, Ledger
from otel_loopguard.engine.vocabulary import Action, First, Kind, Trip
from otel_loopguard.errors import LoopGuardError
from otel_loopguard.interrupts import pass_interrupt

if TYPE_CHECKING:
    from otel_loopguard.engine.vocabulary import Record

MOST_CALLS = 1_024
MOST_FEW = 32
MOST_RECORDS = 64
MOST_REMEMBERED = 256
MOST_TOOLS = 256
MOST_REACHED = 64
MOST_PAUSES = 15
LONGEST_THOUGHT = 86_400.0
"""Seconds. A model request of more than a day is a mistake of a clock."""
SHORTEST_PAUSE = 0.1
"""Seconds. A shorter pause is between calls of one model message, where the model does not think."""

NEVER = -math.inf
"""The time of what has not happened."""

_VERSION = 11
"""The version of the plain values. Those of another version are not read: the history stays empty."""


class History:
    """The state of one turn. Not thread-safe: the turn holds its lock while it is read or written.

    ``update`` changes it, detectors read it. Calls, tools and results are known by fingerprints, which are equal in
    every process with the same hash key. Of values it keeps only numbers of results that changed, and normalised
    queries where a contract names the parameter.
    """

    __slots__ = (
        "active_at", "began_at", "between", "calls", "changed_by", "changes", "conclude_at", "concluded_at",
        "errors_in_row", "few", "few_lines", "flags", "gates", "idle", "independent", "insisting", "judged",
        "keys", "last_key", "last_pending", "last_started", "losses", "most_calls", "nested_calls", "news",
        "no_news_in_row", "no_news_in_turn", "open_registry", "open_trips", "pairs", "pauses", "reached",
        "refusals", "refused_key", "refused_message", "repeated", "results", "run_once", "running", "shapes",
        "spent", "spent_by_nested", "started_by_tool", "streak", "thinking", "thought", "thought_at", "tick",
        "tools", "unknown_answered", "unknown_calls", "waits", "wall", "window",
    )  # fmt: skip

    def __init__(  # noqa: PLR0915 - a statement for each field
        self, most_calls: int = 0, window: Any = None
    ) -> None:
        self.most_calls = most_calls
        """The policy's limit of calls in a turn; 0 = none."""
        self.tick = 0
        """Counts starts, ends and refusals of calls: the turn's own time."""
        self.calls = self.judged = 0
        """Calls that were started, those of nested turns included; calls of this turn alone, refused ones included."""
        self.nested_calls = 0
        """The part of ``calls`` that nested turns made."""
        self.spent = self.spent_by_nested = NOTHING_SPENT
        """The ledgers of this turn itself, and of its nested turns; without calls, which are counted above."""
        self.news: int = 0
        """Outcomes that their calls did not have before."""
        self.changes: int = 0
        """News that may have changed the world, or prove that it changed."""
        self.waits = 0
        """Ended runs of tools that wait."""
        self.idle = 0.0
        """The idle clock, in seconds; see ``clock``."""
        self.wall = 0.0
        """The idle clock with the seconds in which the model thought."""
        self.thought = 0.0
        """The seconds in which the model thought."""
        self.thinking = 0.0
        """Those of them since ``active_at``."""
        self.thought_at = NEVER
        """The time until which the model is known to have thought."""
        self.between = 0.0
        """The seconds, until the last call started, in which no call ran."""
        self.running = 0
        """The number of calls that run."""
        self.active_at = math.inf
        """The time at which a call last started or ended; infinite before the first."""
        self.began_at = NEVER
        """The time of the first call or request; minus infinity before it."""
        self.pauses: list[float] = []
        """Seconds of the last pauses before untried calls that brought news, without the thought in them: the pace at
        which the agent works."""
        self.last_pending = 0
        """The tick of the last repeated result that said that work is not done yet."""
        self.last_started = 0
        """The key of the call that was started last."""
        self.few: list[int] = []
        self.few_lines = b""
        """The first 32 different calls of a turn, and their packed lines, one after the other: a dictionary takes more
        memory. A call stays here when it is made again. With more calls both are empty, and ``run_once`` is used."""
        self.run_once: dict[int, bytes] = EMPTY
        """Calls that have run once, packed, in a turn with more than 32 different calls."""
        self.repeated: dict[int, CallStats] = EMPTY
        """Calls that were made again."""
        self.keys = array("Q")
        self.results = array("Q")
        self.flags = bytearray()
        """The last runs in order: the call, its result and its flags. Waits are left out."""
        self.no_news_in_row = self.no_news_in_turn = 0.0
        """How many calls brought no news, in a row and in the turn. One that proves little counts less than 1."""
        self.errors_in_row = 0
        self.unknown_calls = 0
        """Failed calls to unregistered tools since a registered tool last succeeded."""
        self.refusals = 0
        """Refusals since the last news that were not heeded; those of one model message count once."""
        self.refused_key = 0
        """The call that was refused last."""
        self.refused_message = -1
        """The tick at which the message of the last refused call was written; -1 if that is not known."""
        self.conclude_at = self.concluded_at = -1
        """``news`` when a conclusion became due, and when one was made; -1 if none did. News withdraws what is due."""
        self.last_key = self.streak = 0
        """The last call that makes laps, and the number of its runs in a row, with any results."""
        # Most turns never need these:
        self.unknown_answered: dict[int, None] = EMPTY
        """Unregistered tools that have returned a result."""
        self.pairs: dict[int, None] = EMPTY
        """Each call with a result that it has had, the two in one number; the last result of a call is in its stats."""
        self.shapes: dict[int, None] = EMPTY
        """The errors seen: tool and shape (the text without its varying parts) in one number."""
        self.insisting: dict[int, tuple[int, int]] = EMPTY
        """By call, or by tool: the refusals since the model last insisted, and how many it takes; see ``insisting``."""
        self.changed_by: dict[int, int] = EMPTY
        """By the digest of a tool's name: ``changes`` at its last change."""
        self.independent: dict[int, int] = EMPTY
        """By tool and repeated call, in one number: how often the call's result stayed the same after changes of the
        tool; -1 if it once did not. See ``independence``."""
        self.losses: Losses | None = None
        """Results that the model cannot see any more."""
        self.gates: dict[Any, int] = EMPTY
        """By mode and call or tool: the count at which a nudge is due again; see ``decide``."""
        self.tools: dict[int, ToolStats] = EMPTY
        """By the digest of the tool's name."""
        self.started_by_tool: dict[int, int] = EMPTY
        """By the digest of the tool's name: started calls, of tools that have a cap; with user's detectors, of all."""
        self.open_trips: tuple[Trip, ...] = ()
        """Trips since the last news."""
        self.reached: dict[tuple[str | None, Action], None] = EMPTY
        """The modes and actions of the trips that were reported, and with None as the mode their actions alone."""
        self.open_registry = False
        """True if tools may exist that are not registered."""
        self.window = window
        """The ``CallWindow`` of policies that count calls; None for the others."""

    def __contains__(self, key: int) -> bool:
        """Return True if the call has run."""
        return key in self.few or key in self.run_once or key in self.repeated

    def find(self, key: int) -> CallStats | None:
        """Return the statistics of a call, None if it has not run. A packed line becomes an object here."""
        repeated = self.repeated
        if key in repeated:
            if len(repeated) > MOST_CALLS // 4:  # the least recently used is dropped first
                repeated[key] = repeated.pop(key)
            return repeated[key]
        if key in self.few:
            line = _line(self.few_lines, self.few.index(key))
        elif key in self.run_once:
            line = self.run_once.pop(key)
        else:
            return None
        if not repeated:
            self.repeated = repeated = {}
        stats = repeated[key] = CallStats(line)
        return stats

    def keep_once(self, key: int, line: bytes) -> None:
        """Remember a call that has run for the first time."""
        if self.run_once is EMPTY:
            if len(self.few) < MOST_FEW:
                self.few_lines += line
                self.few.append(key)
                return
            self.run_once = self._once()
            self.few, self.few_lines = [], b""
        if len(self.run_once) + len(self.repeated) >= MOST_CALLS:
            oldest: dict[int, Any] = self.run_once or self.repeated
            oldest.pop(next(iter(oldest)))
        self.run_once[key] = line

    def add_step(self, key: int, digest: int, flags: int) -> None:
        """Add a run that is a step of a lap to the last runs."""
        if key == self.last_key:
            self.streak += 1
        else:
            self.last_key, self.streak = key, 1
        self.keys.append(key)
        self.results.append(digest)
        self.flags.append(flags)
        if len(self.flags) > MOST_RECORDS:
            del self.keys[0], self.results[0], self.flags[0]

    def add_pause(self, gap: float) -> None:
        """Add the pause, in seconds without thought, before an untried call that brought news."""
        self.pauses.append(gap)
        if len(self.pauses) > MOST_PAUSES:
            del self.pauses[0]

    def _once(self) -> dict[int, bytes]:
        """Return the calls that have run once, with their packed lines."""
        if not self.few:
            return self.run_once
        lines, repeated = self.few_lines, self.repeated
        return {key: _line(lines, place) for place, key in enumerate(self.few) if key not in repeated}

    def think(self, seconds: float, now: float | None) -> None:
        """Note that the model thought for these seconds until now. Each second counts once, and none that a call took.

        A negative number and more than a day count as none. Those before the first call are in no pause.
        """
        if now is not None and 0 < seconds <= LONGEST_THOUGHT:
            since = max(self.last_call_at, self.thought_at)
            more = max(0.0, min(seconds, now - since)) if since > NEVER else 0.0
            self.thought += more
            if self.active_at != math.inf:
                self.thinking += more
            self.thought_at = now

    def begin(self, now: float | None) -> None:
        """Note the time of the turn's first step; None if it was not recorded."""
        if self.began_at == NEVER and now is not None:
            self.began_at = now

    def count_nested(self, calls: int) -> None:
        """Count calls of nested turns."""
        self.calls += calls
        self.nested_calls += calls

    def spend(self, more: Ledger, now: float | None, *, is_nested: bool) -> None:
        """Add to the ledger of this turn, or of its nested turns."""
        self.begin(now)
        if is_nested:
            self.spent_by_nested = self.spent_by_nested.plus(more)
        else:
            self.spent = self.spent.plus(more)

    @property
    def own_ledger(self) -> Ledger:
        """The ledger of this turn without its nested turns."""
        return self._with_times(self.spent, self.calls - self.nested_calls)

    @property
    def ledger(self) -> Ledger:
        """The ledger of this turn and all turns nested in it."""
        own, nested = self.spent, self.spent_by_nested
        return self._with_times(own if nested is NOTHING_SPENT else own.plus(nested), self.calls)

    def _with_times(self, spent: Ledger, calls: int) -> Ledger:
        if self.began_at == NEVER:
            return spent._replace(calls=calls)
        until_call = self.last_call_at - self.began_at
        seconds, tool_seconds = (
            max(0.0, until_call, self.thought_at - self.began_at),
            max(0.0, until_call - self.between),
        )
        return spent._replace(calls=calls, seconds=seconds, model_seconds=self.thought, tool_seconds=tool_seconds)

    @property
    def last_call_at(self) -> float:
        """The time at which a call last started or ended; before the first one, that of the turn's first step."""
        return self.began_at if self.active_at == math.inf else self.active_at

    def change(self, tool: int) -> None:
        """Count a change, by a tool that is given by the digest of its name."""
        self.changes += 1
        self.changed_by.pop(tool, None)  # the tool whose last change is the oldest is forgotten first
        self.changed_by = kept(self.changed_by, tool, MOST_TOOLS, self.changes)

    def calls_of(self, record: Record) -> int:
        """Return how many calls of this call's tool have started, this one included once it has started."""
        return self.started_by_tool.get(record.resolved.tool.digest, 0)

    def tool_stats(self, tool: int) -> ToolStats:
        """Return the statistics of a tool, given by the digest of its name; new ones if there are none."""
        stats = self.tools.get(tool)
        if stats is None:
            if not self.tools:
                self.tools = {}
            elif len(self.tools) >= MOST_TOOLS:
                self.tools.pop(next(iter(self.tools)))
            stats = self.tools[tool] = ToolStats()
        return stats

    def since(self, stats: CallStats) -> tuple[int, int, int]:
        """Return the news, changes and waits of other calls since the last run of this call."""
        return self.news - stats.news, self.changes - stats.changes, self.waits - stats.waits

    def changed_since(self, stats: CallStats) -> bool:
        """Return True if anything may have changed since the last run of this call, apart from its own part."""
        since: int = stats.changes
        return self.changes != since

    def reach(self, mode: str, action: Action, *, loops: bool) -> First:
        """Note that a trip is reported. Return ``ACTION`` for the first with this action, else ``MODE`` or ``NO``.

        ``MODE`` is the first with this mode and action. A trip by which the turn does not loop is never ``ACTION``.
        """
        reached = self.reached = self.reached or {}
        is_first = (mode, action) not in reached and len(reached) < MOST_REACHED
        if is_first:
            reached[mode, action] = None
        if loops and (None, action) not in reached:
            reached[None, action] = None
            return First.ACTION
        return First.MODE if is_first else First.NO

    @property
    def conclusion_due(self) -> bool:
        """True if the next model request is to be made without tools."""
        return self.conclude_at == self.news and self.concluded_at < 0

    def concluded_before(self, written: int | None) -> bool:
        """Return True if a conclusion is due, and the call that was written at this tick is of a later message."""
        return self.conclusion_due and written != self.refused_message

    def plain(self) -> dict[str, Any]:
        """Return the history as plain values: fingerprints and counters."""
        state: dict[str, Any] = {name: getattr(self, name) for name in _COUNTERS}
        state |= {name: list(getattr(self, name)) for name in (*_SETS, *_LEDGERS)}
        state["version"] = _VERSION
        run_once = self._once()
        state["run_once"] = [list(run_once), b85encode(b"".join(run_once.values())).decode()]
        state["repeated"] = [[key, stats.to_list()] for key, stats in self.repeated.items()]
        state["keys"], state["results"], state["flags"] = self.keys.tolist(), self.results.tolist(), list(self.flags)
        state["active_at"] = None if self.active_at == math.inf else self.active_at
        for name in _TIMES:
            state[name] = None if getattr(self, name) == NEVER else getattr(self, name)
        state["gates"] = [[list(gate), due] for gate, due in self.gates.items()]
        state["tools"] = [[tool, stats.to_list()] for tool, stats in self.tools.items()]
        state |= {name: list(getattr(self, name).items()) for name in _TABLES}
        state["losses"] = None if self.losses is None else self.losses.to_list()
        # A name of a tool may be model output, and nothing reads it in a trip that is over.
        state["open_trips"] = [list(trip._replace(tool="")) for trip in self.open_trips]
        state["insisting"] = [[key, *counts] for key, counts in self.insisting.items()]
        state["reached"] = [list(pair) for pair in self.reached]
        state["window"] = None if self.window is None else self.window.to_list()
        return state

    def keep_values_of(self, other: History) -> None:
        """Take over from another copy of this history what stays in its process: numbers of results, and queries.

        The numbers of a call are taken if its last run is the same in both, the queries of a tool if its results are.
        """
        for key, stats in self.repeated.items():
            own = other.repeated.get(key)
            if own is not None and own.last_index == stats.last_index and own.result == stats.result:
                stats.details = own.details
        for tool, rows in self.tools.items():
            mine = other.tools.get(tool)
            if mine is not None and mine.results == rows.results:
                rows.queries = mine.queries

    def to_bytes(self, key_mark: int | None = None) -> bytes:
        """Return the history as JSON, a few KB. ``key_mark``: the ``mark`` of its fingerprinter, for ``restore``."""
        state = self.plain()
        if key_mark is not None:
            state["key_mark"] = key_mark
        try:
            return bytes(memoryview(orjson.dumps(state)))  # copied: the original keeps a buffer of up to 16 KB
        except TypeError as error:  # a custom detector's trip: a number beyond 64 bits, or half a surrogate in its mode
            pass_interrupt(error)
            return json.dumps(state).encode()

    def restore(self, data: bytes, key_mark: int | None = None) -> None:
        """Read what ``to_bytes`` returned, for a turn under the same policy.

        Raise a ``LoopGuardError`` if both have a ``key_mark`` and these differ: no call would be found again. Numbers
        of results and queries are not in it, so rows of similar queries begin anew.
        """
        try:
            state = orjson.loads(data)
        except ValueError as error:
            pass_interrupt(error)
            state = json.loads(data)
        if key_mark not in (None, state.get("key_mark", key_mark)):
            msg = (
                "this state was written under another hash key: none of its calls would be found again. "
                "Give both processes one key: set OTEL_PYTHON_LOOPGUARD_HASH_KEY_FILE to a file with the output of "
                "`openssl rand -hex 32`, or use Policy(hash_key=...)."
            )
            raise LoopGuardError(msg)
        self.read(state)

    def read(self, state: dict[str, Any]) -> None:
        """Read what ``plain`` returned. Values of another version are not read: the history stays empty."""
        if state.get("version") != _VERSION:
            return
        for name in _COUNTERS:
            setattr(self, name, state[name])
        for name in _SETS:
            setattr(self, name, dict.fromkeys(state[name]) or EMPTY)
        for name in _LEDGERS:
            setattr(self, name, Ledger(*state[name]))
        self.repeated = {key: CallStats.from_list(values) for key, values in state["repeated"]} or EMPTY
        keys, lines = state["run_once"]
        self.few, self.few_lines, self.run_once = keys, b85decode(lines), EMPTY
        if len(keys) + len(self.repeated) > MOST_FEW:
            self.run_once, self.few, self.few_lines = self._once(), [], b""
        self.keys, self.results = array("Q", state["keys"]), array("Q", state["results"])
        self.flags = bytearray(state["flags"])
        self.active_at = math.inf if state["active_at"] is None else state["active_at"]
        for name in _TIMES:
            setattr(self, name, NEVER if state[name] is None else state[name])
        self.gates = {tuple(gate): due for gate, due in state["gates"]} or EMPTY
        self.tools = {tool: ToolStats.from_list(values) for tool, values in state["tools"]} or EMPTY
        for name in _TABLES:
            setattr(self, name, dict(state[name]) or EMPTY)
        self.insisting = {key: (denied, price) for key, denied, price in state["insisting"]} or EMPTY
        self.losses = None if state["losses"] is None else Losses.from_list(state["losses"])
        self.open_trips = tuple(read_trip(values) for values in state["open_trips"])
        self.reached = {(mode, Action(action)): None for mode, action in state["reached"]} or EMPTY
        if self.window is not None and state["window"] is not None:
            self.window.restore(state["window"])


_COUNTERS = (
    "tick", "calls", "nested_calls", "judged", "news", "changes", "waits", "idle", "wall", "thought", "thinking",
    "between", "running", "pauses", "last_pending", "last_started", "no_news_in_row", "no_news_in_turn",
    "errors_in_row", "unknown_calls", "refusals", "refused_key", "refused_message", "conclude_at", "concluded_at",
    "last_key", "streak", "open_registry",
)  # fmt: skip
_TIMES = ("began_at", "thought_at")
_LEDGERS = ("spent", "spent_by_nested")
_SETS = ("unknown_answered", "pairs", "shapes")
_TABLES = ("changed_by", "independent", "started_by_tool")


def _line(lines: bytes, place: int) -> bytes:
    return lines[place * LINE_LENGTH : (place + 1) * LINE_LENGTH]


def read_trip(values: list[Any]) -> Trip:
    """Read a trip that was written as a list."""
    trip = Trip(*values)
    return trip._replace(verdict=Action(trip.verdict), action=Action(trip.action), kind=Kind(trip.kind))
