"""The contract of a tool, the hints of its server, and the tool behind a gateway."""

from __future__ import annotations

from otel_loopguard.core.model import Hints, Kind, ToolCall
from otel_loopguard.core.policy.policy import Policy, ToolContract
from otel_loopguard.core.tools.contracts import Contracts


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


def test_a_gateway_is_resolved():
    """A call through a gateway is judged as a call of the tool behind it."""
    call = ToolCall("execute-tool", {"server_name": "s", "tool_name": "write_file", "params": {"path": "a"}})
    resolved = Contracts(Policy()).resolve(call)
    assert (resolved.tool.name, resolved.kind) == ("write_file", Kind.WRITE)
    own = Contracts(Policy(tools={"door": ToolContract(route={"tool": "what", "args": "how"})}))
    assert own.resolve(ToolCall("door", {"what": "read_file", "how": {"p": 1}})).arguments == {"p": 1}


def test_the_words_of_the_policy_win():
    """A policy extends the word lists."""
    contracts = Contracts(Policy(words={"read": ("frobnicate",), "write": ("list",)}))
    assert contracts.tool("frobnicate_it", None).kind is Kind.READ
    assert contracts.tool("list_it", None).kind is Kind.WRITE
