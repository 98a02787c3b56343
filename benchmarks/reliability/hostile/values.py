"""Hostile values that are no texts: large, wide, deep, shared, and objects whose methods must not be called."""

from __future__ import annotations

import array
import io
import itertools
import types
from collections import ChainMap, OrderedDict, defaultdict, deque
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable


class Trap:
    """An object whose every method fails the measurement: the guard must call none."""

    def __init__(self, number: int) -> None:
        object.__setattr__(self, "number", number)

    def _refuse(self, *_: object, **__: object) -> Any:
        raise AssertionError("a method of a foreign object was called")

    __getattr__ = __getitem__ = __iter__ = __len__ = __bool__ = __eq__ = __str__ = __repr__ = __contains__ = _refuse
    __index__ = __int__ = __float__ = __call__ = __bytes__ = __reduce__ = __copy__ = __enter__ = _refuse
    __hash__ = None  # type: ignore[assignment]


class TrapDict(dict[str, Any]):
    """A dictionary whose methods must not be called."""

    items = keys = values = get = __iter__ = __len__ = __contains__ = __getitem__ = Trap._refuse  # type: ignore[assignment]


class TrapText(str):
    """A text whose methods must not be called."""

    __slots__ = ()
    strip = lower = encode = split = __len__ = __iter__ = __str__ = __eq__ = __contains__ = Trap._refuse  # type: ignore[assignment]
    __hash__ = str.__hash__


@dataclass
class Node:
    """An object with fields."""

    value: Any
    next: Any = None


class Slotted:
    """An object with many slots."""

    __slots__ = tuple(f"s{number}" for number in range(500))

    def __init__(self, value: Any) -> None:
        for name in Slotted.__slots__:
            setattr(self, name, value)


class Whole(float):
    """A subclass of a number, which needs the walker."""


def deep(around: Callable[[Any], Any], levels: int, value: Any) -> Any:
    """Nest a value."""
    for _ in range(levels):
        value = around(value)
    return value


def itself() -> dict[str, Any]:
    """Make a dictionary that holds itself."""
    found: dict[str, Any] = {}
    found["self"] = [found, {"again": found}]
    return found


def with_fields(count: int) -> Any:
    """Make an object with this many attributes."""
    return types.SimpleNamespace(**{f"a{number}": number for number in range(count)})


def chain(length: int) -> Node:
    """Make a linked list."""
    found = Node(0)
    for number in range(length):
        found = Node(number, found)
    return found


