"""The turn of a call is that of its conversation, else of its agent's span, else of its trace."""

from __future__ import annotations

import pytest

from otel_loopguard.spans.ancestry import Ancestry, SpanAround, TurnName
from otel_loopguard.spans.dialects import SpanView
from otel_loopguard.spans.otlp import ToolSpan
from otel_loopguard.spans.service_name import Service


def call(parent: str, conversation: str | None = None, service: str = "agent", tool: str = "look") -> ToolSpan:
    """A tool span in the trace ``t``."""
    view = SpanView(tool, {})
    return ToolSpan("t", tool, (0, 1), 1, 2, False, "t", view, "call", parent, conversation, Service(service))


def known(turns_by: str = "conversation", most: int = 100, **spans: str | SpanAround) -> Ancestry:
    """The spans of the trace ``t``, by their ids."""
    ancestry = Ancestry(turns_by, most)
    for span, around in spans.items():
        ancestry.add("t", span, around)
    return ancestry


@pytest.mark.parametrize(
    ("spans", "turn"),
    [
        ({}, ("trace", "t")),
        ({"p": "root", "root": ""}, ("trace", "t")),
        ({"p": "run", "run": SpanAround("", agent="a")}, ("agent_span", "t:run")),
        # The outermost agent, unless it calls the other one as a tool.
        ({"p": SpanAround("run", agent="b"), "run": SpanAround("", agent="a")}, ("agent_span", "t:run")),
        (
            {
                "p": SpanAround("tool", agent="b"),
                "tool": SpanAround("run", tool="ask"),
                "run": SpanAround("", agent="a"),
            },
            ("agent_span", "t:p"),
        ),
        ({"p": SpanAround("run", tool="ask"), "run": SpanAround("", agent="a")}, ("agent_span", "t:run")),
        ({"p": "run", "run": SpanAround("", conversation="c", agent="a")}, ("conversation", "c")),
        (
            {"p": SpanAround("run", conversation="near"), "run": SpanAround("", conversation="far")},
            ("conversation", "near"),
        ),
        ({"p": "p"}, ("trace", "t")),  # its own parent
    ],
)
def test_the_spans_around_a_call_tell_its_turn(spans: dict[str, str | SpanAround], turn: tuple[str, str]) -> None:
    """In whatever order they were added."""
    for order in (list(spans), list(reversed(spans))):
        found = known(**{name: spans[name] for name in order}).turn_of(call("p"))
        assert (found.source, found.id) == turn


def test_equal_conversations_of_two_services_are_two_turns() -> None:
    """Their ids may be numbers that each service counts."""
    ancestry = known()
    assert ancestry.turn_of(call("p", "1", "one")) != ancestry.turn_of(call("p", "1", "two"))


def test_a_span_around_one_of_the_same_tool_is_of_the_same_call() -> None:
    """One of them may name its server, too."""
    ancestry = known(p=SpanAround("", tool="files__look"))
    assert ancestry.is_inner(call("p"), "look")
    assert not ancestry.is_inner(call("p"), "list")
    assert not ancestry.is_inner(call("q"), "look")


@pytest.mark.parametrize(
    ("spans", "inside"),
    [
        ({"p": "q", "q": SpanAround("", tool="ask")}, True),
        ({"p": SpanAround("q", "c"), "q": SpanAround("", tool="ask")}, True),
        ({"p": SpanAround("q", agent=""), "q": SpanAround("", tool="ask")}, False),
        ({"p": SpanAround("", agent="a")}, False),
        ({"p": SpanAround("", "c")}, False),
        ({}, False),
    ],
)
def test_work_of_a_tool_is_inside_its_call_and_of_no_agent_in_there(
    spans: dict[str, str | SpanAround], inside: bool
) -> None:
    """An agent that is used as a tool does its own work."""
    assert known(**spans).is_in_tool(call("p")) is inside


def test_the_trace_without_new_spans_for_the_longest_time_is_forgotten() -> None:
    """The number of spans is bounded, also if all are of one trace."""
    ancestry = Ancestry(most=10)
    for number in range(8):
        ancestry.add(f"t{number}", "s", "")
    ancestry.add("t0", "s2", "")
    for number in range(5):
        ancestry.add("new", f"s{number}", "")
        assert len(ancestry) <= 10
    assert (ancestry.spans_in("t0"), ancestry.spans_in("t1"), ancestry.spans_in("new")) == (2, 0, 5)
    for number in range(100):
        ancestry.add("one", f"s{number}", "")
        assert len(ancestry) <= 10
    assert ancestry.spans_in("one") > 0


def test_the_last_end_of_a_turn_counts_and_old_ones_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that was interrupted has a span for each part. The number of ends is bounded."""
    monkeypatch.setattr(f"{Ancestry.__module__}.MOST_ENDED", 2)
    ancestry = Ancestry()
    for turn, how in (("a", "answered"), ("b", "cancelled"), ("b", "answered"), ("c", "aborted")):
        ancestry.end_turn(turn, how)
    assert ancestry.ends == {"b": "answered", "c": "aborted"}


@pytest.mark.parametrize(
    ("spans", "inside"),
    [
        ({"p": "root", "root": ""}, False),
        ({"p": SpanAround("", is_request=True)}, True),
        ({"p": "step", "step": SpanAround("", is_request=True)}, True),
        ({"p": SpanAround("request", tool="ask"), "request": SpanAround("", is_request=True)}, False),
        ({"p": SpanAround("request", agent="a"), "request": SpanAround("", is_request=True)}, False),
    ],
)
def test_a_request_inside_of_another_one_is_the_same(spans, inside):
    """A framework and its client both have a span of it; an agent in a tool makes requests of its own."""
    assert known(**spans).is_in_request(call("p")) is inside


def test_the_turns_around_a_turn_are_those_of_the_calls_that_it_is_in():
    """The nearest first: an agent's span inside a tool call, or one of our turns, whose ids tell it."""
    spans = known(
        p=SpanAround("inner", agent="c"),
        inner=SpanAround("middle", tool="ask"),
        middle=SpanAround("outer", agent="b"),
        outer=SpanAround("run", tool="ask"),
        run=SpanAround("", agent="a"),
    )
    around = spans.turns_around(spans.turn_of(call("p")), call("p"))
    assert [(turn.id, place.span) for turn, place in around] == [("t:middle", "inner"), ("t:run", "outer")]
    around = spans.turns_around(TurnName("own", "turn/1/2"), call("p"))
    assert [(turn.id, place.span) for turn, place in around] == [("turn/1", "inner"), ("turn", "outer")]
    assert known(p="").turns_around(TurnName("own", "order/7"), call("p")) == []
