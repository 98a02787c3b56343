"""Hand-offs between agents of LangGraph: a loop of them is seen, and agents that write in turns are left alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import pytest

pytest.importorskip("langgraph")

from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import InjectedToolCallId, tool
from langgraph.graph import START, StateGraph
from langgraph.prebuilt import InjectedState
from langgraph.types import Command, Send

from otel_loopguard import ToolLoopError
from otel_loopguard.instrumentation.frameworks.langchain.langgraph_command import annotated, result_of
from otel_loopguard.testing import assert_no_trip, assert_trips, guarded
from tests.scripted.langchain import QUESTION, ScriptedModel, State, prebuilt_agent

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.filterwarnings("ignore")

LONG: Any = {"recursion_limit": 300}
MOST = 40


class Talker(ScriptedModel):
    """Hands over at each request, with the text of ``says``. All talkers of a test count their requests together."""

    to: str = ""
    says: Any = None
    requests: Any = None

    def _generate(self, *_: Any, **__: Any) -> Any:
        self.requests.append(1)
        number = len(self.requests)
        calls = [] if number > MOST else [{"name": f"transfer_to_{self.to}", "args": {}, "id": f"call-{number}"}]
        message = AIMessage(self.says(number), tool_calls=calls)
        return ChatResult(generations=[ChatGeneration(message=message)])


def hand_off_to(name: str) -> Any:
    """A hand-off as the documentation of LangGraph makes it, with the whole conversation in its update."""

    @tool(f"transfer_to_{name}", description="Hand over.")
    def hand_off(
        state: Annotated[Any, InjectedState], tool_call_id: Annotated[str, InjectedToolCallId]
    ) -> Command[Any]:
        done = ToolMessage(f"Successfully transferred to {name}", name=f"transfer_to_{name}", tool_call_id=tool_call_id)
        return Command(goto=name, graph=Command.PARENT, update={"messages": [*state["messages"], done]})

    return hand_off


def team(says: Callable[[int], str]) -> tuple[Any, list[int]]:
    """Two agents, each of which can only hand over to the other."""
    requests: list[int] = []
    graph = StateGraph(State)
    for name, other in (("alice", "bob"), ("bob", "alice")):
        model = Talker(steps=[], seen=[], to=other, says=says, requests=requests)
        graph.add_node(name, prebuilt_agent(model, [hand_off_to(other)]), destinations=(other,))
    graph.add_edge(START, "alice")
    return graph.compile(), requests


def test_agents_that_only_hand_over_to_each_other_are_stopped() -> None:
    """The third lap of hand-offs without a new word is refused, and the run ends."""
    graph, requests = team(lambda number: "")
    with guarded() as recording:
        with pytest.raises(ToolLoopError):
            graph.invoke(QUESTION, LONG)
        assert_trips(recording, "ping_pong", action="block")
        # The conversation before the first lap is no part of the second one, so two more laps are equal.
        assert recording.outcomes == ["executed"] * 5 + ["nudged"] + ["blocked"] * 7 + ["aborted"]
        assert len(requests) == 14


def test_agents_that_write_in_turns_are_left_alone() -> None:
    """Each new text is work, although the hand-offs are equal: nothing is refused."""
    graph, requests = team(lambda number: f"draft {'of rivers ' * number}")
    with guarded() as recording:
        graph.invoke(QUESTION, LONG)
        assert_no_trip(recording)
        assert len(requests) == MOST + 1


def swarm(says: Callable[[int], str]) -> tuple[Any, list[int]]:
    """The same team, made by langgraph-swarm."""
    package = pytest.importorskip("langgraph_swarm")
    requests: list[int] = []
    agents = [
        prebuilt_agent(
            Talker(steps=[], seen=[], to=other, says=says, requests=requests),
            [package.create_handoff_tool(agent_name=other)],
            name=name,
        )
        for name, other in (("alice", "bob"), ("bob", "alice"))
    ]
    return package.create_swarm(agents, default_active_agent="alice").compile(), requests


def test_a_swarm_that_only_hands_over_is_stopped() -> None:
    """langgraph-swarm puts the whole conversation into each hand-off."""
    graph, requests = swarm(lambda number: "")
    with guarded() as recording:
        with pytest.raises(ToolLoopError):
            graph.invoke(QUESTION, LONG)
        assert_trips(recording, "ping_pong", action="block")
        assert len(requests) == 14


@pytest.mark.parametrize(
    ("add_handoff_messages", "mode", "action"), [(True, "ping_pong", "block"), (False, "text_repeat", "abort")]
)
def test_a_supervisor_that_asks_the_same_worker_for_ever_is_ended(
    add_handoff_messages: bool, mode: str, action: str
) -> None:
    """langgraph-supervisor hands over to a worker that always says the same: by its hand-offs, else by its words."""
    package = pytest.importorskip("langgraph_supervisor")
    requests: list[int] = []
    boss = Talker(steps=[], seen=[], to="worker", says=lambda number: "", requests=requests)
    worker = prebuilt_agent(ScriptedModel(steps=[], seen=[]), [], name="worker")
    graph = package.create_supervisor([worker], model=boss, add_handoff_messages=add_handoff_messages).compile()
    with guarded() as recording:
        with pytest.raises(ToolLoopError):
            graph.invoke(QUESTION, LONG)
        assert_trips(recording, mode, action=action)


# --- the result of a command -------------------------------------------------------------------------------------


def command(*messages: Any, **more: Any) -> Any:
    return Command(goto="bob", update={"messages": list(messages), **more})


def done(call_id: str, text: str = "over to bob") -> ToolMessage:
    return ToolMessage(text, name="transfer_to_bob", tool_call_id=call_id)


EARLIER = [HumanMessage("Go on."), AIMessage("", tool_calls=[]), done("call-1")]


def test_a_longer_conversation_is_no_other_result() -> None:
    """Of two equal hand-offs, the second one's conversation holds the first."""
    first = result_of(command(*EARLIER, AIMessage(""), done("call-2")), "call-2")
    second = result_of(command(*EARLIER, AIMessage(""), done("call-2"), AIMessage(""), done("call-3")), "call-3")
    assert first == second


