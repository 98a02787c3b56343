"""Tools that code declares: at any time, in any number, and under the settings of the policy."""

from __future__ import annotations

import sys

import pytest

from otel_loopguard.engine.policy.policy import Policy, ToolContract
from otel_loopguard.engine.tools.contracts import Contracts
from otel_loopguard.engine.tools.declared import MOST_NAMES, DeclaredTools
from otel_loopguard.engine.vocabulary import Hints, Kind, ToolCall
from otel_loopguard.guard.guard import Guard


def kind(contracts, name, hints=None):
    return contracts.resolve(ToolCall(name, {}, hints=hints)).kind


@pytest.fixture
def declared():
    return DeclaredTools()


def test_a_setting_of_the_policy_wins_over_the_one_in_code(declared):
    """Setting by setting, and also where the policy's glob is general and the declared name exact."""
    declared.add("get_status", ToolContract(kind="poll", cap=7))
    contracts = Contracts(Policy(tools={"get_*": ToolContract(kind="read")}), declared=declared)
    contract = contracts.tool("get_status", None).contract
    assert (contract.kind, contract.cap) == (Kind.READ, 7)


def test_a_declared_name_is_no_pattern(declared):
    """It is the name of one tool, with brackets or stars in it."""
    declared.add("get_*", ToolContract(kind="poll"))
    contracts = Contracts(Policy(), declared=declared)
    assert (kind(contracts, "get_*"), kind(contracts, "get_it")) == (Kind.POLL, Kind.READ)


@pytest.mark.parametrize("hints", [None, Hints(read_only=True)])
def test_a_tool_may_be_declared_after_its_first_call(declared, hints):
    """Its next call has the contract, with and without hints of its server; other tools are not made again."""
    contracts = Contracts(Policy(), declared=declared)
    other = contracts.tool("other", hints)
    assert kind(contracts, "look_up", hints) is Kind.READ
    declared.add("look_up", ToolContract(kind="poll"))
    contracts.forget("look_up")
    assert kind(contracts, "look_up", hints) is Kind.POLL
    assert contracts.tool("other", hints) is other


def test_a_tool_that_is_declared_while_it_is_made_has_its_contract(declared):
    """Another thread may declare it between the look at the contracts and the end of making the tool."""
    contracts = Contracts(Policy(), declared=declared)
    of_name = contracts._words.kind_of_name

    def kind_of_name(name):
        declared.add("look_up", ToolContract(kind="poll"))
        contracts.forget("look_up")
        return of_name(name)

    contracts._words.kind_of_name = kind_of_name
    contracts.tool("look_up", None)
    assert kind(contracts, "look_up") is Kind.POLL


def test_names_beyond_the_bound_are_judged_as_undeclared(declared):
    """The first names are kept, and may still be changed; the log says once what happened, and the remedy."""
    warnings = [declared.add(f"look_{number}", ToolContract(kind="poll")) for number in range(MOST_NAMES + 10)]
    declared.add("look_0", ToolContract(kind="read"))
    assert len(list(declared)) == MOST_NAMES
    assert declared.get("look_0").kind is Kind.READ
    assert declared.get(f"look_{MOST_NAMES}") == ToolContract()
    (warning,) = filter(None, warnings)
    assert "give all these tools one name" in warning


def test_declared_tools_stay_when_the_policy_changes(declared):
    """A policy file that is read again does not hold them."""
    guard = Guard()
    guard.share(declared)
    declared.add("look_up", ToolContract(kind="poll"))
    guard.use(Policy(abort_after=3))
    assert kind(guard.compiled.contracts, "look_up") is Kind.POLL


def calls_in(function):
    """The number of functions that are called in this function."""
    count = 0

    def profile(_frame, event, _argument):
        nonlocal count
        count += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(profile)
    try:
        function()
    finally:
        sys.setprofile(before)
    return count


def test_a_declared_name_costs_the_same_however_many_there_are(declared):
    """Declaring a tool and calling it takes as many steps for the thousandth name as for the tenth."""
    contracts = Contracts(Policy(), declared=declared)

    def step(number):
        name = f"look_{number:04}"
        declared.add(name, ToolContract(kind="poll"))
        contracts.forget(name)
        kind(contracts, name)

    counts = [calls_in(lambda number=number: step(number)) for number in range(1_001)]
    assert counts[1_000] <= 1.1 * counts[10]
