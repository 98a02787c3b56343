"""Write the sentences for the model: a mode's own sentence, from its row, in the frame that all modes share.

They contain numbers and cleaned names, never an argument or a result.
"""

from __future__ import annotations

import json
import re
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

import orjson

from otel_loopguard.engine.detectors.row import Sentences
from otel_loopguard.engine.detectors.run_budget import MILLION
from otel_loopguard.engine.modes import Mode
from otel_loopguard.engine.quoting import clean_name
from otel_loopguard.engine.tools.lexicon import only_waits
from otel_loopguard.engine.user_messages import UserMessage, note_texts
from otel_loopguard.engine.values.introspect import name_text
from otel_loopguard.engine.vocabulary import Action, Kind, Sameness
from otel_loopguard.interrupts import pass_interrupt

if TYPE_CHECKING:
    from collections.abc import Collection

    from otel_loopguard.engine.detectors.row import Advice
    from otel_loopguard.engine.policy.policy import Policy
    from otel_loopguard.engine.user_messages import Notes
    from otel_loopguard.engine.vocabulary import Record, Trip

_UNKNOWN_MODE = "This looks like a loop of calls to {tool}."
_INSTEAD = "Use what you already have, or do something different."
_DIFFERENT = "Do something different."
_OR_WAIT = "{instead}; {then} it runs again."
_WAIT_TO_ACT = "If it is meant to be repeated, {then} it runs again."
_STOP = "Stop calling tools and give your answer with what you know, or say what is missing."
_INSIST = "If you are sure that it is needed, make the same call again and it will run."
_INSIST_TO_ACT = "If it is meant to be repeated, make the same call again and it will run."
_REFUSED_NOW = "This is refusal {} in a row."
_NOTHING_NEW = "This brought nothing new either."
_WAIT_LONGER = "Wait longer between checks, or say so."
_USER_STOPS = "The user has asked you to stop."
_ANSWER = (
    "No tool can be called for this answer: give your best answer now with what you know, and say what is missing."
)
_ADVISED = ("none", "wait", "stop")
"""With these a nudge is all of the advice."""
_EQUAL = (Sameness.SAME, Sameness.ALIKE)
_OTHER = (Sameness.DIFFERENT, Sameness.PROGRESS)
_THIRD = 3
_MOST_NEAREST = 3
_MOST_COMPARED = 1_000
_NEAR_ENOUGH = 50
_TELLING = re.compile(r"[^\W\d_]{3}")
"""A name with a word in it: t19 is as near to t71 as to any other."""


def refusal(
    trip: Trip,
    policy: Policy,
    refusals: int,
    known_tools: Collection[str] | None = None,
    notes: Notes = (),
) -> str:
    """Write the text that the model reads in place of a result.

    ``refusals``: how many there were since the last news, this one included. ``notes``: what is delivered with it;
    messages of the user are in the field ``user``, a nudge about an earlier call, which has no such authority, in
    ``note``.
    """
    own = _own(policy, f"{trip.mode}.abort", trip) if trip.action is Action.ABORT else None
    message = own or _own(policy, trip.mode, trip)
    if message is None:
        wording = _wording_of(trip, policy)
        counted = [_REFUSED_NOW.format(refusals)] if refusals > 1 else []  # the model counts its attempts, not the runs
        advice = _advice(trip, wording, refusals, known_tools, policy)
        message = " ".join([_filled(wording.refusal, trip), *counted, *advice])
    if policy.refusal == "text":
        return "\n".join([*note_texts(notes), message])
    error = "run_budget_spent" if trip.is_budget else "tool_loop_detected"
    fields: dict[str, object] = {"error": error, "mode": clean_name(str(trip.mode))}
    if policy.refusal != "mode":
        fields |= {"tool": clean_name(trip.tool), "count": trip.count, "limit": trip.limit, "message": message}
        if trip.wait and refusals < _THIRD:
            fields["wait"] = trip.wait
    by_user = [note for note in notes if isinstance(note, UserMessage)]
    if by_user:
        fields["user"] = "\n".join(note_texts(by_user))
    if len(by_user) < len(notes):
        fields["note"] = "\n".join(note for note in notes if isinstance(note, str))
    try:
        return orjson.dumps(fields).decode()
    except TypeError as error:  # half a surrogate in a sentence, a number beyond 64 bits
        pass_interrupt(error)
        return json.dumps(fields)


