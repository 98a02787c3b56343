"""Trees of LangGraph's agents: the ledger of the run has all of them, and budgets hold for the whole tree."""

from __future__ import annotations

import asyncio
from itertools import pairwise
from typing import TYPE_CHECKING, Annotated, Any, TypedDict

import pytest

pytest.importorskip("langgraph")

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AnyMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import StructuredTool
from langchain_core.utils.function_calling import convert_to_openai_tool
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import add_messages

import otel_loopguard as loopguard
from otel_loopguard import Ledger, Policy, RunBudgetError, semconv
from otel_loopguard.testing import guarded
from tests.scripted.langchain import prebuilt_agent

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from otel_loopguard.guard.turn import Turn

pytestmark = pytest.mark.filterwarnings("ignore")

LONG: Any = {"recursion_limit": 400}
USAGE: Any = {"input_tokens": 10, "output_tokens": 5, "total_tokens": 15}


class Count:
    """What the models of a tree were asked, and have written."""

    def __init__(self) -> None:
        self.asked: list[int] = []
        """The number of calls in each reply; ``append`` is atomic."""

    @property
    def ledger(self) -> Ledger:
        """The same as a ledger: each request reads ten tokens, and writes five."""
        requests = len(self.asked)
        return Ledger(requests, sum(self.asked), 10 * requests, 5 * requests, unpriced=requests)


class Planned(BaseChatModel):
    """Calls one tool with all inputs of a step at once, step by step, and answers then, or if it may call none."""

    count: Any
    tool: str
    steps: Any
    stubborn: bool = False
    results: list[str] = []

    @property
    def _llm_type(self) -> str:
        return "planned"

    def bind_tools(self, tools: Any, **options: Any) -> Any:
        """Declare tools, as integrations do."""
        return self.bind(tools=[convert_to_openai_tool(one) for one in tools], **options)

    def _generate(self, messages: Any, stop: Any = None, run_manager: Any = None, **more: Any) -> ChatResult:
        results = self.results = [one.content for one in messages if one.type == "tool"]
        step, passed = 0, 0
        while step < len(self.steps) and passed + len(self.steps[step]) <= len(results):
            passed, step = passed + len(self.steps[step]), step + 1
        may_call = self.stubborn or bool(more.get("tools"))
        inputs = self.steps[step] if may_call and step < len(self.steps) else []
        calls: Any = [
            {"name": self.tool, "args": {"task": given}, "id": f"call-{id(self)}-{passed + place}"}
            for place, given in enumerate(inputs)
        ]
        self.count.asked.append(len(calls))
        message = AIMessage("" if calls else "Done.", tool_calls=calls, usage_metadata=USAGE)
        return ChatResult(generations=[ChatGeneration(message=message)])


def question(text: str) -> Any:
    """The input of an agent."""
    return {"messages": [("user", text)]}


def look(task: str) -> str:
    """Look at something."""
    return f"there is {task}"


LOOK = StructuredTool.from_function(look)


def asks(make: Callable[[], Any], name: str, model: Planned) -> Any:
    """Make an agent with a tool that makes an agent, and asks it."""

    def ask(task: str) -> str:
        """Ask an agent."""
        return str(make().invoke(question(task), LONG)["messages"][-1].content)

    async def ask_later(task: str) -> str:
        return str((await make().ainvoke(question(task), LONG))["messages"][-1].content)

    asking = StructuredTool.from_function(ask, ask_later, name=name, description="Ask an agent.")
    return prebuilt_agent(model, [asking])


def fan(count: Count, *, at_once: bool, **options: Any) -> tuple[Any, Planned]:
    """Make an agent that asks a helper 60 times, and its model. The helper looks at two things."""
    inputs = [f"question {number}" for number in range(60)]
    steps = [inputs] if at_once else [[one] for one in inputs]
    model = Planned(count=count, tool="ask_helper", steps=steps, **options)

    def helper() -> Any:
        return prebuilt_agent(Planned(count=count, tool="look", steps=[["a"], ["b"]], **options), [LOOK])

    return asks(helper, "ask_helper", model), model


def tower(count: Count, levels: int, **options: Any) -> Any:
    """Make an agent that asks an agent that asks an agent, so many levels deep."""
    if levels == 0:
        return prebuilt_agent(Planned(count=count, tool="look", steps=[["a"]], **options), [LOOK])
    model = Planned(count=count, tool=f"ask_{levels}", steps=[[f"question {levels}"]], **options)
    return asks(lambda: tower(count, levels - 1, **options), f"ask_{levels}", model)


def run(agent: Any, *, is_async: bool) -> Turn:
    """Run an agent, and return its turn."""
    with loopguard.turn() as turn:
        asked = question("Go on.")
        result = asyncio.run(agent.ainvoke(asked, LONG)) if is_async else agent.invoke(asked, LONG)
        assert result["messages"][-1].content == "Done."
    return turn


