"""The contract of a tool, the hints of its server, and the tool behind a dispatcher."""

from __future__ import annotations

import pytest

from otel_loopguard import Guard
from otel_loopguard.engine.policy.policy import Policy, ToolContract
from otel_loopguard.engine.rule import Rule
from otel_loopguard.engine.tools.contracts import Contracts
from otel_loopguard.engine.vocabulary import Hints, Kind, Outcome, ToolCall


def kind(tool, arguments=None, hints=None, **tools):
    """Return the kind of a call under a policy with these contracts."""
    return Contracts(Policy(tools=tools)).resolve(ToolCall(tool, arguments or {}, hints=hints)).kind


def test_declared_before_hinted_before_inferred():
    """The policy decides first, the hints of the server second, the name last."""
    hints = Hints(read_only=True)
    assert kind("tool_71", hints=hints) is Kind.READ
    assert kind("search", hints=Hints(read_only=False)) is Kind.WRITE
    assert kind("get_status", hints=hints) is Kind.POLL
    assert kind("tool_71", hints=hints, **{"tool_*": ToolContract(kind="write")}) is Kind.WRITE


def test_the_more_specific_glob_wins():
    """Contracts of several globs add up; if they differ, the longer glob wins."""
    contracts = Contracts(
        Policy(
            tools={"*": ToolContract(cap=9), "read_*": ToolContract(kind="read", cap=5), "read_x": ToolContract(cap=1)}
        )
    )
    assert [contracts.tool(name, None).contract.cap for name in ("other", "read_y", "read_x")] == [9, 5, 1]
    assert contracts.tool("read_x", None).kind is Kind.READ


def test_limits_of_several_globs_add_up():
    """A limit that the more specific glob does not set is that of the general one, also within one mode."""
    general = ToolContract(modes={"generic_repeat": Rule(nudge=4, block=6), "error_repeat": Rule(block=7)})
    specific = ToolContract(modes={"generic_repeat": Rule(block=9)})
    tool = Contracts(Policy(tools={"read_*": general, "read_x": specific})).tool("read_x", None)
    repeat = tool.rules["generic_repeat"]
    assert (repeat.nudge, repeat.block, tool.rules["error_repeat"].block) == (4, 9, 7)


def test_a_dispatcher_is_resolved():
    """A call through a dispatcher is judged as a call of the tool behind it."""
    call = ToolCall("execute-tool", {"server_name": "s", "tool_name": "write_file", "params": {"path": "a"}})
    resolved = Contracts(Policy()).resolve(call)
    assert (resolved.tool.name, resolved.kind) == ("write_file", Kind.WRITE)
    own = Contracts(Policy(tools={"door": ToolContract(route={"tool": "what", "args": "how"})}))
    assert own.resolve(ToolCall("door", {"what": "read_file", "how": {"p": 1}})).arguments == {"p": 1}


def test_the_words_of_the_policy_win():
    """A policy extends the word lists."""
    words = {"read": ("frobnicate",), "write": ("list",), "cursor": ("waltz",), "take": ("grab",)}
    contracts = Contracts(Policy(words=words))
    assert contracts.tool("frobnicate_it", None).kind is Kind.READ
    assert contracts.tool("list_it", None).kind is Kind.WRITE
    tool = contracts.tool("waltz_on", None)
    assert (tool.kind, tool.moves_cursor, tool.takes_next) == (Kind.WRITE, True, False)
    tool = contracts.tool("grab_one", None)
    assert (tool.kind, tool.moves_cursor, tool.takes_next) == (Kind.WRITE, True, True)


def compared(tool, arguments, contracts=None):
    """Return the arguments that a call is compared by."""
    contracts = contracts or Contracts(Policy())
    return contracts.compared(*contracts.resolve(ToolCall(tool, arguments)))[0]