@pytest.mark.parametrize(
    "other",
    [
        command(*EARLIER, AIMessage("something new"), done("call-2")),
        command(*EARLIER, AIMessage([{"type": "text", "text": "something new"}]), done("call-2")),
        command(*EARLIER, done("call-2", "over to carol")),
        command(*EARLIER, done("call-2"), HumanMessage("look at b")),
        command(*EARLIER, done("call-2"), task="b"),
        Command(goto="carol", update={"messages": [*EARLIER, done("call-2")]}),
        Command(goto=[Send("bob", {"messages": [*EARLIER, done("call-2")], "task": "b"})]),
    ],
)
def test_what_is_new_in_a_command_is_another_result(other: Any) -> None:
    """A new text, answer, message, value of the state or destination is seen."""
    assert result_of(other, "call-2") != result_of(command(*EARLIER, done("call-2")), "call-2")


def test_the_counter_of_a_graph_is_no_news() -> None:
    """langgraph-supervisor copies the state, with the number of steps that remain."""
    results = [result_of(command(done("call-2"), remaining_steps=left), "call-2") for left in (20, 18)]
    assert results[0] == results[1]


def test_a_sentence_goes_into_the_answer_of_the_call() -> None:
    """The other messages and the rest of the command stay, and the original is not changed."""
    original = command(*EARLIER, done("call-2"), task="b")
    longer = annotated(original, "call-2", "Stop.")
    assert [message.content for message in longer.update["messages"]] == [
        "Go on.",
        "",
        "over to bob",
        "over to bob\n\nStop.",
    ]
    assert (longer.goto, longer.update["task"]) == ("bob", "b")
    assert original.update["messages"][-1].content == "over to bob"
    assert annotated(Command(goto="bob"), "call-2", "Stop.") is None
