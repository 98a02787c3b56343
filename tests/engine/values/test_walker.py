"""Every value has a fingerprint, without an exception and in bounded time."""

from __future__ import annotations

import dataclasses
import io
import json
import threading
from collections import deque
from datetime import datetime, timedelta
from decimal import Decimal
from enum import Enum
from types import SimpleNamespace
from unittest.mock import MagicMock, Mock

import orjson
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from otel_loopguard.engine.values.canonical import canonical, result_bytes
from otel_loopguard.engine.values.fingerprint import Fingerprinter
from otel_loopguard.engine.values.walker import walk
from otel_loopguard.engine.vocabulary import Outcome, ToolCall
from otel_loopguard.guard.guard import Guard
from tests.engine.values.strategies import PLAIN
from tests.steps import steps

QUICK = settings(max_examples=200, deadline=None, suppress_health_check=list(HealthCheck))
KEY = b"0123456789abcdef"
PRINTS = Fingerprinter(KEY)
MOST_STEPS = 500_000
"""Calls that one value may cost, however deep or wide it is."""


class Raising:
    def __repr__(self):
        raise RuntimeError("no repr")

    def __str__(self):
        raise RuntimeError("no str")

    def __eq__(self, other):
        raise RuntimeError("no eq")

    def __hash__(self):
        raise RuntimeError("no hash")


class Lying(dict):
    def items(self):  # noqa: D102
        raise RuntimeError("no items")

    def __iter__(self):
        raise RuntimeError("no iter")


class Colour(Enum):
    RED = 1


class LyingClass:
    """A lazy proxy without an object behind it, as in Flask and Django."""

    @property
    def __class__(self):
        raise RuntimeError("no class")


class LyingFields:
    @property
    def __dict__(self):
        raise RuntimeError("no fields")


class Closed:
    def __init__(self):
        object.__setattr__(self, "x", 1)

    def __getattribute__(self, name):
        raise RuntimeError("no attributes")


def raising(base):
    """Make a subclass whose methods all raise."""

    def refuse(self, *args):
        raise RuntimeError("no use")

    names = ("__iter__", "__contains__", "__len__", "__eq__", "__hash__", "__getitem__", "__str__", "__repr__")
    more = ("items", "keys", "encode", "strip", "lower", "__index__", "__int__", "__float__", "isoformat")
    return type(f"Raising{base.__name__}", (base,), dict.fromkeys((*names, *more), refuse))


def hostile_objects():
    """One object of each hostile class."""
    filled = {set: [{1}], frozenset: [{1}], list: [[1, "a"]], tuple: [[1, "a"]], dict: [{"a": 1}], str: ["a b"]}
    filled |= {int: [7], float: [7.5], bytes: [b"a"], datetime: [2020, 1, 2], Decimal: ["1.5"], deque: [[1]]}
    made = [raising(base)(*given) for base, given in filled.items()]
    return [LyingClass(), LyingFields(), Closed(), Raising(), Lying(a=1), Mock(), *made]


PLACES = {
    "arguments": lambda value: (ToolCall("look", value), Outcome("text")),
    "within arguments": lambda value: (ToolCall("look", {"a": [value]}), Outcome("text")),
    "a command": lambda value: (ToolCall("run_shell", {"command": value, "action": value}), Outcome("text")),
    "words of a command": lambda value: (ToolCall("run_shell", {"command": [value, "ls"]}), Outcome("text")),
    "a query": lambda value: (ToolCall("run_sql", {"query": value}), Outcome("text")),
    "a gateway's tool": lambda value: (ToolCall("call_tool", {"name": value, "arguments": value}), Outcome("text")),
    "a result": lambda value: (ToolCall("look", {}), Outcome(value)),
    "within a result": lambda value: (ToolCall("look", {}), Outcome({"a": [value]})),
    "an error": lambda value: (ToolCall("look", {"a": value}), Outcome(error=value)),
    "an error's arguments": lambda value: (ToolCall("look", {"a": [value]}), Outcome(error="no a b there")),
    "a name": lambda value: (ToolCall(value, {}, known_tools=["look"]), Outcome("text")),
}


