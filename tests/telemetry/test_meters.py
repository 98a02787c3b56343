"""Labels and time series are bounded, and exist before the first trip."""

from __future__ import annotations

import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from opentelemetry import context as otel_context

import otel_loopguard as loopguard
from otel_loopguard import ToolLoopError, semconv
from otel_loopguard.engine.ledger import Ledger
from otel_loopguard.engine.modes import Mode
from otel_loopguard.engine.policy.policy import Policy, ToolContract
from otel_loopguard.engine.rule import Rule
from otel_loopguard.engine.vocabulary import Action, Trip, Usage
from otel_loopguard.telemetry.measurements import MOST_LABELS
from otel_loopguard.telemetry.meters import TURN_CHILDREN, TURN_COST, TURN_TOKENS, announced_trips
from otel_loopguard.testing import ScriptedAgent, guarded
from otel_loopguard.turns.scope import current_scope
from tests.telemetry.agents import attributes, look, stuck

if TYPE_CHECKING:
    from otel_loopguard.engine.vocabulary import Record
    from otel_loopguard.testing import Recording


def test_exemplars_link_counts_to_their_traces() -> None:
    """The exemplar of a trip's count names the call's span."""
    with guarded() as recording:
        stuck()
        spans = {span.context.span_id for span in recording.spans if span.events}
        exemplars = {
            exemplar.span_id for point in recording.points(semconv.METRIC_TRIPS) for exemplar in point.exemplars
        }
        assert exemplars == spans


def trip_series(recording: Recording) -> dict[tuple[str, str, str], float]:
    """The series of trips by mode, verdict and action."""
    labels = (semconv.MODE, semconv.VERDICT, semconv.ACTION)
    return {tuple(map(point.attributes.get, labels)): point.value for point in recording.points(semconv.METRIC_TRIPS)}


def test_one_series_of_each_mode_is_counted_zero_at_start() -> None:
    """A dashboard knows the modes, and the first refusal is an increase."""
    with guarded() as recording:
        before = trip_series(recording)
        assert set(before.values()) == {0}
        assert [mode for mode, _, _ in sorted(before)] == sorted([*map(str, Mode), "user_stop"])
        stuck()
        grown = {trip for trip, number in trip_series(recording).items() if number}
        assert grown & before.keys() == {("generic_repeat", "block", "block")}


POLICIES: dict[str, tuple[dict[str, Any], str | None]] = {
    "off": ({"action": "off"}, None),
    "observe": ({"action": "observe"}, "observe"),
    "nudge": ({"action": "nudge"}, "nudge"),
    "block": ({"action": "block"}, "block"),
    "conclude": ({"action": "conclude"}, "block"),
    "abort": ({"action": "abort"}, "block"),
    "a mode's own": ({"modes": {"generic_repeat": Rule(action=Action.NUDGE)}}, "nudge"),
    "a mode that is off": ({"modes": {"generic_repeat": Rule(action=Action.OFF)}}, None),
    "a tool's own": ({"tools": {"lo*": ToolContract(action=Action.OBSERVE)}}, "block"),
}


@pytest.mark.parametrize("name", POLICIES)
def test_what_happens_instead_of_a_refusal_is_counted_zero_at_start(name: str) -> None:
    """The ceiling of the policy holds for each mode, and that of the mode below it."""
    settings, action = POLICIES[name]
    found = {mode: (verdict, done) for mode, verdict, done in announced_trips(Policy(**settings))}
    assert found.get("generic_repeat") == (None if action is None else ("block", action))


# --- turns -------------------------------------------------------------------------------------------------------


def turns_by(recording: Recording, metric: str) -> Counter[tuple[str, ...]]:
    """The values of a counter of turns, by mode and action, or by action alone."""
    found: Counter[tuple[str, ...]] = Counter()
    for point in recording.points(metric):
        labels = [point.attributes.get(name) for name in (semconv.MODE, semconv.ACTION)]
        found[tuple(label for label in labels if label is not None)] += point.value
    return found


CALLS = st.tuples(st.sampled_from(["look", "list_files", "fails"]), st.sampled_from("ab"))
LABELS = (semconv.MODE, semconv.ACTION, semconv.TURN_FIRST)
SCRIPTS = st.lists(st.lists(CALLS, min_size=3, max_size=25), min_size=1, max_size=6)


