"""A chat model of any client: its requests, tokens and cost are in the ledger of the graph's turn."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

pytest.importorskip("langgraph")

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import tool

from otel_loopguard import Ledger, Policy, last_turn, semconv
from otel_loopguard.testing import guarded
from tests.scripted.langchain import QUESTION, prebuilt_agent

pytestmark = pytest.mark.filterwarnings("ignore")

PRICES = {"own-*": {"input": 2.0, "cached_input": 1.0, "output": 8.0}}
USAGE: Any = {"input_tokens": 100, "output_tokens": 10, "total_tokens": 110, "input_token_details": {"cache_read": 60}}


@tool
def look(path: str) -> str:
    """Look at something."""
    return f"there is {path}"


class OwnModel(BaseChatModel):
    """A model of a client that nobody knows: it reads some files, or the same one again and again."""

    paths: list[str]
    usage: Any = USAGE
    asked: int = 0

    @property
    def _llm_type(self) -> str:
        return "own"

    def bind_tools(self, tools: Any, **_: Any) -> Any:
        """Take any tools."""
        return self

    def _generate(self, messages: Any, stop: Any = None, run_manager: Any = None, **_: Any) -> ChatResult:
        number, self.asked = self.asked, self.asked + 1
        calls: Any = []
        if number < len(self.paths):
            calls = [{"name": "look", "args": {"path": self.paths[number]}, "id": f"call-{number}"}]
        text = "" if calls else "Done."
        told = {"model_name": "own-1"}
        message = AIMessage(text, tool_calls=calls, usage_metadata=self.usage, response_metadata=told)
        return ChatResult(generations=[ChatGeneration(message=message)])


def run(model: OwnModel, *, is_async: bool = False) -> Ledger:
    """Run an agent with this model, and return what its turn has spent."""
    agent = prebuilt_agent(model, [look])
    question: Any = QUESTION
    if is_async:
        asyncio.run(agent.ainvoke(question))
    else:
        agent.invoke(question)
    ended = last_turn()
    assert ended is not None
    return ended.ledger.timeless


@pytest.mark.parametrize("is_async", [False, True])
def test_a_turn_has_the_requests_of_a_client_that_is_not_read(*, is_async: bool) -> None:
    """With tokens, those from the cache, and cost, in LangChain's own form."""
    with guarded(Policy(cost_per_million_tokens=PRICES)) as recording:
        ledger = run(OwnModel(paths=["a", "b", "c"]), is_async=is_async)
        assert recording.counted(semconv.METRIC_MODEL_REQUESTS) == 0  # nobody has read them
        assert recording.counted(semconv.METRIC_INTERNAL_ERRORS) == 0
    cost = pytest.approx(4 * (40 * 2.0 + 60 * 1.0 + 10 * 8.0) / 1e6)
    assert ledger == Ledger(4, 3, 400, 40, 240, cost=cost)


def test_a_reply_without_usage_is_unknown() -> None:
    """Nothing is guessed."""
    with guarded():
        assert run(OwnModel(paths=["a"], usage=None)) == Ledger(2, 1, unmetered=2, unpriced=2)


def test_a_budget_holds_for_any_client() -> None:
    """Its calls are refused, and the run is ended if the model goes on."""
    with guarded(Policy(budget={"turn": {"tokens": 400}})) as recording:
        run(OwnModel(paths=[str(number) for number in range(8)]))
    assert recording.outcomes[:3] == ["executed", "executed", "nudged"]
    assert set(recording.outcomes[3:]) == {"blocked"}


def test_a_model_outside_of_a_turn_is_left_alone() -> None:
    """There is no ledger to write to."""
    with guarded() as recording:
        OwnModel(paths=[]).invoke("hello")
        assert recording.counted(semconv.METRIC_INTERNAL_ERRORS) == 0
