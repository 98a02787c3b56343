"""Drive the turns of whichever ``otel_loopguard`` is imported by drawn steps, and note all that can be seen of them.

Each step draws from a generator of its own, so that a trace stays what it is if other steps are left out of it.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import re
import signal
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from otel_loopguard import Guard, Outcome, ToolCall
from otel_loopguard.cli.replay import runs
from otel_loopguard.cli.replay.judge import PolicyJudge
from tests.engine.compare import drawn

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterator

WAYS = ("code", "tasks", "threads", "forks", "signals", "bounds", "replay")
"""Plain code drives a turn; or tasks; threads that hand over to each other; a process that forks; code that signal
handlers interrupt; plain code in a package that keeps very little; or a recorded run is replayed."""
STEPS = {
    "call": 14, "begin": 5, "end": 3, "end equal": 2, "observe": 5, "row": 2, "lap": 2, "say": 3, "redeliver": 2,
    "conclude": 2, "lose": 2, "message": 5, "resume": 5, "child": 4, "leave": 2, "together": 2, "new turn": 1,
    "new policy": 1, "same turn": 1, "close": 1, "restore": 2, "aside": 2, "strike": 0, "fork": 0,
}  # fmt: skip
"""The steps, and how often each is drawn."""
OF_RECORD = (
    "alone", "arguments_hash", "at", "attempt", "beyond", "brief", "capped", "changed_between", "child_news",
    "concurrent", "error", "error_hash", "gap", "haste", "idle", "index", "key", "kind", "limit", "lost", "news",
    "pending", "ran_in_vain", "registered", "result", "result_hash", "resumed", "row", "sameness", "since", "tick",
    "tool", "transient", "trip", "turns_without_news", "waited", "written",
)  # fmt: skip
MEANWHILE = ("call", "call", "begin", "end", "observe", "say", "lose", "conclude", "message", "close")
"""What may happen while a function of the policy runs."""
STRUCK = ("start", "start", "end", "end", "refuse", "let_run")
"""Functions that change the history: a signal strikes as one of them begins."""


OF_A_TURN = re.compile(r"otel_loopguard(\.core|\.engine|\.guard)?(\.history|\.turn|\.detectors\.presets)?\.\w+")
BOUND = re.compile(r"_?MOST_(?!LIVE|TURNS|BYTES)")


class Trace(NamedTuple):
    """Names a trace."""

    policy: str
    way: str
    seed: int
    steps: tuple[int, ...] | None = None
    """None: as many as the seed draws."""


class StruckError(Exception):
    """Raised by a signal handler."""


def run(trace: Trace) -> list[str]:
    """Run a trace. Return a JSON text for each thing that was seen."""
    if trace.way == "replay":
        return replayed(trace)
    with ExitStack() as stack:
        if trace.way == "signals":
            stack.enter_context(no_first_call())
        if trace.way == "bounds":
            stack.enter_context(small_bounds())
        driver = Driver(trace)
        for pool in driver.pools:
            stack.callback(pool.shutdown)
        if trace.way == "tasks":
            asyncio.run(driver.run())
        else:
            at_once(driver.run())
    return driver.seen


def replayed(trace: Trace) -> list[str]:
    """Replay a recorded run. Its trips are all that is seen of it."""
    rng = random.Random(f"{trace.seed}")
    values, drawn_steps = drawn.Values(rng), range(rng.choice([8, 20, 40, 70]))
    steps = trace.steps or drawn_steps
    run = drawn.recorded(rng, values, [random.Random(f"{trace.seed}/{step}") for step in steps])
    judge = PolicyJudge(replace(drawn.policy(trace.policy), on_trip=None, detectors=(), sentences={}))
    return [json.dumps([trip.call, "trip", trip], default=str) for trip in runs.replay(runs.read(run), judge)]


def at_once(coroutine: Coroutine[Any, Any, Any]) -> Any:
    """Run a coroutine that waits for nothing."""
    try:
        coroutine.send(None)
    except StopIteration as done:
        return done.value
    raise AssertionError("it waits")


@contextmanager
def patched(values: list[tuple[Any, str, Any]]) -> Iterator[None]:
    """Give attributes of modules other values."""
    before = [(module, name, getattr(module, name)) for module, name, _ in values]
    for module, name, value in values:
        setattr(module, name, value)
    try:
        yield
    finally:
        for module, name, value in before:
            setattr(module, name, value)


def no_first_call() -> AbstractContextManager[None]:
    """Switch the straight way of first calls off, where there is one: it changes the history in its own functions."""
    straight = [module for name, module in sys.modules.items() if name.endswith(".first_call")]
    return patched([(module, name, lambda *_: None) for module in straight for name in ("begin", "end")])


def small_bounds() -> AbstractContextManager[None]:
    """Have all that is bounded in a turn bounded by five."""
    modules = [module for name, module in sys.modules.items() if OF_A_TURN.fullmatch(name)]
    return patched([(module, name, 5) for module in modules for name in vars(module) if BOUND.match(name)])


class Live:
    """A turn, and what the driver knows of it."""

    def __init__(self, turn: Any, *, is_plain: bool) -> None:
        self.turn = turn
        self.running: list[tuple[Any, ToolCall]] = []
        """Calls that have begun, each with its turn: this one, or one that is nested in it."""
        self.children: list[tuple[Any, Any, ToolCall]] = []
        self.message: tuple[Any, list[ToolCall]] | None = None
        """The calls of the last model message, with their turn."""
        self.seen_at: int | None = None
        self.is_plain = is_plain
        """Its history is all that there is of it, but for the calls that run; and no result has numbers, of which the
        state that the old turn returns has nothing."""


class Driver:
    """Makes the steps of a trace."""

    def __init__(self, trace: Trace) -> None:
        self.trace, self.way = trace, trace.way
        self.rng = rng = random.Random(f"{trace.seed}")
        self.values = drawn.Values(rng)
        often = {**STEPS, "strike": 12 * (self.way == "signals"), "fork": self.way == "forks"}
        self.kinds = list(often), list(often.values())
        drawn_steps = range(rng.choice([8, 20, 40, 70]))
        self.steps = trace.steps or drawn_steps
        self.step = -1
        self.now = 5_000.0
        self.guard = self.new_guard(drawn.policy(trace.policy))
        self.enforced = rng.random() > 0.1
        self.lives: list[Live] = []
        self.pools = [ThreadPoolExecutor(1) for _ in range(3 if self.way == "threads" else 0)]
        self.busy: list[int] = []
        """The threads that are in a function of the policy now."""
        self.strike: tuple[str, int, str] | None = None
        """A function, the number of its call, and what the signal handler does then."""
        self.child: int | None = None
        """In a child process: what has been seen in it goes there."""
        self.seen: list[str] = []
        self.messages: list[Any] = []
        self.decisions: list[tuple[Any, Any]] = []
        self.reported: list[Any] = []
        """The records of the calls whose trip was reported."""
        self.turns = 0
        drawn.MEANWHILE.clear()

    def new_guard(self, policy: Any) -> Any:
        """Return a guard with the clock of this trace."""
        guard = Guard(policy, clock=lambda: self.now)
        guard.faults.report_to = lambda site, error: self.note("fault", [site, type(error).__name__])
        return guard

    def note(self, what: str, value: Any) -> None:
        """Note a thing that was seen."""
        self.seen.append(json.dumps([self.step, what, value], default=str))

    async def run(self) -> None:
        """Make all steps, and note how it ends."""
        try:
            self.new_turn()
            for step in self.steps:
                self.step, self.rng = step, random.Random(f"{self.trace.seed}/{step}")
                kind = self.rng.choices(*self.kinds)[0]
                live = self.rng.choice(self.lives)
                turn = self.rng.choice([live.turn, live.turn, *[child for child, *_ in live.children] * 2])
                await getattr(self, "do_" + kind.replace(" ", "_"))(live, turn)
            self.step = -1
            for live in self.lives:
                turn = live.turn
                self.note("turn", [str(turn), turn.calls, turn.refusals, turn.tick, turn.conclusion_due])
                self.note("closed", turn.close())
            self.note("messages", [[bool(one), one.delivered, one.returned] for one in self.messages])
            self.note("turns", self.guard.live)
        except Exception as error:  # a fault of either side, and one of the trace if both have it
            self.note("raised", repr(error))
        if self.child is not None:
            os.write(self.child, json.dumps(self.seen).encode())
            os._exit(0)

    # --- one operation of a turn -------------------------------------------------------------------------------------

    async def do(self, name: str, turn: Any, *args: Any, **more: Any) -> Any:
        """Do it as the trace does: here, in a task, in a thread, or interrupted by a signal handler."""
        if self.way == "tasks" and not self.busy and name in {"begin", "end", "observe"}:
            return await getattr(turn, "a" + name)(*args, **more)
        operation = partial(getattr(turn, name), *args, **more)
        if self.way == "threads":
            place = self.rng.choice([place for place in range(len(self.pools)) if place not in self.busy])
            self.busy.append(place)
            result = self.pools[place].submit(operation).result()
            self.busy.pop()
            return result
        if self.strike is None or name not in {"begin", "end", "observe"}:
            return operation()
        strike, self.strike = self.strike, None
        return self.interrupted(strike, turn, operation)

    def interrupted(self, strike: tuple[str, int, str], turn: Any, operation: Any) -> Any:
        """Do it, and let a signal handler run as a function that changes the history is called."""
        function, count, action = strike

        def trace(frame: Any, event: str, _: Any) -> None:
            nonlocal count
            code = frame.f_code
            if code.co_name != function or not code.co_filename.endswith("history/update.py"):
                return
            if frame.f_back.f_code.co_name == "is_news":  # of the history that a turn shares with its nested ones
                return
            count -= 1
            if count == 0:
                self.handle(turn, action)

        sys.settrace(trace)
        try:
            return operation()
        except StruckError:
            self.note("struck", function)
            return None
        finally:
            sys.settrace(None)

    def handle(self, turn: Any, action: str) -> None:
        """Do what the signal handler does."""
        if action == "raise":
            raise StruckError
        call = ToolCall("read_file", {"path": "of the handler"})
        decision = turn.begin(call)
        self.note("handled", [decision.runs, decision.action])
        if decision.runs:
            self.note("handled", turn.end(call, Outcome("done")).action)
        if action == "say":
            self.messages.append(turn.say("from the handler"))

    async def begin(self, turn: Any, call: ToolCall) -> bool:
        """Begin a call. Return True if it runs."""
        decision = await self.do("begin", turn, call)
        return decision is not None and self.decided("begin", turn, decision)

    async def end(self, turn: Any, call: ToolCall, outcome: Outcome) -> None:
        """End a call."""
        for live in self.lives:
            live.is_plain = live.is_plain and not (outcome.cancelled and turn is live.turn)
        decision = await self.do("end", turn, call, outcome)
        if decision is not None:
            self.decided("end", turn, decision)

    async def observe(self, turn: Any, call: ToolCall, **more: Any) -> None:
        """Observe a call that has run."""
        decision = await self.do("observe", turn, call, self.outcome(), **more)
        if decision is not None:
            self.decided("observe", turn, decision)

    def decided(self, what: str, turn: Any, decision: Any) -> bool:
        """Note a decision, and report its trip as the telemetry does: one of each call."""
        record, first = decision.record, None
        if decision.trip is not None and not any(one is record for one in self.reported):
            self.reported.append(record)
            first = turn.reach(decision.trip)
        self.note(what, {
            "turn": turn.id, "action": decision.action, "trip": decision.trip, "message": decision.message,
            "recovered": decision.recovered, "result": str(decision.result), "mark": decision.mark,
            "notes": [note if isinstance(note, str) else [note.text, note.delivered] for note in decision.notes],
            "repeated": decision.repeated, "runs": decision.runs, "is_loop_step": decision.is_loop_step,
            "first": first, "tick": turn.tick, "refusals": turn.refusals, "calls": turn.calls,
            "record": record and {name: getattr(record, name) for name in OF_RECORD},
        })  # fmt: skip
        if decision.notes:
            self.decisions.append((turn, decision))
        return decision.runs

    # --- steps -------------------------------------------------------------------------------------------------------

    def call(self, place: str = "", **more: Any) -> ToolCall:
        """Draw a call."""
        self.now += 1 / 128 + self.rng.choice(self.values.pauses)
        name = None if self.rng.random() < 0.05 else f"id-{self.step}{place}"
        return ToolCall(**{"call_id": name, **self.values.call(self.rng), **more})

    def outcome(self) -> Outcome:
        """Draw an outcome."""
        return self.values.outcome(self.rng, self.step)

    def new_turn(self) -> Live:
        """Begin a turn, the next one of its conversation if there is one. At most three are live."""
        self.turns += 1
        policy = self.guard.policy
        conversation = "c" if policy.scope == "conversation" else None
        turn = self.guard.turn(f"t{self.turns}", enforced=self.enforced, conversation_id=conversation)
        reuses = any(contract.reuse for contract in policy.tools.values())
        live = Live(turn, is_plain=conversation is None and not reuses and not self.values.have_numbers)
        self.lives = [*self.lives[-2:], live]
        return live

    async def do_call(self, live: Live, turn: Any) -> None:
        """Begin and end a call."""
        call = self.call()
        if await self.begin(turn, call):
            self.now += 1 / 64
            await self.end(turn, call, self.outcome())

    async def do_begin(self, live: Live, turn: Any) -> None:
        """Begin a call that ends later; sometimes the very object that runs already, or one with its id."""
        call = self.call()
        if live.running and self.rng.random() < 0.3:
            turn, running = self.rng.choice(live.running)
            again = self.rng.random() < 0.5 and self.way != "bounds"  # it has been counted once, or as often as it runs
            call = running if again else call._replace(call_id=running.call_id)
        if await self.begin(turn, call):
            live.running.append((turn, call))

    async def do_end(self, live: Live, _: Any) -> None:
        """End such a call."""
        if live.running:
            turn, call = live.running.pop(self.rng.randrange(len(live.running)))
            await self.end(turn, call, self.outcome())

    async def do_end_equal(self, live: Live, _: Any) -> None:
        """End it with a new object; sometimes one that began with another id, or with other arguments."""
        if live.running:
            turn, call = live.running.pop(self.rng.randrange(len(live.running)))
            odd = self.rng.random()
            if odd < 0.15 and live.running:
                call = call._replace(call_id=self.rng.choice(live.running)[1].call_id)
            elif odd < 0.3:
                call = call._replace(**{self.rng.choice(["tool", "arguments"]): "other"})
            await self.end(turn, ToolCall(*call), self.outcome())

    async def do_observe(self, live: Live, turn: Any) -> None:
        """Observe a call that has run; sometimes one of the message of the call before."""
        if self.rng.random() < 0.3:
            live.seen_at = turn.tick
        call = self.call(written=live.seen_at if self.rng.random() < 0.6 else None)
        await self.observe(turn, call, ran=self.rng.choice([0.0, 0.001, 0.5]))

    async def do_row(self, live: Live, turn: Any) -> None:
        """Make five calls that differ in an argument, with one outcome."""
        tool, outcome = self.rng.choice(self.values.tools), self.outcome()
        for place in range(5):
            call = self.call(f"-{place}", tool=tool, arguments={"place": place})
            if await self.begin(turn, call):
                await self.end(turn, call, outcome)

    async def do_lap(self, live: Live, turn: Any) -> None:
        """Make two or three calls again and again."""
        made = [(self.call(arguments={"lap": place}), self.outcome()) for place in range(self.rng.choice([2, 2, 3]))]
        for lap in range(4):
            for place, (call, outcome) in enumerate(made):
                again = call._replace(call_id=f"id-{self.step}-{lap}-{place}")
                if await self.begin(turn, again):
                    await self.end(turn, again, outcome)

    async def do_say(self, live: Live, turn: Any) -> None:
        """Send a message of the user."""
        live.is_plain = False
        stop = self.rng.random() < self.values.stops
        self.messages.append(await self.do("say", turn, f"hello {self.step}", stop=stop))

    async def do_redeliver(self, live: Live, turn: Any) -> None:
        """Send the notes of the last decision that had some again."""
        if self.decisions:
            live.is_plain = False
            turn, decision = self.decisions.pop()
            await self.do("redeliver", turn, decision)

    async def do_conclude(self, live: Live, turn: Any) -> None:
        """Make a request without tools, if one is due."""
        self.note("conclude", [turn.conclusion_due, await self.do("conclude", turn)])

    async def do_lose(self, live: Live, turn: Any) -> None:
        """Lose the results of some calls."""
        calls = [self.call() for _ in range(self.rng.choice([1, 1, 5]))]
        await self.do("lose", turn, [turn.key_of(call) for call in calls])

    async def do_message(self, live: Live, turn: Any) -> None:
        """Make the calls of one model message, some in parallel; some are interrupted."""
        count = self.rng.randrange(1, 4)
        made = [self.call(f"-{place}", written=turn.tick) for place in range(count)]
        if self.rng.random() < 0.4:  # equal calls
            made = [made[0]._replace(call_id=call.call_id) for call in made]
        if self.rng.random() < 0.1:  # of one id
            made = [call._replace(call_id=made[0].call_id) for call in made]
        live.message = (turn, made)
        begun = [call for call in made if await self.begin(turn, call)]
        stopped = self.rng.random() < 0.4
        for call in begun:
            cancelled = stopped and self.rng.random() < 0.7
            await self.end(turn, call, Outcome("x", cancelled=True) if cancelled else self.outcome())

    async def do_resume(self, live: Live, _: Any) -> None:
        """Make the calls of the last message again, as a resumed run does; sometimes they have run."""
        if live.message is None:
            return
        turn, made = live.message
        for call in made:
            again = call._replace(written=turn.tick) if self.rng.random() < 0.9 else call
            if self.rng.random() < 0.1:
                again = again._replace(call_id=f"other-{self.step}")
            if self.rng.random() < 0.2:
                await self.observe(turn, again)
            elif await self.begin(turn, again):
                await self.end(turn, again, self.outcome())

    async def do_child(self, live: Live, turn: Any) -> None:
        """Begin a call with a run inside."""
        if len(live.children) > 1:
            return
        call = self.call(tool="run_agent", arguments={"task": "look"})
        if await self.begin(turn, call):
            live.is_plain = False
            live.children.append((turn.child(call), turn, call))

    async def do_leave(self, live: Live, _: Any) -> None:
        """End the innermost such call."""
        if live.children:
            child, turn, call = live.children.pop()
            self.note("left", [child.id, child.calls, child.close()])
            await self.end(turn, call, self.outcome())

    async def do_together(self, live: Live, turn: Any) -> None:
        """Make calls in tasks at once."""
        if self.way != "tasks":
            return await self.do_message(live, turn)
        made = [(self.call(f"-{place}"), self.outcome()) for place in range(3)]

        async def one(call: ToolCall, outcome: Outcome) -> None:
            runs = self.decided("begin", turn, await turn.abegin(call))
            await asyncio.sleep(0)
            if runs:
                self.decided("end", turn, await turn.aend(call, outcome))

        await asyncio.gather(*(one(*pair) for pair in made))
        return None

    async def do_new_turn(self, live: Live, turn: Any) -> None:
        """Begin the next turn; the others go on."""
        self.new_turn()

    async def do_new_policy(self, live: Live, turn: Any) -> None:
        """Begin new turns with another policy; the others keep theirs."""
        self.guard.use(drawn.policy(self.rng.choice([self.trace.policy, "default", "contracts", "on_trip", "custom"])))
        self.new_turn()

    async def do_same_turn(self, live: Live, turn: Any) -> None:
        """Ask for a turn by its id."""
        again = self.guard.turn(live.turn.id, enforced=self.enforced)
        self.note("same turn", again is live.turn)
        if again is not live.turn:
            self.lives[self.lives.index(live)] = Live(again, is_plain=False)

    async def do_close(self, live: Live, _: Any) -> None:
        """Close a turn, and sometimes use it all the same."""
        self.note("closed", live.turn.close())
        live.is_plain = False
        if self.rng.random() < 0.7:
            self.lives.remove(live)
            if not self.lives:
                self.new_turn()

    async def do_restore(self, live: Live, _: Any) -> None:
        """Go on with the state of a turn in another guard, as another process would, if the state is all of it."""
        if live.is_plain and not live.running:
            turn = self.new_guard(live.turn.policy).turn(live.turn.id, enforced=self.enforced)
            turn.restore(live.turn.state())
            live.turn = turn

    async def do_aside(self, live: Live, turn: Any) -> None:
        """Let something happen while the policy's next function runs."""
        rng = random.Random(self.rng.random())

        def happens() -> None:
            before, self.rng = self.rng, rng
            now = self.now
            self.busy.append(-1)  # a task goes on in this thread now
            kind = rng.choice(MEANWHILE)
            try:
                if live in self.lives:
                    at_once(getattr(self, "do_" + kind)(live, turn))
            finally:
                self.busy.pop()
                self.rng, self.now = before, now  # a turn may read the clock before or after it

        drawn.MEANWHILE[:] = [happens]

    async def do_fork(self, live: Live, turn: Any) -> None:
        """Fork. The child makes the other steps, and then its parent does."""
        if self.child is not None:
            return
        reader, writer = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.close(reader)
            signal.alarm(60)  # ends it if it hangs
            self.child, self.seen = writer, []
            self.note("turns", [[one.turn.id, one.turn.calls, one.turn.tick] for one in self.lives])
            return
        os.close(writer)
        with open(reader, "rb") as pipe:
            self.note("child", json.loads(pipe.read() or "null"))
        os.waitpid(pid, 0)

    async def do_strike(self, live: Live, turn: Any) -> None:
        """Let a signal strike in the next operation."""
        self.strike = self.rng.choice(STRUCK), self.rng.choice([1, 1, 2]), self.rng.choice(["raise", "call", "say"])
