"""Make one row for each loop of a turn: ``search_orders x49: 2 ran, 10 refused, run ended at 13``.

A budget that is spent has a row of its own: ``budget tree.requests: told at call 9, tools withdrawn at call 12 of 40``.

``rows`` serves calls of any source: those that the guard has refused (``run``), and recorded calls that all ran, of
which ``guarded`` says what a guarded turn does (``watch``, ``replay``, the HTML report).
"""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple

from otel_loopguard.cli.output import counted
from otel_loopguard.cli.replay.judge import shown_tool
from otel_loopguard.engine.vocabulary import Action

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

    from otel_loopguard.cli.replay.recorded_turn import JudgedCall

RAN, REUSED, REFUSED, ENDED, AFTER = "ran", "given an earlier result", "refused", "ended", "after the end"
"""The fates of a call. ``ENDED``: the run ends before it. ``AFTER``: the turn is over, so it is not made."""
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
    """``ABORT`` if the run ends at this call, ``CONCLUDE`` if the tools are withdrawn after it."""
    is_observed: bool = False
    """True if it ran because the policy only observes."""
    is_nudged: bool = False
    """True if it ran, and its model is told something."""
    would_be_refused: bool = False
    """True if it was made, and a guard would refuse it."""
    ends_if_it_calls_on: bool = False
    """True if the run ends at this call, of a model that calls although its tools are withdrawn."""
    budget: str = ""
    """The budget that the call or its result was beyond, such as ``tree.cost``."""


class Figures(NamedTuple):
    """The numbers of a guarded turn."""

    ran: int
    """The number of calls that run."""
    refused: int
    """The number of calls that are refused."""
    end: int | None
    """The position of the last call if the turn ends: the run is ended at it, or the tools are withdrawn after it.

    None if the turn goes on, -1 if it has ended in an earlier part.
    """


class GuardedTurn(NamedTuple):
    """A recorded turn, or a part of it, as the guard would have had it.

    Where the tools are withdrawn, it ends if the model answers. No recording tells whether it would.
    """

    figures: Figures
    rows: list[str]
    is_concluded: bool = False
    """True if the turn ends because the tools are withdrawn."""
    budgets: Sequence[str] = ()
    """The rows of its budgets."""
    if_it_calls_on: Figures | None = None
    """The numbers if the model goes on as recorded without tools, and is then ended; else None."""


def guarded(
    folded: Iterable[JudgedCall],
    made: Iterable[JudgedCall],
    *,
    withdraws: bool,
    is_over: bool = False,
    was_guarded: bool = False,
) -> GuardedTurn:
    """Return these recorded calls as a guarded turn has them.

    ``folded``: the calls as recorded ones, each of which has run. ``made``: the same calls in a guarded turn.
    ``withdraws``: the guard reads the model's requests, so it can withdraw the tools.
    ``is_over``: the turn has ended in an earlier part. ``was_guarded``: what follows an end was made all the same.
    """
    judged = sorted(made, key=attrgetter("position"))
    endings = (Action.CONCLUDE, Action.ABORT) if withdraws else (Action.ABORT,)
    fates, at = ([AFTER] * len(judged), None) if is_over else _fates(judged, () if was_guarded else endings)
    is_concluded = at is not None and _action(judged[at]) is Action.CONCLUDE
    on, on_at = _fates(judged, (Action.ABORT,)) if is_concluded else ([], None)
    calls = []
    recorded = {one.position: one for one in folded}  # one that still runs is in a later part
    for number, (guarded_one, fate) in enumerate(zip(judged, fates, strict=True)):
        one = recorded.get(guarded_one.position, guarded_one)
        trip, action = one.trip, _action(guarded_one)
        calls.append(
            LoopCall(
                shown_tool(one.record.resolved.tool, one.record.registered),
                one.record.arguments,
                "" if trip is None else str(trip.mode),
                trip is not None and trip.verdict > Action.NUDGE and not trip.is_budget,
                fate,
                action if number == at or (was_guarded and action in endings) else None,
                is_nudged=action is Action.NUDGE and fate == RAN,
                would_be_refused=is_refusable(one) and not was_guarded,
                ends_if_it_calls_on=number == on_at,
                budget=trip.reason if trip is not None and trip.is_budget else "",
            )
        )
    end = -1 if is_over else None if at is None else judged[_last(fates)].position
    calls_on = None if on_at is None else _figures(on, judged[on_at].position)
    return GuardedTurn(_figures(fates, end), list(rows(calls)), is_concluded, list(budget_rows(calls)), calls_on)


