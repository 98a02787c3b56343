"""The straight way of a first call that returns a text, as nearly all do: untried, and with nothing that could trip.

``Turn`` and ``TurnJudge`` are the specification. ``begin`` and ``end`` do what these do for such a call, each in one
piece, because most of the time of a call is that of function calls. For any other call they count nothing and return
None. A tool's first call in a process takes the general way, which finds its ``row_limit``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from otel_loopguard.engine.history.bounded import EMPTY
from otel_loopguard.engine.history.call_stats import ACKNOWLEDGED, ACTED, BITS_32, BRIEF, SUCCESS, pack_line
from otel_loopguard.engine.history.state import SHORTEST_PAUSE
from otel_loopguard.engine.values.canonical import LARGEST_RESULT
from otel_loopguard.engine.values.results import LONGEST_BRIEF, is_error_text
from otel_loopguard.engine.words import Kind, Record, Sameness, nothing_seen

if TYPE_CHECKING:
    from threading import RLock

    from otel_loopguard.engine.batch import Batch
    from otel_loopguard.engine.judge import TurnJudge
    from otel_loopguard.engine.tools.contracts import ResolvedCall
    from otel_loopguard.engine.words import Decision, Outcome, ToolCall
    from otel_loopguard.guard.in_flight import CallsInFlight
    from otel_loopguard.guard.nesting import ParentCall
    from otel_loopguard.messages import UserMessages

_KINDS = frozenset({Kind.READ, Kind.WRITE, Kind.SHELL, Kind.POLL, Kind.UNKNOWN})
"""A first result of these is news and evidence, and the run is a step of a lap."""
_FIRST, _WRITE, _UNKNOWN = Sameness.FIRST, Kind.WRITE, Kind.UNKNOWN


class TurnState(Protocol):
    """The parts of a ``Turn`` that its first calls need."""

    batch: Batch | None
    changing: bool
    conversation: Any
    host: Any
    in_flight: CallsInFlight
    judge: TurnJudge
    last_used: float
    lock: RLock
    messages: UserMessages | None
    parent: ParentCall | None
    stored: bool

    def batch_of(self, call: ToolCall, written: int) -> Batch:
        """Return the batch of a call that the model wrote at this tick."""


def begin(  # noqa: C901, PLR0912, PLR0915 - as for ``end``
    turn: TurnState, call: ToolCall, resolved: ResolvedCall, arguments: int
) -> Decision | None:
    """Start a call."""
    tool, _, kind = resolved
    known, limit, key = call.known_tools, tool.row_limit, arguments ^ tool.digest
    if not limit or kind not in _KINDS:
        return None
    if known is not None and (type(call.tool) is not str or tool.name != call.tool or tool.name not in known):
        return None
    batch = None if call.written is None else turn.batch_of(call, call.written)
    if turn.messages is not None or turn.parent is not None or turn.conversation is not None:
        return None
    if batch is not None and batch.resumed:
        return None
    with turn.lock:
        if turn.changing:
            return None
        history = turn.judge.history
        rows = history.tools.get(tool.digest)
        if rows is not None and (rows.errors >= limit or rows.answers >= limit):
            return None
        if key in history or history.refusals or history.half_open:
            return None
        turn.changing = True
        turn.last_used = now = turn.host.clock()
        if turn.stored:  # asked after the time is set: a turn that has just been used is not stored
            turn.changing = False
            return None
        record = Record()
        record.resolved = resolved
        record.tool = tool.name
        record.kind = kind
        if known is not None:
            record.registered = True
        record.arguments = arguments
        record.key = history.last_started = key
        record.is_first = True
        record.index = history.judged
        record.at = now
        record.gap = gap = now - history.active_at
        if gap >= tool.min_interval:
            history.idle += gap
        record.idle = history.idle
        record.since = (history.news, history.changes, history.writes, history.waits)
        history.judged += 1
        history.calls += 1
        history.tick = record.tick = history.tick + 1
        history.active_at = now
        if kind.writes:
            history.writes += 1
        if call.may_exist:
            history.open_registry = True
        turn.changing = False
        decision = nothing_seen(record)
        in_flight = turn.in_flight
        if in_flight.calls:
            in_flight.put(call, decision)
        else:
            in_flight.calls = {id(call): (call, decision, None)}
        if batch is not None:
            record.written = batch.written
        if turn.batch is not None:
            turn.batch.add(call, record.index)
    return decision


def end(  # noqa: C901, PLR0912, PLR0915 - one piece on purpose: a function call costs about a fiftieth of it
    turn: TurnState, call: ToolCall, outcome: Outcome
) -> Decision | None:
    """Count the result of a call that began here: a text that is no error."""
    text, error, is_error, cancelled, digest, exists, _ = outcome
    if type(text) is not str or error is not None or is_error or cancelled or digest is not None or exists:
        return None
    in_flight, identity = turn.in_flight, id(call)
    entry = in_flight.calls.get(identity)
    if entry is None or entry[2] is not None or turn.messages is not None:
        return None
    decision = entry[1]
    record = decision.record
    if not record.is_first or len(text) > LARGEST_RESULT or (is_error is None and is_error_text(text)):
        return None
    (tool, _, kind), key, judge = record.resolved, record.key, turn.judge
    try:
        data = text.encode()
    except UnicodeEncodeError:  # half a surrogate
        return None
    digest = judge.fingerprinter.of(data)
    now = turn.host.clock()
    with turn.lock:
        history = judge.history
        rows = history.tools.get(tool.digest)
        if (rows is not None and rows.answers >= tool.row_limit) or history.open_trips or record.child_news:
            return None
        calls = in_flight.calls
        if calls.get(identity) is not entry:  # another thread has ended it
            return None
        if key in history or turn.changing:
            return None
        turn.changing = True
        del calls[identity]
        if not calls:
            in_flight.calls = EMPTY
        record.result = digest
        record.sameness = _FIRST
        record.news = True
        flags = SUCCESS
        if len(data) <= LONGEST_BRIEF:
            record.brief = True
            flags |= BRIEF
        if kind is _WRITE and not tool.moves_cursor:
            flags |= ACTED
        elif flags & BRIEF and (kind is _UNKNOWN or tool.moves_cursor):
            flags |= ACKNOWLEDGED
        history.active_at = now
        history.tick = tick = history.tick + 1
        history.news += 1
        history.no_news_in_row = history.refusals = history.errors_in_row = history.unknown_calls = 0
        news, changes, writes, waits = record.since
        if kind.writes:
            history.changes += 1
            history.writes += 1
            changes, writes = changes + 1, writes + 2
        if record.gap > SHORTEST_PAUSE:
            history.add_pause(record.gap)
        index = record.index & BITS_32
        line = pack_line(digest, history.idle, index, tick & BITS_32, news + 1, changes, writes, waits, flags)
        history.keep_once(key, line)
        history.add_step(key, digest, flags)
        rows = rows or history.tool_stats(tool.digest)
        rows.errors = 0
        rows.successes += 1
        if kind is not _WRITE or tool.moves_cursor:
            rows.add_answer(record, data, tick, judge.fingerprinter)
        turn.changing = False
    return decision
