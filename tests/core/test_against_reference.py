"""The guard decides like the naive reference, which reads the whole turn again for every call."""

from __future__ import annotations

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from otel_loopguard.core.model import Outcome, ToolCall
from tests.core.judges.corpus import REFUSALS, Clock
from tests.core.judges.real import EnforcedTurn
from tests.core.judges.reference import Contract, NaiveTurn

QUICK = settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck))

CONTRACTS = {
    "reader": Contract(kind="read"),
    "writer": Contract(kind="write"),
    "shell": Contract(kind="shell"),
    "poller": Contract(kind="poll"),
    "waiter": Contract(kind="wait"),
    "thinker": Contract(kind="think"),
    "stepper": Contract(kind="step"),
    "helper": Contract(kind="agent"),
    "passer": Contract(kind="handoff"),
    "thing": Contract(kind="unknown"),
    "payer": Contract(kind="write", once=True),
    "capped": Contract(kind="read", cap=3),
    "asker": Contract(kind="read", query="text"),
}
PLAIN = ("reader", "writer", "shell", "thing")
ALL = tuple(CONTRACTS)


def answers() -> st.SearchStrategy[Outcome]:
    """Draw outcomes: few texts, errors, moving numbers, fresh ids, shuffled keys.

    No durations: the two differ in one point only, the masking of a duration that was in a result long ago.
    """
    return st.one_of(
        st.sampled_from(["alpha", "beta", "", "gamma delta"]).map(Outcome),
        st.sampled_from(["broken", "no such thing", "HTTP 503", "request timed out"]).map(
            lambda text: Outcome(error=text)
        ),
        st.integers(0, 9).map(lambda n: Outcome(f"{n} of 40 done")),
        st.integers(0, 99).map(lambda n: Outcome({"id": f"a{n:06d}f", "text": "same"})),
        st.integers(0, 99).map(lambda n: Outcome({"id": f"a{n:06d}f"})),
        st.sampled_from(['{"a": "x", "b": "y"}', '{"b": "y", "a": "x"}', '{"status": "pending"}']).map(Outcome),
    )


def calls(tools: tuple[str, ...], arguments: int = 2) -> st.SearchStrategy[ToolCall]:
    """Draw calls of these tools with few different arguments."""
    return st.builds(
        lambda tool, n: ToolCall(tool, {"text": f"about thing {'abc'[n]}"}),
        st.sampled_from(tools),
        st.integers(0, arguments - 1),
    )


def steps(tools: tuple[str, ...], *, at_most: int = 40, batch: int = 1) -> st.SearchStrategy[list]:
    """Draw batches of calls with their outcomes, and the seconds before each batch."""
    one = st.tuples(calls(tools), answers())
    together = st.lists(one, min_size=1, max_size=batch).map(distinct)
    return st.lists(st.tuples(st.sampled_from([1.0, 1.0, 31.0, 1800.0]), together), max_size=at_most)


def distinct(batch: list) -> list:
    """Return the batch without repeats: the promises test how parallel repeats count."""
    return [pair for place, pair in enumerate(batch) if pair[0] not in [call for call, _ in batch[:place]]]


def many(known: frozenset[str] | None) -> st.SearchStrategy[list]:
    """Draw single calls with many different arguments and few results, mostly errors and empty ones."""
    said = st.sampled_from(
        ["it broke", "no such thing: {}", "denied 7", "denied 8", "none", "none", "alpha", "beta {}"]
    )
    question = st.sampled_from(
        ["what is the refund policy {}", "what is the refund rule {}", "delete the refund policy {}"]
    )
    tools = st.sampled_from(("reader", "writer", "asker", "capped", "made_up"))
    arguments = st.sampled_from([f"a{letter}b" for letter in "cdefghijklmnopqr"])

    def step(tool: str, name: str, query: str, text: str) -> tuple[float, list]:
        call = ToolCall(tool, {"name": name, "text": query.format(name[1])}, None, known)
        failed = text.startswith(("it broke", "no such", "denied"))
        shown = text.format(name)
        return 1.0, [(call, Outcome(error=shown) if failed else Outcome(shown))]

    return st.lists(st.builds(step, tools, arguments, question, said), max_size=40)


def decisions(turn, clock, batches):
    """Return the decisions of a turn, call by call; refused calls do not run."""
    said = []
    for passed, batch in batches:
        clock.now += passed
        begun = []
        for call, outcome in batch:
            fresh = call._replace(call_id=f"c{len(said)}")
            said.append(("begin", fresh.tool, turn.begin(fresh)))
            if not (said[-1][2] and said[-1][2][1] in REFUSALS):
                begun.append((fresh, outcome))
        said.extend(("end", call.tool, turn.end(call, outcome)) for call, outcome in begun)
    return said


def both(batches):
    """Return the decisions of the reference and those of the guard."""
    slow, fast = Clock(), Clock()
    naive = NaiveTurn(contracts=CONTRACTS, clock=slow)
    return decisions(naive, slow, batches), decisions(EnforcedTurn(CONTRACTS, fast), fast, batches)


def refusals(said):
    """Return the refusals with their modes; other tests compare counts and nudges."""
    return [
        (place, tool, found[0], found[1]) for place, (door, tool, found) in enumerate(said) if door == "begin" and found
    ]


@QUICK
@given(steps(PLAIN))
def test_plain_tools_are_refused_as_in_the_reference(batches):
    """For reading, writing, shell and unknown tools both refuse the same calls for the same reason."""
    expected, found = both(batches)
    assert refusals(found) == refusals(expected)


@QUICK
@given(steps(ALL))
def test_tools_of_every_kind_are_refused_as_in_the_reference(batches):
    """For tools of every kind, with polls, caps and queries among them, both refuse the same calls."""
    expected, found = both(batches)
    assert refusals(found) == refusals(expected)


@QUICK
@given(steps(PLAIN, batch=4, at_most=15))
def test_parallel_calls_are_refused_as_in_the_reference(batches):
    """Calls begun together and ended together are judged the same by both."""
    expected, found = both(batches)
    assert refusals(found) == refusals(expected)


@QUICK
@given(steps(("reader",), at_most=30))
def test_one_tool_is_judged_as_in_the_reference(batches):
    """For one reading tool all decisions are equal: refusals and nudges with their counts."""
    expected, found = both(batches)
    assert found == expected


@QUICK
@given(steps(PLAIN))
def test_nudges_are_those_of_the_reference(batches):
    """Both nudge at the same calls, in the same modes, with the same counts."""
    expected, found = both(batches)
    assert found == expected


@QUICK
@given(many(None))
def test_untried_arguments_are_judged_as_in_the_reference(batches):
    """Errors, equal answers and similar queries on ever new arguments are refused by both at the same call."""
    expected, found = both(batches)
    assert refusals(found) == refusals(expected)


@QUICK
@given(many(frozenset({"reader", "writer", "asker", "capped"})))
def test_made_up_tools_are_refused_as_in_the_reference(batches):
    """Calls to tools that were never registered are refused by both at the same call."""
    expected, found = both(batches)
    assert refusals(found) == refusals(expected)
