"""Unknown tool names in a node with a middleware, and tools that only a middleware supplies."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("langchain.agents.middleware")

from langchain.agents import create_agent
from langchain.agents.middleware import AgentMiddleware, ToolRetryMiddleware
from langchain_core.messages import ToolMessage
from langchain_core.tools import tool

from otel_loopguard import ToolLoopError, semconv
from otel_loopguard.testing import Ask, assert_no_trip, assert_trips, guarded
from tests.scripted.langchain import QUESTION, ScriptedModel

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.filterwarnings("ignore")


@tool
def look(path: str) -> str:
    """Look at something."""
    return f"there is {path}"


@tool
def weigh(path: str) -> str:
    """Weigh something. This tool is not registered."""
    if path.startswith("bad"):
        raise ValueError(path)
    return f"{path} weighs nothing"


class Supplying(AgentMiddleware):
    """A middleware that supplies a tool, as the newest LangChain allows."""

    def wrap_tool_call(self, request: Any, handler: Callable[[Any], Any]) -> Any:
        """Wrap each call."""
        if request.tool_call["name"] != "weigh":
            return handler(request)
        try:
            return handler(request.override(tool=weigh))
        except ValueError:
            return ToolMessage("it cannot be weighed", tool_call_id=request.tool_call["id"], status="error")


def run(asks: list[tuple[str, str]], *middleware: AgentMiddleware) -> list[str]:
    """Return the results of these calls as the model reads them."""
    model = ScriptedModel(steps=[[Ask(name, {"path": path})] for name, path in asks], seen=[])
    create_agent(model, [look], middleware=middleware).invoke(QUESTION)
    return model.read


def attribute_of_spans(recording: Any, name: str) -> list[Any]:
    return [span.attributes.get(name) for span in recording.spans]


def test_made_up_names_are_not_shown_and_are_stopped() -> None:
    """With a middleware that only retries, an unregistered name is an unknown tool."""
    with guarded() as recording:
        with pytest.raises(ToolLoopError):
            run([(f"alice_smith_{number}", "a") for number in range(20)], ToolRetryMiddleware(max_retries=0))
        assert recording.outcomes == ["failed", "failed", *["blocked"] * 7, "aborted"]
        assert set(attribute_of_spans(recording, semconv.TOOL_NAME)) == {"_unknown"}
        assert set(attribute_of_spans(recording, semconv.TOOL_REGISTERED)) == {False}
        assert "alice_smith" not in "".join(span.to_json() for span in recording.spans)
        assert {point.attributes[semconv.TOOL_NAME] for point in recording.points("loopguard.tool_calls")} == {
            "_unknown"
        }
        assert_trips(recording, "unknown_tool_repeat", tool="_unknown")


def test_one_made_up_name_is_stopped() -> None:
    """A repeated unknown name may be insisted on, and is refused if its result stays the same."""
    with guarded() as recording:
        run([("nobody", "a")] * 8, ToolRetryMiddleware(max_retries=0))
        assert recording.outcomes[:3] == ["failed", "failed", "blocked"]
        assert recording.outcomes[4:] == ["blocked"] * 4


def test_registered_tools_keep_their_names() -> None:
    """A registered tool keeps its name in a node with a middleware."""
    with guarded() as recording:
        run([("look", "a"), ("look", "b")], ToolRetryMiddleware(max_retries=0))
        assert set(attribute_of_spans(recording, semconv.TOOL_NAME)) == {"look"}
        assert set(attribute_of_spans(recording, semconv.TOOL_REGISTERED)) == {True}


def test_a_tool_that_a_middleware_supplies_is_known_once_it_has_answered() -> None:
    """The first call of a supplied tool has no name on its span; every further call has."""
    with guarded() as recording:
        read = run([("weigh", "a"), ("weigh", "b"), ("weigh", "c")], Supplying())
        assert read == ["a weighs nothing", "b weighs nothing", "c weighs nothing"]
        assert attribute_of_spans(recording, semconv.TOOL_NAME) == ["_unknown", "weigh", "weigh"]
        assert attribute_of_spans(recording, semconv.TOOL_REGISTERED) == [False, True, True]
        assert_no_trip(recording)


def test_a_supplied_tool_that_fails_exists_all_the_same() -> None:
    """A failed call of a supplied tool is not a call of an unknown tool."""
    with guarded() as recording:
        read = run([("weigh", f"bad {letter}") for letter in "ab"] + [("weigh", "c")], Supplying())
        assert read == ["it cannot be weighed", "it cannot be weighed", "c weighs nothing"]
        assert_no_trip(recording)


def test_a_supplied_tool_that_nobody_saw_yet_can_be_insisted_on() -> None:
    """The third unknown name is refused. If the call is made again, it runs, because a middleware may supply it."""
    with guarded() as recording:
        read = run([("nobody", "a"), ("noone", "a"), ("weigh", "a"), ("weigh", "a"), ("weigh", "b")], Supplying())
        assert "make the same call again" in read[2]
        assert read[3:] == ["a weighs nothing", "b weighs nothing"]
        assert recording.outcomes == ["failed", "failed", "blocked", "executed", "executed"]
