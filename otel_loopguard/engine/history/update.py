"""Update the history: a call is opened, started or refused, and ended; its outcome may be news, and a change."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, Any

from otel_loopguard.engine.history.bounded import kept
from otel_loopguard.engine.history.call_stats import (
    ACKNOWLEDGED,
    ACTED,
    BITS_32,
    BRIEF,
    EMPTY,
    OVER,
    PENDING,
    SUCCESS,
    TRANSIENT,
    pack_line,
)
from otel_loopguard.engine.history.clock import compare_times, time_of
from otel_loopguard.engine.history.evidence import limit_of, strength, weigh
from otel_loopguard.engine.history.history import MOST_REMEMBERED, SHORTEST_PAUSE, History
from otel_loopguard.engine.history.independence import learn, refused_call_is_independent
from otel_loopguard.engine.history.insisting import pay, settle, spend
from otel_loopguard.engine.history.losses import Losses
from otel_loopguard.engine.history.waits import SHORTEST_WAIT, is_wait
from otel_loopguard.engine.values.compare import compare, detailed_fingerprints
from otel_loopguard.engine.values.masking import ids_of
from otel_loopguard.engine.vocabulary import Action, Kind, Record, Sameness

if TYPE_CHECKING:
    from otel_loopguard.engine.history.call_stats import CallStats
    from otel_loopguard.engine.values.fingerprint import Fingerprinter
    from otel_loopguard.engine.values.results import OutcomeFacts
    from otel_loopguard.engine.vocabulary import Trip

MOST_PAIRS = 4_096

# Looking up a member of an enumeration takes as long as a function call on Python 3.11: in this room and in `kinds.py`
# that is 1 % of a guarded call.
_FIRST, _SAME, _ALIKE, _DIFFERENT = Sameness.FIRST, Sameness.SAME, Sameness.ALIKE, Sameness.DIFFERENT
_THINK, _WRITE, _WAIT, _UNKNOWN, _READ, _SHELL = (
    Kind.THINK, Kind.WRITE, Kind.WAIT, Kind.UNKNOWN, Kind.READ, Kind.SHELL,
)  # fmt: skip

_64_BITS = 0xFFFFFFFFFFFFFFFF
_VALUES_SALT = 0xC2B2AE3D27D4EB4F
"""Tells the values of a result from the result: a text without volatile parts has the same bytes in both."""
_NOT_NEW = frozenset({_SAME, _ALIKE})
_RECEIPT = PENDING | ACKNOWLEDGED
_MAY_ACT = frozenset({_UNKNOWN, _SHELL})


# --- before a call -----------------------------------------------------------------------------------------------


def open_record(
    history: History,
    resolved: Any,  # a ``ResolvedCall``
    arguments: int,
    *,
    registered: bool | None,
    now: float | None,
    written: int | None = None,
) -> Record:
    """Make the record of a call that is about to be judged. It counts only once it is started.

    ``now``: seconds of the guard's clock; None if the time was not recorded, and then no call has waited. ``written``:
    the turn's tick when the model wrote the call; runs that ended later are no evidence against it.
    """
    record = Record()
    record.resolved = resolved
    tool, _, record.kind = resolved
    if history.tools and (rows := history.tools.get(tool.digest)) is not None and rows.waits:
        record.kind = _WAIT
    record.tool = tool.name
    record.registered = registered
    record.arguments = arguments
    record.key = key = arguments ^ tool.digest
    record.index = history.judged
    record.tick = history.tick
    record.at = now
    record.written = written
    record.gap = gap = 0.0 if now is None else now - history.active_at
    record.wall = history.wall + gap if gap >= tool.min_interval else history.wall
    if history.thinking:
        record.thinking = history.thinking
        gap -= history.thinking
    record.idle = history.idle + gap if gap >= tool.min_interval else history.idle
    stats = history.find(key)
    if stats is not None and written is not None and stats.last_end > written:
        stats = None
    record.stats = stats
    if stats is None:
        record.since = (history.news, history.changes, history.waits)
    elif history.losses is not None and key in history.losses and not tool.contract.once:
        record.lost, record.stats, record.since = history.losses.count(key), None, history.since(stats)
    else:
        record.since = history.since(stats)
        record.waited = record.beyond = record.concurrent = False
        record.haste = 1.0
        record.alone = history.last_started == key
        record.limit = limit_of(history, record, stats, stats.flags, record.since)
        compare_times(history, record, stats)
    return record


def start(history: History, record: Record) -> None:
    """Count a call that starts. Caps count it from now on, so parallel calls cannot outrun them."""
    history.tick += 1
    record.tick = history.tick
    history.idle, history.wall = record.idle, record.wall
    history.last_started = record.key
    if record.at is not None:
        if history.began_at == -inf:
            history.began_at = record.at
        last_at = history.began_at if history.active_at == inf else history.active_at
        if not history.running and record.at > last_at:
            history.between += record.at - last_at
        history.running += 1
        history.active_at, history.thinking = record.at, 0.0
    if record.resumed:
        return
    history.calls += 1
    if history.window is not None:
        history.window.add(record)
    tool = record.resolved.tool
    if tool.counts_calls:
        history.started_by_tool = counts = history.started_by_tool or {}
        counts[tool.digest] = counts.get(tool.digest, 0) + 1


def refuse(history: History, record: Record, trip: Trip | None, *, counted: bool = True) -> None:
    """Count a refusal; None as the trip if it is only known that the call was refused.

    If the trip has a ``wait``, the call runs after so many seconds.
    ``counted=False`` keeps the call out of the window of counted calls: it was recorded, and has run all the same.
    """
    count_refusal(history, record, trip)
    history.refused_key = record.key
    history.tick += 1  # the model's next message is written later
    stats = record.stats
    if stats is not None:
        stats.refused += 1
    wait = trip.wait if trip is not None and trip.action >= Action.REUSE else 0
    if wait and stats is not None and record.at is not None:
        lifted_at = time_of(history, record, stats) + wait
        stats.lifted_at = min(stats.lifted_at or lifted_at, lifted_at)
    if counted and history.window is not None and history.window.counts_refused:
        history.window.add(record)


def is_new_refusal(history: History, record: Record) -> bool:
    """Return True if a refusal of this call counts: no refusal of the same model message has counted yet."""
    return record.written is None or record.written != history.refused_message


def count_refusal(history: History, record: Record, trip: Trip | None) -> None:
    """Count a refusal, of a call that is refused or of one that has run all the same. A model message counts once."""
    if is_new_refusal(history, record) and not (trip is not None and trip.ends_no_run):
        history.refusals += 1
        history.refused_message = -1 if record.written is None else record.written
    if trip is None:
        return
    if trip.action is Action.CONCLUDE:
        history.conclude_at = history.news
    if trip.insistable and trip.action >= Action.REUSE:
        pay(history, record, trip)


def lose(history: History, key: int) -> None:
    """Forget the last result of a call as evidence, because the model cannot see it any more."""
    if key not in history:
        return
    history.losses = history.losses or Losses()
    if not history.losses.add(key, history.news):
        return
    if key == history.last_key:
        history.last_key = history.streak = 0
    for place, one in enumerate(history.keys):
        if one == key:  # equal to no other result, so it is no step of a lap
            history.results[place] = history.tick << 8 | place
    if history.window is not None:
        history.window.forget(key)


def let_run(history: History, record: Record, *, heeds: bool) -> None:
    """Note that a call is not refused. With ``heeds``, its earlier refusal counts no longer if the model heeded it.

    The model heeded it if it waited before it made the call again.
    """
    if history.insisting:
        spend(history, record)
    stats = record.stats
    if heeds and stats is not None and stats.refused == 1 and record.waited and history.refusals:
        history.refusals -= 1


# --- after a call ------------------------------------------------------------------------------------------------


def end(
    history: History, record: Record, facts: OutcomeFacts, fingerprinter: Fingerprinter, now: float | None = None
) -> None:
    """Count the outcome of a call that was started. ``now``: seconds of the guard's clock; None if not recorded."""
    record.result = digest = facts.digest
    record.error, record.transient, record.pending = facts.is_error, facts.transient, facts.pending
    record.brief, record.empty = facts.brief, facts.empty
    record.over, record.retry_after = facts.over, facts.retry_after
    ran = 0.0 if now is None or record.at is None else now - record.at
    if ran >= SHORTEST_WAIT or record.kind is _WAIT:
        record.waits = is_wait(record, ran)
        if record.waits and record.kind is not _WAIT:
            _be_a_wait(history, record)
    flags, refusals = _flags(record, facts), history.refusals
    if now is not None:
        history.active_at, history.thinking = now, 0.0
    history.running -= history.running > 0
    stats = record.stats or history.find(record.key)
    if stats is not None and history.losses is not None and record.lost:
        record.stats = stats
        history.losses.read_again(record.key, history.news)
    if stats is None:
        _end_first(history, record, facts, flags)
    elif record.stats is None or record.tick < stats.last_end:
        _end_concurrent(history, record, stats, facts)
        if record.debtor is not None:
            settle(history, record, refusals)
        return
    else:
        _end_repeat(history, record, stats, facts, flags, fingerprinter)
        digest, flags = stats.result, stats.flags
        if flags & PENDING:
            history.last_pending = history.tick
    kind = record.kind
    if kind.is_evidence:
        history.errors_in_row = history.errors_in_row + 1 if record.error else 0
    if kind.makes_laps:
        history.add_step(record.key, digest, flags)
    _count_for_tool(history, record, facts, fingerprinter)
    if record.debtor is not None:
        settle(history, record, refusals)