@pytest.mark.parametrize(
    ("tool", "parameter"),
    [
        ("create_order", "request_id"),
        ("create_order", "requestId"),
        ("create_order", "idempotency_key"),
        ("search", "nonce"),
        ("read_file", "explanation"),
        ("create_order", "reasoning"),
        ("tool_71", "thought"),
        ("bash", "description"),
        ("get_status", "purpose"),
    ],
)
def test_a_call_is_compared_without_arguments_that_tell_nothing(tool, parameter):
    """Ids made for the call and reasons for it are left out, if another argument is left."""
    assert compared(tool, {"it": 1, parameter: "x"}) == {"it": 1}
    assert compared(tool, {parameter: "x"}) == {parameter: "x"}
    declared = Contracts(Policy(tools={"*": ToolContract(kind="read")}))
    assert compared(tool, {"it": 1, parameter: "x"}, declared) == {"it": 1, parameter: "x"}


def test_names_of_arguments_run_no_code_if_their_tool_is_declared():
    """Its arguments are compared as they are, whatever their names do when they are compared with others."""
    asked = []

    class Name(str):
        __slots__ = ()

        def __hash__(self):
            asked.append(self)
            return str.__hash__(self)

    contracts, arguments = Contracts(Policy(tools={"*": ToolContract(kind="read")})), {Name("query"): "x"}
    contracts.tool("search", None)
    asked.clear()
    found = [contracts.identify(ToolCall("search", one))[1] for one in (arguments, {"query": "x"}, {"query": "y"})]
    assert asked == []
    assert found[0] == found[1] != found[2]


@pytest.mark.parametrize(
    ("tool", "parameter"),
    [
        ("get_trace", "trace_id"),
        ("approve_request", "request_id"),
        ("search_logs", "correlation_id"),
        ("sequentialthinking", "thought"),
        ("delegate_work", "reasoning"),
        ("final_answer", "explanation"),
        ("create_issue", "description"),
        ("tool_71", "reason"),
        ("search", "query"),
    ],
)
def test_arguments_that_a_tool_takes_for_its_work_stay(tool, parameter):
    """An id that the tool looks up, a thought that it is for, a description that it stores are its content."""
    assert compared(tool, {"it": 1, parameter: "x"}) == {"it": 1, parameter: "x"}


@pytest.mark.parametrize(
    ("tool", "arguments", "compared_by"),
    [
        ("transfer_to_bob", {"reason": "he knows"}, {}),
        ("transfer_to_bob", {"taskDescription": "bill it", "context": "long"}, {}),
        ("handoff", {"agent": "bob", "message": "take over"}, {"agent": "bob"}),
        ("delegate_task", {"agent": "bob", "task": "bill it"}, {"agent": "bob", "task": "bill it"}),
    ],
)
def test_a_hand_off_is_compared_by_its_target(tool, arguments, compared_by):
    """Also if nothing else is left. A task that is delegated is the work."""
    assert compared(tool, arguments) == compared_by


def test_blanks_fold_except_where_they_are_content():
    """Blanks are content in writes, and where a policy counts calls, which promises identical arguments."""
    for policy, tool, folds in (
        (Policy(), "read_file", True),
        (Policy(), "write_file", False),
        (Policy(counting="calls"), "read_file", False),
    ):
        contracts = Contracts(policy)
        assert contracts.compared(*contracts.resolve(ToolCall(tool, {"path": "a"}))) == ({"path": "a"}, folds)


@pytest.mark.parametrize("other", [{"q": "a  b"}, {"q": "a b", "explanation": "y"}, {"q": "a b", "request_id": 2}])
def test_a_policy_that_counts_calls_compares_all_of_the_arguments(other):
    """Arguments with another blank, reason or id are not identical."""
    first = {"q": "a b", "explanation": "x", "request_id": 1}
    with Guard(Policy(counting="calls", modes={"generic_repeat": Rule(block=2)})).turn() as turn:
        assert [turn.begin(ToolCall("search", it)).runs for it in (first, other, first)] == [True, True, False]


def test_an_error_may_repeat_an_argument_that_tells_nothing():
    """The shape of an error has none of the call's arguments, those that are not compared included."""
    with Guard().turn() as turn:
        records = []
        for nonce in ("alpha", "beta"):
            call = ToolCall("search", {"q": nonce[0], "nonce": nonce})
            turn.begin(call)
            records.append(turn.end(call, Outcome(error=f"nonce {nonce} was used before")).record)
    assert [record.news for record in records] == [True, False]
