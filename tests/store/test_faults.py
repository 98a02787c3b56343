"""A shared turn while its store fails: nothing that has changed is withheld, a loop ends, a message arrives once.

Each fault comes before a step, by chance. The truth is a small world of files.
"""

from __future__ import annotations

import random
from collections import Counter

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from otel_loopguard import Action
from tests.store.processes import LONG, World, check_messages, shared

FAULTS = {
    "none": lambda store, rng: None,
    "empty": lambda store, rng: store.empty(),
    "failover": lambda store, rng: store.fail_over(rng.randint(1, 3)),
    "away": lambda store, rng: store.away(rng.randint(1, 12)),
    "answers lost": lambda store, rng: store.faults.extend(["timed out"] * rng.randint(1, 3)),
}
SELDOM = [("none", 0.0), *[(fault, 0.1) for fault in FAULTS if fault != "none"]]
OFTEN = [("empty", 0.5), ("failover", 0.5), ("answers lost", 0.5)]
drawn = settings(
    max_examples=2, deadline=None, suppress_health_check=list(HealthCheck), phases=[Phase.explicit, Phase.generate]
)
faults = pytest.mark.parametrize(("fault", "share"), SELDOM + OFTEN)
faults_of_calls = pytest.mark.parametrize(
    ("fault", "share", "on_loop"),
    [*[(*one, False) for one in SELDOM + OFTEN], *[(*one, True) for one in SELDOM]],
)
"""``on_loop``: the calls are made by sync code on an event loop, which cannot wait for the store."""


def step(world, rng, fault, share):
    """Let a second pass, and a fault come."""
    if rng.random() < share:
        FAULTS[fault](world.store, rng)
    world.now += 1


@faults_of_calls
@drawn
@given(seed=st.integers(0, 2**32))
def test_no_read_of_a_changed_file_is_refused(fault, share, on_loop, seed, no_pauses):
    """Three processes read and write three files."""
    rng, world = random.Random(seed), World(3, on_loop=on_loop)
    files, seen = dict.fromkeys("abc", 0), {}
    for number in range(60):
        step(world, rng, fault, share)
        process, file = rng.choice(world.processes), rng.choice("abc")
        if rng.random() < 0.25:
            version = f"version {files[file] + 1} of step {number}"
            files[file] += world.call(process, "write_file", "ok", path=file, text=version)[0]
        elif world.call(process, "read_file", f"{LONG}{file}, version {files[file]}", path=file)[0]:
            seen[file] = files[file]
        else:
            assert seen.get(file) == files[file], f"step {number}"


@faults_of_calls
@drawn
@given(seed=st.integers(0, 2**32))
def test_a_loop_ends(fault, share, on_loop, seed, no_pauses):
    """The run is ended before 200 equal calls were begun."""
    rng, world = random.Random(seed), World(3, on_loop=on_loop)
    for _ in range(200):
        step(world, rng, fault, share)
        process = rng.choice(world.processes)
        call, decision = world.begin(process, "read_file", path="a")
        if decision.action is Action.ABORT:
            return
        if decision.runs:
            world.end(process, call, LONG)
    pytest.fail("it goes on")


@drawn
@given(seed=st.integers(0, 2**32))
def test_a_loop_runs_twice_while_the_store_is_well(seed, no_pauses):
    """Once without a word, and once told: as in one process."""
    rng, world = random.Random(seed), World(3)
    ran = [world.call(rng.choice(world.processes), "read_file", LONG, path="a")[0] for _ in range(10)]
    assert ran == [True] * 2 + [False] * 8


@pytest.mark.parametrize("holds", [False, True], ids=["for a turn elsewhere", "of a turn that it holds"])
@faults
@drawn
@given(seed=st.integers(0, 2**32))
def test_a_message_arrives(fault, share, holds, seed, no_pauses):
    """Once; or its sender knows that the store has lost it."""
    rng, world = random.Random(seed), World(3)
    sender = world.process()
    said, read = {}, Counter()

    def call(number):
        _, text = world.call(rng.choice(world.processes), "read_file", f"{LONG}{number}", path=str(number))
        read.update(message for message in said if message in text)
        for turn, _ in said.values():
            check_messages(turn)

    for number in range(24):
        step(world, rng, fault, share)
        call(number)
        if number % 2 == 0:
            turn = shared(sender) if holds else sender.shared_turn("turn:one", begins=False)
            text = f"message-{number:02}!"
            said[text] = turn, world.do(turn.say, text)
    world.store.faults = []
    for number in range(20):
        world.now += 1
        call(1_000 + number)
    lost = {text for text, (_, message) in said.items() if message.returned}
    assert set(read) | lost == set(said)
    assert set(read.values()) <= {1}
    assert fault in ("empty", "failover") or not lost
