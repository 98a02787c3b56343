"""The breaker, with a clock that the test moves."""

from __future__ import annotations

import threading
from types import SimpleNamespace

import pytest

from otel_loopguard.store.breaker import Breaker


class Clock(SimpleNamespace):
    now = 0.0


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def breaker(clock):
    return Breaker(lambda: clock.now)


def open_up(breaker):
    return [breaker.failed("timeout") for _ in range(3)]


def test_it_opens_at_the_third_failure_in_a_row(breaker):
    assert open_up(breaker) == [False, False, True]
    assert not breaker.allows()


def test_a_success_in_between_begins_a_new_row(breaker):
    breaker.failed()
    breaker.failed()
    assert breaker.succeeded() is None
    assert open_up(breaker)[:2] == [False, False]


def test_one_call_at_a_time_is_a_probe(breaker, clock):
    open_up(breaker)
    clock.now = 0.25
    assert [breaker.allows() for _ in range(3)] == [True, False, False]


def test_the_pauses_grow_up_to_half_a_minute(breaker, clock):
    open_up(breaker)
    last, pauses = 0.0, []
    while len(pauses) < 12:
        clock.now += 0.01
        if breaker.allows():
            breaker.failed()
            pauses.append(clock.now - last)
            last = clock.now
    assert 0.12 <= pauses[0] <= 0.26
    assert pauses[:6] == sorted(pauses[:6])
    assert all(15 <= pause <= 30.02 for pause in pauses[8:])


def test_the_pauses_of_two_processes_differ(clock):
    def first_probe():
        breaker = Breaker(lambda: clock.now)
        open_up(breaker)
        return breaker._next_probe

    assert len({first_probe() for _ in range(5)}) == 5


def test_a_success_closes_it_and_names_the_seconds(breaker, clock):
    open_up(breaker)
    clock.now = 7.5
    assert breaker.succeeded() == 7.5
    assert breaker.allows()
    assert breaker.kind == ""


def test_of_many_threads_one_opens_it(breaker):
    opened = []
    threads = [threading.Thread(target=lambda: opened.extend(open_up(breaker))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(opened) == 1
