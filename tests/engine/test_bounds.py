"""Every value is handled in a bounded number of steps, and a bound never makes two values equal.

The values are those of ``python -m benchmarks.reliability values``, which measures them in milliseconds.
"""

from __future__ import annotations

import pytest

from benchmarks.reliability.hostile import texts, values
from benchmarks.reliability.hostile.places import PLACES, play, turn
from otel_loopguard.engine.policy.policy import Policy
from otel_loopguard.engine.tools.contracts import LONGEST_TOOL_NAME, Contracts
from otel_loopguard.engine.values.canonical import canonical, result_bytes
from otel_loopguard.engine.values.fingerprint import error_text, leaves
from otel_loopguard.engine.vocabulary import Kind, Outcome, Sameness, ToolCall
from otel_loopguard.guard.guard import Guard
from tests.steps import steps

SMALL, LARGE = values.small(100_000), values.large(50_000)
MOST_STEPS = 250_000
"""Of one ``begin`` or ``end``: calls of Python's and C's functions."""
MOST_OF_100_KB = 100_000
MOST_OF_A_TEXT = 30_000


def most_steps(make, place):
    """Return the steps of the slowest ``begin`` or ``end``."""
    most = 0

    def counted(step):
        nonlocal most
        found = []
        most = max(most, steps(lambda: found.append(step())))
        return found[0]

    play(make, PLACES[place], turn(), counted)
    return most


@pytest.mark.parametrize("name", [*SMALL, *LARGE])
def test_a_value_takes_a_bounded_number_of_steps(name):
    """Wide, deep, shared and huge values, as an argument and as the result of the same call."""
    most = MOST_OF_100_KB if name in SMALL else MOST_STEPS
    assert most_steps((SMALL | LARGE)[name], "an answer to itself") < most


@pytest.mark.parametrize("place", PLACES)
def test_a_text_takes_a_bounded_number_of_steps(place):
    """Texts that each pattern begins to match, of 4,000 letters, in every place: no pattern takes exponential time."""
    made = {name: texts.repeated(unit, 4_000) for name, unit in texts.UNITS.items()} | texts.fields_of_json(4_000)
    of_this_place = list(made)[[*PLACES].index(place) % 8 :: 8]  # each text in an eighth of the places
    found = {name: most_steps(made[name], place) for name in of_this_place}
    assert {name: count for name, count in found.items() if count > MOST_OF_A_TEXT} == {}


@pytest.mark.parametrize(
    "name", ["quoted words", "escaped quotes", "line breaks", "pipes", "runners", "quoted separators"]
)
def test_a_list_of_long_commands_is_not_read(name):
    """A hundred commands of 4 KB take no more steps than one: together they are too long to be read."""
    command = texts.repeated(texts.UNITS[name], 4_000)(0)
    contracts = Contracts(Policy())
    call = ToolCall("run_shell", {"commands": [command] * 100})
    assert steps(lambda: contracts.resolve(call)) < 1_000
    assert contracts.resolve(call).kind is Kind.SHELL


def test_comments_in_sql_are_skipped_in_linear_time():
    """A statement of comments without a word is no SQL; to search it took time that doubled with every comment."""
    contracts = Contracts(Policy())
    assert contracts.resolve(ToolCall("run_query", {"sql": "/* */" * 800 + "!"})).kind is not Kind.READ
    assert contracts.resolve(ToolCall("run_query", {"sql": "/* */" * 800 + "select 1"})).kind is Kind.READ


def test_long_names_of_tools_are_cut():
    """A name of a megabyte is cut before it is compared, quoted or kept. Two that differ at the end are two tools."""
    guard, known = Guard(), [f"tool_{number}" for number in range(1_000)]
    call = ToolCall("delete_all " * 100_000, {}, known_tools=known)
    with guard.turn() as one:
        actions = []
        for _ in range(3):
            decision = one.begin(call)
            actions.append(str(decision.action))
            assert len(decision.record.tool) <= LONGEST_TOOL_NAME
            if decision.runs:
                decision = one.end(call, Outcome(error="no such tool"))
            assert len(decision.message or "") < 1_000
    assert actions == ["None", "None", "block"]
    contracts = Contracts(Policy())
    long = "a" * 1_000
    assert contracts.tool(long, None) is contracts.tool(long, None)
    assert contracts.tool(long + "b", None).digest != contracts.tool(long + "c", None).digest
    assert contracts.tool("a" * 2_000_000, None).digest != contracts.tool("a" * 2_000_000, None).digest


def test_a_long_name_that_is_registered_exists():
    """The whole name is looked up among the registered ones, not the cut one."""
    name = "a" * 300
    call = ToolCall(name, {}, known_tools=[name])
    assert Guard().turn().begin(call).record.registered is True