@settings(max_examples=40, deadline=None)
@given(scripts=SCRIPTS, action=st.sampled_from([Action.OBSERVE, Action.NUDGE, Action.ABORT]), weak=st.booleans())
def test_each_turn_is_counted_once_for_each_mode_and_action(
    scripts: list[list[tuple[str, str]]], action: Action, weak: bool
) -> None:
    """The counters are the distinct turns, modes and actions of all trip events, made by a thread for each turn."""
    tools = {"look": look, "list_files": "files of {}".format, "fails": "Error: {} does not exist".format}

    def make(script: list[tuple[str, str]]) -> None:
        with suppress(ToolLoopError), nullcontext() if weak else loopguard.turn():
            for tool, path in script:
                loopguard.call(tool, {"path": path}, lambda path, tool=tool: tools[tool](path))

    with guarded(Policy(action=action, conclude_after=2, abort_after=4)) as recording:
        with ThreadPoolExecutor(len(scripts)) as pool:
            list(pool.map(make, scripts))
        trips = [
            (attributes(span)[semconv.TURN_ID], *map(attributes(event).get, LABELS))
            for span in recording.spans
            for event in span.events
        ]
        reached = {(turn, mode, done) for turn, mode, done, _ in trips}
        assert turns_by(recording, semconv.METRIC_TURNS_TRIPPED) == Counter((mode, done) for _, mode, done in reached)
        looping = Counter((done,) for _, done in {(turn, done) for turn, _, done in reached})
        assert turns_by(recording, semconv.METRIC_TURNS_LOOPING) == looping
        firsts = Counter(first for *_, first in trips)
        assert firsts["action"] == sum(looping.values())
        assert firsts["action"] + firsts["mode"] == len(reached)


def test_a_stubborn_turn_is_one_looping_turn_for_each_action() -> None:
    """A dozen trips of one turn: it is counted once as nudged, once as refused, once as ended."""
    with guarded(Policy(abort_after=10)) as recording:
        ScriptedAgent({"look": look}, [("look", {"path": "a"})] * 20).run()
        assert len(recording.trips) > 10
        once = dict.fromkeys(("nudge", "block", "conclude", "abort"), 1)
        assert turns_by(recording, semconv.METRIC_TURNS_LOOPING) == {(action,): 1 for action in once}
        assert turns_by(recording, semconv.METRIC_TURNS_TRIPPED) == {("generic_repeat", action): 1 for action in once}


def test_a_turn_that_its_user_stopped_is_not_looping() -> None:
    """It is counted as a turn that reached the mode ``user_stop``."""
    with guarded() as recording:
        with loopguard.turn() as turn:
            turn.say("enough", stop=True)
            loopguard.call("look", {"path": "a"}, look)
        assert turns_by(recording, semconv.METRIC_TURNS_TRIPPED) == {("user_stop", "block"): 1}
        assert turns_by(recording, semconv.METRIC_TURNS_LOOPING) == {}
        (event,) = recording.spans[0].events
        assert (event.attributes or {})[semconv.TURN_FIRST] == "mode"


def test_a_recovery_is_counted() -> None:
    """A trip is followed by a recovery when the agent gets a new result again."""
    with guarded() as recording:
        paths = ["a", "a", "a", "b"]
        ScriptedAgent({"look": look}, [("look", {"path": path}) for path in paths]).run()
        assert recording.counted(semconv.METRIC_RECOVERIES, loopguard__action="block") == 1


def no_looks(_history: Any, record: Record, _rule: Rule) -> Trip | None:
    """Refuse every other call. The mode has the function's name."""
    return Trip("no_looks", record.tool, 1, 0, Action.BLOCK) if record.index % 2 else None


class Office:
    """A detector with two modes."""

    modes = ("office.closed", "office.full")

    def __call__(self, _history: Any, record: Record, _rule: Rule) -> Trip | None:
        """Trip in each mode in turn."""
        return Trip(self.modes[record.index % 2], record.tool, 1, 0, Action.NUDGE)


def in_named_mode(_history: Any, record: Record, _rule: Rule) -> Trip:
    """Trip in a mode that only the policy names."""
    return Trip("holidays", record.tool, 1, 0, Action.ABORT)


@pytest.mark.parametrize(
    ("detector", "modes"),
    [(no_looks, {"no_looks"}), (Office(), {"office.closed", "office.full"}), (in_named_mode, {"holidays"})],
)
def test_the_modes_of_a_custom_detector_are_known_before_its_first_trip(detector: Any, modes: set[str]) -> None:
    """Each has a series at zero, and trips in its modes grow."""
    policy = Policy(detectors=[detector], modes={"holidays": Rule(action=Action.BLOCK)})
    with guarded(policy) as recording:
        assert modes <= {mode for mode, _, _ in trip_series(recording)}
        ScriptedAgent({"look": look}, [("look", {"path": path}) for path in "abcd"]).run()
        assert {mode for (mode, _, _), number in trip_series(recording).items() if number} == modes
        assert [attributes(span)[semconv.CALL_INDEX] for span in recording.spans] == [0, 1, 2, 3]


