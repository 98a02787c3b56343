"""Only equal arguments are equal: an argument that cannot be read is equal to itself, and to nothing else."""

from __future__ import annotations

import collections
import dataclasses
import enum
import functools
import gc
import io
import re
import tempfile
import threading
import types
import weakref
from array import array
from concurrent.futures import ThreadPoolExecutor
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from fractions import Fraction
from ipaddress import ip_address
from pathlib import Path, PurePosixPath
from typing import NamedTuple
from uuid import UUID
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel_loopguard.engine.values import identity
from otel_loopguard.engine.values.canonical import canonical
from otel_loopguard.engine.values.identity import Identities
from otel_loopguard.engine.values.walker import walk
from otel_loopguard.engine.vocabulary import Outcome, ToolCall
from otel_loopguard.guard.guard import Guard
from tests.engine.values.strategies import PLAIN

NUMBERS = range(1, 6)


class Plain:
    """An object with fields."""

    def __init__(self, value: object) -> None:
        self.value = value

    def method(self) -> None:
        """A method."""


class Other(Plain):
    """An object of another class with the same fields."""


@dataclasses.dataclass(frozen=True)
class Point:
    x: int


class Pair(NamedTuple):
    x: object
    y: object


class Planet(enum.Enum):
    """Members whose values are no text or number."""

    VENUS = (1, 2.0)
    EARTH = (2, 3.0)
    MARS = (3, 4.0)


class Primary(enum.Enum):
    """Members with the values of another enumeration."""

    CHECK = 1
    REPAIR = "repair"


class Replica(enum.Enum):
    """The other one."""

    CHECK = 1
    REPAIR = "repair"


class Page(io.BytesIO):
    """A C type with a field besides its content."""

    status = 200


class Exact(datetime):
    """A subclass that holds more than its base, as the time stamps of data frame libraries do."""

    __slots__ = ("nanosecond",)


def exact(nanosecond: int) -> Exact:
    """A moment."""
    made = Exact(2020, 1, 1)
    made.nanosecond = nanosecond
    return made


def numbered(number: int):
    """A function that differs from the next one in its closure."""
    return lambda: number


