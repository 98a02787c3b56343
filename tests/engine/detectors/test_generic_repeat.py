"""``generic_repeat``: the same call, the same result, nothing changed in between. Told at the 2nd, refused at the 3rd.

Where a result proves less, both come later.
"""

from __future__ import annotations

import json
from hashlib import md5

import pytest

from otel_loopguard import Action, Outcome, ToolCall

from .driver import LONG, Driven

MODE = "generic_repeat"


@pytest.mark.parametrize("result", ["queued", {"id": "msg-1", "status": "pending"}])
def test_a_receipt_is_no_poll(result):
    """A mail that is queued was sent: the fourth is refused, as of any write."""
    driven = Driven()
    for _ in range(5):
        driven("send_mail", result, to="a")
    assert driven.refused(MODE)[0] == 4


def test_a_new_id_in_each_receipt_says_that_it_was_done_again():
    """Under a name that does not say what it does; a look at one thing shows one id."""
    driven, other = Driven(), Driven()
    for number in range(12):
        driven("t17", {"sid": f"SM{md5(bytes([number])).hexdigest()}", "status": "queued"}, to="a")
        other("t18", {"sid": "SM7a00b5c9d3e", "status": "queued"}, to="a")
    assert 4 <= driven.refused(MODE)[0] <= 7
    assert other.refused() == []


def test_it_is_told_at_the_2nd_and_refused_from_the_3rd_on():
    """Under the default policy, in words that the model can read."""
    driven = Driven()
    for _ in range(4):
        driven(path="a")
    assert (driven.told(), driven.refused(MODE)) == ([2], [3, 4])
    assert driven.said[1].decision.message == (
        "[loopguard] This returned the same as before (call 2); nothing else was called in between. "
        "Use what you already have, or do something different."
    )
    refusal = json.loads(driven.said[2].decision.message)
    assert refusal | {"message": ""} == {
        "error": "tool_loop_detected", "mode": MODE, "tool": "read_page", "count": 3, "limit": 3, "wait": 10,
        "message": "",
    }  # fmt: skip
    assert refusal["message"] == (
        "read_page was called with these arguments 2 times and returned the same each time. Use what you already have, "
        "or do something different; after 10 seconds it runs again."
    )


@pytest.mark.parametrize(
    ("name", "tool", "result", "error", "told", "refused"),
    [
        ("an answer to a question", "read_page", LONG, None, 2, 3),
        ("an error", "read_page", None, "ValueError: no such key", 2, 3),
        ("a transient error", "read_page", None, "503 Service Unavailable", 3, 6),
        ("a write that succeeded", "update_record", LONG, None, 2, 4),
        ("an acknowledgement of an unknown tool", "frobnicate", "ok", None, 5, 9),
        ("an acknowledgement of a cursor that moves", "scroll_down", "ok", None, 5, 9),
        ("a look that found nothing", "list_files", "[]", None, 5, 9),
        ("a command that found nothing", "bash", "no matches", None, 5, 9),
    ],
)
def test_the_limit_depends_on_what_the_result_proves(name, tool, result, error, told, refused):  # noqa: PLR0917 - a table
    """Told at half of the limit."""
    driven = Driven(MODE)
    for _ in range(10):
        driven(tool, result, error=error, path="a")
    assert (driven.told()[0], driven.refused()[0]) == (told, refused), name


def test_after_news_from_reading_it_is_refused_at_the_5th():
    """Told at the 3rd."""
    driven = Driven(MODE)
    for number in range(5):
        driven(path="a")
        driven(path=f"other {number}", result=f"{LONG} {number}")
    assert (driven.told(), driven.refused()) == ([5], [9])
    assert (driven.said[8].decision.trip.count, driven.said[8].decision.trip.limit) == (5, 5)


def test_after_a_change_it_is_never_refused_and_told_at_the_6th_and_12th():
    """Edit and test, edit and test: the test may say something else each time."""
    driven = Driven(MODE)
    for number in range(14):
        driven("run_tests", path="a")
        driven("write_file", f"{LONG} {number}", path="a", text=number)
    assert driven.refused() == []
    assert [(place + 1) // 2 for place in driven.told()] == [6, 12]


def test_a_result_that_changed_twice_by_itself_is_refused_at_the_9th():
    """Told at the 5th equal one."""
    driven = Driven(MODE)
    for state in ("opening", "closing", *["standing"] * 9):
        driven(path="a", result=f"{LONG} The gate is {state}.")
    assert (driven.told(), driven.refused()) == ([7], [11])


def test_after_20_news_it_is_as_good_as_new():
    """A file is read once more, much later."""
    driven = Driven(MODE)
    for _ in range(4):
        driven(path="a")
        for number in range(20):
            driven(path=f"other {number}", result=f"{LONG} {len(driven.said)}")
    assert driven.quiet


def test_other_arguments_and_other_results_are_no_repeat():
    """Reading on, and a result that changes."""
    driven = Driven(MODE)
    for number in range(30):
        driven(path=number, result=f"{LONG} {number}")
        driven("get_weather", f"{LONG} It has {number * 37 % 11} words of another kind.", city="a")
    assert driven.refused() == []


def test_who_waits_is_not_refused():
    """After ten seconds the call runs again."""
    driven = Driven(MODE)
    for pause in (0, 0, 0, 10.5):
        driven(path="a", pause=pause)
    assert driven.refused() == [3]


def test_an_act_is_advised_to_look():
    """What was acknowledged in the same words may have been done."""
    driven = Driven(MODE)
    for _ in range(4):
        driven("update_record", LONG, key="a")
    message = driven.said[3].decision.message
    assert "see what it did before it is done again. If it is meant to be repeated, make the same call again" in message


@pytest.mark.parametrize(("tool", "done"), [("t53", False), ("scroll_down", True)])
def test_a_look_under_an_opaque_name_is_not_said_to_have_been_done(tool, done):
    """A short result of a tool of unknown kind may be an answer."""
    driven = Driven(MODE)
    for _ in range(9):
        driven(tool, "3 of the 4 lie here" if not done else "ok", of="a")
    assert ("was done" in driven.said[8].decision.message, "has now been done" in driven.said[4].decision.message) == (
        done,
        done,
    )


def test_who_waited_long_is_not_told_that_it_repeats_itself():
    """The pause is why it asked again."""
    driven = Driven(MODE)
    for number in range(5):
        driven("read_file", f"{LONG} {number}", path=str(number))
    for pause in (0, 600, 600, 600):
        driven(path="a", pause=pause)
    assert driven.told() == []


def test_parallel_equal_calls_prove_nothing():
    """Neither result was known when the other call was made."""
    driven = Driven(MODE)
    turn = driven.turn
    calls = [ToolCall("read_page", {"path": "a"}) for _ in range(5)]
    assert all(turn.begin(call).runs for call in calls)
    assert [turn.end(call, Outcome(LONG)).message for call in calls] == [None] * 5


def test_a_kind_whose_repetition_is_the_work_is_left_alone():
    """Declared by the user."""
    driven = Driven(tools={"press_key": {"kind": "step"}})
    for _ in range(20):
        driven("press_key", "ok", key="down")
    assert driven.quiet


def test_its_abort_limit_ends_the_run():
    """Under the action ``abort``, refused calls included."""
    driven = Driven(action="abort", modes={MODE: {"abort": 5}})
    actions = [driven(path="a").action for _ in range(5)]
    assert actions[2:] == [Action.BLOCK, Action.BLOCK, Action.ABORT]
