"""The guard decides like the naive reference, which reads the whole turn again for every call."""

from __future__ import annotations

import functools
import itertools

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from otel_loopguard.engine.vocabulary import Outcome, ToolCall
from tests.engine.judges.corpus import REFUSALS, Clock
from tests.engine.judges.real import EnforcedTurn
from tests.engine.reference.judge import Contract, NaiveTurn

QUICK = settings(max_examples=120, deadline=None, suppress_health_check=list(HealthCheck))

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
    "finisher": Contract(kind="final"),
    "frequent": Contract(kind="poll", interval=2.0),
    "get_page": Contract(),
    "update_page": Contract(),
    "click": Contract(),
}
PLAIN = ("reader", "writer", "shell", "thing")
ALL = tuple(CONTRACTS)
PAUSES = {
    "quick": (0.0, 0.0625, 0.5, 2.0, 4.0),
    "steady": (1.0, 4.0, 10.0, 12.0, 40.0),
    "slow": (16.0, 31.0, 60.0, 90.0),
    "any": (0.0, 0.5, 9.5, 10.0, 20.0, 31.0, 600.0, 3600.0, 36000.0),
}
"""Pauses before a call, in seconds that floats add exactly."""
RUNNING = (0.0, 0.0, 0.5, 30.0, 600.0)
"""Seconds that a call runs."""


LONG = "a page of text that is longer than an acknowledgement, so that it answers a question: {}"


def answers() -> st.SearchStrategy[Outcome]:
    """Draw outcomes: few short and long texts, errors, moving numbers, names, fresh ids, shuffled keys.

    No durations: the two differ in one point only, the masking of a duration that was in a result long ago.
    """
    return st.one_of(
        st.sampled_from(["alpha", "beta", "", LONG.format("one"), LONG.format("two")]).map(Outcome),
        st.sampled_from(["broken", "no such thing", "HTTP 503", "request timed out", "503"]).map(
            lambda text: Outcome(error=text)
        ),
        st.integers(0, 9).map(lambda n: Outcome(f"{n} of 40 done")),
        st.integers(0, 9).map(lambda n: Outcome(LONG.format(f"{n} of 40 done"))),
        st.integers(0, 9).map(lambda n: Outcome(f"started with pid {n}")),
        st.integers(0, 9).map(lambda n: Outcome(error=f"port in use by pid {n}")),
        st.integers(0, 99).map(lambda n: Outcome({"id": f"a{n:06d}f", "text": "same"})),
        st.integers(0, 99).map(lambda n: Outcome({"id": f"a{n:06d}f"})),
        st.sampled_from(["state: completed", "1 of 3 replicas ready", "läuft", "状态: 处理中", "deadlock"]).map(
            Outcome
        ),
        st.sampled_from(["try again in 30 s", "rate limit, retry after 2m"]).map(lambda text: Outcome(error=text)),
        st.sampled_from(['{"a": "x", "b": "y"}', '{"b": "y", "a": "x"}', '{"status": "pending"}']).map(Outcome),
    )


def calls(tools: tuple[str, ...], arguments: int = 2, *, wait: bool = False) -> st.SearchStrategy[ToolCall]:
    """Draw calls of these tools with few different arguments; with ``wait``, seconds are among them."""
    seconds = [{"seconds": 30}, {"ms": 30_000}, {"time": "2 s"}, {"command": "sleep 30"}] if wait else []
    given = [*({"text": f"about thing {'abc'[n]}"} for n in range(arguments)), *seconds]
    return st.builds(ToolCall, st.sampled_from(tools), st.sampled_from(given))


def steps(
    tools: tuple[str, ...], *, at_most: int = 40, batch: int = 1, of: int = 2, wait: bool = False
) -> st.SearchStrategy[list]:
    """Draw batches of calls with their outcomes, the seconds before each batch, and those that its calls run."""
    one = st.tuples(calls(tools, of, wait=wait), answers())
    together = st.lists(one, min_size=1, max_size=batch).map(distinct)

    def at_pace(pauses: tuple[float, ...]) -> st.SearchStrategy[list]:
        return st.lists(st.tuples(st.sampled_from(pauses), together, st.sampled_from(RUNNING)), max_size=at_most)

    return st.sampled_from(sorted(PAUSES.values())).flatmap(at_pace)


def distinct(batch: list) -> list:
    """Return the batch without repeats: the promises test how parallel repeats count."""
    return [pair for place, pair in enumerate(batch) if pair[0] not in [call for call, _ in batch[:place]]]