# --- model requests ----------------------------------------------------------------------------------------------

PRICED = Policy(cost_per_million_tokens={"gpt-*": {"input": 2.0, "output": 10.0}})


def book(recording: Recording, usage: Usage, *, is_loop: bool = False) -> None:
    """Book a model request of one call, as the reader of responses and the guarded call do."""
    assert recording.runtime is not None
    recording.runtime.usage.response("turn", ["a"], usage, otel_context.get_current())
    recording.runtime.usage.judged("turn", "a", is_loop=is_loop)


def series(recording: Recording, metric: str) -> dict[frozenset[tuple[str, Any]], float]:
    return {frozenset(point.attributes.items()): point.value for point in recording.points(metric)}


def test_model_requests_are_counted_by_step_and_model() -> None:
    """Tokens of input, of the cache and of output, which add up, requests and their cost."""
    with guarded(PRICED) as recording:
        book(recording, Usage("gpt-5", 1_000, 100))
        book(recording, Usage("gpt-5", 2_000, 50, 1_500), is_loop=True)
        book(recording, Usage("claude", 30, 4), is_loop=True)
        counted, step = recording.counted, {"gen_ai__request__model": "gpt-5", "loopguard__step": "loop"}
        tokens = {"input": 500, "cached": 1_500, "output": 50}
        for of_type, number in tokens.items():
            assert counted(semconv.METRIC_MODEL_TOKENS, loopguard__token__type=of_type, **step) == number
        assert counted(semconv.METRIC_MODEL_TOKENS, **step) == sum(tokens.values())
        assert counted(semconv.METRIC_MODEL_TOKENS, loopguard__step="work") == 1_100
        assert counted(semconv.METRIC_MODEL_REQUESTS, loopguard__usage="known", **step) == 1
        assert counted(semconv.METRIC_MODEL_COST, **step) == pytest.approx(0.0045)
        assert counted(semconv.METRIC_MODEL_COST) == pytest.approx(0.0075)


def test_costs_name_the_currency_of_the_policy() -> None:
    """Costs in different currencies are not added up. Without one the attribute is left out."""
    for policy, currency in ((replace(PRICED, currency="EUR"), "EUR"), (PRICED, None)):
        with guarded(policy) as recording:
            book(recording, Usage("gpt-5", 1_000, 100))
            found = {point.attributes.get(semconv.CURRENCY) for point in recording.points(semconv.METRIC_MODEL_COST)}
            assert found == {currency}


def test_the_first_step_of_a_loop_is_an_increase() -> None:
    """The series of both steps begin with the first request of a model."""
    with guarded(PRICED) as recording:
        book(recording, Usage("gpt-5", 1_000, 100))
        metrics = (semconv.METRIC_MODEL_TOKENS, semconv.METRIC_MODEL_REQUESTS, semconv.METRIC_MODEL_COST)
        before = [series(recording, metric) for metric in metrics]
        assert [len(found) for found in before] == [6, 2, 2]
        book(recording, Usage("gpt-5", 1_000, 100), is_loop=True)
        assert [series(recording, metric).keys() for metric in metrics] == [found.keys() for found in before]


def test_what_is_not_known_has_no_series() -> None:
    """A panel without data must not read as zero tokens, or as no cost."""
    with guarded(PRICED) as recording:
        assert not any(recording.points(metric) for metric in MODEL_METRICS)
        book(recording, Usage("gpt-5"), is_loop=True)
        book(recording, Usage("claude", 5, None))
        assert recording.counted(semconv.METRIC_MODEL_REQUESTS, loopguard__usage="unknown") == 2
        assert recording.counted(semconv.METRIC_MODEL_REQUESTS) == 2
        (tokens,) = {dict(found)[semconv.REQUEST_MODEL] for found in series(recording, semconv.METRIC_MODEL_TOKENS)}
        assert tokens == "claude"
        assert recording.points(semconv.METRIC_MODEL_COST) == []


MODEL_METRICS = (semconv.METRIC_MODEL_TOKENS, semconv.METRIC_MODEL_REQUESTS, semconv.METRIC_MODEL_COST)


