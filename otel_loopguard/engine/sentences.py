"""Every sentence for the model. They contain numbers and cleaned names, never an argument or a result."""

from __future__ import annotations

import json
from itertools import islice
from typing import TYPE_CHECKING

import orjson

from otel_loopguard.engine.names import clean_name
from otel_loopguard.engine.values.introspect import name_text
from otel_loopguard.engine.words import Action, Kind, Mode, Sameness
from otel_loopguard.interrupts import pass_interrupt
from otel_loopguard.messages import UserMessage, note_texts

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from otel_loopguard.engine.policy.policy import Policy
    from otel_loopguard.engine.words import Record, Trip
    from otel_loopguard.messages import Notes

_REFUSALS = {
    Mode.UNKNOWN_TOOL_REPEAT: "There is no tool named {tool}; this is call {count} to a tool that does not exist.",
    Mode.POLL_NO_PROGRESS: "{tool} was asked {before} times and still reports nothing new.",
    Mode.PING_PONG: "The same two calls were made in turn, {laps} times over, with the same results each time.",
    Mode.CYCLE: "The same {period} calls were made in the same order, {laps} times over, with the same results.",
    Mode.GENERIC_REPEAT: "{tool} was called with these arguments {before} times and returned the same each time.",
    Mode.SIMILAR_QUERY: "{before} queries much like this one were made with {tool}, and brought nothing new.",
    Mode.ERROR_REPEAT: "{tool} failed in the same way {before} times in a row, whatever its arguments were.",
    Mode.SAME_ANSWER: "{tool} has returned the same for {before} different calls, apart from ids and the call's own "
    "arguments.",
    Mode.VOLATILE_REPEAT: "{tool} was called {before} times with these arguments; only ids and numbers differed.",
    Mode.REPEATED_EFFECT: "{tool} has already been done with these arguments; it must not happen twice.",
    Mode.NO_NOVELTY: "The last {before} calls brought nothing new, and this one has been made before.",
    Mode.RETRY_LIMIT: "{tool} may be called {limit} times in a turn, and has been.",
    Mode.GLOBAL_CIRCUIT_BREAKER: "The last {before} calls all failed, and this one has been made before.",
}
_REFUSALS_COUNTED = {
    Mode.POLL_NO_PROGRESS: "{tool} was asked the same {before} times already.",
    Mode.PING_PONG: "The same two calls were made in turn, {laps} times over.",
    Mode.GENERIC_REPEAT: "{tool} was called with these arguments {before} times already.",
    Mode.SIMILAR_QUERY: "{before} queries much like this one were made with {tool}.",
}
"""For policies that count calls: results are not compared, so no sentence mentions them."""
_REFUSALS_FOR_REASON = {
    "unregistered": "No tool named {tool} is registered; this is call {count} to one that is not.",
    "patience": "{tool} has been polled for too long and still reports nothing new.",
    "acted": "This was done {before} times already, acknowledged in the same words each time: "
    "see what it did before it is done again.",
    "no_news": "{before} calls of this turn brought nothing new, and this one has been made before.",
    "window": "{before} tool calls were made in too short a time.",
    "max_calls": "A turn may make {limit} tool calls, and this one has made them.",
}
_NUDGES = {
    Mode.UNKNOWN_TOOL_REPEAT: "There is no tool named {tool}.",
    Mode.POLL_NO_PROGRESS: "This is check {count} without anything new: wait longer between checks, or say so.",
    Mode.PING_PONG: "The same two calls have now been made in turn {laps} times with the same results.",
    Mode.CYCLE: "The same {period} calls have now been made {laps} times over with the same results.",
    Mode.GENERIC_REPEAT: "This returned the same as before, {count} times now.",
    Mode.SIMILAR_QUERY: "This is query {count} of much the same wording; none brought anything the first did not.",
    Mode.ERROR_REPEAT: "{tool} has now failed {count} times in the same way. Its arguments may not be the reason.",
    Mode.SAME_ANSWER: "{tool} has now returned the same for {count} different calls, apart from ids and the call's own "
    "arguments.",
    Mode.VOLATILE_REPEAT: "This is call {count} with these arguments; only ids and numbers differ in what it returns.",
    Mode.REPEATED_EFFECT: "This has now been done {count} times with the same arguments.",
    Mode.NO_NOVELTY: "The last {count} calls brought nothing new.",
    Mode.RETRY_LIMIT: "{count} of the {limit} calls of {tool} that a turn may make are used up.",
    Mode.GLOBAL_CIRCUIT_BREAKER: "The last {count} calls all failed.",
}
_NUDGES_COUNTED = {
    Mode.POLL_NO_PROGRESS: "{tool} was asked the same {count} times now: wait longer between checks, or say so.",
    Mode.PING_PONG: "The same two calls have now been made in turn {laps} times.",
    Mode.GENERIC_REPEAT: "{tool} has now been called {count} times with these arguments.",
    Mode.SIMILAR_QUERY: "This is query {count} of much the same wording.",
}
_NUDGES_FOR_REASON = {
    "acted": "This has now been done {count} times, acknowledged in the same words each time: "
    "see what it did before it is done again.",
    "changed": "This has now returned the same {count} times, whatever was done in between.",
    "changed_alike": "This has now returned the same but for numbers {count} times, whatever was done in between.",
    "any_result": "This is at least call {count} with the same arguments.",
    "no_news": "{count} calls of this turn brought nothing new.",
    "window": "{count} tool calls were made in a short time.",
    "max_calls": "A turn may make {limit} tool calls; this is call {count}.",
    "lost": "You have read this {count} times and lost it to the context limit. Write down what you need.",
    "turns": "The last {count} turns of this conversation brought nothing new. If there is nothing to do, say so.",
    "budget": "{count} of the {limit} tool calls that this turn may make are used up.",
}
_ALONE = "This returned the same as before (call {count}); nothing else was called in between."
_WAIT = "If you wait for it to change, do something else meanwhile: after {wait} seconds it runs again."
_WAIT_TO_ACT = "If it is meant to be repeated, it runs again after {wait} seconds."
_INSTEAD = "Use what you already have, or do something different."
_DIFFERENT = "Do something different."
_STOP = "Stop calling tools and give your answer with what you know, or say what is missing."
_INSIST = "If you are sure that it is needed, make the same call again and it will run."
_COMPLETE = ("acted", "lost", "turns")
"""The nudges for these reasons say what to do."""
_REFUSED_NOW = "This is refusal {} in a row."
_NOTHING_NEW = "This brought nothing new either."
_WAIT_LONGER = "Wait longer between checks, or say so."
_USER_STOPS = "The user has asked you to stop."
_ANSWER = (
    "No tool can be called for this answer: give your best answer now with what you know, and say what is missing."
)
_EQUAL = (Sameness.SAME, Sameness.ALIKE)
_OTHER = (Sameness.DIFFERENT, Sameness.PROGRESS)
_FAILED = (Mode.ERROR_REPEAT, Mode.GLOBAL_CIRCUIT_BREAKER)
_THIRD = 3
_MOST_NEAREST = 3
_MOST_COMPARED = 1_000
_NEAR_ENOUGH = 50


