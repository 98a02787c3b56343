"""Recorded calls begin and end in the order that their steps and times tell."""

from __future__ import annotations

from typing import Any

import pytest

from otel_loopguard.cli.replay.timeline import Timeline
from otel_loopguard.engine.history.history import History


def events(*calls: dict[str, Any]) -> str:
    """Return the begins and ends of calls named a, b, c, each with the time of the turn then, if there is one."""
    timeline, found = Timeline(History()), []

    def event(name: str) -> str:
        return name if timeline.now is None else f"{name}{timeline.now:g}"

    for name, call in zip("abcdef", calls, strict=False):
        found += [event(f"-{one}") for one in timeline.begin(call.get("at"), call.get("step"))]
        found.append(event(f"+{name}"))
        timeline.add(name, call.get("ended"))
    return " ".join([*found, *(event(f"-{one}") for one in timeline.until(None))])


def test_without_times_each_call_ends_before_the_next():
    """Calls without times and steps come one after the other."""
    assert events({}, {}, {}) == "+a -a +b -b +c -c"


def test_calls_of_one_step_begin_before_any_of_them_ends():
    """The model wrote them together, so none was made with the result of another."""
    assert events({"step": 1}, {"step": 1}, {"step": 2}) == "+a +b -a -b +c -c"


def test_times_tell_which_calls_overlap():
    """A call that began before an earlier one ended was made without its result."""
    found = events({"at": 1, "ended": 9}, {"at": 2, "ended": 3}, {"at": 5, "ended": 6}, {"at": 9, "ended": 10})
    assert found == "+a1 +b2 -b3 +c5 -c6 -a9 +d9 -d10"


def test_calls_of_one_step_that_ran_in_turn_begin_together_all_the_same():
    """The time is that of the last begin or end."""
    found = events({"at": 1, "ended": 2, "step": 1}, {"at": 3, "ended": 4, "step": 1}, {"at": 9, "ended": 9, "step": 2})
    assert found == "+a1 +b3 -a3 -b4 +c9 -c9"


def test_a_call_without_an_end_ends_when_it_began():
    """Its end is not known, so no other call ran while it did."""
    assert events({"at": 1}, {"at": 20}, {"at": 30}) == "+a1 -a1 +b20 -b20 +c30 -c30"


def test_a_call_without_a_begin_begins_at_the_time_of_the_turn():
    """No time passes before it. It ends at its own time."""
    assert events({}, {"at": 5, "ended": 7}, {}, {"ended": 20}, {"at": 21}) == (
        "+a -a +b5 -b7 +c7 -c7 +d7 -d20 +e21 -e21"
    )


def test_an_end_before_the_begin_is_not_believed():
    """The call ends when it began."""
    assert events({"at": 10, "ended": 3}, {"at": 12}) == "+a10 -a10 +b12 -b12"


def test_the_time_never_goes_back():
    """A begin before that of an earlier call comes from another clock: the order of the calls counts."""
    found = events({"at": 100, "ended": 101}, {"at": 41, "ended": 42}, {"at": 50}, {"at": 110, "ended": 111})
    assert found == "+a100 -a101 +b101 -b101 +c101 -c101 +d110 -d111"


@pytest.mark.parametrize("ended", [5, 8])
def test_a_call_that_goes_on_keeps_running(ended):
    """A call is ended once, before the first call that begins after its end."""
    found = events({"at": 0, "ended": 7}, {"at": 1, "ended": ended}, {"at": 2, "ended": 3})
    assert found == f"+a0 +b1 +c2 -c3 {'-b5 -a7' if ended == 5 else '-a7 -b8'}"
