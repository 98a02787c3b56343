"""The metrics of this package. A measurement gets the context of a span, so that its exemplar links the trace."""

from __future__ import annotations

import itertools
import time
from collections import deque
from typing import TYPE_CHECKING, Any

from opentelemetry.metrics import Observation

from otel_loopguard import semconv
from otel_loopguard.engine.detectors.run_budget import budgets_of
from otel_loopguard.engine.modes import Mode
from otel_loopguard.engine.quoting import is_plain_name
from otel_loopguard.engine.vocabulary import RUN_BUDGET, USER_STOP, Action, First
from otel_loopguard.interrupts import pass_interrupt
from otel_loopguard.telemetry.genai_meters import GenAIMeters
from otel_loopguard.telemetry.loop_event import tripped_attributes
from otel_loopguard.telemetry.measurements import Labels, Records, histogram
from otel_loopguard.telemetry.open_loops import OpenLoops

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from opentelemetry.context import Context
    from opentelemetry.metrics import CallbackOptions, Counter, Meter

    from otel_loopguard.engine.ledger import Ledger
    from otel_loopguard.engine.policy.policy import Policy
    from otel_loopguard.engine.vocabulary import Trip, Usage

# Each bound is a time series of each instance. Judging a call takes 10 to 300 us; from 10 ms on it is slow.
CHECK_SECONDS = (3e-5, 1e-4, 3e-4, 1e-3, 1e-2)
CHECKS_PER_SAMPLE = 16
TURN_CALLS = (1, 2, 5, 10, 20, 50, 100)
# Ten times a bound is the bound after the next one: so rules can count turns that took ten times the median.
TURN_TOKENS = (3_000, 10_000, 30_000, 100_000, 300_000, 1_000_000, 3_000_000, 10_000_000)
TURN_COST = (0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30, 100)
TURN_CHILDREN = (1, 3, 10, 30, 100)
MOST_UNKNOWN = 0.1
"""The share of a turn's requests that may be unmetered or unpriced in the metrics of its tokens or its cost."""
MOST_MODELS = 50
MOST_UNFLUSHED = 32
_STEPS = ("work", "loop")