def _be_a_wait(history: History, record: Record) -> None:
    """Take a call for a wait; and of a tool that runs no commands, all calls from now on."""
    if record.kind is not _SHELL:
        history.tool_stats(record.resolved.tool.digest).waits = True
    record.kind = _WAIT


def _flags(record: Record, facts: OutcomeFacts) -> int:
    """Return the flags of a run; see ``call_stats``."""
    flags = 0 if facts.is_error else SUCCESS
    if facts.pending:
        flags += PENDING
    if facts.transient:
        flags += TRANSIENT
    if facts.over or (facts.is_error and not facts.transient):
        flags += OVER
    if facts.brief:
        flags += BRIEF
    if not flags & SUCCESS:
        return flags
    kind, moves_cursor = record.kind, record.resolved.tool.moves_cursor
    if facts.empty and (kind is _READ or kind is _SHELL):
        flags += EMPTY
    if kind is _WRITE and not moves_cursor:
        flags = flags & ~PENDING | ACTED
    elif facts.brief and (kind is _UNKNOWN or moves_cursor):
        flags += ACKNOWLEDGED
    return flags


def _end_first(history: History, record: Record, facts: OutcomeFacts, flags: int) -> None:
    record.sameness = _FIRST
    record.news = news = _is_news(history, record, facts, unseen=True)
    changed = news and record.kind.writes and not record.error
    before_news, before_changes, before_waits = record.since
    _count(history, record, changed=changed)
    if news and record.gap > SHORTEST_PAUSE:
        history.add_pause(record.gap - record.thinking)
    history.keep_once(record.key, pack_line(
        facts.digest, history.idle, history.wall, record.index & BITS_32, history.tick & BITS_32,
        before_news + news, before_changes + changed, before_waits + record.waits, flags,
    ))  # fmt: skip