@dataclasses.dataclass
class Point:
    x: int
    y: object


def cycle():
    found: dict = {}
    found["self"] = [found]
    return found


def deep(levels=10_000):
    found: object = 1
    for _ in range(levels):
        found = [found]
    return found


def deep_dict(levels=10_000):
    found: object = 1
    for _ in range(levels):
        found = {"a": found}
    return found


HOSTILE = {
    "nan": float("nan"),
    "infinity": float("inf"),
    "minus infinity": float("-inf"),
    "cycle": cycle(),
    "deep list": deep(),
    "deep dict": deep_dict(),
    "deep json": "[" * 10_000 + "]" * 10_000,
    "deep literal": "{'a':" * 5_000 + "1" + "}" * 5_000,
    "bytes": b"\xff\x00",
    "bytearray": bytearray(b"ab"),
    "memoryview": memoryview(b"ab"),
    "surrogate": "\ud800",
    "surrogate key": {"\ud800": "\udfff"},
    "dataclass": Point(1, Raising()),
    "raising": Raising(),
    "raising within": {"a": [Raising()]},
    "lying": Lying(a=1),
    "mixed keys": {1: "a", "1": "b", None: 2, (1, 2): 3, 1.5: 4, False: 5},
    "raising key": {Point: 1, Colour.RED: 2},
    "set": {1, "a", None},
    "frozen": frozenset({("a", 1)}),
    "tuple": (1, (2, (3,))),
    "decimal": Decimal("1.10"),
    "enum": Colour.RED,
    "type": int,
    "function": deep,
    "module": json,
    "generator": (n for n in range(3)),
    "huge int": 10**5000,
    "none": None,
    "empty": "",
    "complex": 1 + 2j,
}


NEVER_EQUAL = {"deep list", "deep dict", "generator"}
"""Too deep to be read, or another value the next time."""


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_values_have_a_fingerprint(name):
    """No value raises or takes long, as arguments and as a result. The fingerprint is stable if the value was read."""
    value, prints = HOSTILE[name], []

    def make():
        prints.extend([PRINTS.arguments(value), PRINTS.arguments(value, fold_blanks=False), PRINTS.result(value)])

    assert steps(make) < 3 * MOST_STEPS
    assert all(isinstance(found, int) and 0 <= found < 2**64 for found in prints)
    assert (prints[0] == PRINTS.arguments(value)) is (name not in NEVER_EQUAL)


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("number", range(len(hostile_objects())), ids=[type(one).__name__ for one in hostile_objects()])
def test_no_object_stops_the_guard(number, place):
    """Every call with such an object begins and ends, also if the object at the end is a new one."""
    turn, value = Guard().turn(), hostile_objects()[number]
    for _ in range(4):
        call, outcome = PLACES[place](value)
        if turn.begin(call).runs:
            turn.end(PLACES[place](value)[0], outcome)


AROUND = {
    "list": list,
    "tuple": tuple,
    "dict": lambda items: {f"k{number}": item for number, item in enumerate(items)},
    "command": lambda items: {"command": items},
    "point": lambda items: Point(1, items),
    "raising list": raising(list),
    "raising tuple": raising(tuple),
    "raising dict": lambda items: raising(dict)({"command": items}),
}
recipes = st.recursive(
    st.integers(0, len(hostile_objects()) - 1),
    lambda inner: st.tuples(st.sampled_from(sorted(AROUND)), st.lists(inner, max_size=3)),
    max_leaves=8,
)
"""Recipes, not the objects: Hypothesis inspects its values."""


def built(recipe):
    """Build the object of a recipe."""
    if isinstance(recipe, int):
        return hostile_objects()[recipe]
    name, parts = recipe
    return AROUND[name]([built(part) for part in parts])