def small(size: int) -> dict[str, Callable[[int], Any]]:
    """Return values that take about this many bytes of memory."""
    count = size // 36
    return {
        f"{size:,} bytes: {name}": made
        for name, made in {
            "list of numbers": lambda n: [*range(count), n],
            "list of numbers and an object": lambda n: [object(), *range(count), n],
            "list of whole floats": lambda n: [*(1.0,) * count, n],
            "list of texts": lambda n: [*("a text",) * count, str(n)],
            "list of texts with blanks": lambda n: [*("a  text",) * count, str(n)],
            "list of JSON texts": lambda n: [*("[1.0]",) * count, str(n)],
            "list of literals": lambda n: [*("('a', 1)",) * count, str(n)],
            "dict of numbers": lambda n: {**{f"k{at}": at for at in range(count // 3)}, "n": n},
            "dict of floats and an object": lambda n: {**{f"k{at}": 1.5 for at in range(count // 3)}, "n": Node(n)},
            "rows": lambda n: [*({"a": at, "b": "x y", "c": [1.0]} for at in range(count // 10)), n],
            "rows with decimals": lambda n: [*({"a": Decimal("1.10"), "b": at} for at in range(count // 10)), n],
            "rows of objects": lambda n: [*(Node(at) for at in range(count // 5)), n],
            "set of numbers": lambda n: {*range(count), -n},
            "set of texts": lambda n: {*map(str, range(count)), f"n{n}"},
            "set of tuples": lambda n: {*((at, str(at)) for at in range(count // 4)), n},
            "dict of mixed keys": lambda n: {**dict.fromkeys(range(count), 1), "n": n, None: 1, (1, n): 2},
            "deque": lambda n: deque([*range(count), n]),
            "nested lists": lambda n: deep(lambda one: [one], count // 2, n),
            "nested tuples": lambda n: deep(lambda one: (one,), count // 2, n),
            "nested dicts": lambda n: deep(lambda one: {"a": one}, count // 7, n),
            "linked list": lambda n: [chain(count // 5), n],
            "object with fields": lambda n: [with_fields(count // 3), n],
            "objects with slots": lambda n: [*(Slotted(n) for _ in range(size // 4_000)), n],
            "number of many digits": lambda n: 10 ** (size - 1) + n,
            "numbers of 4,000 digits": lambda n: [10**4_000] * (size // 4_000) + [n],
            "decimal of many digits": lambda n: Decimal("1" * size) + n,
            "fraction": lambda n: Fraction(10**size + n, 3),
            "bytes": lambda n: b"\xff" * size + b"%d" % n,
            "bytearray": lambda n: bytearray(size) + b"%d" % n,
            "memoryview": lambda n: memoryview(bytes(size))[n:],
            "every second byte": lambda n: memoryview(bytes(2 * size))[n::2],
            "array": lambda n: array.array("d", [1.5] * (size // 8) + [n]),
            "range": lambda n: range(size + n),
            "nested keys": lambda n: {deep(lambda one: (one,), 50, n): 1},
            "shared keys": lambda n: {deep(lambda one: (one, one), 18, n): 1},
            "key that is a large tuple": lambda n: {(*range(count), n): 1},
            "set that doubles": lambda n: frozenset([deep(lambda one: frozenset([one, (one,)]), 18, n)]),
            "ordered dict": lambda n: OrderedDict({f"k{at}": n for at in range(count // 4)}),
            "default dict": lambda n: defaultdict(list, {f"k{at}": [n] for at in range(count // 4)}),
            "chained maps": lambda n: ChainMap(*({f"k{at}": n} for at in range(100))),
            "exception": lambda n: ValueError("a text " * (size // 7), n),
            "exceptions in a row": lambda n: deep(ValueError, count // 4, n),
        }.items()
    }


def large(million: int = 1_000_000) -> dict[str, Callable[[int], Any]]:
    """Return values of any size; ``million`` is the number of the parts of most."""
    return {
        "million numbers": lambda n: [*range(million), n],
        "million numbers and an object": lambda n: [object(), *range(million), n],
        "million texts": lambda n: [*map(str, range(million)), n],
        "million lists": lambda n: [*([at] for at in range(million)), n],
        "million dicts": lambda n: [*({"a": at} for at in range(million)), n],
        "million objects": lambda n: [*map(Node, range(million)), n],
        "million keys": lambda n: {**{f"k{at}": at for at in range(million)}, "n": n},
        "million keys of an ordered dict": lambda n: OrderedDict({f"k{at}": n for at in range(million)}),
        "million keys that are numbers": lambda n: {**dict.fromkeys(range(million), 1), "n": n},
        "million fields": lambda n: [with_fields(million), n],
        "set of a million": lambda n: {*range(million), -n},
        "deque of a million": lambda n: deque([*range(million), n]),
        "100,000 keys": lambda n: {**{f"k{at}": at for at in range(100_000)}, "n": n},
        "100,000 rows": lambda n: [*({"id": at, "name": f"n{at}", "at": 1.5} for at in range(100_000)), n],
        "rows of rows": lambda n: [[[at] * 100] * 1_000 for at in range(100)] + [n],
        "depth 100,000": lambda n: deep(lambda one: [one], 100_000, n),
        "depth 100,000 of dicts": lambda n: deep(lambda one: {"a": one}, 100_000, n),
        "depth 100,000 of tuples": lambda n: deep(lambda one: (one,), 100_000, n),
        "linked list of 100,000": lambda n: [chain(100_000), n],
        "doubles at 60 levels": lambda n: deep(lambda one: [one, one], 60, n),
        "doubles at 60 levels of dicts": lambda n: deep(lambda one: {"a": one, "b": one}, 60, n),
        "doubles at 60 levels of objects": lambda n: deep(lambda one: Node(one, one), 60, n),
        "doubles at 60 levels of tuples": lambda n: deep(lambda one: (one, one), 60, n),
        "shared rows": lambda n: [[{"a": "x" * 100}] * 1_000] * 1_000 + [n],
        "shared text": lambda n: ["x" * 1_000_000] * 1_000 + [n],
        "shared text in objects": lambda n: [Node("x" * 1_000_000)] * 1_000 + [n],
        "shared blocks": lambda n: [bytes(1_000_000)] * 1_000 + [n],
        "shared JSON text": lambda n: ["[" + "1.0," * 15_000 + "1]"] * 1_000 + [n],
        "shared numbers of many digits": lambda n: [10**4_000] * 100_000 + [n],
        "shared wide list behind objects": lambda n: [Node([*range(4_000), Node(at)]) for at in range(1_000)] + [n],
        "wide shared list at the end": lambda n: [[object()] * 100_000] * 10_000 + [n],
        "itself": lambda n: [itself(), n],
        "number of a million digits": lambda n: (1 << 3_321_928) + n,
        "number of 100 million bits": lambda n: (1 << 100_000_000) + n,
        "decimal of a million digits": lambda n: Decimal("1" * 1_000_000) + n,
        "bytes of 50 MB": lambda n: bytes(50_000_000) + b"%d" % n,
        "bytearray of 50 MB": lambda n: bytearray(50_000_000) + b"%d" % n,
        "memoryview of 50 MB": lambda n: memoryview(bytes(50_000_000))[n:],
        "every second byte of 50 MB": lambda n: memoryview(bytes(50_000_000))[n::2],
        "array of 50 MB": lambda n: array.array("d", [1.5] * 6_000_000 + [n]),
        "arrays in an object": lambda n: Node([array.array("d", [1.5] * 1_000_000)] * 8 + [n]),
        "text of 50 MB": lambda n: "x" * 50_000_000 + str(n),
        "text of 50 MB of four bytes each": lambda n: "\U0001f468" * 12_500_000 + str(n),
        "text of 50 MB of surrogates": lambda n: "\ud800" * 25_000_000 + str(n),
        "text of 50 MB in a list": lambda n: ["x" * 50_000_000, n],
        "text of 50 MB in an object": lambda n: Node("x" * 50_000_000, n),
        "texts of 50 MB": lambda n: ["x" * 50_000] * 1_000 + [str(n)],
        "key of 10 MB": lambda n: {"k" * 10_000_000 + str(n): 1},
        "keys of 1 MB that are no texts": lambda n: {(("k" * 1_000_000), at): n for at in range(50)},
        "exception of a million": lambda n: ValueError(*range(million), n),
        "exception with 50 MB": lambda n: ValueError("x" * 50_000_000 + str(n)),
        "trap": Trap,
        "traps": lambda n: [Trap(n)] * 1_000,
        "trap in a dict": lambda n: {"a": Trap(n)},
        "trap dict": lambda n: TrapDict({f"k{at}": n for at in range(million)}),
        "trap text": lambda n: TrapText("x" * 10_000_000 + str(n)),
        "endless iterator": itertools.count,
        "file": lambda n: io.BytesIO(bytes(10_000_000 + n)),
        "generator": lambda n: (n for _ in itertools.count()),
    }
