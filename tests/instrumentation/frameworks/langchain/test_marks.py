"""The policy's mark in LangChain's messages."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("langgraph")

from langchain_core.messages import ToolMessage
from langchain_core.tools import tool

import otel_loopguard as loopguard
from otel_loopguard import semconv
from otel_loopguard.instrumentation.frameworks.langchain import tools
from otel_loopguard.policy_files.load import load_preset
from otel_loopguard.testing import Ask, guarded
from tests.scripted.langchain import QUESTION, ScriptedModel, own_graph, prebuilt_agent

pytestmark = pytest.mark.filterwarnings("ignore")

POLICY = load_preset("repeat_hint").policy


@tool
def look(path: str) -> str:
    """Look at something."""
    return f"there is {path}"


@tool(response_format="content_and_artifact")
def draw(path: str) -> tuple[str, list[int]]:
    """Draw something."""
    return f"drawn {path}", [1, 2]


@pytest.mark.parametrize("build", [own_graph, prebuilt_agent])
@pytest.mark.parametrize("name", ["look", "draw", "made_up"])
def test_a_refusal_is_marked_in_the_additional_kwargs_of_its_message(build: Any, name: str) -> None:
    """Programs that read the messages find the mark; messages of calls that ran have none."""
    model = ScriptedModel(steps=[[Ask(name, {"path": "a"})]] * 4, seen=[])
    with guarded(POLICY):
        answered = build(model, [look, draw]).invoke(QUESTION)
    kept = [message.additional_kwargs for message in answered["messages"] if isinstance(message, ToolMessage)]
    assert kept == [{}, {}, {}, {"loopguard.mark": "loop-detected"}]
    assert model.read[-1].startswith("[loop-detected]")


def test_a_call_without_an_id_has_only_its_text() -> None:
    """A tool that is invoked with plain arguments returns plain content."""
    with guarded(POLICY), loopguard.turn():
        answers = [look.invoke({"path": "a"}) for _ in range(4)]
    assert answers[:3] == ["there is a"] * 3
    assert answers[3].startswith("[loop-detected]")


def test_a_fault_in_marking_leaves_the_refusal() -> None:
    """The model reads the sentence, and the fault is counted."""

    def fail(*_: object) -> None:
        raise ValueError

    model = ScriptedModel(steps=[[Ask("look", {"path": "a"})]] * 4, seen=[])
    marking = tools.NODE.mark
    with guarded(POLICY) as recording:
        object.__setattr__(tools.NODE, "mark", fail)
        try:
            own_graph(model, [look]).invoke(QUESTION)
        finally:
            object.__setattr__(tools.NODE, "mark", marking)
        assert model.read[-1].startswith("[loop-detected]")
        assert recording.counted(semconv.METRIC_INTERNAL_ERRORS) == 1