def nudge(trip: Trip, policy: Policy, known_tools: Collection[str] | None = None) -> str:
    """Write the sentence that the model reads with a result."""
    own = _own(policy, f"{trip.mode}.nudge", trip)
    if own is not None:
        return own
    wording = _wording_of(trip, policy)
    sentence = f"[loopguard] {_filled(wording.nudge, trip)}"
    if wording.advice in _ADVISED:
        return sentence
    return f"{sentence} {_nearest(trip, known_tools) if wording.advice == 'nearest' else _instead(trip, wording)}"


def told(record: Record, trip: Trip, policy: Policy, refusals: int, known_tools: Collection[str] | None = None) -> str:
    """Write the sentence that the model reads with the result of a call that would have been refused, but has run.

    ``refusals``: how many calls would have been refused since the last news, this one included.
    """
    own = _own(policy, f"{trip.mode}.nudge", trip)
    if own is not None:
        return own
    trip, wording = trip._replace(wait=0, insistable=False), _wording_of(trip, policy)  # nothing is withheld
    if wording.tells_by_nudge:
        sentence = _filled(wording.nudge, trip)
    elif record.sameness in _OTHER and not record.news and policy.counting != "calls":
        sentence = _NOTHING_NEW
    else:
        counts = record.sameness in _EQUAL or record.equal_in_row >= trip.count or policy.counting == "calls"
        sentence = _filled(wording.refusal, trip, before=trip.count if counts else trip.count - 1)
    waits = wording.advice == "wait" and refusals < _THIRD
    advice = [_WAIT_LONGER] if waits else _advice(trip, wording, refusals, known_tools, policy)
    return " ".join(["[loopguard]", sentence, *advice])


def conclusion(trip: Trip | None, policy: Policy, refusals: int, *, stopped: bool) -> str:
    """Write the sentence for a model request without tools. ``trip`` is the one that made the conclusion due, if known.

    ``refusals``: how many there were since the last news. ``stopped``: the user has asked the run to stop.
    """
    if stopped:
        return f"[loopguard] {_USER_STOPS} {_ANSWER}"
    if trip is not None:
        own = _own(policy, "conclude", trip._replace(count=refusals, limit=policy.conclude_after))
        if own is not None:
            return own
        if _is_of_request(trip, policy):
            return f"[loopguard] {_filled(_wording_of(trip, policy).refusal, trip)} {_ANSWER}"
    times = "Once" if refusals == 1 else f"{refusals} times in a row"
    tool = clean_name("" if trip is None else trip.tool)
    last = f", the last time with {tool}" if tool != clean_name("") else ""  # the name is not in a turn's bytes
    return f"[loopguard] {times} you repeated calls that brought nothing new{last}. {_ANSWER}"


def about_earlier_call(tool: str, sentence: str) -> str:
    """Name the call in a nudge that could not be delivered with the result of that call."""
    return f"About the earlier call of {clean_name(tool)}: {sentence}"


def reused(trip: Trip) -> str:
    """Write the note for a result that is given again instead of a call."""
    return f"[loopguard] Not called again: this is the earlier result of {clean_name(trip.tool)}."


def no_such_tool(known: Collection[str] | None) -> str:
    """Write the result of a call to a tool that does not exist, with the names of those that do."""
    names = ", ".join(sorted(_clean_names(known or ()))[:50])
    return json.dumps({"error": "unknown_tool", "message": f"There is no such tool. There are: {names}."})


def abort(trip: Trip, policy: Policy, printable_name: str | None, *, attempts: int = 0, refusals: int = 0) -> str:
    """Write the message of the exception that ends the run. It may be logged.

    ``printable_name`` is None for a tool that is not registered, because its name is model output. ``attempts`` counts
    this call, ``refusals`` the refusals of all calls since the last news.
    """
    unnamed = "tools that do not exist" if trip.mode == Mode.UNKNOWN_TOOL_REPEAT else "an unregistered tool"
    called = unnamed if printable_name is None else clean_name(printable_name)
    own = _own(policy, f"{trip.mode}.abort", trip._replace(tool=called))
    if own is not None:
        return own
    if _is_of_request(trip, policy):
        return f"{_filled(_wording_of(trip, policy).refusal, trip)} The run was ended."
    vainly = "" if policy.counting == "calls" else " without getting anywhere"
    whose = " of this call" if attempts >= trip.count else ""  # a mode may count other calls, too
    reason = f" after {refusals} refusal{'' if refusals == 1 else 's in a row'}" if refusals else ""
    return (
        f"The agent called {called} again and again{vainly} "
        f"({clean_name(str(trip.mode))}: {max(attempts, trip.count)} attempts{whose}). The run was ended{reason}."
    )


def _is_of_request(trip: Trip, policy: Policy) -> bool:
    """Return True for a trip that counts no calls."""
    row = policy.row(trip.mode)
    return trip.is_budget or (row is not None and row.at_request is not None)


