"""Agents that begin alike are told apart, or need not be: each request is judged by its own calls."""

from __future__ import annotations

import itertools
import json
import random
from types import SimpleNamespace
from typing import Any

import pytest

from otel_loopguard import semconv
from otel_loopguard.gateway import gateway
from otel_loopguard.instrumentation.models.openai_responses import RESPONSES
from tests.gateway.simulation import QUEUE, Agent, Replica, drawn_id, numbered, run, spans
from tests.store.memory import FlakyStore

REPLICAS = pytest.mark.parametrize(
    ("has_store", "count"), [(False, 1), (False, 2), (True, 3)], ids=["one", "two", "store"]
)
"""One replica, two, and three with a store."""


def replicas_of(count: int, *, has_store: bool) -> list[Replica]:
    """Replicas, which share a store or nothing."""
    store = FlakyStore() if has_store else None
    return [Replica(store) for _ in range(count)]


def beside(workers: int, **options: Any) -> list[Agent]:
    """One that loops, and workers, all with one question."""
    return [
        Agent("work on the next ticket", loops=True),
        *[Agent("work on the next ticket", **options) for _ in range(workers)],
    ]


def assert_told_apart(agents: list[Agent], *, loops: int = 9) -> None:
    """The loop has as many calls as alone, and no worker was told a word."""
    loop, *workers = agents
    assert (loop.ran, loop.answered) == (loops, True)
    assert [(one.answered, one.told) for one in workers] == [(True, 0)] * len(workers)


@REPLICAS
@pytest.mark.parametrize("opening", [1, 6])
@pytest.mark.parametrize("workers", [1, 8])
async def test_a_loop_beside_workers_with_one_opening_ends(
    has_store: bool, count: int, workers: int, opening: int
) -> None:
    """It has nine calls, no worker is told a word; with a store, or one replica, each call has one span."""
    replicas, agents = replicas_of(count, has_store=has_store), beside(workers, opening=opening)
    await run(agents, replicas, random.Random(workers))
    assert_told_apart(agents)
    if has_store or count == 1:
        assert spans(replicas) == sum(one.ran for one in agents)


@pytest.mark.parametrize("fault", ["away", "empty", "fail_over"])
async def test_a_store_that_fails_has_no_worker_told(fault: str) -> None:
    """The loop ends all the same. Here each agent has a question of its own."""
    store, agents = FlakyStore(), [Agent(f"what is in queue {number}?", loops=number == 0) for number in range(9)]

    def disturb(rng: random.Random) -> None:
        if rng.random() < 0.1:
            {"away": store.away, "empty": lambda _: store.empty(), "fail_over": store.fail_over}[fault](2)

    await run(agents, [Replica(store) for _ in range(3)], random.Random(fault), disturb)
    loop, *workers = agents
    assert loop.answered
    assert loop.ran < 100
    assert [(one.ran, one.answered, one.told) for one in workers] == [(12, True, 0)] * 8


@REPLICAS
async def test_calls_that_the_server_numbers_are_judged_the_same(has_store: bool, count: int) -> None:
    """Their ids are equal in all conversations, so they prove nothing, and nothing rests on them."""
    replicas, agents = replicas_of(count, has_store=has_store), beside(8, opening=6)
    for agent in agents:
        agent.new_id = numbered()
    await run(agents, replicas, random.Random(1))
    assert_told_apart(agents)


@REPLICAS
@pytest.mark.parametrize("ids", [drawn_id, None], ids=["drawn", "numbered"])
async def test_a_job_that_is_started_again_begins_anew(has_store: bool, count: int, ids: Any) -> None:
    """Also with the conversation's header, the same question, and equal ids."""
    replicas, found = replicas_of(count, has_store=has_store), []
    for _ in range(3):
        agent = Agent("do the job", loops=True)
        agent.headers, agent.new_id = {"x-loopguard-conversation": "job-7"}, ids or numbered()
        await run([agent], replicas, random.Random(1))
        found.append((agent.ran, agent.answered))
    assert found == [(9, True)] * 3


@REPLICAS
@pytest.mark.parametrize("lost", [0.1, 0.5])
async def test_replies_that_are_lost_change_nothing(has_store: bool, count: int, lost: float) -> None:
    """A client that got no reply asks again, and gets another one."""
    replicas, agents = replicas_of(count, has_store=has_store), beside(4)
    await run(agents, replicas, random.Random(2), lost=lost)
    assert_told_apart(agents)
    if has_store or count == 1:
        assert spans(replicas) == sum(one.ran for one in agents)
        turns = {span.attributes[semconv.TURN_ID] for one in replicas for span in one.recording.spans}
        assert len(turns) == len(agents)


@REPLICAS
async def test_a_clock_in_the_instructions_changes_nothing(has_store: bool, count: int) -> None:
    """No request begins with the one before then."""
    replicas, agents, ticks = replicas_of(count, has_store=has_store), beside(4), itertools.count()
    for agent in agents:
        agent.system = lambda: f"It is {next(ticks)}."
    await run(agents, replicas, random.Random(3))
    assert_told_apart(agents)