def of_tree(**accounts: Any) -> Policy:
    """A policy with a budget of the tree."""
    return Policy(budget={"tree": accounts})


each_way = pytest.mark.parametrize("at_once", [False, True], ids=["one-by-one", "at-once"])
each_kind = pytest.mark.parametrize("is_async", [False, True], ids=["plain", "async"])


@each_way
@each_kind
def test_the_ledger_has_all_of_60_agents(*, at_once: bool, is_async: bool) -> None:
    """Also of those that run at the same time, in threads or tasks."""
    count = Count()
    with guarded() as recording:
        turn = run(fan(count, at_once=at_once)[0], is_async=is_async)
        assert recording.counted(semconv.METRIC_INTERNAL_ERRORS) == 0
    assert sum(count.asked) == 180
    assert turn.ledger.timeless == count.ledger._replace(children=60, depth=1)
    assert not recording.trips


@each_way
@each_kind
def test_one_agent_more_than_the_budget_has_is_refused(*, at_once: bool, is_async: bool) -> None:
    """The model reads how many were started, and answers."""
    count = Count()
    agent, model = fan(count, at_once=at_once)
    with guarded(of_tree(children=12)):
        turn = run(agent, is_async=is_async)
    assert sorted(one == "Done." for one in model.results) == [False] * 48 + [True] * 12
    assert any("12 agents were started for this task, and no more may be" in one for one in model.results)
    assert turn.ledger.timeless == count.ledger._replace(calls=36, children=12, depth=1)


@each_kind
def test_a_fan_out_ends_at_the_requests_of_its_tree(*, is_async: bool) -> None:
    """The helpers and their boss are told; the one that is beyond it is asked for an answer, and so is the boss."""
    count = Count()
    agent, model = fan(count, at_once=False)
    with guarded(of_tree(requests=40)) as recording:
        turn = run(agent, is_async=is_async)
    assert turn.ledger.timeless == count.ledger._replace(children=len(model.results), depth=1)
    assert 40 <= len(count.asked) <= 42
    assert turn.ended_as == "concluded"
    assert {(trip.mode, str(trip.action)) for trip in recording.trips} <= {
        ("run_budget", "nudge"),
        ("run_budget", "conclude"),
    }


@each_kind
def test_agents_that_never_answer_are_ended(*, is_async: bool) -> None:
    """Each is ended with its tools withdrawn, and the boss with ``RunBudgetError``."""
    count = Count()
    agent, _ = fan(count, at_once=False, stubborn=True)
    with guarded(of_tree(requests=40)), pytest.raises(RunBudgetError):
        run(agent, is_async=is_async)
    assert len(count.asked) <= 45


@each_kind
def test_a_tower_of_agents_has_its_depth(*, is_async: bool) -> None:
    """Each level is one turn below the other."""
    count = Count()
    with guarded() as recording:
        turn = run(tower(count, 12), is_async=is_async)
    assert turn.ledger.timeless == count.ledger._replace(children=12, depth=12)
    assert not recording.trips


@each_kind
def test_a_tower_higher_than_its_budget_is_refused_there(*, is_async: bool) -> None:
    """The agent at the limit does the task itself."""
    count = Count()
    with guarded(of_tree(depth=5)) as recording:
        turn = run(tower(count, 12), is_async=is_async)
    assert turn.ledger.timeless == count.ledger._replace(calls=5, children=5, depth=5)
    assert recording.outcomes.count("blocked") == 1


class State(TypedDict):
    """The messages of the agents."""

    messages: Annotated[list[AnyMessage], add_messages]


def in_nodes(agents: Sequence[Any]) -> Any:
    """Make a graph whose nodes are these agents, one after the other."""
    graph = StateGraph(State)
    names = [START, *(f"agent-{number}" for number in range(len(agents))), END]
    for name, agent in zip(names[1:-1], agents, strict=True):
        graph.add_node(name, agent)
    for name, following in pairwise(names):
        graph.add_edge(name, following)
    return graph.compile()


@each_kind
def test_an_agent_that_is_a_node_is_no_agent_more(*, is_async: bool) -> None:
    """It goes on in the same turn, whose requests and calls it makes; nobody called it."""
    count = Count()
    steps = [["a"], ["b"], ["c"], ["d"]]
    agents = [prebuilt_agent(Planned(count=count, tool="look", steps=steps[: 2 * number]), [LOOK]) for number in (1, 2)]
    with guarded() as recording:
        turn = run(in_nodes(agents), is_async=is_async)
    assert turn.ledger.timeless == count.ledger
    assert count.asked == [1, 1, 0, 1, 1, 0]
    assert not recording.trips
