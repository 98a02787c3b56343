"""Processes that share a turn in one store, played in this one: a guard each, and one clock for all."""

from __future__ import annotations

import asyncio

from otel_loopguard import Guard, Outcome, Policy, ToolCall
from otel_loopguard.store import background
from tests.store.memory import FlakyStore

KEY = b"k" * 16
SAME = Outcome("the same old text")
LONG = "a result that is long enough to be evidence, " * 4


class World:
    """A store, its clock, and processes that write what they have before the clock goes on."""

    def __init__(self, count, *, on_loop=False) -> None:
        self.now = 1_000.0
        self.store = FlakyStore(lambda: self.now)
        self.processes = [self.process() for _ in range(count)]
        self.on_loop = on_loop
        """The calls are sync code on an event loop, which cannot wait for the store."""

    def process(self):
        """Return the guard of one more process."""
        return Guard(Policy(hash_key=KEY), store=self.store, clock=lambda: self.now)

    def do(self, function, *arguments, **more):
        """Call a function, and wait until nothing is under way in the background."""

        async def called():
            return function(*arguments, **more)

        result = asyncio.run(called()) if self.on_loop else function(*arguments, **more)
        settle()
        return result

    def begin(self, guard, tool, **arguments):
        """Begin a call in a process. Return it with the decision."""
        call = ToolCall(tool, arguments)
        return call, self.do(shared(guard).begin, call)

    def end(self, guard, call, result):
        """End a call with a result."""
        return self.do(shared(guard).end, call, Outcome(result))

    def call(self, guard, tool, result, **arguments):
        """Make a call in a process. Return whether it ran, and what the model reads beside its result."""
        call, decision = self.begin(guard, tool, **arguments)
        text = decision.message or ""
        return decision.runs, text + (self.end(guard, call, result).message or "" if decision.runs else "")


class Process:
    """One process of several: a guard of its own with the same policy, and its copy of the turn."""

    def __init__(self, log, policy=None, clock=lambda: 1.0) -> None:
        self.guard = Guard(policy or Policy(hash_key=KEY), store=log, clock=clock)

    @property
    def turn(self):
        """The copy of the turn."""
        return self.guard.shared_turn("turn:one", "SECRET-id")

    def call(self, tool="read_file", arguments=None, outcome=SAME, **more):
        """Make a call, and return the decisions before and after it."""
        call = ToolCall(tool, arguments or {"path": "a.txt"}, **more)
        decision = self.turn.begin(call)
        return (decision, self.turn.end(call, outcome)) if decision.runs else (decision, None)


def shared(guard):
    """Return the one turn of all, in a process."""
    return guard.shared_turn("turn:one", "id")


def settle():
    """Wait until nothing is under way on the background loop: the steps of a test take no time, and writes do."""

    async def idle():
        for _ in range(60):
            await asyncio.sleep(0)

    asyncio.run_coroutine_threadsafe(idle(), background.loop()).result()


def check_messages(turn):
    """Have a process look after the messages that it said to a turn, as it does each second."""
    asyncio.run_coroutine_threadsafe(turn.cell.check_messages(turn), background.loop()).result()
    settle()
