"""Code that the garbage collector runs is recognised, in the thread that it runs in."""

from __future__ import annotations

import gc
import inspect
import os
import signal
import threading
from typing import TYPE_CHECKING, Any

import pytest

from otel_loopguard.turns.gc_safety import garbage_collector

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


class Finalised:
    """An object in a cycle, which only the collector finds."""

    def __init__(self, act: Callable[[], object]) -> None:
        self.itself = self
        self._act = act

    def __del__(self) -> None:
        self._act()


def collected(act: Callable[[], object]) -> None:
    """Run a function as a finaliser under the collector."""
    Finalised(act)
    gc.collect()


@pytest.fixture(autouse=True)
def _no_collection_of_its_own() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def test_a_finaliser_runs_here_and_other_code_does_not() -> None:
    """Also in the second collection, and after it."""
    for _ in range(2):
        found: list[bool] = []
        assert not garbage_collector.runs_here()
        collected(lambda found=found: found.append(garbage_collector.runs_here()))
        assert found == [True]
        assert not garbage_collector.running
        assert not garbage_collector.runs_here()


def test_code_of_another_thread_is_not_run_by_the_collector() -> None:
    """A thread that makes a call while the collector runs elsewhere is guarded."""
    found: list[Any] = []

    def in_a_thread() -> None:
        thread = threading.Thread(
            target=lambda: found.append((bool(garbage_collector.running), garbage_collector.runs_here()))
        )
        thread.start()
        thread.join()

    thread = threading.Thread(target=lambda: collected(lambda: None))  # this thread has collected before
    thread.start()
    thread.join()
    collected(in_a_thread)
    assert found == [(True, False)]


def test_a_child_that_is_forked_while_another_thread_collects_is_guarded() -> None:
    """The collection goes on in the parent only."""
    begun, done = threading.Event(), threading.Event()

    def wait() -> None:
        begun.set()
        done.wait(60)

    thread = threading.Thread(target=lambda: collected(wait))
    thread.start()
    begun.wait(60)
    pid = os.fork()
    if not pid:
        garbage_collector.after_fork()
        os._exit(bool(garbage_collector.running))
    done.set()
    thread.join()
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


def test_an_exception_that_is_due_during_a_collection_reaches_the_program() -> None:
    """A callback in Python would be the first code to run after the collection, and Python drops what it raises."""
    others = [one for one in gc.callbacks if inspect.isfunction(one)]  # Hypothesis has one
    for one in others:
        gc.callbacks.remove(one)
    gc.collect()
    gc.freeze()  # garbage of other tests may have weak references, whose callbacks are in Python, too
    many = [[] for _ in range(300_000)]  # type: ignore[var-annotated]  # a collection that takes a while
    arrived = struck = 0

    def over(*_: object) -> None:
        nonlocal struck
        struck += 1
        raise TimeoutError

    before = signal.signal(signal.SIGALRM, over)
    try:
        for round_number in range(1, 6):
            try:
                signal.setitimer(signal.ITIMER_REAL, 0.001)
                while struck < round_number:
                    gc.collect()
            except TimeoutError:  # noqa: PERF203 - one of each round
                arrived += 1
    finally:
        signal.signal(signal.SIGALRM, before)
        gc.callbacks.extend(others)
        gc.unfreeze()
    assert len(many) == 300_000
    assert arrived == struck == 5