def _end_concurrent(history: History, record: Record, stats: CallStats, facts: OutcomeFacts) -> None:
    """End a call that was started before the last equal call ended: it is no evidence."""
    record.stats, record.concurrent = stats, True
    record.sameness = _SAME if stats.result == facts.digest else _DIFFERENT
    unseen = _is_unseen(history, record.key, facts.digest, stats.result)
    record.news = _is_news(history, record, facts, unseen=unseen)
    _count(history, record, changed=record.news)
    stats.add(news=record.news, changed=record.news, waited=record.waits)
    stats.successes += not record.error
    if record.sameness is _DIFFERENT:  # either result may be the current state
        stats.reset_evidence(history.wall)
        stats.result = facts.digest


def _end_repeat(  # noqa: PLR0917 - the parts of one step; it is called once a call
    history: History,
    record: Record,
    stats: CallStats,
    facts: OutcomeFacts,
    flags: int,
    fingerprinter: Fingerprinter,
) -> None:
    record.changed_between = history.changes != stats.changes
    record.sameness, values = _compare(record, stats, facts, fingerprinter)
    unseen = _is_unseen(history, record.key, facts.digest, stats.result)
    if values is not None:  # a result that comes back under a new id is no news either
        unseen = _is_unseen(history, record.key, values ^ _VALUES_SALT, 0) and unseen
    if record.kind in _MAY_ACT and flags & _RECEIPT and not record.error and facts.digest != stats.result:
        _read_receipt(record, stats, facts, fingerprinter, unseen=unseen)
        if record.acted:
            flags = flags & ~_RECEIPT | ACTED
    record.news = _is_news(history, record, facts, unseen=unseen)
    # Another result of the same call proves a change, but not numbers alone: a clock would excuse every repeat.
    proof = record.sameness is not _SAME
    changed = record.news and record.sameness is not _ALIKE and (proof or (not record.error and record.kind.writes))
    if record.limit is None:  # the model had lost the last result
        stats.reset_evidence(history.wall)
    else:
        weigh(history, record, stats, flags)
    if record.changed_between and history.changed_by:
        learn(history, record, stats, same=record.sameness is _SAME)
    if record.sameness is not _SAME:
        stats.result = facts.digest
    news, changes, waits = record.since
    stats.news += news
    stats.changes += changes
    stats.waits += waits
    stats.add(news=record.news, changed=changed, waited=record.waits)
    _count(history, record, changed=changed)
    stats.last_end, stats.last_index, stats.flags = history.tick, record.index, flags
    stats.idle, stats.wall = history.idle, history.wall
    stats.refused, stats.lifted_at, stats.retry_after = 0, 0, facts.retry_after
    stats.successes += not record.error


