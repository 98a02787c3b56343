"""The simulator finds what it is for: each part of the product that keeps a promise is broken once."""

from __future__ import annotations

import pytest

from otel_loopguard.engine import decide, fold
from otel_loopguard.engine.events import Gap
from otel_loopguard.engine.user_messages import UserMessages
from otel_loopguard.engine.verdict import Verdict
from otel_loopguard.engine.vocabulary import Action
from otel_loopguard.store.cell import Cell
from otel_loopguard.store.cell_messages import CellMessages
from otel_loopguard.turns.message_lists import MessageLists
from tests.simulator.runs import broken, drawn, report
from tests.simulator.server import Server
from tests.simulator.steps import Run

RUNS = 100
"""It finds each within so many runs."""


def first_broken(setting: str, invariant: str, first: int = 0) -> tuple[Run, str]:
    """Return the first run of a setting that breaks this promise."""
    for seed in range(first, first + RUNS):
        run = drawn(seed, setting)
        if (found := broken(run)).startswith(invariant):
            return run, found
    pytest.fail(f"nothing was found in {RUNS} runs")


def believe_without_proof(patch: pytest.MonkeyPatch) -> None:
    """Refuse while the store is away."""
    patch.setattr(fold, "_lower", lambda event, record: None)


def skip_gaps(patch: pytest.MonkeyPatch) -> None:
    """Go on after a loss of the store as if nothing had been lost."""
    patch.setitem(fold._FOLDS, Gap, lambda *_: Verdict())


def judge_by_the_copy(patch: pytest.MonkeyPatch) -> None:
    """Let sync code on an event loop refuse what its process alone would."""
    patch.setattr(Cell, "_needs_store", lambda *_: False)


def take_any_list(patch: pytest.MonkeyPatch) -> None:
    """Take each request for the next one of the last conversation."""
    find = MessageLists.find

    def found(self, request, turn):
        lists = list(self._lists.values())
        return lists[-1] if lists else find(self, request, turn)

    patch.setattr(MessageLists, "find", found)


def end_nothing(patch: pytest.MonkeyPatch) -> None:
    """Refuse, and go no step further."""
    patch.setattr(decide, "next_step", lambda *_: Action.BLOCK)


def deliver_without_proof(patch: pytest.MonkeyPatch) -> None:
    """Give the model each message that a process knows, while the store is away."""
    take = UserMessages.take
    patch.setattr(UserMessages, "take", lambda messages, **_: take(messages))


def deliver_what_was_lost(patch: pytest.MonkeyPatch) -> None:
    """Take a message that may have been read before a loss of the store for one that waits."""
    adopt = UserMessages.adopt
    patch.setattr(UserMessages, "adopt", lambda messages, *values, **_: adopt(messages, *values))
    patch.setattr(CellMessages, "adopt", lambda messages, queue, values, server, **_: queue.adopt(*values[:3]))


def lose_what_is_said(patch: pytest.MonkeyPatch) -> None:
    """Take over no message from the store."""
    patch.setattr(UserMessages, "adopt", lambda *_, **__: 0)


def look_after_it_in_the_next_turn(patch: pytest.MonkeyPatch) -> None:
    """Store a message again in the turn that has replaced the one that it was for."""
    patch.setattr(Cell, "_leave", lambda *_: None)


BREAKS = [
    (believe_without_proof, "refused", "invariant 1", 64),
    (skip_gaps, "failover", "invariant 1", 68),
    (judge_by_the_copy, "sync code on an event loop", "invariant 1", 19),
    (take_any_list, "gateway", "invariant 1", 0),
    (end_nothing, "well", "invariant 2", 0),
    (end_nothing, "gateway", "invariant 2", 0),
    (deliver_without_proof, "refused", "invariant 3", 0),
    (deliver_what_was_lost, "failover", "invariant 3", 0),
    (lose_what_is_said, "well", "invariant 3", 0),
    (look_after_it_in_the_next_turn, "refused", "invariant 3", 0),
]
"""With the setting that finds it, and the seed to begin with: what one run in a hundred finds takes a while."""


@pytest.mark.parametrize(("break_it", "setting", "invariant", "first"), BREAKS)
def test_what_breaks_a_promise_is_found(break_it, setting, invariant, first, monkeypatch):
    """Within a few runs, by the check of that promise."""
    break_it(monkeypatch)
    first_broken(setting, invariant, first)


def test_a_report_has_few_steps_and_the_seed(monkeypatch):
    """So that the fault can be seen again, and understood."""
    skip_gaps(monkeypatch)
    run, found = first_broken("failover", "invariant 1", 68)
    text = report(run, found)
    assert text.startswith("invariant 1")
    assert text.count("Step(") < 12 < len(run.steps)
    assert f"LOOPGUARD_SIMULATOR_SEED={run.seed} " in text


@pytest.mark.parametrize("setting", ["all faults", "gateway with faults"])
def test_a_run_is_the_same_each_time(setting, monkeypatch):
    """Else a seed would say nothing."""
    swap, seen = Server.swap, []

    async def noted(self, key, *values):
        seen[-1].append(values)
        return await swap(self, key, *values)

    monkeypatch.setattr(Server, "swap", noted)
    for _ in range(2):
        seen.append([])
        broken(drawn(7, setting))
    assert seen[0] == seen[1] != []


def test_a_run_of_nothing_keeps_all_promises():
    """So each step of a shrunken run is a part of the fault."""
    assert not broken(Run(1, "all faults", ()))