def _own(policy: Policy, name: str, trip: Trip) -> str | None:
    """Return the policy's own sentence of that name; None if it has none, or it cannot be filled."""
    template = policy.sentences.get(name)
    if template is None:
        return None
    try:
        return _filled(template, trip)
    except (LookupError, ValueError, TypeError, AttributeError) as error:  # all that str.format_map raises
        pass_interrupt(error)
        return None


class _Wording(NamedTuple):
    """The sentences of a trip, by its reason or else by its mode."""

    refusal: str
    nudge: str
    tells_by_nudge: bool
    advice: Advice


def _wording_of(trip: Trip, policy: Policy) -> _Wording:
    row = policy.row(trip.mode)
    if row is None:
        return _Wording(_UNKNOWN_MODE, _UNKNOWN_MODE, tells_by_nudge=False, advice="use")
    own = row.reasons.get(trip.reason or ("alone" if trip.alone else ""), Sentences())
    return _Wording(
        own.refusal or row.refusal or _UNKNOWN_MODE,
        own.nudge or row.nudge or _UNKNOWN_MODE,
        row.tells_by_nudge,
        own.advice or row.advice,
    )


def _advice(
    trip: Trip, wording: _Wording, refusals: int, known_tools: Collection[str] | None, policy: Policy
) -> list[str]:
    """Say one thing to do: of a made up tool, which exist. From the third refusal on that is to answer."""
    insists = trip.insistable and trip.price == 1  # it was not insisted on in vain yet
    insist = _INSIST_TO_ACT if wording.advice == "none" else _INSIST
    if wording.advice == "nearest":
        return [_nearest(trip, known_tools), *([insist] if insists else [])]
    if refusals >= _THIRD or wording.advice == "stop":
        return [f"{insist} Otherwise: {_STOP.lower()}" if insists else _STOP]
    if insists:
        return [insist]
    if trip.wait:
        return [_or_wait(trip, wording, _waiting_tool(known_tools, policy))]
    return [] if wording.advice == "none" else [_instead(trip, wording)]


def _instead(trip: Trip, wording: _Wording) -> str:
    """Say what to do instead. Only a call that reads has something to use."""
    return _DIFFERENT if trip.kind is Kind.WRITE or wording.advice == "different" else _INSTEAD


def _or_wait(trip: Trip, wording: _Wording, waiting_tool: str) -> str:
    sentence = _WAIT_TO_ACT if wording.advice == "none" else _OR_WAIT
    seconds = "a second" if trip.wait == 1 else f"{trip.wait} seconds"
    then = f"if you call {waiting_tool} for {seconds}," if waiting_tool else f"after {seconds}"
    return sentence.format(instead=_instead(trip, wording).rstrip("."), then=then)


def _waiting_tool(known_tools: Collection[str] | None, policy: Policy) -> str:
    """Return the name of the run's tool that waits and does nothing else; empty if none is known."""
    names = map(name_text, islice(known_tools or (), _MOST_COMPARED))
    return next((clean_name(name) for name in names if only_waits(name, policy.words.get("wait", ()))), "")


def _nearest(trip: Trip, known_tools: Collection[str] | None) -> str:
    if not known_tools:
        return _INSTEAD
    from rapidfuzz import process  # noqa: PLC0415 - takes 60 ms, and few programs need it

    names = _clean_names(known_tools)
    called, telling = clean_name(trip.tool), [name for name in names if _TELLING.search(name)]
    near = [name for name, _, _ in process.extract(called, telling, limit=_MOST_NEAREST, score_cutoff=_NEAR_ENOUGH)]
    listed = ", ".join(near or sorted(names)[:10])
    return f"The nearest that exist: {listed}." if near else f"Those that exist: {listed}."


def _clean_names(known: Collection[str]) -> list[str]:
    return [clean_name(name_text(name)) for name in islice(known, _MOST_COMPARED)]


def count_and_limit(trip: Trip) -> tuple[int | str, int | str]:
    """Return both numbers of a trip, a cost in the currency of the prices."""
    if trip.is_budget and trip.reason.endswith(".cost"):
        return f"{trip.count / MILLION:g}", f"{trip.limit / MILLION:g}"
    return trip.count, trip.limit


def _filled(template: str, trip: Trip, before: int | None = None) -> str:
    count, limit = count_and_limit(trip)
    values = {
        "tool": clean_name(trip.tool), "count": count, "limit": limit, "period": trip.period,
        "wait": trip.wait, "before": trip.count - 1 if before is None else before,
        "laps": trip.count - 1 if trip.verdict > Action.NUDGE else trip.count,
    }  # fmt: skip
    return template.format_map(values)