def refusal(
    trip: Trip,
    policy: Policy,
    refusals: int,
    known_tools: Collection[str] | None = None,
    notes: Notes = (),
) -> str:
    """Write the text that the model reads in place of a result.

    ``refusals`` are those since the last news, this one included. Only ``notes`` of the user come as the user's words:
    a nudge about an earlier call must not have that authority, so it has a field of its own.
    """
    own = _own(policy, f"{trip.mode}.abort", trip) if trip.action is Action.ABORT else None
    message = own or _own(policy, trip.mode, trip)
    if message is None:
        template = _template(trip, policy, _REFUSALS_FOR_REASON, _REFUSALS_COUNTED, _REFUSALS)
        counted = [_REFUSED_NOW.format(refusals)] if refusals > 1 else []  # the model counts its attempts, not the runs
        message = " ".join([_filled(template, trip), *counted, *_advice(trip, refusals, known_tools)])
    if policy.refusal == "text":
        return "\n".join([*note_texts(notes), message])
    fields: dict[str, object] = {"error": "tool_loop_detected", "mode": clean_name(str(trip.mode))}
    if policy.refusal != "mode":
        fields |= {"tool": clean_name(trip.tool), "count": trip.count, "limit": trip.limit, "message": message}
        if trip.wait:
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
    template = _template(trip, policy, _NUDGES_FOR_REASON, _NUDGES_COUNTED, _NUDGES)
    if trip.alone and not trip.reason and policy.counting != "calls":
        template = _ALONE
    sentence = f"[loopguard] {_filled(template, trip)}"
    if trip.reason in _COMPLETE:
        return sentence
    return f"{sentence} {_nearest(trip, known_tools) if trip.mode == Mode.UNKNOWN_TOOL_REPEAT else _instead(trip)}"


