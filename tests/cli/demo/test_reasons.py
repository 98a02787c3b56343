"""The reason of each call: it is in the guard's own record, and explains the next decision."""

from __future__ import annotations

import re


def reasons(result) -> list[str]:
    return [row.reason.replace("\N{NO-BREAK SPACE}", " ") for row in result.rows]


def test_each_call_has_a_reason(results):
    """There is no call without one."""
    assert [row for result in results.values() for row in result.rows if not row.reason] == []


def test_a_call_runs_in_a_third_lap_because_its_evidence_is_not_complete(results):
    """In the story of the cycle call 8 runs at 75 %: the first repeat came after news, and proved half as much."""
    told = reasons(results["cycle"])
    assert told[4] == "the same result; evidence 25 % (weighs less: 1 new result in between)"
    assert told[6] == "cycle: 3, limit 3"
    assert told[7] == "generic_repeat: 3, nudge limit 2; evidence 75 %"
    assert told[8] == "generic_repeat: 3, limit 3"


def test_a_repeat_after_a_change_says_so(results):
    """The test is run again, with the same result, because a file was written."""
    assert reasons(results["edits_and_tests"])[3] == "the same result, but something changed since"


def test_evidence_grows_to_the_refusal(results):
    """Each poll adds its part; none that ran is at 100 %, and the one that is refused would be."""
    told = reasons(results["poll_no_progress"])
    evidence = [int(found[1]) for found in (re.search(r"evidence (\d+) %", one) for one in told) if found]
    assert evidence == sorted(evidence)
    assert evidence[-1] == 95
    assert told[len(evidence) + 2] == "poll_no_progress: 20, limit 20"


def test_refusals_name_attempt_and_next_step(results):
    """A refusal after others has the number of the attempt, and the two last steps are named."""
    told = reasons(results["abort_after"])
    assert told[2] == "generic_repeat: 3, limit 3"
    assert told[8] == "generic_repeat: 3, limit 3; attempt 9; a conclusion is due"
    assert told[12] == "generic_repeat: 3, limit 3; attempt 13; too many refusals without news"


def test_waiting_is_a_reason():
    """A call that ran because it waited says so, from the record that the guard made of it."""
    from otel_loopguard import Guard
    from otel_loopguard.cli.demo.reasons import reason_of
    from otel_loopguard.engine.vocabulary import Outcome, ToolCall

    now = [0.0]
    turn = Guard(clock=lambda: now[0]).turn()
    for _ in range(2):
        call = ToolCall("read_file", {"path": "a"})
        decision = turn.begin(call)
        turn.end(call, Outcome("text"))
        now[0] += 60
    assert reason_of(decision.record, {}) == "the same result, but it waited"
