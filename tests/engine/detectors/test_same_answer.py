"""``same_answer``: one tool answers the same whatever the arguments are. Told at the 5th, refused at the 10th."""

from __future__ import annotations

import pytest

from otel_loopguard import Guard, Outcome, Policy, ToolCall

from .driver import LONG, WORDS, Driven

MODE = "same_answer"


def asked(driven, times, tool="find_person", result=LONG):
    for word in WORDS[:times]:
        driven(tool, result, name=word)
    return driven


def test_it_is_told_at_the_5th_and_refused_at_the_10th():
    """New arguments each time, the same long answer."""
    driven = asked(Driven(MODE), 10)
    assert (driven.told(), driven.refused()) == ([5], [10])
    same = "find_person has now returned the same for 5 different calls, apart from ids and the call's own arguments."
    assert same in driven.said[4].decision.message


def test_a_short_answer_is_told_at_the_10th_and_never_refused():
    """It proves little; and only a tool that reads is told at all."""
    driven = asked(Driven(MODE), 20, result="it is the same")
    assert (driven.told(), driven.refused()) == ([10, 20], [])
    assert asked(Driven(MODE), 20, tool="frobnicate", result="it is the same").quiet
    assert asked(Driven(MODE), 20, tool="delegate", result="Done.").quiet


@pytest.mark.parametrize("tool", ["search_notes", "frobnicate", "run_command", "t17"])
def test_an_empty_answer_is_told_at_the_8th_and_refused_at_the_25th(tool):
    """Under any name, however it says that nothing was found."""
    driven = Driven(MODE)
    for number in range(25):
        results = ("[]", "no results", "Nothing found.", {"items": [], "page": number})
        driven(tool, results[number % 4], q=number)
    assert (driven.told(), driven.refused()) == ([8, 16], [25])
    assert "has found nothing for 24 different calls" in driven.said[24].decision.message


def test_the_limit_of_empty_answers_doubles_each_time_that_the_model_insists():
    """A long list may hold what nobody knows: 120 look-ups cost three refusals."""
    driven, ran = Driven(MODE), 0
    while ran < 120:
        driven("find_person", "null", name=ran)
        ran += driven.said[-1].action != "refused"
    assert [place - number for number, place in enumerate(driven.refused())] == [25, 50, 100]


def test_refusals_of_empty_answers_never_end_the_run():
    """Not even of a model that asks no call a second time."""
    driven = Driven()
    for number in range(200):
        driven("find_person", "null", name=f"person {number}")
    assert {str(one.decision.action) for one in driven.said if one.action == "refused"} == {"block"}


def test_an_answer_ends_the_row_of_empty_ones():
    """The limit is 25 again."""
    driven = Driven(MODE)
    for number in range(80):
        driven("find_person", "Ada Lovelace" if number % 20 == 19 else "null", name=number)
    assert driven.refused() == []


def test_nothing_is_an_acknowledgement_of_an_act():
    """``null`` of a tool that may act says that it was done."""
    assert asked(Driven(MODE), 30, tool="frobnicate", result="null").quiet


def test_a_page_number_makes_no_other_answer():
    """The same text on each page, whose number the answer repeats."""
    driven = Driven(MODE)
    for number in range(5, 17):
        driven("list_orders", {"page": number, "text": LONG}, page=number)
    assert (driven.told(), driven.refused()) == ([7], [12])


def test_commands_are_never_refused():
    """Each crate compiles with the same warning."""
    driven = asked(Driven(MODE), 20, tool="run_command")
    assert driven.refused() == []


def test_ids_and_the_calls_own_arguments_make_no_other_answer():
    """An answer that only quotes the question is the same one. The first two are compared by their ends alone."""
    driven = Driven(MODE)
    for word in WORDS[:12]:
        driven("find_person", f"{LONG} There is no person with the name {word}.", name=word)
    assert (driven.told(), driven.refused()) == ([7], [12])


def test_the_model_can_insist_and_the_next_new_call_runs():
    """It judges calls that were never made."""
    driven = asked(Driven(MODE), 10)
    assert driven("find_person", LONG, name=WORDS[9]).runs
    assert asked(Driven(MODE), 14).refused() == [10, 12, 13]


def test_other_answers_are_work():
    """One answer in between begins the row again."""
    driven = Driven(MODE)
    for number, word in enumerate(WORDS * 2):
        driven("find_person", f"{LONG} {'It is a person.' * (number % 4 == 3)}", name=f"{word} {number}")
    assert driven.quiet


def test_writes_may_all_be_acknowledged_alike():
    """Fifty rows are inserted, and each answer is the same."""
    assert asked(Driven(MODE), 20, tool="insert_row").quiet


def in_messages(calls, size, result=LONG):
    """Reads of other pages, so many a message: all calls of a message begin before the first one ends."""
    turn = Guard(Policy(order=(MODE,)), clock=lambda: 0.0).turn()
    said = []
    for first in range(0, calls, size):
        written = turn.tick
        message = [ToolCall("find_person", {"name": f"v{n}"}, written=written) for n in range(first, first + size)]
        begun = [(call, turn.begin(call)) for call in message]
        said += [turn.end(call, Outcome(result)).message if one.runs else "refused" for call, one in begun]
    return [place for place, text in enumerate(said, 1) if text]


def test_calls_of_one_message_are_not_held_against_it():
    """All were written before any answer. The next message knows of them."""
    assert in_messages(12, 12) == []
    assert in_messages(100, 100) == []
    assert in_messages(24, 12, result="[]") == [13]
    assert in_messages(6, 3) == []
    assert in_messages(9, 3)[0] == 7
