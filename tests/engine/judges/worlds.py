"""Worlds of finitely many states, and agents that live in them at some pace."""

from __future__ import annotations

import itertools
import random
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, Protocol

from otel_loopguard.engine.vocabulary import Outcome, ToolCall
from tests.engine.judges.corpus import Clock

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

KINDS = ("read", "write", "shell", "unknown", "agent", "think", "poll", "wait", "final", "handoff")
MAY_WRITE = ("write", "shell", "unknown", "agent")
PACES = {"quick": (0.1, 4.0), "steady": (1.0, 40.0), "slow": (15.0, 90.0)}
TEXTS = ("alpha", "beta", "gamma", "delta epsilon", "still pending", "a long answer " * 8, "")
NUMBERS = ("3 of 9", "7 of 9")
ERRORS = ("it broke", "no such thing", "HTTP 503", "denied")


class Door(NamedTuple):
    """The decision about a call that begins."""

    runs: bool
    mode: str = ""
    insistable: bool = False
    aborted: bool = False
    wait: float = 0.0
    price: int = 1


class Doors(Protocol):
    """A turn that decides about calls."""

    def begin(self, call: ToolCall) -> Door:
        """Decide about a call."""

    def end(self, call: ToolCall, outcome: Outcome) -> None:
        """Take its outcome."""


@dataclass
class World:
    """A world of few states: every call moves it to a state and has a result. A read does not move it."""

    rng: random.Random
    states: int
    calls: list[ToolCall]
    kinds: dict[str, str]
    texts: tuple[str, ...] = TEXTS + NUMBERS
    state: int = 0
    moves: dict[tuple[int, int], int] = field(default_factory=dict)
    shows: dict[tuple[int, int], Outcome] = field(default_factory=dict)

    def act(self, index: int) -> Outcome:
        """Run a call: return its outcome, and move the world."""
        place = (self.state, index)
        if place not in self.moves:
            moving = self.kinds[self.calls[index].tool] in MAY_WRITE
            self.moves[place] = self.rng.randrange(self.states) if moving else self.state
            self.shows[place] = self.draw()
        self.state = self.moves[place]
        return self.shows[place]

    def draw(self) -> Outcome:
        """Draw one of a few results, or an error."""
        if self.rng.random() < 0.25:
            return Outcome(error=self.rng.choice(ERRORS))
        return Outcome(self.rng.choice(self.texts))


def world(seed: int, kinds: tuple[str, ...] = KINDS, texts: tuple[str, ...] = TEXTS + NUMBERS) -> World:
    """Draw a world by this seed."""
    rng = random.Random(seed)
    of_tool = {f"tool_{n}": rng.choice(kinds) for n in range(rng.randint(1, 6))}
    every = [ToolCall(rng.choice(list(of_tool)), {"at": "abcdefghijkl"[n]}) for n in range(rng.randint(1, 12))]
    return World(rng, rng.randint(1, 20), every, of_tool, texts)


def stubborn(rng: random.Random, calls: int) -> Generator[int, bool | None, None]:
    """Make the same few calls in the same order, and ignore refusals."""
    order = [rng.randrange(calls) for _ in range(rng.randint(1, 12))]
    for place in itertools.count():
        yield order[place % len(order)]


def careless(rng: random.Random, calls: int) -> Generator[int, bool | None, None]:
    """Make any call at any time."""
    while True:
        yield rng.randrange(calls)


def insisting(rng: random.Random, calls: int) -> Generator[int, bool | None, None]:
    """Make any call, and a refused call once more."""
    while True:
        index = rng.randrange(calls)
        refused = yield index
        if refused:
            yield index


def obeying(rng: random.Random, calls: int) -> Generator[int, bool | None, None]:
    """Make any call that was not refused since another one ran; give up if there is none left."""
    left = list(range(calls))
    while left:
        index = rng.choice(left)
        refused = yield index
        left = [other for other in left if other != index] if refused else left


AGENTS = (stubborn, careless, insisting, obeying)


@dataclass
class Lived:
    """One call of a run, with its decision and outcome."""

    index: int
    kind: str
    refused: bool
    insistable: bool = False
    aborted: bool = False
    mode: str = ""
    wait: float = 0.0
    price: int = 1
    news: bool = False
    change: bool = False


class Life:
    """An agent in a world, judged by a turn."""

    def __init__(
        self, here: World, doors: Callable[[World, Clock], Doors], pace: tuple[float, float], seed: int
    ) -> None:
        self.here, self.clock, self.pace = here, Clock(), pace
        self.turn = doors(here, self.clock)
        self.rng = random.Random(seed)
        self.seen: set[tuple[int, str]] = set()
        self.lived: list[Lived] = []

    def step(self, index: int, pause: float | None = None) -> Lived:
        """Make one call after a pause; note the news and changes that a witness sees who does not look at numbers."""
        self.clock.now += self.rng.uniform(*self.pace) if pause is None else pause
        call = self.here.calls[index]
        kind = self.here.kinds[call.tool]
        door = self.turn.begin(call)
        refused = Lived(index, kind, True, door.insistable, door.aborted, door.mode, door.wait, door.price)
        self.lived.append(self._ran(index, kind, call) if door.runs else refused)
        return self.lived[-1]

    def _ran(self, index: int, kind: str, call: ToolCall) -> Lived:
        before = any(known == index for known, _ in self.seen)
        outcome = self.here.act(index)
        self.clock.now += self.rng.choice((0.0, 0.5, 30.0))
        self.turn.end(call, outcome)
        shown = (index, re.sub(r"\d", "", repr(outcome)))
        new = shown not in self.seen
        self.seen.add(shown)
        good = outcome.error is None
        changed = new and good and kind != "think" and (kind in MAY_WRITE or before)
        return Lived(index, kind, False, news=new, change=changed)


def live(seed: int, agent: Callable[..., Generator[int, bool | None, None]], life: Life, at_most: int) -> list[Lived]:
    """Let an agent live until it is aborted, gives up or has made ``at_most`` calls."""
    choose = agent(random.Random(seed + 1), len(life.here.calls))
    refused: bool | None = None
    while len(life.lived) < at_most:
        try:
            index = choose.send(refused)
        except StopIteration:
            break
        lived = life.step(index)
        refused = lived.refused
        if lived.aborted:
            break
    return life.lived


def longest_without_news(lived: list[Lived]) -> int:
    """Return the most calls in a row in which the witness found nothing new."""
    longest = here = 0
    for one in lived:
        here = 0 if one.news else here + 1
        longest = max(longest, here)
    return longest