@QUICK
@given(recipes)
def test_nested_hostile_objects_have_a_fingerprint(recipe):
    """Nested hostile objects have a fingerprint as arguments and as a result, and the guard accepts them."""
    value = built(recipe)
    assert PRINTS.arguments(value) == PRINTS.arguments(value)
    assert PRINTS.arguments(value, fold_blanks=False) == PRINTS.arguments(value, fold_blanks=False)
    PRINTS.result(value)
    turn = Guard().turn()
    for _ in range(2):
        call = ToolCall("run_shell", value)
        if turn.begin(call).runs:
            turn.end(call, Outcome(value))


def test_no_lazy_proxy_is_woken():
    """The ``__class__`` of a proxy is not read, because that loads the object behind it."""
    woken = []

    class Proxy:
        @property
        def __class__(self):
            woken.append(self)
            return dict

        def __getattr__(self, name):
            woken.append(name)

    for place in PLACES.values():
        call, outcome = place(Proxy())
        turn = Guard().turn()
        turn.begin(call)
        turn.end(call, outcome)
    assert woken == []


@pytest.mark.parametrize(
    "make",
    [
        lambda: (n for n in range(3)), lambda: map(str, [1]), lambda: io.StringIO("a"), LyingClass, LyingFields,
        MagicMock, lambda: {"rows": iter([1])}, lambda: Point(1, {}.items()),
        type("Page", (io.BytesIO,), {"__init__": lambda self: setattr(self, "status", 200)}),
    ],
)  # fmt: skip
def test_an_opaque_result_is_never_the_same(make):
    """A result that cannot be read may contain something new."""
    value = make()
    assert PRINTS.result(value) != PRINTS.result(value)


class Slotted:
    __slots__ = ("_x", "y")

    def __init__(self, x):
        self._x = x


class Stamp(datetime):
    """A subclass, as in data frame libraries."""


@pytest.mark.parametrize(
    "make",
    [
        lambda n: Point(n, {"f": hostile_objects, "m": json, "l": threading.Lock()}), Slotted, ValueError,
        lambda n: SimpleNamespace(n=n), lambda n: Stamp(2020, 1, 1) + timedelta(n), lambda n: {n}, lambda n: deque([n]),
        lambda n: type("Own", (), {"__init__": lambda self: setattr(self, "n", n)})(), lambda n: raising(list)([n]),
    ],
)  # fmt: skip
def test_a_readable_result_is_its_content(make):
    """A second object with equal content is the same; one with other content differs."""
    assert PRINTS.result(make(1)) == PRINTS.result(make(1))
    assert PRINTS.result(make(1)) != PRINTS.result(make(2))


def test_a_hundred_megabytes_are_bounded():
    """A text of 100 MB is fingerprinted in bounded time, alone and within arguments."""
    text = "x" * 100_000_000
    assert steps(lambda: PRINTS.result(text)) < 100
    assert steps(lambda: PRINTS.arguments({"content": text})) < 200


def test_a_hundred_megabytes_with_a_difference_differ():
    """Long results that differ anywhere have different fingerprints: a difference outside the view is a difference."""
    text = "x" * 1_000_000
    other = text[:500_000] + "y" + text[500_001:]
    assert PRINTS.result(text) != PRINTS.result(other)


def nested(depth, *wrap):
    value = "x"
    for level in range(depth):
        value = wrap[level % len(wrap)](value)
    return value


def in_tuple(value):
    return (value,)


def in_list(value):
    return [value]


def in_dict(value):
    return {"a": value, "b": 1}


def twice(value):
    return [value, value]