DIFFERENT = {
    "file": lambda n: tempfile.TemporaryFile(),  # noqa: SIM115 - closed by the tests
    "BytesIO": lambda n: io.BytesIO(b"%d" % n),
    "StringIO": lambda n: io.StringIO(str(n)),
    "Page": lambda n: Page(b"%d" % n),
    "iterator": lambda n: iter([n]),
    "generator": lambda n: (n for _ in range(1)),
    "zip": lambda n: zip([n], [n]),  # noqa: B905 - equal lengths
    "map": lambda n: map(str, [n]),
    "lambda": numbered,
    "partial": lambda n: functools.partial(max, n),
    "bound method": lambda n: Plain(n).method,
    "dict keys": lambda n: {n: 0}.keys(),
    "dict values": lambda n: {0: n}.values(),
    "dict items": lambda n: {n: n}.items(),
    "proxy of a mapping": lambda n: types.MappingProxyType({"n": n}),
    "slice": slice,
    "pattern": lambda n: re.compile(f"a{n}"),
    "flags of a pattern": lambda n: re.compile("a", (0, re.I, re.M, re.S, re.X)[n - 1]),
    "ZoneInfo": lambda n: ZoneInfo(f"Etc/GMT+{n}"),
    "timezone": lambda n: timezone(timedelta(hours=n)),
    "named timezone": lambda n: timezone(timedelta(hours=n), "X"),
    "object": lambda n: object(),
    "sentinel": lambda n: type("Sentinel", (), {})(),
    "lock": lambda n: threading.Lock(),
    "class of a function": lambda n: type("Local", (), {"n": n}),
    "object of such a class": lambda n: type("Local", (), {"__init__": lambda self: setattr(self, "n", 1)})(),
    "module": lambda n: types.ModuleType("m"),
    "weak reference": lambda n: weakref.ref(Plain(n)),
    "object with something unreadable": lambda n: Plain(iter([n])),
    "enumeration of tuples": lambda n: (*Planet, Planet, None)[n - 1],
    "members with equal values": lambda n: (Primary.CHECK, Replica.CHECK, 1, Primary.REPAIR, "repair")[n - 1],
    "UUID and its text": lambda n: (UUID(int=1), str(UUID(int=1)), UUID(int=2), str(UUID(int=2)), 1)[n - 1],
    "set of objects": lambda n: {Plain(n)},
    "set of dataclasses": lambda n: {Point(n)},
    "key that is an object": lambda n: {Point(n): 1},
    "classes with equal fields": lambda n: (Plain(1), Other(1), Point(1), {"value": 1}, Pair(1, 1))[n - 1],
    "file name": lambda n: OSError(2, "not found", f"file {n}"),
    "shape": lambda n: memoryview(bytes(64)).cast("B", (2**n, 64 // 2**n)),
    "type of items": lambda n: memoryview(bytes(8)).cast("bBhHi"[n - 1]),
    "array": lambda n: array("i", [n]),
    "nanosecond": exact,
    "not finite": lambda n: (float("nan"), float("inf"), float("-inf"), None, 0.0)[n - 1],
    "not finite, within": lambda n: {"a": [(float("nan"), float("inf"), float("-inf"), None, "null")[n - 1]]},
    "other types": lambda n: (date(2020, 1, 1), "2020-01-01", Decimal(1), "1", PurePosixPath("1"))[n - 1],
    "fraction": lambda n: Fraction(n, 7),
    "ip": ip_address,
    "deque": lambda n: collections.deque([n]),
    "dataclass": Point,
}  # fmt: skip
"""Five different arguments each."""


@pytest.mark.parametrize("name", DIFFERENT)
def test_no_call_that_was_never_made_is_refused(name):
    """Five calls with different arguments run, though each returns the same."""
    ran = []
    with Guard().turn() as turn:
        kept = [DIFFERENT[name](number) for number in NUMBERS]
        for value in kept:
            call = ToolCall("look", {"x": value})
            ran.append(turn.begin(call).runs)
            if ran[-1]:
                turn.end(call, Outcome("the same"))
    assert ran == [True] * 5
    for one in kept:
        getattr(one, "close", int)()


@pytest.mark.parametrize("name", DIFFERENT)
def test_different_arguments_have_different_bytes(name):
    """No two of the five have equal bytes, alone or in a container."""
    kept = [DIFFERENT[name](number) for number in NUMBERS]
    assert len({canonical({"x": value}) for value in kept}) == 5
    assert len({canonical({"x": [value]}, fold_blanks=False) for value in kept}) == 5
    for one in kept:
        getattr(one, "close", int)()


@pytest.mark.parametrize(
    "make",
    [
        lambda: Plain([1]), lambda: Point(1), lambda: slice(1, 2), {"a": 1}.keys, {"a": 1}.values, {"a": 1}.items,
        lambda: types.MappingProxyType({"a": [1]}), lambda: functools.partial(max, 1, key=len), lambda: len,
        lambda: str.upper, lambda: timezone.utc, lambda: timezone(timedelta(hours=1)),
        lambda: re.compile("a"), lambda: Planet.EARTH, lambda: ZoneInfo("Etc/UTC"), lambda: UUID(int=1), lambda: Plain,
        lambda: Fraction(1, 2), lambda: ip_address(1), lambda: array("d", [1]), lambda: range(3), lambda: ...,
        lambda: float("nan"), lambda: ValueError("a"), lambda: collections.deque([1]), lambda: b"a", lambda: {1, "a"},
        lambda: re, lambda: datetime(2020, 1, 1), lambda: PurePosixPath("a"), lambda: Path("a"), lambda: Plain(Plain),
        lambda: {Planet.EARTH: {2}},
    ],
)  # fmt: skip
def test_equal_arguments_that_were_made_twice_are_equal(make):
    """What can be read is equal by content, so a program that makes its objects for each call can still be stopped."""
    assert canonical({"x": make()}) == canonical({"x": make()})


@pytest.mark.parametrize(
    "make",
    [
        numbered,
        lambda n: threading.Lock(),
        lambda n: Plain(iter([n])),
        lambda n: Plain([io.StringIO()]),
        lambda n: Plain(n).method,
    ],
)
def test_an_object_is_equal_to_itself(make):
    """An object that cannot be read, or not completely, is the same argument again for as long as it lives."""
    value = make(1)
    assert canonical({"x": value}) == canonical({"x": value})


@pytest.mark.parametrize(
    "make", [iter, lambda it: (n for n in it), io.BytesIO, Page, lambda it: zip(it, it, strict=True)]
)
def test_an_iterator_is_another_argument_each_time(make):
    """An iterator, or an open file, moves when it is used: the next call with it is another call."""
    value = make(b"abc")
    assert canonical({"x": value}) != canonical({"x": value})


def test_objects_that_die_are_not_equal_to_those_that_get_their_id():
    """Objects that are made for one call often have the ``id`` of the last one, and are other arguments."""
    found, ids = set(), set()
    for _ in range(100):
        function = numbered(1)
        ids.add(id(function))
        found.add(canonical({"x": function}))
        del function
    assert len(ids) < 100
    assert len(found) == 100


def test_a_pydantic_model_is_all_of_its_content():
    """Extra fields and the names of the given fields are content."""
    pydantic = pytest.importorskip("pydantic")
    model = pydantic.create_model("Model", __config__={"extra": "allow"}, a=(int | None, None))
    assert canonical({"x": model(a=1)}) == canonical({"x": model(a=1)})
    assert canonical({"x": model(b=1)}) != canonical({"x": model(b=2)})
    assert canonical({"x": model(a=None)}) != canonical({"x": model()})


ODD = PLAIN | st.floats() | st.recursive(st.floats() | st.none(), lambda inner: st.lists(inner, max_size=3))


@given(ODD, ODD)
def test_floats_that_are_not_finite_are_no_null(one, other):
    """The fast path and the walker agree, and values that differ in such floats differ."""
    assert canonical({"x": one}) == walk({"x": one}, fold_blanks=True)
    if canonical({"x": one}) == canonical({"x": other}):
        assert repr(one).count("nan") == repr(other).count("nan")
        assert repr(one).count("inf") == repr(other).count("inf")


def test_no_object_is_kept_alive():
    """A numbered object can be collected, and its number goes with it."""
    known, value = Identities(), Plain(1)
    known.number(value)
    assert len(known) == 1
    dead = weakref.ref(value)
    del value
    gc.collect()
    assert dead() is None
    assert len(known) == 0


def test_the_numbers_are_bounded(monkeypatch):
    """Beyond the bound the oldest object gets another number, and no number is given twice."""
    monkeypatch.setattr(identity, "_MOST_OBJECTS", 3)
    known, kept = Identities(), [Plain(n) for n in range(5)]
    first = [known.number(one) for one in kept]
    assert len(known) == 3
    assert known.number(kept[4]) == first[4]
    assert known.number(kept[0]) not in first


def test_threads_agree_on_the_number_of_an_object():
    """Threads that see an object for the first time at once get one number for it."""
    known, gate = Identities(), threading.Barrier(8)

    def number(item: object) -> int | None:
        gate.wait()
        return known.number(item)

    with ThreadPoolExecutor(8) as pool:
        for _ in range(50):
            item = Plain(1)
            assert len(set(pool.map(number, [item] * 8))) == 1