def test_names_of_models_are_bounded_labels() -> None:
    """The first fifty plain names, then ``_other``; a name with blanks or without end is ``_unknown``."""
    with guarded() as recording:
        for name in ("tell me a secret", "x" * 65, "", "claude@2025", *(f"m{number}" for number in range(100))):
            book(recording, Usage(name, 1, 1))
        points = recording.points(semconv.METRIC_MODEL_REQUESTS)
        models = {point.attributes[semconv.REQUEST_MODEL] for point in points}
        assert len(models) == 52
        assert {"_unknown", "_other", "claude@2025", "m0"} <= models
        assert recording.counted(semconv.METRIC_MODEL_REQUESTS, gen_ai__request__model="_unknown") == 3


def test_a_fault_of_the_meter_reaches_no_reader_of_a_response(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is counted as an internal error."""
    with guarded() as recording:
        assert recording.runtime is not None

        def fail(*_: object, **__: object) -> None:
            raise ZeroDivisionError

        monkeypatch.setattr(recording.runtime.providers.outlets().meters, "model_request", fail)
        book(recording, Usage("gpt-5", 1, 1))
        assert recording.counted(semconv.METRIC_INTERNAL_ERRORS, loopguard__site="usage.book") == 1


def test_calls_that_end_in_several_threads_are_all_counted() -> None:
    """The tally has no lock: a call is added in one step, and taken in one step by whoever passes the sums on."""
    with guarded() as recording:
        assert recording.runtime is not None
        meters = recording.runtime.providers.outlets().meters
        before, context = sys.getswitchinterval(), otel_context.Context()

        def end_calls() -> None:
            for _ in range(2_000):
                meters.tool_call("look", "executed", context)

        sys.setswitchinterval(1e-6)
        try:
            with ThreadPoolExecutor(4) as pool:
                for each in [pool.submit(end_calls) for _ in range(4)]:
                    each.result()
        finally:
            sys.setswitchinterval(before)
        assert recording.counted(semconv.METRIC_TOOL_CALLS) == 8_000


TURN_METRICS = (semconv.METRIC_TURN_TOKENS, semconv.METRIC_TURN_COST, semconv.METRIC_TURN_CHILDREN)
SPENT = {
    "all known": (Ledger(10, 0, 900, 80, cost=0.25, children=2), (980, 0.25, 2)),
    "free of charge": (Ledger(10, 0, 900, 80), (980, 0, None)),
    "one request of ten failed": (Ledger(10, 0, 900, 80, unmetered=1, cost=0.25, unpriced=1), (980, 0.25, None)),
    "one of nine failed": (Ledger(9, 0, 900, 80, unmetered=1, cost=0.25, unpriced=1, children=2), (None, None, 2)),
    "no prices": (Ledger(10, 0, 900, 80, unpriced=10), (980, None, None)),
    "no model client is read": (Ledger(calls=9), (None, None, None)),
}


def spend(ledger: Ledger, agent: str) -> None:
    """Play a turn of this agent that takes so much."""
    with loopguard.turn(agent_name=agent):
        scope = current_scope()
        assert scope is not None
        scope.turn.spend(ledger)


@pytest.mark.parametrize("name", SPENT)
def test_what_a_turn_took_is_measured_as_far_as_it_is_known(name: str) -> None:
    """A turn of which much is unknown is in no histogram: it would be a cheap one there."""
    ledger, known = SPENT[name]
    with guarded(Policy(currency="USD")) as recording:
        spend(ledger, "planner")
        agent = {semconv.AGENT_NAME: "planner"}
        labels = (agent, {**agent, semconv.CURRENCY: "USD"}, agent)
        for metric, expected, of_metric in zip(TURN_METRICS, known, labels, strict=True):
            found = [(dict(point.attributes), point.count, point.sum) for point in recording.points(metric)]
            assert found == ([] if expected is None else [(of_metric, 1, expected)])


def test_the_agents_that_label_what_turns_took_are_bounded() -> None:
    """Also of a program that makes a name for each run."""
    with guarded() as recording:
        for number in range(MOST_LABELS + 20):
            spend(Ledger(1, 0, 900, 80), f"agent-{number}")
        names = [point.attributes[semconv.AGENT_NAME] for point in recording.points(semconv.METRIC_TURN_TOKENS)]
        assert len(names) == MOST_LABELS + 1
        assert recording.counted(semconv.METRIC_TURN_TOKENS, gen_ai__agent__name=semconv.OTHER_TOOL) == 20


@pytest.mark.parametrize("bounds", [TURN_TOKENS, TURN_COST, TURN_CHILDREN])
def test_ten_times_a_bound_of_what_turns_took_is_a_bound(bounds: tuple[float, ...]) -> None:
    """So rules can count the turns beyond ten times the median."""
    assert [round(10 * bound, 9) for bound in bounds[:-2]] == list(bounds[2:])