def told(record: Record, trip: Trip, policy: Policy, refusals: int, known_tools: Collection[str] | None = None) -> str:
    """Write the sentence that the model reads with the result of a call that would have been refused, but has run."""
    own = _own(policy, f"{trip.mode}.nudge", trip)
    if own is not None:
        return own
    trip = trip._replace(wait=0, insistable=False)  # nothing is withheld
    if trip.mode == Mode.REPEATED_EFFECT:
        sentence = _filled(_NUDGES[Mode.REPEATED_EFFECT], trip)
    elif record.sameness in _OTHER and not record.news and policy.counting != "calls":
        sentence = _NOTHING_NEW
    else:
        counts = record.sameness in _EQUAL or record.row >= trip.count or policy.counting == "calls"
        template = _template(trip, policy, _REFUSALS_FOR_REASON, _REFUSALS_COUNTED, _REFUSALS)
        sentence = _filled(template, trip, before=trip.count if counts else trip.count - 1)
    polls = trip.mode == Mode.POLL_NO_PROGRESS and refusals < _THIRD
    return " ".join(["[loopguard]", sentence, *([_WAIT_LONGER] if polls else _advice(trip, refusals, known_tools))])


def conclusion(trip: Trip | None, policy: Policy, refusals: int, *, stopped: bool) -> str:
    """Write the sentence for a model request without tools. ``trip`` is the one that made the conclusion due, if known.

    ``refusals`` are those since the last news; ``stopped``: the user has asked the run to stop.
    """
    if stopped:
        return f"[loopguard] {_USER_STOPS} {_ANSWER}"
    if trip is not None:
        own = _own(policy, "conclude", trip._replace(count=refusals, limit=policy.conclude_after))
        if own is not None:
            return own
    times = "Once" if refusals == 1 else f"{refusals} times in a row"
    tool = clean_name("" if trip is None else trip.tool)
    last = f", the last time with {tool}" if tool != clean_name("") else ""  # the name is not in a turn's bytes
    return f"[loopguard] {times} you repeated calls that brought nothing new{last}. {_ANSWER}"


def about_earlier_call(tool: str, sentence: str) -> str:
    """Say which call a nudge is about that could not be delivered with that call's result."""
    return f"About the earlier call of {clean_name(tool)}: {sentence}"


def reused(trip: Trip) -> str:
    """Write the note for a result that is given again instead of a call."""
    return f"[loopguard] Not called again: this is the earlier result of {clean_name(trip.tool)}."


def no_such_tool(known: Collection[str] | None) -> str:
    """Write the result of a call to a tool that does not exist, with the names of those that do."""
    names = ", ".join(sorted(_clean_names(known or ()))[:50])
    return json.dumps({"error": "unknown_tool", "message": f"There is no such tool. There are: {names}."})


