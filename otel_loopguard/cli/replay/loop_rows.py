"""Make one row for each loop of a turn: ``search_orders x49: 2 ran, 10 refused, run ended at 13``.

``rows`` serves calls of any source: those that the guard has refused (``run``), and recorded calls that all ran, of
which ``guarded`` says what a guarded turn does (``watch``, ``replay``, the HTML report).
"""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple

from otel_loopguard.cli.replay.judge import shown_tool
from otel_loopguard.engine.vocabulary import Action

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from otel_loopguard.cli.replay.recorded_turn import JudgedCall

RAN, REUSED, REFUSED, ENDED, AFTER = "ran", "given an earlier result", "refused", "ended", "after the end"
"""What happens to a call. ``ENDED``: the run ends before it. ``AFTER``: the turn is over, so it is not made."""
_MOST_TOOLS = 3
_FEW = 2
"""So many different calls are a loop of equal ones. In a loop of more, each call of its tools counts."""


class LoopCall(NamedTuple):
    """A call of a turn."""

    tool: str
    arguments: object
    """Equal for equal arguments."""
    mode: str = ""
    """Empty without a trip."""
    is_loop: bool = False
    """True if it is refused, or would be if the policy or the guard could."""
    fate: str = RAN
    """``RAN``, ``REUSED``, ``REFUSED``, ``ENDED`` or ``AFTER``."""
    ends: Action | None = None
    """``ABORT`` if the run ends at this call, ``CONCLUDE`` if the model is asked for its answer."""
    is_observed: bool = False
    """True if it ran because the policy only observes."""
    would_be_refused: bool = False
    """True if it was made, and a guard would refuse it."""


class GuardedTurn(NamedTuple):
    """What a guarded turn does with the calls of a recorded one, or of a part of it."""

    ran: int
    """The number of calls that run."""
    refused: int
    """The number of calls that are refused."""
    end: int | None
    """The position of the call at which the turn ends; None if it goes on."""
    rows: list[str]


def guarded(
    folded: Iterable[JudgedCall], *, withdraws: bool, is_over: bool = False, was_guarded: bool = False
) -> GuardedTurn:
    """Return what a guarded turn does with these judged calls.

    ``withdraws``: the guard reads the model's requests, so it can withdraw the tools; the model then answers.
    ``is_over``: the turn has ended in an earlier part. ``was_guarded``: what follows an end was made all the same.
    """
    calls: list[LoopCall] = []
    end = -1 if is_over else None
    for one in sorted(folded, key=attrgetter("position")):
        name = shown_tool(one.record.resolved.tool, one.record.registered)
        trip, has_run = one.trip, one.call.has_run
        action = Action.OFF if trip is None else trip.action
        would = action >= Action.REUSE and not has_run
        ends = None
        if end is not None:
            fate = AFTER
        else:
            fate = _fate(action) if would else RAN
            if action is Action.ABORT or (action is Action.CONCLUDE and withdraws):
                ends, end = action, None if was_guarded else one.position
        is_loop = trip is not None and trip.verdict > Action.NUDGE
        mode = "" if trip is None else str(trip.mode)
        calls.append(
            LoopCall(name, one.record.arguments, mode, is_loop, fate, ends, would_be_refused=would and not was_guarded)
        )
    fates = [call.fate for call in calls]
    refused = fates.count(REFUSED) + fates.count(REUSED)
    return GuardedTurn(fates.count(RAN), refused, end, list(rows(calls)))


def _fate(action: Action) -> str:
    if action is Action.REUSE:
        return REUSED
    return ENDED if action is Action.ABORT else REFUSED


def rows(calls: Sequence[LoopCall]) -> Iterator[str]:
    """Yield a row for each loop of a turn. Trips of one mode, or at equal calls, are one loop."""
    groups: list[tuple[set[str], set[tuple[str, object]]]] = []
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


def _row(calls: list[LoopCall]) -> str:
    tools = list(dict.fromkeys(call.tool for call in calls))
    names = ", ".join(tools[:_MOST_TOOLS]) + (", ..." if len(tools) > _MOST_TOOLS else "")
    number = {fate: sum(call.fate == fate for call in calls) for fate in (RAN, REUSED, REFUSED)}
    parts = [f"{number[RAN]:,} ran"]
    if any(call.is_observed for call in calls):  # their number is not known: not each of them is reported
        parts.append("only observed")
    parts += [f"{number[fate]:,} {fate}" for fate in (REUSED, REFUSED) if number[fate]]
    for action, words in ((Action.ABORT, "run ended at"), (Action.CONCLUDE, "tools withdrawn at")):
        if any(call.ends is action for call in calls):
            parts.append(f"{words} {[call.ends for call in calls].index(action) + 1:,}")
            break
    would = sum(call.would_be_refused for call in calls)
    figure = f" ({would:,} of {len(calls):,} would have been refused)" if would else ""
    return f"{names} x{len(calls):,}: {', '.join(parts)}{figure}"
