"""Trees of agents, as they are tried over each framework: the ledger of all of them, and their budgets."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any, ClassVar

import pytest

from otel_loopguard import Ledger, Policy, RunBudgetError, semconv
from otel_loopguard.testing import guarded

if TYPE_CHECKING:
    from collections.abc import Callable


class Count:
    """What the models of a tree were asked, and have written."""

    def __init__(self) -> None:
        self.requests = 0
        self.calls = 0
        self.ids = itertools.count()

    @property
    def ledger(self) -> Ledger:
        """The same as a ledger: each request reads ten tokens, and writes five."""
        return Ledger(self.requests, self.calls, 10 * self.requests, 5 * self.requests, unpriced=self.requests)


def of_tree(**accounts: Any) -> Policy:
    """A policy with a budget of the tree."""
    return Policy(budget={"tree": accounts})


each_way = pytest.mark.parametrize("at_once", [False, True], ids=["one-by-one", "at-once"])


class TreesOfAgents:
    """The tests. A framework's class says how its agents are made, and run."""

    fan: ClassVar[Callable[..., Any]]
    """Make an agent that asks a helper 60 times, and return it with its model."""
    tower: ClassVar[Callable[..., Any]]
    """Make an agent that asks an agent that asks an agent, so many levels deep."""
    run: ClassVar[Callable[..., Any]]
    """Run an agent, and return its turn."""

    @each_way
    def test_the_ledger_has_all_of_60_agents(self, *, at_once: bool) -> None:
        """Also of those that run at the same time."""
        count = Count()
        with guarded() as recording:
            turn = self.run(self.fan(count, at_once=at_once)[0])
        assert count.calls == 180
        assert turn.ledger.timeless == count.ledger._replace(children=60, depth=1)
        assert not recording.trips
        assert recording.counted(semconv.METRIC_INTERNAL_ERRORS) == 0

    @each_way
    def test_one_agent_more_than_the_budget_has_is_refused(self, *, at_once: bool) -> None:
        """The model reads how many were started, and answers."""
        count = Count()
        agent, model = self.fan(count, at_once=at_once)
        with guarded(of_tree(children=12)):
            turn = self.run(agent)
        assert [one == "Done." for one in model.results] == [True] * 12 + [False] * 48
        assert "12 agents were started for this task, and no more may be" in model.results[12]
        assert turn.ledger.timeless == count.ledger._replace(calls=36, children=12, depth=1)

    def test_a_fan_out_ends_at_the_requests_of_its_tree(self) -> None:
        """The helpers and their boss are told; the one that is beyond it is asked for an answer, and so is the boss."""
        count = Count()
        agent, model = self.fan(count, at_once=False)
        with guarded(of_tree(requests=40)) as recording:
            turn = self.run(agent)
        assert turn.ledger.timeless == count.ledger._replace(children=len(model.results), depth=1)
        assert 40 <= count.requests <= 42
        assert turn.ended_as == "concluded"
        assert {(trip.mode, str(trip.action)) for trip in recording.trips} <= {
            ("run_budget", "nudge"),
            ("run_budget", "conclude"),
        }

    def test_one_message_with_more_calls_than_the_budget_has_does_not_end_the_run(self) -> None:
        """Its calls are refused as one: the model reads that, and answers."""
        count = Count()
        with guarded(of_tree(calls=20)):
            turn = self.run(self.fan(count, at_once=True)[0])
        assert (turn.ledger.calls, turn.ended_as) == (20, "concluded")

    def test_agents_that_never_answer_are_ended(self) -> None:
        """Each is ended with its tools withdrawn, and the boss with ``RunBudgetError``."""
        count = Count()
        with guarded(of_tree(requests=40)), pytest.raises(RunBudgetError):
            self.run(self.fan(count, at_once=False, stubborn=True)[0])
        assert count.requests <= 45

    def test_a_tower_of_agents_has_its_depth(self) -> None:
        """Each level is one turn below the other."""
        count = Count()
        with guarded() as recording:
            turn = self.run(self.tower(count, 12))
        assert turn.ledger.timeless == count.ledger._replace(children=12, depth=12)
        assert not recording.trips

    def test_a_tower_higher_than_its_budget_is_refused_there(self) -> None:
        """The agent at the limit does the task itself."""
        count = Count()
        with guarded(of_tree(depth=5)) as recording:
            turn = self.run(self.tower(count, 12))
        assert turn.ledger.timeless == count.ledger._replace(calls=5, children=5, depth=5)
        assert recording.outcomes.count("blocked") == 1