@pytest.mark.parametrize("depth", [150, 3_000, 50_000])
@pytest.mark.parametrize(
    "wrap", [(in_tuple,), (in_tuple, in_list), (in_tuple, in_tuple, in_tuple, in_dict), (in_dict,)], ids=len
)
def test_depth_of_any_sort_is_survived(depth, wrap):
    """Thousands of nested tuples have a fingerprint, though a serialiser that follows them crashes the process."""
    value = nested(depth, *wrap)
    assert isinstance(PRINTS.arguments({"a": [value]}), int)
    assert steps(lambda: PRINTS.arguments(value)) < MOST_STEPS
    assert steps(lambda: PRINTS.result(value)) < MOST_STEPS


def test_a_value_that_doubles_at_every_level_is_bounded():
    """Sixty levels that double each time are too many values to write, and are fingerprinted in bounded time."""
    value = nested(60, twice)
    assert steps(lambda: PRINTS.arguments({"a": value})) < MOST_STEPS
    assert steps(lambda: PRINTS.result(value)) < MOST_STEPS


def test_pydantic_models_have_a_fingerprint():
    """A model is fingerprinted by its fields."""
    pydantic = pytest.importorskip("pydantic")
    model = pydantic.create_model("Model", a=(int, ...), b=(str, "x"))
    assert PRINTS.arguments(model(a=1)) == PRINTS.arguments(model(a=1))
    assert PRINTS.arguments(model(a=1)) != PRINTS.arguments(model(a=2))
    assert result_bytes(model(a=1)) == b'{"a":1,"b":"x"}'


def test_extra_fields_of_a_pydantic_model_are_part_of_a_result():
    """A result that differs in such a field is another one."""
    pydantic = pytest.importorskip("pydantic")
    model = pydantic.create_model("Model", __config__={"extra": "allow"}, a=(int, ...))
    assert PRINTS.result(model(a=1, b=1)) == PRINTS.result(model(a=1, b=1))
    assert PRINTS.result(model(a=1, b=1)) != PRINTS.result(model(a=1, b=2))


@given(st.dictionaries(st.text(max_size=8), PLAIN, min_size=1, max_size=5), st.booleans())
def test_orjson_and_the_walker_agree(value, fold):
    """Both give the same bytes for a plain value."""
    assert canonical(value, fold_blanks=fold) == walk(value, fold_blanks=fold)


def test_a_result_is_its_fields():
    """As a result, a dataclass has the bytes of the dictionary of its fields."""
    assert result_bytes(Point(1, "x")) == result_bytes({"y": "x", "x": 1})


def test_no_foreign_code_is_run():
    """Methods of an argument are never called, whatever they do."""

    class Hostile:
        def __init__(self):
            self.x = 1

        def __repr__(self):
            raise AssertionError("called")

        __str__ = __eq__ = __len__ = __iter__ = __bool__ = __repr__
        __hash__ = None

    assert b'{"x":1}' in canonical({"h": Hostile()})
    assert result_bytes({"h": Hostile()}) == b'{"h":{"x":1}}'


def test_texts_are_written_as_orjson_writes_them():
    """A short text is written without orjson; each character, in front of and behind others, has orjson's bytes."""
    for code in range(0x250):
        text = f"a{chr(code)}b"
        assert walk([text], fold_blanks=False) == orjson.dumps([text])
        assert walk({text}, fold_blanks=False) == b'{"\\u0000set":[%b]}' % orjson.dumps(text)
    for length in range(490, 510):
        assert walk(["x" * length], fold_blanks=False) == orjson.dumps(["x" * length])


def test_shared_parts_of_keys_are_encoded_once():
    """A set that holds the same set twice at each level has the bytes of one that holds equal sets."""

    def doubled(level, *, shared):
        if not level:
            return frozenset()
        one = doubled(level - 1, shared=shared)
        return frozenset([one, (one if shared else doubled(level - 1, shared=False),)])

    assert walk({doubled(6, shared=True)}, fold_blanks=False) == walk({doubled(6, shared=False)}, fold_blanks=False)
    assert steps(lambda: walk({doubled(12, shared=True)}, fold_blanks=False)) < 5_000