def _fates(judged: Sequence[JudgedCall], endings: Collection[Action]) -> tuple[list[str], int | None]:
    """Return the fate of each call of a turn that these actions end, and the number of the call at which it ends.

    The other calls of the model's message are made all the same, but those that the executor of an ended run makes.
    """
    fates: list[str] = []
    at = None
    for number, one in enumerate(judged):
        action = _action(one)
        if at is not None:
            step, is_ended = one.call.step, _action(judged[at]) is Action.ABORT
            if step is None or step != judged[at].call.step or (is_ended and not one.call.has_run):
                fates += [AFTER] * (len(judged) - number)
                break
        elif action in endings:
            at = number
        fates.append(_fate(action) if is_refusable(one) else RAN)
    return fates, at


def _action(one: JudgedCall) -> Action:
    return Action.OFF if one.trip is None else one.trip.action


def is_refusable(one: JudgedCall) -> bool:
    """Return True if the call would be refused: one that has run before the guard learns of it cannot be."""
    return _action(one) >= Action.REUSE and not one.call.has_run


def _figures(fates: Sequence[str], end: int | None) -> Figures:
    return Figures(fates.count(RAN), fates.count(REFUSED) + fates.count(REUSED), end)


def _last(fates: Sequence[str]) -> int:
    """Return the number of the last call of a turn that has an end."""
    return (fates.index(AFTER) if AFTER in fates else len(fates)) - 1


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


def budget_rows(calls: Sequence[LoopCall]) -> Iterator[str]:
    """Yield a row for each budget that acts in a turn: what the guard does, and at which calls, counted from 1."""
    by_budget: dict[str, list[tuple[int, LoopCall]]] = {}
    for number, call in enumerate(calls, 1):
        if call.budget and call.fate != AFTER:
            by_budget.setdefault(call.budget, []).append((number, call))
    for budget, beyond in by_budget.items():
        parts = [f"told at call {number:,}" for number, call in beyond if call.is_nudged][:1]
        parts += [f"only observed from call {number:,} on" for number, call in beyond if call.is_observed][:1]
        refused = [number for number, call in beyond if call.fate == REFUSED and not call.ends]
        parts += [f"{counted(len(refused), 'call')} refused from call {refused[0]:,} on"] if refused else []
        for action, words in _ENDINGS:
            parts += [f"{words} call {number:,}" for number, call in beyond if call.ends is action][:1]
        if parts:
            yield f"budget {budget}: {', '.join(parts)} of {len(calls):,}"


_ENDINGS = ((Action.CONCLUDE, "tools withdrawn at"), (Action.ABORT, "run ended at"))


def _row(calls: list[LoopCall]) -> str:
    tools = list(dict.fromkeys(call.tool for call in calls))
    names = ", ".join(tools[:_MOST_TOOLS]) + (", ..." if len(tools) > _MOST_TOOLS else "")
    number = {fate: sum(call.fate == fate for call in calls) for fate in (RAN, REUSED, REFUSED)}
    parts = [f"{number[RAN]:,} ran"]
    observed, nudged = sum(call.is_observed for call in calls), sum(call.is_nudged for call in calls)
    if observed:
        parts.append(f"{observed:,} only observed")
    elif nudged and not (number[REUSED] or number[REFUSED]):  # else these say more
        parts.append(f"the model told {counted(nudged, 'time')}")
    parts += [f"{number[fate]:,} {fate}" for fate in (REUSED, REFUSED) if number[fate]]
    endings = [call.ends for call in calls]
    for action, words in _ENDINGS:
        if action in endings:
            parts.append(f"{words} {endings.index(action) + 1:,}")
    at = next((number for number, call in enumerate(calls, 1) if call.ends_if_it_calls_on), None)
    further = "" if at is None else f"; if the model calls on, the run ends at {at:,}"
    would = sum(call.would_be_refused for call in calls)
    figure = f" ({would:,} of {len(calls):,} would have been refused)" if would else ""
    return f"{names} x{len(calls):,}: {', '.join(parts)}{further}{figure}"
