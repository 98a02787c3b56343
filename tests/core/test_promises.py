"""The promise: every refusal is justified, and in a world of finitely many states every run ends."""

from __future__ import annotations

import itertools
import random
from dataclasses import dataclass, field

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from otel_loopguard.core.guard import Guard
from otel_loopguard.core.model import Action, Outcome, ToolCall
from otel_loopguard.core.policy.policy import Policy, ToolContract
from tests.core.judges.corpus import Clock

QUICK = settings(max_examples=250, deadline=None, suppress_health_check=list(HealthCheck))
KINDS = ("read", "write", "shell", "unknown", "agent", "think", "poll", "wait")
MAY_WRITE = ("write", "shell", "unknown", "agent")
CALLS_BETWEEN_NEWS = 200
CALLS_BETWEEN_NEWS_WITH_POLLS = 320


@dataclass
class World:
    """A world of few states: every call moves it to a state and has a result. A read does not move it."""

    rng: random.Random
    states: int
    calls: list[ToolCall]
    kinds: dict[str, str]
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
            return Outcome(error=self.rng.choice(["it broke", "no such thing", "HTTP 503", "denied"]))
        return Outcome(self.rng.choice(["alpha", "beta", "gamma", "delta epsilon", "still pending", "theta", ""]))


def world(seed: int, kinds: tuple[str, ...]) -> World:
    """Draw a world by this seed."""
    rng = random.Random(seed)
    of_tool = {f"tool_{n}": rng.choice(kinds) for n in range(rng.randint(1, 6))}
    every = [ToolCall(rng.choice(list(of_tool)), {"at": "abcdefghijkl"[n]}) for n in range(rng.randint(1, 12))]
    return World(rng, rng.randint(1, 20), every, of_tool)


def stubborn(rng: random.Random, calls: int):
    """Make the same few calls in the same order, and ignore refusals."""
    order = [rng.randrange(calls) for _ in range(rng.randint(1, 12))]
    for place in itertools.count():
        yield order[place % len(order)]


def careless(rng: random.Random, calls: int):
    """Make any call at any time."""
    while True:
        yield rng.randrange(calls)


def insisting(rng: random.Random, calls: int):
    """Make any call, and a refused call once more."""
    while True:
        index = rng.randrange(calls)
        refused = yield index
        if refused:
            yield index


def obeying(rng: random.Random, calls: int):
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
    news: bool = False
    change: bool = False


def live(seed: int, agent, kinds: tuple[str, ...], at_most: int) -> list[Lived]:
    """Run an agent in the world until it is aborted, gives up or has made ``at_most`` calls."""
    here, clock = world(seed, kinds), Clock()
    policy = Policy(tools={tool: ToolContract(kind=kind) for tool, kind in here.kinds.items()})
    turn = Guard(policy, clock=clock).turn()
    choose = agent(random.Random(seed + 1), len(here.calls))
    seen: set[tuple[int, str]] = set()
    lived: list[Lived] = []
    refused: bool | None = None
    while len(lived) < at_most:
        try:
            index = choose.send(refused)
        except StopIteration:
            break
        clock.now += 1
        lived.append(step(here, turn, index, seen))
        refused = lived[-1].refused
        if lived[-1].aborted:
            break
    return lived


def step(here: World, turn, index: int, seen: set[tuple[int, str]]) -> Lived:
    """Make one call. Return its record, with the news and changes that an independent witness sees."""
    call = here.calls[index]
    kind = here.kinds[call.tool]
    decision = turn.begin(call)
    if not decision.runs:
        return Lived(index, kind, True, bool(decision.trip.insistable), decision.action == Action.ABORT)
    before = any(known == index for known, _ in seen)
    outcome = here.act(index)
    turn.end(call, outcome)
    shown = (index, repr(outcome))
    new = shown not in seen
    seen.add(shown)
    good = outcome.error is None
    changed = new and good and kind != "think" and (kind in MAY_WRITE or before)
    return Lived(index, kind, False, news=new, change=changed)


@QUICK
@given(st.integers(0, 10**9), st.sampled_from(AGENTS))
def test_every_refusal_is_justified(seed, agent):
    """A refused call had run before, and no result since then was new in a way that a change explains."""
    lived = live(seed, agent, KINDS, 600)
    for place, refused in enumerate(lived):
        if not refused.refused or refused.insistable:
            continue
        ran = [n for n, other in enumerate(lived[:place]) if other.index == refused.index and not other.refused]
        assert ran, f"call {place} was refused untried"
        changed = [n for n in range(ran[-1] + 1, place) if lived[n].change]
        assert not changed, f"call {place} was refused though call {changed[0]} had changed something since {ran[-1]}"


@QUICK
@given(st.integers(0, 10**9), st.sampled_from(AGENTS))
def test_an_insistable_refusal_lets_the_call_run_when_it_is_made_again(seed, agent):
    """An untried call is refused once: it runs if it is made again."""
    lived = live(seed, agent, KINDS, 600)
    refused: set[int] = set()
    for one in lived:
        if one.refused and one.insistable:
            assert one.index not in refused
            refused.add(one.index)


@QUICK
@given(st.integers(0, 10**9), st.sampled_from(AGENTS))
def test_every_run_without_polls_ends(seed, agent):
    """In a finite world the number of calls between two pieces of news is bounded by a constant."""
    kinds = tuple(kind for kind in KINDS if kind not in ("poll", "wait"))
    lived = live(seed, agent, kinds, 4000)
    assert longest_without_news(lived) <= CALLS_BETWEEN_NEWS
    assert len(lived) < 4000


@QUICK
@given(st.integers(0, 10**9), st.sampled_from(AGENTS))
def test_every_run_with_polls_ends(seed, agent):
    """With polls and waits the bound is higher, and every run still ends."""
    lived = live(seed, agent, KINDS, 8000)
    assert longest_without_news(lived) <= CALLS_BETWEEN_NEWS_WITH_POLLS
    assert len(lived) < 8000


def longest_without_news(lived: list[Lived]) -> int:
    """Return the most calls in a row in which the witness found nothing new."""
    longest = here = 0
    for one in lived:
        here = 0 if one.news else here + 1
        longest = max(longest, here)
    return longest


@pytest.mark.parametrize("kind", ["read", "write", "unknown", "poll"])
def test_parallel_calls_are_no_repeats(kind):
    """Sixty-four equal calls that are begun before the first one ends all run."""
    turn = Guard(Policy(tools={"t": ToolContract(kind=kind)})).turn()
    batch = [ToolCall("t", {"a": 1}, call_id=f"c{n}") for n in range(64)]
    assert all(turn.begin(call).runs for call in batch)
    for call in batch:
        turn.end(call, Outcome("same"))
    assert turn.begin(ToolCall("t", {"a": 1}, call_id="after")).runs


def test_a_poll_that_is_spaced_ends_by_patience():
    """A poll every minute of a state that does not change is refused after two hours, and not before."""
    clock = Clock()
    turn = Guard(Policy(tools={"t": ToolContract(kind="poll")}), clock=clock).turn()
    call, started = ToolCall("t", {"job": 1}), None
    while turn.begin(call).runs:
        started = clock.now if started is None else started
        turn.end(call, Outcome("running"))
        clock.now += 60
        assert clock.now < 10 * 3600
    assert clock.now - started >= 7200
