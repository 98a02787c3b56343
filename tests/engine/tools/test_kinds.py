"""The kind of a call, by its tool's name and its arguments."""

from __future__ import annotations

import pytest

from otel_loopguard.engine.policy.policy import Policy
from otel_loopguard.engine.tools.contracts import Contracts
from otel_loopguard.engine.tools.lexicon import name_parts
from otel_loopguard.engine.vocabulary import Action, Kind, Outcome, ToolCall
from otel_loopguard.guard.guard import Guard


def kind(tool, arguments=None):
    """Return the kind of a call under the default policy."""
    return Contracts(Policy()).resolve(ToolCall(tool, arguments or {})).kind


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("read_file", Kind.READ),
        ("readFile", Kind.READ),
        ("fs.read_file", Kind.READ),
        ("mcp__github__create_issue", Kind.WRITE),
        ("get_job_status", Kind.POLL),
        ("BashOutput", Kind.POLL),
        ("set_status", Kind.WRITE),
        ("update_ticket_status", Kind.WRITE),
        ("create_monitor", Kind.WRITE),
        ("add_to_wait_list", Kind.WRITE),
        ("check_status", Kind.POLL),
        ("run_and_wait", Kind.WAIT),
        ("wait_and_click", Kind.WAIT),
        ("git_log", Kind.READ),
        ("git_status", Kind.READ),
        ("sleep", Kind.WAIT),
        ("find_and_replace", Kind.WRITE),
        ("log_time", Kind.WRITE),
        ("get_logs", Kind.READ),
        ("check_in_guest", Kind.WRITE),
        ("next_page", Kind.WRITE),
        ("scrollDown", Kind.WRITE),
        ("run_tests", Kind.SHELL),
        ("delegate_work", Kind.AGENT),
        ("sequentialthinking", Kind.THINK),
        ("final_answer", Kind.FINAL),
        ("Finish", Kind.FINAL),
        ("submit_form", Kind.WRITE),
        ("transfer_to_billing", Kind.HANDOFF),
        ("tool_71", Kind.UNKNOWN),
        ("", Kind.UNKNOWN),
    ],
)
def test_the_name_decides(name, expected):
    """Words that poll or wait decide, unless one that writes is before them; else the first verb; else a noun."""
    assert kind(name) is expected


def test_a_prefix_decides_last():
    """A server's name decides only if the tool's own name contains no known word."""
    assert name_parts("status__readFile") == [["read", "file"], ["status"]]
    assert kind("status__read_file") is Kind.READ
    assert kind("search.tool_7") is Kind.READ


@pytest.mark.parametrize(
    ("tool", "arguments", "expected"),
    [
        ("process", {"action": "poll"}, Kind.POLL),
        ("message", {"action": "poll"}, Kind.WRITE),
        ("message", {"action": "read"}, Kind.READ),
        ("str_replace_editor", {"command": "view", "path": "a"}, Kind.READ),
        ("str_replace_editor", {"command": "str_replace", "path": "a"}, Kind.WRITE),
        ("get_out", {"cmd": "rm x"}, Kind.SHELL),
        ("tool_71", {"command": "make && ls"}, Kind.SHELL),
        ("tool_71", {"command": "./run status"}, Kind.SHELL),
        ("tool_71", {"command": "cp a b # wait"}, Kind.SHELL),
        ("tool_71", {"command": "cat a | head -1"}, Kind.READ),
        ("get_shell", {"command": "python fix.py && cat out"}, Kind.SHELL),
        ("workspace", {"command": "create"}, Kind.WRITE),
    ],
)
def test_the_arguments_may_decide(tool, arguments, expected):
    """An action, or a command in a tool without a shell's name, is more specific than the name."""
    assert kind(tool, arguments) is expected


def test_a_tool_that_takes_only_a_thought_thinks():
    """The place of the thought among others is no other content; any other argument is."""
    thought = {"thought": "x", "thoughtNumber": 1, "totalThoughts": 5, "nextThoughtNeeded": True}
    contracts = Contracts(Policy())
    assert contracts.resolve(ToolCall("t17", thought)).kind is Kind.THINK
    assert contracts.resolve(ToolCall("t17", {**thought, "path": "a"})).kind is Kind.UNKNOWN
    assert contracts.resolve(ToolCall("read_file", thought)).kind is Kind.READ


def test_the_same_thought_is_the_same_call_whatever_its_number_is():
    """A tool that thinks is compared without the place of the thought."""
    turn = Guard().turn()
    for number in range(3):
        call = ToolCall("sequentialthinking", {"thought": "x", "thoughtNumber": number})
        decision = turn.begin(call)
        if decision.runs:
            turn.end(call, Outcome("noted"))
    assert decision.action is Action.BLOCK


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("order_status", Kind.POLL),
        ("order_history", Kind.READ),
        ("message_list", Kind.READ),
        ("error_log", Kind.UNKNOWN),
        ("store__price_of", Kind.READ),
        ("store__value_of", Kind.UNKNOWN),
        ("order_pizza", Kind.WRITE),
        ("place_order", Kind.WRITE),
        ("send_message", Kind.WRITE),
        ("log_time", Kind.WRITE),
        ("mark_as_read", Kind.WRITE),
    ],
)
def test_a_word_that_is_also_a_noun_writes_only_as_the_first(name, expected):
    """The word "order" is a verb at the beginning of a name where no later word reads or polls."""
    assert kind(name) is expected
