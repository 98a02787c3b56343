"""Processes that share the turns of one conversation, in a world of files, with users who say messages.

The agent is one, and each of its calls is made by any process. It has what its calls have returned.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter, defaultdict
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from otel_loopguard import Action, Guard, Outcome, Policy, ToolCall
from otel_loopguard.errors import NotStoredError
from tests.simulator.server import Connection, Server
from tests.simulator.steps import BrokenPromiseError, Setting, Step
from tests.store.processes import KEY, LONG

if TYPE_CHECKING:
    import random

    from typing_extensions import Self

    from otel_loopguard.engine.user_messages import UserMessage
    from otel_loopguard.engine.vocabulary import Decision
    from otel_loopguard.guard.turn import Turn
    from tests.simulator.one_thread import Loop

L = 300
PROCESSES = 3
FILES = "ab"
ALL = "all"
"""The argument of a read of all files."""
NAME = "conversation:one"
MOST_WELL = 16
"""The equal calls after which a run was ended, once the store is well.

If it has lost the begin of the run, each process may be alone with its part of it, and has so many.
"""


class Process:
    """A guard, its connection, and its clock."""

    def __init__(self, server: Server, loop: Loop, ahead: float) -> None:
        self.connection = Connection(server)
        self.guard = Guard(Policy(hash_key=KEY), store=self.connection, clock=lambda: loop.time() + ahead)

    def turn(self, run: int) -> Turn:
        """Return its part in a run of the agent."""
        return self.guard.shared_turn(NAME, f"run {run}")


@dataclass
class Said:
    """A message of the user."""

    process: Process
    turn: Turn
    stop: bool
    """Each further refusal repeats it."""
    handle: UserMessage | None
    """None if the sender was told at once that it could not be stored."""
    run: int = 0
    """The run that it is for; 0 as long as its sender does not know which one there is."""

    def find_run(self) -> None:
        """Note which turn its sender has found."""
        if not self.run and self.turn.id.startswith("run "):
            self.run = int(self.turn.id.removeprefix("run "))


class Turns:
    """The processes, and what is true."""

    words: LostMessages
    """What the log of all processes says in this run."""

    def __init__(self, loop: Loop, rng: random.Random, setting: Setting) -> None:
        self.loop, self.rng = loop, rng
        self.server = Server(loop, rng)
        self.processes = [self._process() for _ in range(PROCESSES)]
        self.run = 1
        self.versions = dict.fromkeys(FILES, 0)
        self.had: dict[tuple[int, str], set[int]] = defaultdict(set)
        """The versions that the agent has had of what a read returns, by run."""
        self.hidden: dict[str, list[tuple[int, Turn]]] = defaultdict(list)
        """The turns of processes that have changed a file, which the store did not have at once, by file, with the run.

        No other process can know of that until the store has it: a refusal meanwhile is not held against the product.
        """
        self.said: dict[str, Said] = {}
        self.read: Counter[str] = Counter()
        self.over: set[int] = set()
        """The runs that were ended."""
        self.dead: list[Process] = []
        self.most = setting.most
        self.repeats: list[Any] = []
        """The last calls of the run, as long as they were equal."""

    def _process(self) -> Process:
        return Process(self.server, self.loop, self.rng.choice([0.0, -400.0, 90_000.0]))

    def version(self, on: str) -> int:
        """Return the present version of what a read returns."""
        return sum(self.versions.values()) if on == ALL else self.versions[on]

    @staticmethod
    def drawn(rng: random.Random, setting: Setting) -> tuple[Step, ...]:
        """Draw the steps of a run. In one of three the agent only repeats itself."""
        repeats = rng.random() < 0.3
        length = setting.most + 10 if repeats else 50
        return tuple(_drawn(rng, setting, number, repeats=repeats) for number in range(1, length + 1))

    def is_stopped(self, run: int) -> bool:
        """Return True if a user wants this run to end, or perhaps does."""
        return any(said.stop and said.run in (0, run) for said in self.said.values())

    # --- steps -------------------------------------------------------------------------------------------------------

    def do(self, step: Step) -> None:
        """Do a step, wait until all of it is over, and check the invariants."""
        parts = [self._started(one) for one in (step, *step.beside)]
        for part in parts:
            if asyncio.isfuture(part):
                self.loop.wait(part)
        self.loop.wait(asyncio.sleep(0.5))
        self.check()

    def _started(self, step: Step) -> Any:
        return getattr(self, f"_{step.what}")(step)

    def _fault(self, step: Step) -> None:
        if step.how == "cut":
            self.processes[step.who].connection.lost = step.count
        else:
            self.server.fail(step.how, step.count)

    def _wait(self, step: Step) -> None:
        self.loop.wait(asyncio.sleep(step.count))

    def _kill(self, step: Step) -> None:
        """Kill a process: nothing that it sends arrives any more. Another one is started."""
        dead = self.processes[step.who]
        dead.connection.lost = 1_000_000
        self.dead.append(dead)
        self.processes[step.who] = self._process()

    def _restart(self, step: Step) -> None:
        """Let the agent begin anew: another turn in the same cell. The one before is in the store, unless "at once".

        A turn that reaches the store only after the next one has begun takes the cell from it: this is not mended.
        """
        if step.how != "at once":
            self._heal()
            self.loop.wait(asyncio.sleep(61))
        self.run += 1

    def _heal(self) -> None:
        self.server.fail("well", 0)
        for process in self.processes:
            process.connection.lost = 0

    def _say(self, step: Step) -> None:
        """Say a message: in the turn that a process holds, or from a process that knows the conversation only."""
        process, text, stop = self.processes[step.who], f"<message {step.number}>", step.count == 1
        held = step.on == "held"
        turn = process.turn(self.run) if held else process.guard.shared_turn(NAME, begins=False)
        drive = self._drive(step)
        if not (held or drive(turn.runs_elsewhere)):
            return
        said = self.said[text] = Said(process, turn, stop, None)
        said.find_run()
        with suppress(NotStoredError):
            said.handle = drive(turn.say, text, stop=stop)

    # --- calls -------------------------------------------------------------------------------------------------------

    def _read(self, step: Step) -> Any:
        return self._call(step, ToolCall("grep" if step.on == ALL else "read_file", {"path": step.on}))

    def _write(self, step: Step) -> Any:
        return self._call(step, ToolCall("write_file", {"path": step.on, "text": f"text {step.number}"}))

    def _call(self, step: Step, call: ToolCall) -> Any:
        if step.how == "task":
            return asyncio.ensure_future(self._task(step, call), loop=self.loop)
        turn, run, before = self.processes[step.who].turn(self.run), self.run, self.version(step.on)
        if step.how == "observed":
            had = set(self.had[run, step.on])
            decision = turn.ran(call, self._run(step, run))
            withheld = decision.action in (Action.CONCLUDE, Action.ABORT)
            self._decided(step, run, decision, before, withheld=withheld, had=had)
            return None
        drive = self._drive(step)
        decision = drive(turn.begin, call)
        self._decided(step, run, decision, before, withheld=not decision.runs)
        if decision.runs:
            outcome = self._run(step, run, turn, call)
            self._reads(run, drive(turn.end, call, outcome))
        return None

    def _drive(self, step: Step) -> Any:
        """Return what calls a function: as in a thread, or on an event loop."""
        return self.loop.on_event_loop if step.how == "loop" else _called

    async def _task(self, step: Step, call: ToolCall) -> None:
        turn, run, before = self.processes[step.who].turn(self.run), self.run, self.version(step.on)
        decision = await turn.abegin(call)
        self._decided(step, run, decision, before, withheld=not decision.runs)
        if decision.runs:
            outcome = self._run(step, run, turn, call)
            await asyncio.sleep(self.rng.random() * 0.05)
            self._reads(run, await turn.aend(call, outcome))

    def _run(self, step: Step, run: int, turn: Turn | None = None, call: ToolCall | None = None) -> Outcome:
        """Run a tool. A few times it is an agent of its own, whose one call is in a nested turn."""
        if step.what == "write":
            self.versions[step.on] += 1
            self.hidden[step.on].append((run, self.processes[step.who].turn(run)))
            return Outcome("ok")
        version = self.version(step.on)
        self.had[run, step.on].add(version)
        outcome = Outcome(f"{LONG}{step.on}, version {version}")
        if turn is not None and call is not None and step.count == 1:
            nested = turn.child(call)
            nested.begin(inner := ToolCall("read_file", {"path": step.on}))
            self._reads(run, nested.end(inner, outcome))
        return outcome

    def _decided(
        self, step: Step, run: int, decision: Decision, before: int, *, withheld: bool, had: set[int] | None = None
    ) -> None:
        self._reads(run, decision)
        self._repeated(step, run, decision)
        if decision.action is Action.ABORT:
            self.over.add(run)
        if not withheld or self.is_stopped(run):
            return
        if step.what == "write":
            raise BrokenPromiseError(f"invariant 1: {step} was refused, and no call was equal: {decision.trip}")
        if self._is_hidden(step, run):
            return
        had = self.had[run, step.on] if had is None else had
        if had.isdisjoint(range(before, self.version(step.on) + 1)):
            raise BrokenPromiseError(f"invariant 1: {step} was refused, and its result has changed: {decision.trip}")

    def _is_hidden(self, step: Step, run: int) -> bool:
        mine = self.processes[step.who].turn(run)
        others = [one for on in FILES if step.on in (on, ALL) for one in self.hidden[on]]
        return any(of == run and turn is not mine and not turn.cell.is_settled for of, turn in others)

    def _repeated(self, step: Step, run: int, decision: Decision) -> None:
        """Count the equal calls since another one."""
        call = (run, step.what, step.on, step.number if step.what == "write" else self.version(step.on))
        self.repeats = [*[one for one in self.repeats if one == call], call]
        if decision.action is Action.ABORT:
            self.repeats = []
        if len(self.repeats) > self.most:
            raise BrokenPromiseError(f"invariant 2: {self.most} equal calls, and the run goes on")

    def _reads(self, run: int, decision: Decision) -> None:
        """Have the model read the messages with a result or a refusal."""
        for text, said in self.said.items():
            if text in (decision.message or ""):
                self.read[text] += 1
                said.find_run()
                if (said.run or run) != run:
                    raise BrokenPromiseError(f"invariant 3: {text} of run {said.run} was read in run {run}")

    # --- what holds --------------------------------------------------------------------------------------------------

    def check(self) -> None:
        """Check what holds after each step."""
        for text, said in self.said.items():
            said.find_run()
            if not said.stop and self.read[text] > 1:
                raise BrokenPromiseError(f"invariant 3: {text} was read {self.read[text]} times")

    def finish(self) -> None:
        """Let the store be well again: each message arrives then, and a loop ends."""
        self._heal()
        for number in range(30):
            if number > 2 and self._arrived():
                break
            for who in range(PROCESSES):
                self.do(Step(10_000 + 10 * number + who, "write", who, "thread", "a"))
            self.loop.wait(asyncio.sleep(20))
        self._check_messages()
        most = MOST_WELL * (PROCESSES if self.server.losses else 1)
        for _ in range(most):
            call, turn = ToolCall("read_file", {"path": "the same"}), self.rng.choice(self.processes).turn(self.run)
            decision = turn.begin(call)
            if decision.action is Action.ABORT:
                return
            if decision.runs:
                turn.end(call, Outcome(LONG))
            self.loop.wait(asyncio.sleep(0.5))
        raise BrokenPromiseError(f"invariant 2: {most} equal calls, and the run goes on")

    def _arrived(self) -> bool:
        return all(self.read[text] for text, said in self.said.items() if said.run == self.run)

    def _check_messages(self) -> None:
        for text, said in self.said.items():
            is_over = said.run != self.run or self.is_stopped(self.run) or self.run in self.over
            if self.read[text] or said.handle is None or said.process in self.dead or is_over:
                continue
            if said.handle.delivered and not self.dead:  # to its sender; the process that was given it must have said
                self.words.lost -= 1
                if self.words.lost < 0:
                    raise BrokenPromiseError(f"invariant 3: {text} counts as delivered, and was not read")
            elif not (said.handle.returned and self.server.losses):
                raise BrokenPromiseError(f"invariant 3: {text} was not read; its status: {said.handle.status}")


class LostMessages(logging.Filter):
    """Counts, during a run, how often the log says that a message is lost."""

    def __init__(self) -> None:
        super().__init__()
        self.lost = 0
        self._log = logging.getLogger("otel_loopguard")

    def __enter__(self) -> Self:
        self._log.addFilter(self)
        return self

    def __exit__(self, *_: object) -> None:
        self._log.removeFilter(self)

    def filter(self, record: logging.LogRecord) -> bool:
        """Count a record, and keep it off the screen: thousands of runs lose hundreds of messages."""
        is_lost = "has lost a message" in record.getMessage()
        self.lost += is_lost
        return not is_lost


def _called(function: Any, *arguments: Any, **more: Any) -> Any:
    return function(*arguments, **more)


def _drawn(rng: random.Random, setting: Setting, number: int, *, repeats: bool) -> Step:
    who, how = rng.randrange(PROCESSES), rng.choice(setting.hows)
    if rng.random() < setting.share:
        fault = rng.choice(setting.faults)
        count = rng.randint(1, 6) if fault == "failover" else rng.choice([1, 2, 4, 8, 30])
        return Step(number, "kill" if fault == "kill" else "fault", who, fault, count=count)
    if repeats:
        return Step(number, "read", who, how, "a")
    what = rng.choices(["call", "say", "wait", "restart"], [82, 9, 4, 5])[0]
    if what == "wait":
        return Step(number, what, count=rng.choice([1, 5, 60]))
    if what == "restart":
        return Step(number, what)
    if what == "say":
        stop = rng.random() < 0.1
        return Step(number, what, who, rng.choice(["thread", "loop"]), rng.choice(["held", ""]), int(stop))
    call = _drawn_call(rng, number, who, how)
    if how != "task" or rng.random() < 0.5:
        return call
    others = range(1, rng.randint(2, 4))
    return call._replace(beside=tuple(_drawn_call(rng, number + 1_000 * one, (who + one) % 3, how) for one in others))


def _drawn_call(rng: random.Random, number: int, who: int, how: str) -> Step:
    if rng.random() < 0.15:
        return Step(number, "write", who, how if how != "observed" else "thread", rng.choice("aab"))
    return Step(number, "read", who, how, rng.choice(["a", "a", *FILES, ALL]), int(rng.random() < 0.1))
