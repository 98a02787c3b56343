"""A policy with a budget, and programs over a client whose requests are read: told, concluded, ended."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

import otel_loopguard as loopguard
from otel_loopguard import Policy, RunBudgetError, RunStopped, ToolLoopError, semconv
from otel_loopguard.testing import guarded
from tests.models.conversation import Reply
from tests.models.scripts import call, written
from tests.models.server import Server
from tests.models.test_ledger import PRICES, agent, counted

if TYPE_CHECKING:
    from tests.models.conversation import Asked

openai = pytest.importorskip("openai")


def reads_on(asked: Asked, *, stubborn: bool = False) -> Reply:
    """A model that reads one new file after the other, as long as it has tools; a stubborn one also without."""
    return written(call("read_file", path=f"{asked.number}.txt") if asked.may_call or stubborn else "That is it.")


def policy(budget: dict[str, Any], **more: Any) -> Policy:
    """A policy with prices and this budget."""
    return Policy(budget=budget, cost_per_million_tokens=PRICES, **more)


BUDGETS: dict[str, dict[str, float]] = {
    "requests": {"requests": 8}, "calls": {"calls": 8}, "tokens": {"tokens": 600}, "cost": {"cost": 0.0012},
}  # fmt: skip


@pytest.mark.parametrize("by_turn", [True, False], ids=["in a turn", "by its requests alone"])
@pytest.mark.parametrize("budget", BUDGETS.values(), ids=BUDGETS)
def test_a_run_that_finds_ever_new_work_answers_at_its_budget(budget: dict[str, float], *, by_turn: bool) -> None:
    """The model is told, and the request at the budget has no tools."""
    with guarded(policy({"tree": budget})) as recording, Server(reads_on).running() as server:
        if by_turn:
            with loopguard.turn():
                assert agent(server, "task-1") == "That is it."
        else:
            assert agent(server, "task-1") == "That is it."
        ended = loopguard.last_turn()
    assert server.rejected == []
    assert 5 <= len(server.exchanges) <= 10
    last = server.exchanges[-1].asked
    assert last is not None
    assert not last.may_call
    assert last.reads("come to an end, and say what is missing")
    assert last.reads("No tool can be called for this answer")
    assert ended is not None
    assert (ended.ended_as, ended.ledger.timeless) == ("concluded", counted(server))
    actions = {(trip.mode, str(trip.action)) for trip in recording.trips}
    assert actions <= {("run_budget", "nudge"), ("run_budget", "conclude")}
    assert recording.counted(semconv.METRIC_TRIPS, loopguard__mode="run_budget") >= 1
    assert recording.counted(semconv.METRIC_TURNS_LOOPING) == recording.counted(semconv.METRIC_LOOPS_OPEN) == 0
    assert recording.counted(semconv.METRIC_INTERNAL_ERRORS) == 0


@pytest.mark.parametrize("budget", BUDGETS.values(), ids=BUDGETS)
def test_a_model_that_goes_on_without_tools_is_ended(budget: dict[str, float]) -> None:
    """The error is no ``ToolLoopError``: the run was no loop. Both are ``RunStopped``."""
    stubborn = partial(reads_on, stubborn=True)
    raised = pytest.raises(RunBudgetError)
    with guarded(policy({"tree": budget})) as recording, Server(stubborn).running() as server:
        with loopguard.turn() as turn, raised as it:
            agent(server, "task-1")
        assert [str(trip.action) for trip in recording.trips].count("abort") == 1
    error = it.value
    assert isinstance(error, RunStopped)
    assert not isinstance(error, ToolLoopError)
    assert (error.mode, error.account, error.turn_id) == ("run_budget", f"tree.{next(iter(budget))}", turn.id)
    assert error.repeats >= error.limit
    assert str(error).endswith("are used. The run was ended.")
    assert turn.ended_as == "aborted"
    assert len(server.exchanges) <= 10


def ask(server: Server, number: int) -> str:
    """Send a request without tools, as a program does that works by itself."""
    with openai.OpenAI(base_url=f"{server.url}/v1", api_key="local", max_retries=0) as client:
        messages: Any = [{"role": "user", "content": f"task-{number}: summarise chapter {number}"}]
        return str(client.chat.completions.create(model="gpt-4.1", messages=messages).choices[0].message.content)


def test_a_program_that_calls_no_tools_is_ended_one_request_after_its_budget() -> None:
    """There are no tools to withdraw: the request at the budget is sent as it is."""
    with guarded(policy({"turn": {"requests": 5}})) as recording, Server(reads_on).running() as server:
        with loopguard.turn():
            for number in range(6):
                assert ask(server, number) == "That is it."
            with pytest.raises(RunBudgetError):
                ask(server, 6)
        spans = [span for span in recording._spans.get_finished_spans() if span.events]
    assert len(server.exchanges) == 6
    (span,) = spans
    events = [dict(event.attributes or {}) for event in span.events if event.name == semconv.EVENT_TRIP]
    assert [one[semconv.ACTION] for one in events] == ["conclude", "abort"]
    assert {one[semconv.BUDGET_ACCOUNT] for one in events} == {"turn.requests"}
    assert [(one[semconv.COUNT], one[semconv.LIMIT]) for one in events] == [(5, 5), (6, 5)]


def test_a_budget_that_observes_changes_no_byte() -> None:
    """It is reported once, and the run goes on to its end."""
    bodies = []
    for budget in ({}, {"action": "observe", "turn": {"requests": 3}, "tree": {"calls": 2}}):
        with guarded(policy(budget)) as recording, Server(ends_after_9).running() as server, loopguard.turn():
            assert agent(server, "task-1") == "Done."
        bodies.append(server.bodies())
        accounts = sorted(str(trip.mode) for trip in recording.trips)
    assert bodies[0] == bodies[1]
    assert set(accounts) == {"run_budget"}


def ends_after_9(asked: Asked) -> Reply:
    """A model that reads eight files."""
    return written(call("read_file", path=f"{asked.number}.txt")) if asked.number < 9 else Reply("Done.")


def test_a_run_within_its_budget_is_told_nothing() -> None:
    """Its requests are equal in every byte to those without a budget."""
    bodies = []
    for budget in ({}, {"tree": {"requests": 100, "tokens": 10**6, "cost": 9.0, "seconds": 3600, "children": 9}}):
        with guarded(policy(budget)) as recording, Server(ends_after_9).running() as server:
            assert agent(server, "task-1") == "Done."
        bodies.append(server.bodies())
        assert recording.trips == []
    assert bodies[0] == bodies[1]


def test_a_fan_out_of_agents_is_refused_beyond_its_budget() -> None:
    """A raw client whose tool runs an agent of its own: 60 of them are asked for, and 4 are started."""
    with guarded(policy({"tree": {"children": 4}})), Server(ends_after_9).running() as server:

        @loopguard.tool
        def research(task: str) -> str:
            return agent(server, task)

        with loopguard.turn() as turn:
            agent(server, "task-100")
            answers = [str(research(f"task-{number}")) for number in range(60)]
    assert [answer == "Done." for answer in answers] == [True] * 4 + [False] * 56
    assert "4 agents were started for this task, and no more may be" in answers[4]
    assert turn.ledger.children == 4
    assert turn.ended_as == "answered"
