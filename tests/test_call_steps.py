"""Usual calls take few steps: function calls and memory blocks are counted, which no busy machine changes.

A limit is what was counted when it was set, for one call of a turn of 15 first calls. Who gets below it sets it lower;
who has to go above it says why in the commit.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import pytest

from . import call_steps


class Limit(NamedTuple):
    """Calls of functions of this package, and of all functions."""

    ours: float
    all: float


LIMITS = {
    "begin + end": Limit(76.7, 157.6),
    "a guarded call": Limit(126.0, 446.0),
    "a call that is sampled out": Limit(114.0, 297.8),
    "a call of a decorated function": Limit(127.0, 459.0),
    "an awaited call": Limit(135.5, 473.0),
    "a span that is no tool call": Limit(5.3, 137.5),
}
IN_LANGCHAIN = 126.0
"""Functions of this package for a call of a LangChain tool."""
MOST_FILES = 32
BLOCKS = 2.8
MORE, LESS = 1.05, 0.90
"""The functions of this package are counted alike in each version of Python and of OpenTelemetry."""
MORE_OF_ALL = 1.10
"""The functions of OpenTelemetry and of Python themselves differ between versions."""


@cache
def measured() -> dict[str, call_steps.Steps]:
    return call_steps.measured()


@pytest.mark.parametrize("name", LIMITS)
def test_a_call_takes_as_few_steps_as_when_its_limit_was_set(name):
    """More function calls fail; a tenth less means that the limit has to be lowered, or it holds nothing."""
    steps, limit = measured()[name], LIMITS[name]
    where = f'run `python -m tests.call_steps "{name}"` before and after the change, and compare the functions'
    assert steps.ours <= limit.ours * MORE, where
    assert steps.all <= limit.all * MORE_OF_ALL, where
    assert steps.ours >= limit.ours * LESS, f"set its limit lower: {round(steps.ours, 1)}, {round(steps.all, 1)}"


def test_a_live_turn_holds_few_memory_blocks():
    """The blocks of a turn of 15 calls, for one of them."""
    blocks = call_steps.kept(call_steps.core)
    assert blocks <= BLOCKS * MORE_OF_ALL
    assert blocks >= BLOCKS * LESS, f"set BLOCKS lower: {blocks:.1f}"


def test_a_guarded_call_takes_few_times_the_steps_of_a_bare_span():
    """Whatever the SDK does in a span, it does in both. The guarded turn has one span more: its own."""
    found = measured()
    assert 1 < found["a guarded call"].all / found[call_steps.BARE].all <= 2.35


def test_a_call_of_a_framework_visits_few_files():
    """Who reads the way of a call reads so many files."""
    pytest.importorskip("langchain_core")
    steps = call_steps.in_langchain()
    assert IN_LANGCHAIN * LESS <= steps.ours <= IN_LANGCHAIN * MORE
    assert 10 < len(steps.files) <= MOST_FILES


def test_one_more_function_is_counted():
    """What the count holds is every call of every function of this package."""
    plain = call_steps.count(call_steps.core)
    more = call_steps.count(lambda: (call_steps.core(), call_steps.guard.turn()))
    assert more.ours > plain.ours
    assert set(more.functions) == set(plain.functions)


def test_every_sort_of_call_has_a_limit():
    """A call that is measured and has no limit could become as slow as it likes."""
    assert measured().keys() - LIMITS.keys() == {call_steps.BARE}
