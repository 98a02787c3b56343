"""``retry_limit``: a tool's declared cap for the turn. Told at three quarters of it, refused beyond it."""

from __future__ import annotations

from otel_loopguard import ToolCall, ToolContract

from .driver import LONG, Driven

MODE = "retry_limit"


def called(driven, times, tool="search"):
    for number in range(times):
        driven(tool, f"{LONG} {number}", query=number)
    return driven


def test_it_is_told_at_three_quarters_and_refused_beyond_the_cap():
    """New or not, whatever the calls return."""
    driven = called(Driven(tools={"search": ToolContract(cap=4)}), 6)
    assert (driven.told(MODE), driven.refused(MODE)) == ([3], [5, 6])
    assert "3 of the 4 calls of search that a turn may make are used up." in driven.said[2].decision.message
    assert "search may be called 4 times in a turn, and has been." in driven.said[4].decision.message


def test_there_is_no_cap_by_default():
    """Caps cannot tell work from loops."""
    assert called(Driven(MODE), 200).quiet


def test_each_tool_has_its_own():
    """A glob caps each tool that it matches."""
    driven = Driven(MODE, tools={"search_*": ToolContract(cap=4)})
    for tool in ("search_a", "search_b", "read_page"):
        called(driven, 4, tool)
    assert driven.refused() == []
    assert not driven("search_a", LONG).runs
    assert driven("read_page", LONG).runs


def test_calls_count_from_their_start():
    """Parallel calls cannot outrun the cap."""
    turn = Driven(tools={"search": ToolContract(cap=4)}).turn
    calls = [ToolCall("search", {"q": number}) for number in range(6)]
    assert [turn.begin(call).runs for call in calls] == [True] * 4 + [False] * 2


def test_the_share_at_which_it_is_told_is_a_limit():
    """0 switches it off."""
    tools = {"search": ToolContract(cap=10)}
    for share, told in ((0.5, [5, 10]), (0.0, [])):
        driven = called(Driven(MODE, tools=tools, modes={MODE: {"nudge_at_share": share}}), 10)
        assert driven.told()[:1] == told[:1]


def test_a_cap_of_0_allows_no_call():
    """The tool is there, and must not be used."""
    assert called(Driven(tools={"search": ToolContract(cap=0)}), 1).refused(MODE) == [1]
