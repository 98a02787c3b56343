"""recipe_step: within one step of a recipe a composio_* call gets its earlier result again."""

from __future__ import annotations

from .driver import Driven


def test_the_earlier_result_is_given_again():
    """The second equal call does not run; the model gets the result of the first."""
    driven = Driven("recipe_step")
    assert driven.runs("composio_execute", {"tool_slug": "GMAIL_SEND", "arguments": {"to": "a"}}, result="sent 17")
    decision = driven("composio_execute", {"tool_slug": "GMAIL_SEND", "arguments": {"to": "a"}})
    assert (str(decision.action), decision.result) == ("reuse", "sent 17")


def test_it_is_given_as_often_as_it_is_asked_for():
    """Every further repeat reuses the same result, and the run never ends."""
    driven = Driven("recipe_step")
    driven("composio_search", {"q": 1}, result="one")
    assert [driven("composio_search", {"q": 1}).result for _ in range(20)] == ["one"] * 20


def test_only_exact_repeats_count():
    """Other arguments, however similar, run."""
    driven = Driven("recipe_step")
    assert driven.runs("composio_search", {"query": "weather in Oslo"})
    assert driven.runs("composio_search", {"query": "weather in Oslo?"})


def test_other_tools_are_left_alone():
    """Tools with other names are never refused."""
    driven = Driven("recipe_step")
    assert all(driven.runs("read_file", {"path": "a"}, result="same") for _ in range(30))
    assert all(driven.runs("my_composio_tool", {"path": "a"}, result="same") for _ in range(30))


def test_the_next_step_runs_it_again():
    """A turn is one recipe step; calls of other steps do not count."""
    driven = Driven("recipe_step")
    driven("composio_execute", {"tool_slug": "A"}, result="first")
    driven.next_turn()
    assert driven.runs("composio_execute", {"tool_slug": "A"})


def test_after_a_failure_it_simply_runs_again():
    """There is nothing to reuse, and no sentence; the first result that comes is reused from then on."""
    driven = Driven("recipe_step")
    call = {"tool_slug": "A", "arguments": {}}
    for _ in range(5):
        assert driven.runs("composio_execute", call, error="503 service unavailable")
        assert driven.nudge is None
    assert driven.runs("composio_execute", call, result="sent 17")
    assert driven.nudge is None
    assert driven("composio_execute", call).result == "sent 17"


def test_it_never_nudges_or_refuses():
    """A repeat is answered with the earlier result, and nothing else is ever done."""
    driven = Driven("recipe_step")
    actions = {str(driven("composio_x", {"a": number % 3}, result="same").action) for number in range(30)}
    assert actions == {"None", "reuse"}