@pytest.mark.parametrize("write", [str, lambda text: {"a": text}, lambda text: [object, text], str.encode])
def test_a_value_that_is_too_large_equals_no_other(write):
    """A text of 9 MB is like no other, as an argument and as a result; one of 7 MB is equal to itself only."""
    for encode in (canonical, result_bytes):
        assert encode(write("x" * 9_000_000)) != encode(write("x" * 9_000_000))
        if write is not str.encode:  # a block of bytes may have to be decoded, too
            assert encode(write("x" * 7_000_000)) == encode(write("x" * 7_000_000))
            assert encode(write("x" * 7_000_000)) != encode(write("x" * 6_999_999 + "y"))


def test_a_value_with_too_many_parts_equals_no_other():
    """Objects beyond the bound are not equal by their first parts; JSON of any length within the bound is."""
    objects = [values.Node(number) for number in range(20_000)]
    assert canonical({"a": objects}) != canonical({"a": objects})
    rows = {"at": values.Decimal(1), "rows": [*range(20_000)]}
    assert canonical(rows) == canonical({**rows})
    assert canonical(rows) != canonical({**rows, "rows": [*range(19_999), 0]})


def test_a_huge_result_is_never_the_same_but_its_ends_are_read():
    """A result of 9 MB that begins with an error is an error, and two equal ones are different."""
    guard, call, found = Guard(), ToolCall("look", {}), []
    with guard.turn() as one:
        for _ in range(3):
            one.begin(call)
            record = one.end(call, Outcome("Error: " + "x" * 9_000_000)).record
            found.append((record.error, record.sameness))
    assert found == [(True, Sameness.FIRST), (True, Sameness.DIFFERENT), (True, Sameness.DIFFERENT)]


@pytest.mark.parametrize("write", [lambda data: {"png": data, "ok": True}, lambda data: [bytearray(data)]])
def test_bytes_within_results_are_compared(write):
    """Two images of one size are different results: their hash is no id that is masked."""
    call, found = ToolCall("render", {}), []
    with Guard().turn() as one:
        for number in range(6):
            one.begin(call)
            found.append(one.end(call, Outcome(write(b"\x89PNG" + bytes([number]) * 50))).record.sameness)
    assert found[1:] == [Sameness.DIFFERENT] * 5


def test_arguments_that_share_their_parts_are_searched_in_bounded_time():
    """The texts within arguments are found among the first parts, though the parts double at each level."""
    assert steps(lambda: leaves(values.deep(lambda one: [one, one], 60, 1))) < 20_000
    assert leaves({"a": [1, {"b": "text"}]}) == ["text"]


def test_the_arguments_of_an_exception_are_not_printed_without_end():
    """An exception with a million arguments has a short way to its text; one with a few has Python's own."""
    assert steps(lambda: error_text(ValueError(*range(1_000_000)))) < 200
    assert "1, 2" not in error_text(ValueError(*range(1_000_000)))
    assert steps(lambda: error_text(KeyError(values.deep(lambda one: (one, one), 60, 1)))) < MOST_STEPS
    assert error_text(ValueError("a", [1])) == "ValueError: ('a', [1])"
    assert error_text(ValueError(*range(99_999))) != error_text(ValueError(*range(99_998), 0))


@pytest.mark.parametrize(
    "argument",
    [
        bytes(50_000_000),
        bytearray(50_000_000),
        values.array.array("d", [1.5]) * 1_000_000,
        values.Node("x" * 50_000_000),
        values.deep(lambda one: values.Node(one, one), 60, 1),
        [values.deep(lambda one: {"a": one, 1: one}, 60, 1), {1}],
    ],
    ids=["bytes", "bytearray", "array", "long text in an object", "objects that double", "dictionaries that double"],
)
@pytest.mark.parametrize("kind", [ValueError, KeyError, OSError, lambda value: ValueError(ImportError(value))])
def test_a_large_argument_of_an_exception_is_not_printed(kind, argument):
    """Python prints an argument in full, and an object by its own method, which may never end."""
    texts = []
    assert steps(lambda: texts.append(error_text(kind(argument)))) < 2 * MOST_STEPS  # as JSON, and part by part
    assert len(texts[0]) < 1_000


def test_a_small_argument_of_an_exception_is_printed():
    """The text of an error with a few objects in it is Python's own: it may name what failed."""
    assert error_text(ValueError(values.Node(1))) == "ValueError: Node(value=1, next=None)"
    assert error_text(ValueError("a", {1}, b"b")) == "ValueError: ('a', {1}, b'b')"
    assert error_text(OSError(2, "No such file", "a")) == "FileNotFoundError: [Errno 2] No such file: 'a'"