def abort(trip: Trip, policy: Policy, shown_name: str | None, *, attempts: int = 0, refusals: int = 0) -> str:
    """Write the message of the exception that ends the run. It is logged, so it has the tool name that may be shown.

    ``attempts`` are those of this call, ``refusals`` are those of all calls since the last news. Without a name the
    tool does not exist.
    """
    called = "tools that do not exist" if shown_name is None else clean_name(shown_name)
    own = _own(policy, f"{trip.mode}.abort", trip._replace(tool=called))
    if own is not None:
        return own
    vainly = "" if policy.counting == "calls" else " without getting anywhere"
    whose = " of this call" if attempts >= trip.count else ""  # a mode may count other calls, too
    reason = f" after {refusals} refusal{'' if refusals == 1 else 's in a row'}" if refusals else ""
    return (
        f"The agent called {called} again and again{vainly} "
        f"({clean_name(str(trip.mode))}: {max(attempts, trip.count)} attempts{whose}). The run was ended{reason}."
    )


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


def _template(
    trip: Trip, policy: Policy, reasons: Mapping[str, str], counted: Mapping[Mode, str], judged: Mapping[Mode, str]
) -> str:
    """Choose the sentence for the trip: by its reason, by counted calls, else by its mode."""
    template = reasons.get(trip.reason)
    if template is None and policy.counting == "calls":
        template = counted.get(trip.mode)  # type: ignore[call-overload]  # a mode is a text, too
    return template or judged.get(trip.mode, "This looks like a loop of calls to {tool}.")  # type: ignore[call-overload]  # a mode of a user's detector is a text


def _advice(trip: Trip, refusals: int, known_tools: Collection[str] | None) -> list[str]:
    if trip.insistable:
        near = [_nearest(trip, known_tools)] if trip.mode == Mode.UNKNOWN_TOOL_REPEAT else []
        return [*near, _INSIST if refusals < _THIRD else f"{_INSIST} Otherwise: {_STOP.lower()}"]
    if trip.mode == Mode.UNKNOWN_TOOL_REPEAT:
        return [_nearest(trip, known_tools), *([_STOP] if refusals >= _THIRD else [])]
    waiting = _WAIT_TO_ACT if trip.kind is Kind.WRITE or trip.reason == "acted" else _WAIT
    advice = [_filled(waiting, trip)] if trip.wait else []
    if refusals >= _THIRD or trip.reason == "max_calls":
        return [*advice, _STOP]
    return advice if trip.reason == "acted" else [*advice, _instead(trip)]


def _instead(trip: Trip) -> str:
    """Say what to do instead. Only a call that reads has something to use."""
    return _DIFFERENT if trip.kind is Kind.WRITE or trip.mode in _FAILED else _INSTEAD


def _nearest(trip: Trip, known_tools: Collection[str] | None) -> str:
    if not known_tools:
        return _INSTEAD
    from rapidfuzz import process  # noqa: PLC0415 - takes 60 ms, and few programs need it

    names = _clean_names(known_tools)
    called = clean_name(trip.tool)
    near = [name for name, _, _ in process.extract(called, names, limit=_MOST_NEAREST, score_cutoff=_NEAR_ENOUGH)]
    listed = ", ".join(near or sorted(names)[:10])
    return f"The nearest that exist: {listed}." if near else f"Those that exist: {listed}."


def _clean_names(known: Collection[str]) -> list[str]:
    return [clean_name(name_text(name)) for name in islice(known, _MOST_COMPARED)]


def _filled(template: str, trip: Trip, before: int | None = None) -> str:
    values = {
        "tool": clean_name(trip.tool), "count": trip.count, "limit": trip.limit, "period": trip.period,
        "wait": trip.wait, "before": trip.count - 1 if before is None else before,
        "laps": trip.count - 1 if trip.verdict > Action.NUDGE else trip.count,
    }  # fmt: skip
    return template.format_map(values)
