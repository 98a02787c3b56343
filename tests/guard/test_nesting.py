"""Nested turns: their news is news of the outer call only if no nested turn brought it before."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel_loopguard.engine.policy.policy import Policy, ToolContract
from otel_loopguard.engine.vocabulary import Action, Outcome, ToolCall
from otel_loopguard.guard.guard import Guard
from tests.engine.judges.corpus import Clock
from tests.engine.judges.worlds import AGENTS, KINDS, MAY_WRITE, Lived, World, longest_without_news, world
from tests.engine.test_promises import QUICK

CALLS_BETWEEN_NEWS = 200
REPORT = "the report of the sub-agent"


def delegate(turn, reads, *, report=REPORT, **arguments):
    """Make a call in which a sub-agent makes these reads; return the decision."""
    call = ToolCall("run_agent", arguments or {"task": "look"})
    decision = turn.begin(call)
    if not decision.runs:
        return decision
    with turn.child(call) as child:
        for path, text in reads:
            read = ToolCall("read_file", {"path": path})
            if child.begin(read).runs:
                child.end(read, Outcome(text))
    return turn.end(call, Outcome(report))


def test_a_sub_agent_that_only_repeats_itself_is_stopped():
    """Equal work with an equal report is no news, though each run of the sub-agent is new to itself."""
    turn = Guard().turn()
    decisions = [delegate(turn, [("a", "text of a"), ("b", "text of b")]) for _ in range(6)]
    assert Action.BLOCK in [decision.action for decision in decisions]


def test_a_result_under_a_new_id_is_no_news_of_a_sub_agent():
    """A timestamp in the results of a sub-agent does not make its work new each time."""
    turn = Guard().turn()
    reads = [[("a", f"2024-05-01T10:00:{second:02} all is well")] for second in range(10)]
    assert Action.BLOCK in [delegate(turn, read).action for read in reads]


def test_new_work_of_a_sub_agent_counts():
    """An equal report after other reads is no repeat."""
    turn = Guard().turn()
    assert all(delegate(turn, [(f"file {n}", f"text {n}")]).runs for n in range(30))


def test_new_work_of_a_sub_agents_sub_agent_counts():
    """News reaches every call around it, and no other."""
    turn = Guard().turn()
    for number in range(20):
        call = ToolCall("run_agent", {"task": "look"})
        assert turn.begin(call).runs
        with turn.child(call) as child:
            delegate(child, [(f"file {number}", f"text {number}")])
        turn.end(call, Outcome(REPORT))


def test_a_sub_agents_sub_agent_that_repeats_itself_is_stopped():
    """The depth of the nesting makes no difference."""
    turn, ran = Guard().turn(), 0
    for _ in range(20):
        call = ToolCall("run_agent", {"task": "look"})
        if turn.begin(call).runs:
            ran += 1
            with turn.child(call) as child:
                delegate(child, [("a", "text of a")])
            turn.end(call, Outcome(REPORT))
    assert ran < 5


def test_calls_of_nested_runs_count_in_every_turn_around_them():
    """``max_calls`` cannot be outrun by delegating twice."""
    turn = Guard().turn()
    call = ToolCall("run_agent", {"task": "look"})
    turn.begin(call)
    delegate(turn.child(call), [("a", "1"), ("b", "2")])
    assert turn.calls == 4


def test_the_shared_history_of_nested_turns_is_bounded():
    """The shared history forgets the oldest entries of a turn with many nested turns."""
    turn = Guard(Policy(action=Action.OBSERVE)).turn()
    for number in range(2_000):
        delegate(turn, [(f"{number}", f"text {number}"), (f"{number % 3}", f"{number}")])
    history = turn._tree._history
    assert len(history.run_once) + len(history.repeated) <= 1_024
    assert len(history.pairs) <= 4_096


@dataclass
class Supervised:
    """A world in which calls of kind agent run other calls of it, always the same ones."""

    world: World
    scripts: dict[int, list[int]]
    seen: set[tuple[bool, int, str]] = field(default_factory=set)

    def run(self, turn, index: int, depth: int = 0) -> tuple[Outcome, bool, bool]:
        """Run a call. Return its outcome, and if anything or any good result in it was new."""
        new = good = False
        call = self.world.calls[index]
        if depth < 2 and index in self.scripts:
            with turn.child(call) as child:
                for inner in self.scripts[index]:
                    if child.begin(self.world.calls[inner]).runs:
                        outcome, newer, better = self.run(child, inner, depth + 1)
                        child.end(self.world.calls[inner], outcome)
                        new, good = new or newer, good or better
        outcome = self.world.act(index)
        shown = (depth > 0, index, repr(outcome))
        unseen = shown not in self.seen
        self.seen.add(shown)
        works = outcome.error is None and self.world.kinds[call.tool] != "think"
        return outcome, new or unseen, good or (unseen and works)


def live(seed: int, agent, at_most: int) -> list[Lived]:
    """Run a supervisor. Return its calls, each with its own outcome and that of the nested runs."""
    rng = random.Random(seed)
    here, clock = world(seed, tuple(kind for kind in KINDS if kind not in ("poll", "wait"))), Clock()
    calls = range(len(here.calls))
    delegating = [index for index in calls if here.kinds[here.calls[index].tool] == "agent"]
    family = Supervised(here, {index: rng.choices(calls, k=rng.randint(1, 6)) for index in delegating})
    policy = Policy(tools={tool: ToolContract(kind=kind) for tool, kind in here.kinds.items()})
    turn = Guard(policy, clock=clock).turn()
    choose = agent(random.Random(seed + 1), len(here.calls))
    lived: list[Lived] = []
    refused: bool | None = None
    while len(lived) < at_most and not (lived and lived[-1].aborted):
        try:
            index = choose.send(refused)
        except StopIteration:
            break
        clock.now += 1
        decision, kind = turn.begin(here.calls[index]), here.kinds[here.calls[index].tool]
        refused = not decision.runs
        if refused:
            lived.append(Lived(index, kind, True, decision.trip.insistable, decision.action == Action.ABORT))
            continue
        outcome, new, good = family.run(turn, index)
        turn.end(here.calls[index], outcome)
        lived.append(Lived(index, kind, False, news=new, change=good and not outcome.error and kind in MAY_WRITE))
    return lived


@QUICK
@given(st.integers(0, 10**9), st.sampled_from(AGENTS))
def test_every_run_with_sub_agents_ends(seed, agent):
    """In a finite world a supervisor makes at most a constant number of calls between two pieces of news."""
    lived = live(seed, agent, 4_000)
    assert longest_without_news(lived) <= CALLS_BETWEEN_NEWS
    assert len(lived) < 4_000


@QUICK
@given(st.integers(0, 10**9), st.sampled_from(AGENTS))
def test_every_refusal_of_a_supervisor_is_justified(seed, agent):
    """A refused call had been run, and no call that may write, a sub-agent's included, brought anything new since."""
    lived = live(seed, agent, 600)
    for place, refused in enumerate(lived):
        if refused.refused and not refused.insistable:
            ran = [n for n, other in enumerate(lived[:place]) if other.index == refused.index and not other.refused]
            assert ran, f"call {place} was refused untried"
            assert not any(other.change for other in lived[ran[-1] + 1 : place])


@pytest.mark.parametrize("kind", ["agent", "unknown", "read"])
def test_a_call_that_has_no_pending_parent_is_a_turn_all_the_same(kind):
    """A sub-agent whose call was never begun, as after a fault, is guarded on its own."""
    turn = Guard(Policy(tools={"run_agent": ToolContract(kind=kind)})).turn()
    child = turn.child(ToolCall("run_agent", {"task": "look"}))
    call = ToolCall("read_file", {"path": "a"})
    for _ in range(2):
        child.begin(call)
        child.end(call, Outcome("text"))
    assert child.begin(call).action is Action.BLOCK