@REPLICAS
async def test_a_client_may_give_calls_ids_of_its_own(has_store: bool, count: int) -> None:
    """The ids of the replies never come back then."""
    replicas, agents = replicas_of(count, has_store=has_store), beside(3)
    for agent in agents:
        agent.rename = drawn_id
    await run(agents, replicas, random.Random(4))
    assert_told_apart(agents)


@REPLICAS
async def test_branches_of_one_history_are_judged_each_by_its_own_calls(has_store: bool, count: int) -> None:
    """Sub-agents get the history of their parent: one loops, and the others make the same first call."""
    replicas, parent = replicas_of(count, has_store=has_store), Agent("plan", steps=5)
    await run([parent], replicas, random.Random(5))
    agents = [Agent("", loops=number == 0, opening=1) for number in range(6)]
    for agent in agents:
        agent.messages = [*parent.messages, {"role": "user", "content": "You are a sub-agent. Do your part."}]
    await run(agents, replicas, random.Random(5))
    assert_told_apart(agents)
    if has_store or count == 1:
        assert spans(replicas) == parent.ran + sum(one.ran for one in agents)


@REPLICAS
@pytest.mark.parametrize("width", [2, 5])
async def test_a_tree_search_repeats_nothing(has_store: bool, count: int, width: int) -> None:
    """At each step the program asks for several replies to one history, tries each, and goes on with one of them."""
    replicas, rng, told = replicas_of(count, has_store=has_store), random.Random(6), 0
    chosen: list[dict[str, Any]] = [{"role": "user", "content": "search"}]
    for depth in range(6):
        branches = []
        for _ in range(width):
            branch = Agent("", steps=depth + 1, opening=99)
            branch.messages, branch.ran = list(chosen), depth
            await branch.step(rng.choice(replicas))
            branches.append(branch)
        rng.shuffle(branches)
        for branch in branches:
            await branch.step(rng.choice(replicas))
            told += branch.told
        chosen = branches[-1].messages[:-1]
    assert told == 0


@REPLICAS
async def test_a_summary_with_the_last_call_goes_on(has_store: bool, count: int) -> None:
    """The loop ends a few calls later than with all of its history, and no worker is told a word."""
    replicas, agents = replicas_of(count, has_store=has_store), beside(5)

    def shorten(agent: Agent) -> None:
        if agent.ran == 5:
            agent.messages = [{"role": "user", "content": "Summary: go on."}, *agent.messages[-2:]]

    for agent in agents:
        agent.shorten = shorten
    await run(agents, replicas, random.Random(7))
    loop, *workers = agents
    assert loop.ran <= 14
    assert [(one.answered, one.told) for one in workers] == [(True, 0)] * 5


@REPLICAS
async def test_agents_that_poll_one_job_are_not_told(has_store: bool, count: int) -> None:
    """Sixteen ask twice for the same state, and then work."""
    replicas, agents = replicas_of(count, has_store=has_store), [Agent("poll", steps=7, opening=2) for _ in range(16)]
    await run(agents, replicas, random.Random(8))
    assert [(one.answered, one.told) for one in agents] == [(True, 0)] * 16


class KeptAgent:
    """Continues from the id of the last reply, because the provider keeps the conversation."""

    def __init__(self, *, loops: bool) -> None:
        self.loops, self.ran, self.told, self.answered = loops, 0, 0, False
        self.previous: str | None = None
        self.items: list[dict[str, Any]] = [{"role": "user", "content": "q"}]

    async def step(self, replica: Replica, *, loses: bool = False) -> bool:
        """Make a request, and its call. Return False at the end."""
        data: dict[str, Any] = {"input": self.items, "tools": [{"type": "function", "name": "list_queue"}]}
        data |= {"litellm_call_id": "1", "proxy_server_request": {"headers": {}}}
        data |= {} if self.previous is None else {"previous_response_id": self.previous}
        if await gateway._judge(replica.runtime, RESPONSES, SimpleNamespace(api_key="k"), data) is not None:
            return False
        self.told += "[loopguard]" in json.dumps(data["input"])
        self.previous, call_id = drawn_id(), drawn_id()
        self.answered = data.get("tool_choice") == "none" or (not self.loops and self.ran == 8)
        arguments = "{}" if self.loops or not self.ran else json.dumps({"item": call_id})
        call = {"type": "function_call", "call_id": call_id, "name": "list_queue", "arguments": arguments}
        answer = {"type": "message", "role": "assistant", "content": []}
        reply = {"id": self.previous, "object": "response", "output": [answer if self.answered else call]}
        await gateway.alearn(reply, "1")
        found = QUEUE if arguments == "{}" else f"closed {call_id}"
        self.items = [{"type": "function_call_output", "call_id": call_id, "output": found}]
        self.ran += not self.answered
        return not self.answered


@REPLICAS
async def test_agents_whose_history_the_provider_keeps_are_apart(has_store: bool, count: int) -> None:
    """The id of the last reply is a proof. Behind two replicas without a store such a conversation is not seen."""
    if count == 2 and not has_store:
        pytest.skip("a conversation that the provider keeps needs one replica, or a store")
    replicas, agents = replicas_of(count, has_store=has_store), [KeptAgent(loops=number == 0) for number in range(5)]
    await run(agents, replicas, random.Random(9))  # type: ignore[arg-type]
    assert_told_apart(agents)  # type: ignore[arg-type]
