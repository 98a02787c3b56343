"""The report at its ends: nothing to show, hostile names, and very many calls."""

from __future__ import annotations

import pytest

from otel_loopguard.engine.quoting import clean_name
from otel_loopguard.report import Call, Run

from . import made

END = "\ue010"


@pytest.mark.parametrize("runs", [(), (made.plain(),), (Run("x", 0, [Call("a", 1)]),), (Run("none", 0, []),)])
def test_little_or_nothing_to_show(opened, runs):
    """The page has a notice if there is no trip, no call or no turn."""
    page = opened(*runs)
    assert page.text("#lead").startswith(("No loop in", "Nothing was recorded"))
    assert page.complaints() == []


def test_names_are_text_and_nothing_else(opened):
    """Tools, runs, modes and titles that are markup are shown, not obeyed."""
    hostile = made.HOSTILE
    page = opened(Run(hostile, hostile, [Call(hostile, 1, "refused", hostile)] * 3), title=hostile, subtitle=hostile)
    page.click("#over-time-table summary").click("#as-table")
    assert page.complaints() == []
    assert page.requests() == set()
    assert page.js("document.title").startswith("</script><script>")
    assert page.js("document.querySelectorAll('img').length") == 0
    assert page.text(".tool-name") == clean_name(hostile)


CALLS = 100_000
SCREEN = 50_000
"""The steps that drawing one screen may take, whatever the number of calls is."""


def test_the_work_for_100_000_calls_is_a_few_steps_for_each(opened):
    """Opening takes less than 5 steps for each call, each change of the view less than 1, scrolling a screen."""
    page = opened(*made.many(CALLS))
    assert CALLS < page.steps() < 5 * CALLS
    page.js("(document.getElementById('viewport').scrollTop = 1e9)")
    assert 0 < page.drawn().steps() < SCREEN
    for act in (
        lambda: page.choose("find", "tool_39"),
        lambda: page.choose("order", "trips"),
        lambda: page.choose("which", "all"),
        lambda: page.click("#as-table"),
    ):
        assert 0 < act().steps() < CALLS
    assert page.js("document.querySelectorAll('*').length") < 2_000
    assert page.text("#lead").count("100,000 calls") == 1
    assert page.complaints() == []


def test_one_turn_of_100_000_calls(opened):
    """A turn of any length is one row; its last call is one key away."""
    page = opened(Run("long", 0, [Call("read", n % 3, "refused", "cycle") for n in range(100_000)]))
    page.js("document.getElementById('viewport').focus()")
    page.keys(END)
    assert page.text("#said").startswith("call 100,000 of 100,000: read, call A, refused, cycle")
    assert page.inked("#strips") > 1_000