def _read_receipt(
    record: Record, stats: CallStats, facts: OutcomeFacts, fingerprinter: Fingerprinter, *, unseen: bool
) -> None:
    """Set ``record.acted`` if a short result differs from the last one in an id only: it was done again."""
    if facts.found is not None:
        record.acted = facts.found.acted
        return
    if record.sameness is _ALIKE and not unseen:  # nothing but ids
        record.sameness = _SAME
    ids = fingerprinter.of(ids_of(facts.data))
    record.acted = record.sameness is _SAME and stats.ids not in {0, ids}
    stats.ids = ids


def _compare(
    record: Record, stats: CallStats, facts: OutcomeFacts, fingerprinter: Fingerprinter
) -> tuple[Sameness, int | None]:
    """Compare the result with the last one of this call. Return the fingerprint of its values too, if one was made."""
    if facts.digest == stats.result:
        return _SAME, None
    if facts.found is not None:
        return facts.found.sameness, None
    tool, last = record.resolved.tool, stats.details
    stats.details = now = detailed_fingerprints(
        facts.data, fingerprinter, volatile_keys=tool.contract.volatile, mask=not tool.takes_next,
        is_error=facts.is_error,
    )  # fmt: skip
    values = (now.with_durations if record.changed_between else now.without_durations).values
    if last is None:
        return _DIFFERENT, values
    sameness = compare(last, now, record.kind, moves_cursor=tool.moves_cursor, changed=record.changed_between)
    return sameness, values


def _is_news(history: History, record: Record, facts: OutcomeFacts, *, unseen: bool) -> bool:
    """Return True if an outcome is news. ``unseen``: the call never gave this result, byte for byte or masked."""
    if record.child_news:
        return True
    if facts.found is not None:
        return facts.found.news
    tool = record.resolved.tool
    if not record.error:
        # A number that was never seen is what was looked for.
        has_new_number = record.sameness is _ALIKE and (tool.takes_next or record.kind.may_progress)
        is_new = has_new_number or record.sameness not in _NOT_NEW
        return unseen and is_new and record.kind is not _THINK
    shape = (facts.shape or facts.digest) ^ tool.digest  # a bare exit code has no shape
    if shape in history.shapes:
        return False
    history.shapes = kept(history.shapes, shape, MOST_PAIRS)
    return True


def _is_unseen(history: History, key: int, result: int, last: int) -> bool:
    """Return True if the call never gave this result, and remember it. ``last``: the result of its last run."""
    if result == last:
        return False
    number = pair(key, result)
    unseen = number not in history.pairs
    history.pairs = kept(history.pairs, pair(key, last), MOST_PAIRS)
    history.pairs = kept(history.pairs, number, MOST_PAIRS)
    return unseen


def pair(key: int, result: int) -> int:
    """Return one number of 64 bits for a call with a result that it has had."""
    return (key * 31 + result) & _64_BITS


def _count(history: History, record: Record, *, changed: bool) -> None:
    """Move the turn's counters at the end of a call."""
    history.tick += 1
    if changed:
        history.change(record.resolved.tool.digest)
    history.waits += record.waits
    if record.news:
        history.news += 1
        history.no_news_in_row = 0
        if not (history.independent and refused_call_is_independent(history, record)):
            history.refusals = 0
    elif not record.concurrent and record.kind.is_evidence and not (history.losses and record.lost):
        part = strength(record, same=record.sameness is _SAME)
        history.no_news_in_turn += part
        if record.sameness is not _ALIKE:
            history.no_news_in_row += part


def _count_for_tool(history: History, record: Record, facts: OutcomeFacts, fingerprinter: Fingerprinter) -> None:
    """Update the rows of the call's tool."""
    tool = record.resolved.tool.digest
    if record.registered is False and tool not in history.unknown_answered:
        if record.error:
            history.unknown_calls += 1
        else:
            history.unknown_answered = kept(history.unknown_answered, tool, MOST_REMEMBERED)
    elif not record.error:
        history.unknown_calls = 0
    if record.sameness is _FIRST and record.kind.is_evidence:
        stats = history.tools.get(tool) or history.tool_stats(tool)
        if record.error:
            stats.add_failure(record, facts, history.changes, history.tick)
        else:
            stats.add_result(record, facts, history.tick, fingerprinter)
    elif not record.error and tool in history.tools:
        history.tools[tool].errors = 0