class Meters:
    """All instruments of the package, made from one meter.

    Calls are counted here and passed to the SDK as sums, because its counters cost more than judging a call. A sum has
    the context of its last call, so that its exemplar still links a call of that kind.
    """

    def __init__(self, meter: Meter, live: Callable[[], int], clock: Callable[[], float] = time.monotonic) -> None:
        self._labels = Labels()
        self._record = Records()
        self.genai = GenAIMeters(meter, self._record)
        self._calls: deque[tuple[str, str, Context]] = deque()
        """The tool, ending and context of each call that the SDK does not have yet. A deque needs no lock."""
        self._checks = itertools.count()
        self._models = Labels(MOST_MODELS)
        self._agents = Labels()
        self._begun: set[tuple[Any, ...]] = set()
        self._live = live
        self._started = time.time()
        self._open = OpenLoops(meter, clock)
        counter = meter.create_counter
        self._trips = counter(semconv.METRIC_TRIPS, "{trip}", "Loops that were seen, by what was done about them.")
        self._turns_tripped = counter(
            semconv.METRIC_TURNS_TRIPPED, "{turn}", "Turns with a loop, once for each mode and action."
        )
        self._turns_looping = counter(
            semconv.METRIC_TURNS_LOOPING, "{turn}", "Turns with a loop, once for each action; a user's stop is none."
        )
        self._turns_ended = counter(semconv.METRIC_TURNS_ENDED, "{turn}", "Turns that ended, by how and what was done.")
        self._recoveries = counter(
            semconv.METRIC_RECOVERIES, "{trip}", "Trips after which the agent brought something new again."
        )
        self._tool_trips = counter(semconv.METRIC_TOOL_TRIPS, "{trip}", "Loops that were seen, by tool.")
        self._tool_calls = counter(semconv.METRIC_TOOL_CALLS, "{call}", "Tool calls, by how they ended.")
        self._model_tokens = counter(
            semconv.METRIC_MODEL_TOKENS, "{token}", "Tokens of model requests, by loop or work."
        )
        self._model_requests = counter(semconv.METRIC_MODEL_REQUESTS, "{request}", "Model requests, by loop or work.")
        self._model_cost = counter(
            semconv.METRIC_MODEL_COST, "{currency}", "Cost of model requests, in the currency of the prices."
        )
        self._errors = counter(
            semconv.METRIC_INTERNAL_ERRORS, "{error}", "Faults of otel_loopguard itself; no call was affected."
        )
        self._store_failures = counter(
            semconv.METRIC_STORE_FAILURES, "{request}", "Requests that the shared store did not answer, by the reason."
        )
        self._turn_calls = histogram(
            meter, semconv.METRIC_TURN_TOOL_CALLS, "{call}", "Tool calls of a turn.", TURN_CALLS
        )
        self._turn_tokens = histogram(
            meter, semconv.METRIC_TURN_TOKENS, "{token}",
            "Tokens of a turn, nested ones included; none if more than a tenth of the requests are unmetered.",
            TURN_TOKENS,
        )  # fmt: skip
        self._turn_cost = histogram(
            meter, semconv.METRIC_TURN_COST, "{currency}",
            "Cost of a turn, nested ones included; none if more than a tenth of the requests have no known cost.",
            TURN_COST,
        )  # fmt: skip
        self._turn_children = histogram(
            meter, semconv.METRIC_TURN_CHILDREN, "{agent}", "Agents that a turn started; none if it started none.",
            TURN_CHILDREN,
        )  # fmt: skip
        self._check = histogram(
            meter, semconv.METRIC_CHECK_DURATION, "s", "Time that judging a call took.", CHECK_SECONDS
        )
        gauge = meter.create_observable_gauge
        gauge(semconv.METRIC_TURNS_LIVE, [self._observe_live], "{turn}", "Turns in memory.")
        gauge(
            semconv.METRIC_STARTED, [self._observe_start], "s",
            "Unix time at which the counts of this process began at zero.",
        )  # fmt: skip

    def _observe_live(self, _: CallbackOptions) -> Iterable[Observation]:
        self._flush()  # the SDK is about to read all instruments
        self.genai.flush()
        yield Observation(self._live())

    def _observe_start(self, _: CallbackOptions) -> Iterable[Observation]:
        yield Observation(self._started)

    def announce(self, trips: Iterable[tuple[str, str, str]]) -> None:
        """Begin a series at zero for each of these modes, verdicts and actions.

        So a dashboard knows the modes, and Prometheus's ``increase()`` sees the first trip of most.
        """
        for mode, verdict, action in trips:
            self._record(self._trips.add, 0, {semconv.MODE: mode, semconv.VERDICT: verdict, semconv.ACTION: action})

    def trip(
        self, turn_id: str, trip: Trip, tool: str, first: First, context: Context, *, is_shared: bool = False
    ) -> None:
        """Count a trip, and its turn if ``first`` says that the trip is the first one of its action, or of its mode.

        ``is_shared``: other processes may have a part of the turn.
        """
        mode = str(trip.mode)
        self._open.step(turn_id, self._labels[tool], trip, first, is_shared=is_shared)
        self._record(self._trips.add, 1, tripped_attributes(trip), context)
        self._record(self._tool_trips.add, 1, {semconv.TOOL_NAME: self._labels[tool], semconv.MODE: mode}, context)
        action = {semconv.ACTION: str(trip.action)}
        if first is not First.NO:
            self._record(self._turns_tripped.add, 1, {semconv.MODE: mode, **action}, context)
        if first is First.ACTION:
            self._record(self._turns_looping.add, 1, action, context)

    def recovery(self, turn_id: str, trip: Trip, context: Context) -> None:
        """Count a recovery: after this trip the turn brought news again."""
        self._open.recovered(turn_id)
        attributes = {semconv.MODE: str(trip.mode), semconv.ACTION: str(trip.action)}
        self._record(self._recoveries.add, 1, attributes, context)

    def tool_call(self, tool: str, ending: str, context: Context) -> None:
        """Count a call that has ended."""
        self._calls.append((tool, ending, context))
        if len(self._calls) >= MOST_UNFLUSHED:
            self._flush()

    def _flush(self) -> None:
        """Pass the sums of the counted calls to the SDK."""
        sums: dict[tuple[str, str], tuple[int, Context]] = {}
        for _ in range(len(self._calls)):
            try:
                tool, ending, context = self._calls.popleft()
            except IndexError as error:  # another thread has taken it
                pass_interrupt(error)
                break
            key = self._labels[tool], ending
            sums[key] = sums[key][0] + 1 if key in sums else 1, context
        for (tool, ending), (number, context) in sums.items():
            attributes = {semconv.TOOL_NAME: tool, semconv.OUTCOME: ending}
            self._record(self._tool_calls.add, number, attributes, context)

    def model_request(
        self, usage: Usage, cost: float | None, currency: str, context: Context, *, is_loop: bool
    ) -> None:
        """Count a model request, its tokens and its cost (None: not known), as a step of a loop or as work."""
        model = self._models[shown_model(usage.model)]
        fresh = cached = None
        if usage.input_tokens is not None:
            cached = min(usage.cached_tokens, usage.input_tokens)
            fresh = usage.input_tokens - cached
        complete = usage.input_tokens is not None and usage.output_tokens is not None
        measurements: tuple[tuple[Counter, float | None, dict[str, str]], ...] = (
            (self._model_requests, 1, {semconv.USAGE: "known" if complete else "unknown"}),
            (self._model_tokens, fresh, {semconv.TOKEN_TYPE: "input"}),
            (self._model_tokens, cached, {semconv.TOKEN_TYPE: "cached"}),
            (self._model_tokens, usage.output_tokens, {semconv.TOKEN_TYPE: "output"}),
            (self._model_cost, cost, {semconv.CURRENCY: currency} if currency else {}),
        )
        for counter, number, own in measurements:
            if number is not None:
                attributes = {semconv.REQUEST_MODEL: model, **own}
                self._begin_steps(counter, attributes)
                attributes[semconv.LOOP_OR_WORK] = _STEPS[is_loop]
                self._record(counter.add, number, attributes, context)

    def inference(self, usage: Usage, operation: str, provider: str, context: Context) -> None:
        """Count the tokens of a model request as the GenAI conventions do."""
        self.genai.inference(usage, self._models[shown_model(usage.model)], operation, provider, context)

    def _begin_steps(self, counter: Counter, attributes: Mapping[str, str]) -> None:
        """Begin the series of both kinds of step at zero, so that the first step of a loop is an increase."""
        key = (counter, *attributes.values())
        if key not in self._begun:
            self._begun.add(key)
            for step in _STEPS:
                self._record(counter.add, 0, {**attributes, semconv.LOOP_OR_WORK: step})

    def turn(self, turn_id: str, calls: int) -> None:
        """Record the number of calls of a turn that is over."""
        self._open.over(turn_id)
        self._record(self._turn_calls.record, calls)

    def turn_ended(self, turn_id: str, end: str, action: Action | None) -> None:
        """Count a turn that has ended, by how it ended and the strongest action of its loops, if it had any."""
        self._open.over(turn_id)
        action_word = semconv.NO_ACTION if action is None else str(action)
        self._record(self._turns_ended.add, 1, {semconv.TURN_END: end, semconv.ACTION: action_word})

    def turn_spent(self, ledger: Ledger, agent: str | None, currency: str) -> None:
        """Record what a turn took that has ended and is not nested, as far as that is known.

        A turn of which much is unknown is left out, because it would count as a cheap one. Of the others the known part
        is recorded: a fan-out must not stay out of sight because one of its requests failed.
        """
        named = {} if agent is None else {semconv.AGENT_NAME: self._agents[agent]}
        paid = {**named, semconv.CURRENCY: currency} if currency else named
        most_unknown = MOST_UNKNOWN * ledger.requests
        if ledger.requests and ledger.unmetered <= most_unknown:
            self._record(self._turn_tokens.record, ledger.tokens, named)
        if ledger.requests and ledger.unpriced <= most_unknown:
            self._record(self._turn_cost.record, ledger.cost, paid)
        if ledger.children:
            self._record(self._turn_children.record, ledger.children, named)

    def measures_this_check(self) -> bool:
        """Return True for one call in sixteen, to record its time of judging: that gives the histogram of all."""
        return next(self._checks) % CHECKS_PER_SAMPLE == 0

    def check(self, seconds: float, context: Context) -> None:
        """Record the time in seconds that judging a call took."""
        self._record(self._check.record, seconds, None, context)

    def error(self, site: str) -> None:
        """Count a fault of this package, by the place in its code."""
        self._record(self._errors.add, 1, {semconv.SITE: site})

    def store_failure(self, kind: str) -> None:
        """Count a request that the shared store did not answer, by the kind of failure."""
        self._record(self._store_failures.add, 1, {semconv.ERROR_TYPE: kind})

    def after_fork(self) -> None:
        """Drop the calls that wait, in a forked child: the parent exports them."""
        self._record = Records()
        self.genai.after_fork(self._record)
        self._started = time.time()
        self._calls.clear()
        self._begun.clear()
        self._open.clear()


