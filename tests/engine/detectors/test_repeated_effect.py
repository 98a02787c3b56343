"""``repeated_effect``: an effect that must happen once is about to happen again. Told and refused at the 2nd."""

from __future__ import annotations

import json

import pytest

from otel_loopguard import Hints, ToolContract

from .driver import LONG, Driven

MODE = "repeated_effect"
ONCE = {"send_*": ToolContract(once=True)}
DESTRUCTIVE = Hints(destructive=True, idempotent=False)


def test_the_2nd_success_of_a_tool_declared_once_is_refused():
    """With the same arguments, whatever was done in between."""
    driven = Driven(tools=ONCE)
    driven("send_mail", "sent", to="a")
    driven("write_file", f"{LONG} of its own", path="a")
    driven("send_mail", "sent", to="a")
    assert driven.refused(MODE) == [3]
    assert (
        "send_mail has already been done with these arguments; it must not happen twice."
        in (json.loads(driven.said[2].decision.message)["message"])
    )


def test_under_a_lower_ceiling_it_is_told():
    """In words that fit a call that has run."""
    driven = Driven(tools=ONCE, action="nudge")
    for _ in range(2):
        driven("send_mail", "sent", to="a")
    assert "This has now been done 2 times with the same arguments." in driven.said[1].decision.message


def test_other_arguments_are_another_effect():
    """A mail to each of ten people."""
    driven = Driven(MODE, tools=ONCE)
    for number in range(10):
        driven("send_mail", "sent", to=number)
    assert driven.quiet


def test_an_effect_that_failed_may_be_tried_again():
    """Only successes count."""
    driven = Driven(MODE, tools=ONCE)
    for _ in range(5):
        driven("send_mail", error="the server is down", to="a")
    driven("send_mail", "sent", to="a")
    assert driven.quiet
    assert not driven("send_mail", "sent", to="a").runs


@pytest.mark.parametrize("tool", ["create_payment", "refund_order", "transfer_funds", "buyShares"])
def test_the_2nd_success_of_a_tool_that_moves_money_is_refused_unless_the_model_insists(tool):
    """By its name alone, whatever its receipt says is processing."""
    driven = Driven()
    for _ in range(2):
        driven(tool, {"id": "pi_7", "status": "processing"}, amount=9)
    assert driven.refused(MODE) == [2]
    assert "the money may have moved already" in driven.said[1].decision.message
    assert driven(tool, {"id": "pi_8", "status": "processing"}, amount=9).runs


@pytest.mark.parametrize("tool", ["get_payment", "list_refunds", "transfer_to_billing"])
def test_looks_at_money_and_hand_offs_are_none_of_its(tool):
    """They move none."""
    driven = Driven(MODE)
    for _ in range(5):
        driven(tool, LONG, id=1)
    assert driven.quiet


def test_once_false_overrules_the_name():
    """The user says that it may be paid twice."""
    driven = Driven(MODE, tools={"pay_*": ToolContract(once=False)})
    for _ in range(3):
        driven("pay_invoice", "paid", id=1)
    assert driven.quiet


def test_tools_that_are_not_declared_are_none_of_its():
    """No name makes a tool one whose effect must happen once."""
    driven = Driven(MODE)
    for _ in range(10):
        driven("send_mail", "sent", to="a")
    assert driven.quiet


def test_a_tool_that_its_server_calls_destructive_is_told_at_the_2nd_and_refused_at_the_5th():
    """The hint is not the user's word."""
    driven = Driven(MODE)
    for _ in range(5):
        driven("drop_row", "dropped", id=1, hints=DESTRUCTIVE)
    assert (driven.told(), driven.refused()) == ([2, 4], [5])


@pytest.mark.parametrize(
    ("contract", "counts"),
    [
        (ToolContract(once=False), False),
        (ToolContract(kind="read"), False),
        (ToolContract(kind="write"), True),
        (ToolContract(cap=99), True),
    ],
)
def test_the_hint_counts_only_where_the_contract_leaves_it_open(contract, counts):
    """``once=False`` and a kind that does not write answer it."""
    driven = Driven(MODE, tools={"drop_*": contract})
    for _ in range(6):
        driven("drop_row", "dropped", id=1, hints=DESTRUCTIVE)
    assert bool(driven.refused()) == counts
