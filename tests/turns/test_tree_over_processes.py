"""Agents that a run asks in other processes count for its tree: its name comes with the context, and is signed."""

from __future__ import annotations

from contextlib import contextmanager
from contextvars import Context
from typing import TYPE_CHECKING, Any

import pytest
from opentelemetry import baggage, context
from opentelemetry.propagate import extract, inject

import otel_loopguard as loopguard
from otel_loopguard import Action, Ledger, Policy, semconv
from otel_loopguard.testing import guarded
from otel_loopguard.turns.scope import current_scope
from otel_loopguard.turns.tree_over_processes import TREE
from tests.store.memory import FlakyStore
from tests.store.processes import settle

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from otel_loopguard import Turn
    from otel_loopguard.testing import Recording

KEY = b"k" * 32
ONE = Ledger(requests=1, input_tokens=10, output_tokens=1)


def policy(key: bytes = KEY, **budget: Any) -> Policy:
    """A policy with a budget of the tree, and a key that all processes have."""
    return Policy(budget={"tree": budget} if budget else {}, hash_key=key)


@contextmanager
def process(store: FlakyStore | None, its_policy: Policy) -> Iterator[Recording]:
    """A process, played in this one: the guard on now is its own, with the store of all."""
    with guarded(its_policy) as recording:
        recording.runtime.guard.store = store
        yield recording


def serve(headers: dict[str, str], store: FlakyStore | None, its_policy: Policy, work: Callable[[], None]) -> Ledger:
    """Run an agent in another process for a request with these headers. Return its ledger."""

    def run() -> Ledger:
        token = context.attach(extract(headers))
        try:
            with process(store, its_policy), loopguard.turn() as turn:
                work()
            settle()
            return turn.ledger.timeless
        finally:
            context.detach(token)

    return Context().run(run)


def here() -> Turn:
    """The turn of the running code."""
    scope = current_scope()
    assert scope is not None
    return scope.turn


def pay() -> None:
    """Make a request in the turn of the running code."""
    here().spend(ONE)


def headers_now() -> dict[str, str]:
    """The headers of a request that the running code sends."""
    headers: dict[str, str] = {}
    inject(headers)
    return headers


@loopguard.tool
def ask_agent(_task: str, post: Callable[[], str]) -> str:
    """Ask an agent over HTTP."""
    return post()


@pytest.fixture(name="store")
def _store() -> FlakyStore:
    return FlakyStore()


def test_a_run_has_what_agents_in_other_processes_spent(store: FlakyStore) -> None:
    """Requests, calls, agents and levels; one of the agents asks one more in a third process."""
    everywhere = policy(requests=100)

    def leaf() -> None:
        pay()

    def middle() -> None:
        pay()
        ask_agent("deeper", lambda: str(serve(headers_now(), store, everywhere, leaf)))

    with process(store, everywhere), loopguard.turn() as turn:
        pay()
        for name, work in (("a", leaf), ("b", middle)):
            ask_agent(name, lambda work=work: str(serve(headers_now(), store, everywhere, work)))  # type: ignore[misc]
        settle()
        pay()  # the write brings what others wrote
        settle()
    assert turn.ledger.timeless == Ledger(5, 3, 50, 5, children=3, depth=2)
    assert turn.ledger.seconds < 60.0


def test_the_end_of_a_run_has_what_its_last_agent_spent(store: FlakyStore) -> None:
    """The run makes no step after it that would bring this."""
    everywhere = policy(requests=100)
    with process(store, everywhere), loopguard.turn() as turn:
        ask_agent("a", lambda: str(serve(headers_now(), store, everywhere, pay)))
        settle()
    assert turn.ledger.timeless == Ledger(1, 1, 10, 1, children=1, depth=1)


