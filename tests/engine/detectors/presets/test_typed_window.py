"""typed_window: five named modes over a rolling window of (time, tool, fingerprint of the arguments)."""

from __future__ import annotations

import json

from .driver import Driven


def mode(decision):
    return json.loads(decision.message)["mode"]


def test_the_result_of_a_refused_call_names_the_mode_and_nothing_else():
    """The model reads {error, mode} as the tool's result."""
    driven = Driven("typed_window")
    while (decision := driven("read_file", {"path": "a"})).runs:
        pass
    assert json.loads(decision.message) == {"error": "tool_loop_detected", "mode": "generic_repeat"}


def test_generic_repeat_at_the_nth_equal_call():
    """N - 1 equal calls in the window run, the Nth does not, whatever they return."""
    driven = Driven("typed_window")
    assert [driven.runs("read_file", {"path": "a"}) for _ in range(5)] == [True] * 4 + [False]


def test_unknown_tool_repeat_counts_every_name():
    """The Mth call in the window to tools that do not exist is refused, whatever their names are."""
    driven = Driven("typed_window")
    known = {"real"}
    assert driven.runs("made_up_1", known=known)
    assert driven.runs("real", {"x": 1}, known=known)
    assert driven.runs("made_up_2", known=known)
    assert mode(driven("made_up_3", known=known)) == "unknown_tool_repeat"


def test_poll_no_progress_is_more_patient():
    """The limit of polls with one result is K, not N."""
    driven = Driven("typed_window")
    runs = [driven.runs("get_job_status", {"id": 7}, result="queued") for _ in range(9)]
    assert runs == [True] * 9
    assert mode(driven("get_job_status", {"id": 7})) == "poll_no_progress"


def test_a_poll_whose_state_moves_is_not_refused():
    """Polls without a limit run, alone or in turn with a wait, as long as each brings another result."""
    driven = Driven("typed_window", "[modes.global_circuit_breaker]\nblock = 0\n")
    assert all(driven.runs("get_job_status", {"id": 7}, result=f"{n} of 50 done") for n in range(50))
    driven.now += 61
    for n in range(9):
        assert driven.runs("sleep", {"seconds": 1}, result="slept")
        assert driven.runs("get_job_status", {"id": 8}, result=f"step {n}")


def test_a_poll_is_counted_from_its_last_other_result():
    """After a move K equal results are allowed again, the first of them included."""
    driven = Driven("typed_window")
    states = ["queued"] * 8 + ["running"] * 9
    assert all(driven.runs("get_job_status", {"id": 7}, result=state) for state in states)
    assert mode(driven("get_job_status", {"id": 7})) == "poll_no_progress"


def test_a_state_that_comes_back_has_moved():
    """Each result is compared with the one before it only."""
    driven = Driven("typed_window")
    assert all(driven.runs("get_job_status", {"id": 7}, result=state) for state in ["up", "down"] * 12)


def test_polls_with_other_arguments_are_counted_separately():
    """Another job's moves do not help this one."""
    driven = Driven("typed_window")
    for number in range(9):
        assert driven.runs("get_job_status", {"id": 7}, result="queued")
        assert driven.runs("get_job_status", {"id": 8}, result=f"step {number}")
    assert mode(driven("get_job_status", {"id": 7})) == "poll_no_progress"


def test_polls_and_waits_in_turn_without_a_move_are_an_alternation():
    """The third lap of a wait and a poll with one result is refused."""
    driven = Driven("typed_window")
    names = ["get_job_status", "sleep"] * 3
    assert [driven.runs(name, {"a": 1}, result=name) for name in names] == [True] * 5 + [False]


def test_ping_pong_after_j_cycles():
    """The call that would complete the Jth alternation of two calls is refused."""
    driven = Driven("typed_window")
    for _ in range(2):
        assert driven.runs("read_file", {"path": "a"})
        assert driven.runs("read_file", {"path": "b"})
    assert driven.runs("read_file", {"path": "a"})
    assert mode(driven("read_file", {"path": "b"})) == "ping_pong"


def test_a_third_call_between_ends_the_alternation():
    """Two laps, another call, and one more lap are no ping-pong."""
    driven = Driven("typed_window")
    assert all(driven.runs("read_file", {"path": name}) for name in "ababcab")


def test_the_breaker_opens_at_g_calls():
    """The Gth call of any kind in the window is refused."""
    driven = Driven("typed_window")
    assert all(driven.runs(f"tool_{number}") for number in range(29))
    assert mode(driven("tool_29")) == "global_circuit_breaker"


def test_limits_per_tool():
    """A tool's own limit applies to this tool only."""
    driven = Driven("typed_window", "[tools.read_file.modes.generic_repeat]\nblock = 2\n")
    assert [driven.runs("read_file", {"path": "a"}) for _ in range(2)] == [True, False]
    assert [driven.runs("other_file", {"path": "a"}) for _ in range(5)] == [True] * 4 + [False]


def test_all_five_limits_can_be_set():
    """N, M, K, J, G and the window can be set in a policy."""
    limits = {"generic_repeat": 2, "unknown_tool_repeat": 1, "poll_no_progress": 3, "ping_pong": 2}
    more = "window = 5.0\n" + "".join(f"[modes.{name}]\nblock = {limit}\n" for name, limit in limits.items())
    driven = Driven("typed_window", more + "[modes.global_circuit_breaker]\nblock = 7\n")
    assert mode(driven("nobody", known={"x"})) == "unknown_tool_repeat"
    assert [driven.runs("job_status", {}, result="queued") for _ in range(3)] == [True, True, False]
    driven.now += 6
    assert [driven.runs("read_x", {}) for _ in range(2)] == [True, False]