def shown_model(name: str) -> str:
    """Return the model's name as labels and spans show it: a name without the form of one is ``unknown``."""
    return name if is_plain_name(name.replace("@", "-")) else semconv.UNKNOWN_MODEL


# --- the time series of a policy ---------------------------------------------------------------------------------


def announced_trips(policy: Policy) -> list[tuple[str, str, str]]:
    """Return each mode with the verdict ``block`` and what this policy does then. Empty if the guard is off."""
    if policy.action is Action.OFF:
        return []
    trips = [(USER_STOP, Action.BLOCK)]
    budgets = [RUN_BUDGET] if budgets_of(policy) else []
    for mode in sorted({*map(str, Mode), *_custom_modes(policy), *budgets}):
        of_mode = policy.rule(mode).action
        trips.append((mode, min(Action.BLOCK, policy.action, policy.action if of_mode is None else of_mode)))
    return [(mode, str(Action.BLOCK), str(action)) for mode, action in trips if action is not Action.OFF]


def _custom_modes(policy: Policy) -> Iterator[str]:
    """Yield the modes of the policy's own detectors: those declared as ``modes``, else the detector's name."""
    yield from policy.modes
    for detector in policy.detectors:
        declared = getattr(detector, "modes", None)
        name = getattr(detector, "__name__", "")
        if declared is not None:
            yield from map(str, declared)
        elif name.isidentifier():  # no lambda
            yield name