def many(known: frozenset[str] | None) -> st.SearchStrategy[list]:
    """Draw single calls with many different arguments and few results, mostly errors and empty ones."""
    said = st.sampled_from(
        ["it broke", "no such thing: {}", "denied 7", "denied 8", "none", "none", "no results for {}", "alpha", LONG]
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
        return 1.0, [(call, Outcome(error=shown) if failed else Outcome(shown))], 0.0

    return st.lists(st.builds(step, tools, arguments, question, said), max_size=40)


def laundered(tool: str) -> st.SearchStrategy[list]:
    """Draw one call whose result seldom changes, made again and again, with ever new writes of two tools in between."""
    look = st.builds(
        lambda text, pause: (pause, [(ToolCall(tool, {"name": "a"}), Outcome(text))], 0.0),
        st.sampled_from([LONG] * 40 + [f"{LONG} again"]),
        st.sampled_from([1.0] * 20 + [30.0]),
    )
    note = st.sampled_from(["writer"] * 6 + ["maker"])
    return st.lists(st.one_of(look, note), min_size=60, max_size=120).map(
        lambda steps: [write(step, number) if isinstance(step, str) else step for number, step in enumerate(steps)]
    )


def write(tool: str, number: int) -> tuple:
    """The step of a write that was not made before."""
    return 1.0, [(ToolCall(tool, {"text": number}), Outcome(f"saved {number} in a new place"))], 0.0


def decisions(turn, clock, batches, thinks):
    """Return the decisions of a turn, call by call; refused calls do not run.

    ``thinks``: the shares of the pauses, in turn, for which the model is said to have thought.
    """
    said = []
    for (passed, batch, running), share in zip(batches, itertools.cycle(thinks)):
        clock.now += passed
        turn.thought(passed * share)
        begun = []
        for call, outcome in batch:
            fresh = call._replace(call_id=f"c{len(said)}")
            said.append(("begin", fresh.tool, turn.begin(fresh)))
            if said[-1][2] and said[-1][2][1] in REFUSALS:
                said.append(("wait", fresh.tool, turn.wait))
            else:
                begun.append((fresh, outcome))
        clock.now += running
        said.extend(("end", call.tool, turn.end(call, outcome)) for call, outcome in begun)
    return said


def both(batches, thinks=(0.0,)):
    """Return the decisions of the reference and those of the guard."""
    slow, fast = Clock(), Clock()
    naive = NaiveTurn(contracts=CONTRACTS, clock=slow)
    return decisions(naive, slow, batches, thinks), decisions(EnforcedTurn(CONTRACTS, fast), fast, batches, thinks)


def refusals(said):
    """Return the refusals with their modes and waits; other tests compare counts and nudges."""
    return [
        (place, tool, found if door == "wait" else found[:2])
        for place, (door, tool, found) in enumerate(said)
        if found and door in ("begin", "wait")
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
@given(steps(ALL), st.lists(st.sampled_from((0.0, 0.5, 1.0, 2.0)), min_size=1, max_size=4))
def test_thinking_counts_as_in_the_reference(batches, thinks):
    """For tools of every kind, both refuse the same calls if the model thought for some part of the pauses."""
    expected, found = both(batches, thinks)
    assert refusals(found) == refusals(expected)


@QUICK
@given(
    st.sampled_from(("reader", "poller", "thing", "frequent")).flatmap(lambda tool: steps((tool,), of=2, at_most=60))
)
def test_one_call_of_a_slow_model_is_judged_as_in_the_reference(batches):
    """One or two calls of a tool, before which the model thinks now and then, are refused and nudged alike in both."""
    expected, found = both(batches, (1.0, 0.0, 0.5))
    assert found == expected


@QUICK
@given(steps(("thing", "shell", "waiter", "reader", "poller"), wait=True))
def test_waits_are_found_as_in_the_reference(batches):
    """Tools that run as long as their arguments say, or shorter, are waits for both."""
    expected, found = both(batches)
    assert refusals(found) == refusals(expected)


@settings(QUICK, max_examples=50)
@given(st.sampled_from(("reader", "shell", "poller")).flatmap(laundered))
def test_independence_is_learned_as_in_the_reference(batches):
    """One call between ever new writes is refused by both once nothing that these wrote changed its result."""
    expected, found = both(batches)
    assert found == expected


@QUICK
@given(steps(("get_page", "update_page", "click", "poller"), of=1))
def test_names_are_read_as_in_the_reference(batches):
    """Tools whose names tell their kinds, a cursor among them, are refused by both at the same calls."""
    expected, found = both(batches)
    assert refusals(found) == refusals(expected)


@QUICK
@given(st.sampled_from(ALL).flatmap(lambda tool: steps((tool,), of=1, at_most=60)))
def test_one_call_is_refused_as_in_the_reference(batches):
    """One call of any kind, made again and again, is refused by both at the same runs, for the same time."""
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


CALLS = {f"{tool} {text}": ToolCall(tool, {"text": text}) for tool in ("helper", "thing", "stepper") for text in "ab"}
TREES = st.recursive(
    st.just({}), lambda inner: st.dictionaries(st.sampled_from(sorted(CALLS)), inner, max_size=3), max_leaves=40
)
"""The calls of an agent, and with each call those of the agent that it starts. None is made twice by one agent."""


def delegated(turn, tree, path=()):
    """Return the decisions of an agent, and of those inside of its calls."""
    said = []
    for name, inner in tree.items():
        call = CALLS[name]._replace(call_id=f"c{path}{name}")
        refused = turn.begin(call)
        said.append(refused)
        if not refused:
            said += delegated(turn.child(call), inner, (*path, name))
            said.append(turn.end(call, Outcome(LONG.format(f"the report about {path} and {name}"))))
    return said


@QUICK
@given(TREES)
def test_agents_inside_of_calls_are_judged_as_in_the_reference(tree):
    """A task that is handed on to a copy of the agent is refused by both at the same depth."""
    naive, real = NaiveTurn(contracts=CONTRACTS, clock=Clock()), EnforcedTurn(CONTRACTS, Clock())
    assert delegated(real, tree) == delegated(naive, tree)


def test_the_drawn_agents_hand_tasks_on():
    """What the two are compared on holds refusals of nested tasks."""
    chain = functools.reduce(lambda inner, _: {"helper a": {"thing b": inner}}, range(6), {})
    found = [one for one in delegated(NaiveTurn(contracts=CONTRACTS, clock=Clock()), chain) if one]
    assert [one[:2] for one in found] == [("nested_repeat", "block")]


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