def test_an_agent_has_its_own_ledger_and_the_budget_of_the_tree(store: FlakyStore) -> None:
    """What the run around it has spent leaves it less: its third call is refused, with an answer asked for."""
    everywhere, actions = policy(calls=6), []

    def work() -> None:
        for path in "xyz":
            call = loopguard.ToolCall("read_file", {"path": path})
            decision = here().begin(call)
            actions.append(decision.action)
            if decision.runs:
                here().end(call, loopguard.Outcome(path))
            settle()

    with process(store, everywhere), loopguard.turn():
        for path in "abc":
            loopguard.call("read_file", {"path": path}, lambda path: path)
        ask_agent("a", lambda: str(serve(headers_now(), store, everywhere, work)))
        settle()
    assert actions == [None, None, Action.CONCLUDE]


def test_agents_too_deep_are_refused_in_another_process(store: FlakyStore) -> None:
    """The level comes with the name."""
    everywhere, ran = policy(depth=1), []

    def work() -> None:
        loopguard.call("ask_agent", {"task": "deeper"}, lambda task: ran.append(task) or "report")

    with process(store, everywhere), loopguard.turn():
        ask_agent("a", lambda: str(serve(headers_now(), store, everywhere, work)))
        settle()
    assert ran == []


@pytest.mark.parametrize(
    "forge",
    [
        lambda name: name[:-1] + ("0" if name[-1] != "0" else "1"),
        lambda name: name.replace("-1-", "-0-"),
        lambda name: "f" * 16 + name[16:],
        lambda name: name + "0",
        lambda name: "a" * 4_000,
        lambda name: "",
        lambda name: "0000000000000000-1-zzzzzzzzzzzzzzzz",
        lambda name: "\u0661" + name[1:],
    ],
)
def test_a_name_that_nobody_signed_is_ignored(store: FlakyStore, forge: Callable[[str], str]) -> None:
    """The turn has a tree of its own."""
    everywhere = policy(requests=100)

    def post() -> str:
        name = baggage.get_baggage(TREE)
        assert isinstance(name, str)
        headers: dict[str, str] = {}
        inject(headers, context=baggage.set_baggage(TREE, forge(name)))
        return str(serve(headers, store, everywhere, pay))

    with process(store, everywhere) as recording, loopguard.turn() as turn:
        ask_agent("a", post)
        settle()
        pay()
        settle()
        assert turn.ledger.timeless == Ledger(1, 1, 10, 1)
        assert recording.counted(semconv.METRIC_INTERNAL_ERRORS) == 0


def test_a_process_with_another_key_joins_no_tree_of_this_one(store: FlakyStore) -> None:
    """So has each tenant its own, though the store is one."""
    with process(store, policy(requests=100)), loopguard.turn() as turn:
        ask_agent("a", lambda: str(serve(headers_now(), store, policy(b"x" * 32, requests=100), pay)))
        settle()
        pay()
        settle()
        assert turn.ledger.requests == 1


def test_without_a_budget_of_the_tree_nothing_is_sent(store: FlakyStore) -> None:
    """A program's requests are what they were; so they are without a store."""
    sent: list[dict[str, str]] = []

    def post() -> str:
        sent.append(headers_now())
        return "report"

    for its_store, its_policy in ((store, policy()), (None, policy(requests=100))):
        with process(its_store, its_policy), loopguard.turn():
            ask_agent("a", post)
    settle()
    assert [one.get("baggage") for one in sent] == [None, None]
    assert store.cells == {}


def test_what_the_program_put_into_the_baggage_stays(store: FlakyStore) -> None:
    """The name is added in the call, and gone after it."""
    sent: list[str] = []

    def post() -> str:
        sent.append(headers_now()["baggage"])
        return "report"

    with process(store, policy(requests=100)), loopguard.turn():
        token = context.attach(baggage.set_baggage("customer", "7"))
        ask_agent("a", post)
        after = headers_now()["baggage"]
        context.detach(token)
    settle()
    assert sent[0].startswith("customer=7,loopguard.tree=")
    assert after == "customer=7"


def test_a_store_that_is_away_stops_no_run(store: FlakyStore) -> None:
    """Each process goes on with what it knows."""
    everywhere = policy(requests=3)
    store.away()
    with process(store, everywhere), loopguard.turn() as turn:
        pay()
        ask_agent("a", lambda: str(serve(headers_now(), store, everywhere, pay)))
        settle()
        assert turn.ledger.timeless == Ledger(1, 1, 10, 1)
