"""Replicas of a gateway with one store, and agents whose requests go to any of them: each makes calls of its own."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

from tests.gateway.simulation import Agent, Replica, drawn_id, numbered
from tests.simulator.server import Server
from tests.simulator.steps import BrokenPromiseError, Setting, Step
from tests.store.processes import LONG

if TYPE_CHECKING:
    import random

    from tests.simulator.one_thread import Loop

REPLICAS, AGENTS = 2, 5
"""The first agent loops."""
AFTER_A_CUT = 9
"""More calls of a loop for each time that its history is cut: what is not in it any more is no evidence."""


class Editor(Agent):
    """Reads a file, and writes it: so each read is a new one."""

    def reply(self, request: dict[str, Any]) -> dict[str, Any]:
        """Read and write in turns."""
        reply = super().reply(request)
        for call in reply.get("tool_calls", ()):
            written = {"path": "a", "text": drawn_id()}
            name, arguments = ("write_file", written) if self.ran % 2 else ("read_file", {"path": "a"})
            call["function"] = {"name": name, "arguments": json.dumps(arguments)}
        return reply

    def result(self, call: dict[str, Any]) -> str:
        """Return what the file has now."""
        return f"{LONG}version {self.ran // 2}" if call["function"]["name"] == "read_file" else "ok"


class Gateway:
    """The replicas, and the agents."""

    def __init__(self, loop: Loop, rng: random.Random, setting: Setting) -> None:
        self.loop, self.rng = loop, rng
        self.server = Server(loop, rng)
        self.replicas = [Replica(self.server, clock=loop.time) for _ in range(REPLICAS)]
        self.agents = [self._agent(loops=number == 0) for number in range(AGENTS)]
        self.ended: set[Agent] = set()
        self.most = dict.fromkeys(self.agents, setting.most)
        """The calls after which a loop was ended."""

    def _agent(self, *, loops: bool) -> Agent:
        rng = self.rng
        kind = Agent if loops else rng.choice([Agent, Agent, Editor])
        agent = kind("work on the next ticket", loops=loops, steps=rng.randint(4, 20), opening=rng.choice([1, 6]))
        agent.new_id = rng.choice([drawn_id, numbered()])
        agent.headers = rng.choice([{}, {}, {"x-loopguard-conversation": "job-7"}])
        agent.rename = drawn_id if rng.random() < 0.1 else None
        agent.system = (lambda: f"It is {self.loop.time()}.") if rng.random() < 0.2 else None
        return agent

    @staticmethod
    def drawn(rng: random.Random, setting: Setting) -> tuple[Step, ...]:
        """Draw the steps of a run."""
        return tuple(_drawn(rng, setting, number) for number in range(1, 101))

    # --- steps -------------------------------------------------------------------------------------------------------

    def do(self, step: Step) -> None:
        """Do a step, wait until all of it is over, and check what holds after each step."""
        getattr(self, f"_{step.what}")(step)
        self.loop.wait(asyncio.sleep(0.5))
        for agent in self.agents:
            if not agent.loops and agent.told:
                raise BrokenPromiseError(f"invariant 1: an agent was told of a call that it did not make, in {step}")
            if agent.loops and agent.ran > self.most[agent]:
                raise BrokenPromiseError(f"invariant 2: a loop has had {agent.ran} calls")

    def _fault(self, step: Step) -> None:
        self.server.fail(step.how, step.count)

    def _ask(self, step: Step) -> None:
        """Have agents make a request each, at the same time. One whose reply is lost asks again."""
        self.loop.wait(self._all_ask({one.who: one for one in (step, *step.beside)}))

    async def _all_ask(self, steps: dict[int, Step]) -> None:
        await asyncio.gather(*[self._asks(step) for step in steps.values()])

    async def _asks(self, step: Step) -> None:
        agent = self.agents[step.who % len(self.agents)]
        goes_on = agent in self.ended or await agent.step(self.replicas[step.count], loses=step.how == "lost")
        if not goes_on:
            self.ended.add(agent)

    def _cut(self, step: Step) -> None:
        """Replace the history of an agent by a summary of it, and its last call."""
        agent = self.agents[step.who]
        if agent not in self.ended and len(agent.messages) > 4:
            agent.messages = [{"role": "user", "content": "Summary: go on."}, *agent.messages[-2:]]
            self.most[agent] += AFTER_A_CUT

    def _fork(self, step: Step) -> None:
        """Start an agent that has the history of another one."""
        parent, agent = self.agents[step.who], self._agent(loops=False)
        if not parent.loops and len(self.agents) < 2 * AGENTS:
            agent.messages = [*parent.messages, {"role": "user", "content": "You are a sub-agent. Do your part."}]
            agent.new_id, agent.opening = parent.new_id, 1
            self.agents.append(agent)
            self.most[agent] = 0

    def _restart(self, step: Step) -> None:
        """Start the job of an agent again: all that it sends is as it was."""
        before = self.agents[step.who]
        agent = type(before)("work on the next ticket", loops=before.loops, steps=before.steps, opening=before.opening)
        agent.headers, agent.system, agent.rename = before.headers, before.system, before.rename
        agent.new_id = drawn_id if before.new_id is drawn_id else numbered()
        self.agents[step.who], self.most[agent] = agent, max(self.most.values())

    def finish(self) -> None:
        """Let the store be well again, and all agents go on until they end."""
        self.server.fail("well", 0)
        for number in range(10_000, 10_100):
            for who in range(len(self.agents)):
                if self.agents[who] not in self.ended:
                    self.do(Step(number, "ask", who))


def _drawn(rng: random.Random, setting: Setting, number: int) -> Step:
    if rng.random() < setting.share:
        return Step(number, "fault", how=rng.choice(setting.faults), count=rng.randint(1, 6))
    what = rng.choices(["ask", "cut", "fork", "restart"], [94, 2, 2, 2])[0]
    return _asked(rng, number, what, tuple(_asked(rng, number, "ask") for _ in range(rng.choice([0, 0, 1, 3]))))


def _asked(rng: random.Random, number: int, what: str, beside: tuple[Step, ...] = ()) -> Step:
    how = rng.choices(["", "lost"], [9, 1])[0]
    return Step(number, what, rng.randrange(AGENTS), how, count=rng.randrange(REPLICAS), beside=beside)
