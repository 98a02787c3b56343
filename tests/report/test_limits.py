"""The report at its ends: nothing to show, hostile names, and very many calls."""

from __future__ import annotations

import time

import pytest

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
    assert page.text(".tool-name").startswith("</script><script>document.title='owned'")


def test_100_000_calls_open_and_respond(opened, record_property):
    """The page opens within 3 s; scrolling to the end, filtering and sorting take less than 1 s."""
    page = opened(*made.many())
    took = {}
    for name, act in {
        "open": page.open,
        "scroll": lambda: page.js("(document.getElementById('viewport').scrollTop = 1e9)") and page.drawn(),
        "filter": lambda: page.choose("find", "tool_39"),
        "sort": lambda: page.choose("order", "trips"),
        "all": lambda: page.choose("which", "all"),
        "table": lambda: page.click("#as-table"),
    }.items():
        start = time.perf_counter()
        act()
        took[name] = round(time.perf_counter() - start, 3)
    record_property("seconds", took)
    print(took)
    assert took.pop("open") < 3, took
    assert max(took.values()) < 1, took
    assert page.text("#lead").count("100,000 calls") == 1
    assert page.complaints() == []


def test_one_turn_of_100_000_calls(opened):
    """A turn of any length is one row; its last call is one key away."""
    page = opened(Run("long", 0, [Call("read", n % 3, "refused", "cycle") for n in range(100_000)]))
    page.js("document.getElementById('viewport').focus()")
    page.keys(END)
    assert page.text("#said").startswith("call 100,000 of 100,000: read, call A, refused, cycle")
    assert page.inked("#strips") > 1_000
