"""Trips counted by applications and trips counted from their span events are the same number, exactly."""

from __future__ import annotations

import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING

import pytest

from dashboards import recordings
from dashboards.promql import in_range, select, total

from .harness.process import wait_until
from .harness.prometheus import quick

if TYPE_CHECKING:
    from collections.abc import Callable

    from .conftest import Stack
    from .harness.application import Application
    from .harness.collector import Collector

MODES = ("generic_repeat", "ping_pong", "cycle")


def expect_trips(stack: Stack, job: str, *applications: Application) -> None:
    """Wait until Prometheus shows all trips of a service by mode, from metrics and from span events."""
    made = sum((each.trips for each in applications), Counter())
    for metric in ("loopguard_trips_total", "loopguard_trip_events_total"):
        seen = partial(stack.prometheus.by, "loopguard_mode", f'{metric}{{job="{job}"}}')
        wait_until(f"{metric} of {job} shows {made}", partial(equals, seen, made))
        # Nothing is counted late, either.
        assert seen() == made


def equals(answer: Callable[[], object], expected: object) -> bool:
    return answer() == expected


def test_every_trip_is_counted_by_mode(stack: Stack, make_application: Callable[..., Application]) -> None:
    """Both ways give what the application made."""
    agent = make_application(stack.collector, "counted")
    for number in range(60):
        agent.turn(*([MODES[number % 3]] if number % 2 else []))
    agent.flush()

    expect_trips(stack, "counted", agent)


def test_tokens_have_the_names_of_the_conventions(stack: Stack, make_application: Callable[..., Application]) -> None:
    """A query of the conventions' own guide has the same sums as ours, whose kinds of tokens add up."""
    agent = make_application(stack.collector, "tokens")
    for _ in range(7):
        agent.reply(900, 500, 80)
    agent.flush()

    counted = {"input_tokens": 6_300.0, "output_tokens": 560.0, "cache_read_input_tokens": 3_500.0}
    for name, tokens in counted.items():
        of_model = f'gen_ai_client_inference_usage_{name}_total{{job="tokens",gen_ai_provider_name="openai"}}'
        seen = partial(stack.prometheus.by, "gen_ai_request_model", of_model)
        wait_until(f"{name} shows {tokens}", partial(equals, seen, {"gpt-5": tokens}))
    ours = partial(stack.prometheus.by, "loopguard_token_type", 'loopguard_model_tokens_total{job="tokens"} > 0')
    wait_until("ours show them", partial(equals, ours, {"input": 2_800, "cached": 3_500, "output": 560}))


@pytest.mark.parametrize("metrics", [True, False])
def test_turns_with_a_loop_are_counted_exactly(
    stack: Stack, make_application: Callable[..., Application], metrics: bool
) -> None:
    """The metrics count each turn once for each action, and so do the events, also where they are all that comes."""
    job = f"turns-{metrics}"
    agent = make_application(stack.collector, job, metrics=metrics)
    for number in range(40):
        agent.turn(*MODES[: number % 4] * 3, calls=12)
        with agent.call() as span:
            for action in ("observe", "abort", "abort")[number % 2 :]:
                agent.trip(span, MODES[number % 3], action=action)
    agent.flush()
    looping = Counter(action for _, action in {(turn, action) for turn, _, action in agent.reached})
    tripped = Counter(mode for _, mode, _ in agent.reached)

    events = f'loopguard_trip_events_total{{job="{job}", loopguard_turn_first%s}}'
    expected = [("loopguard_action", events % '="action"', looping), ("loopguard_mode", events % '!="no"', tripped)]
    if metrics:
        expected.append(("loopguard_action", f'loopguard_turns_looping_total{{job="{job}"}}', looping))
        expected.append(("loopguard_mode", f'loopguard_turns_tripped_total{{job="{job}"}}', tripped))
    for label, series, made in expected:
        wait_until(f"{series} shows {made}", partial(equals, partial(stack.prometheus.by, label, series), made))


def test_four_instances_at_once_are_counted_together(
    stack: Stack, make_application: Callable[..., Application]
) -> None:
    """Four processes of one service, two over gRPC and two over HTTP, send at the same time: no trip is lost."""
    agents = [make_application(stack.collector, "crowd", protocol=protocol) for protocol in ("grpc", "http") * 2]

    def work(agent: Application) -> None:
        for number in range(150):
            agent.turn(MODES[number % 3])
        agent.flush()

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, agents))

    expect_trips(stack, "crowd", *agents)


def test_events_of_spans_that_end_in_another_order_are_counted(
    stack: Stack, make_application: Callable[..., Application]
) -> None:
    """The first trip's span ends last and is exported by itself: its event is older than all that was sent before."""
    agent = make_application(stack.collector, "reversed")
    spans = [agent.tracer.start_span(f"execute_tool {number}") for number in range(10)]
    for span in spans:
        agent.trip(span, "cycle")
    for span in reversed(spans):
        span.end()
        agent.flush()

    expect_trips(stack, "reversed", agent)


def test_applications_that_export_deltas_are_counted(
    stack: Stack, make_application: Callable[..., Application]
) -> None:
    """Prometheus knows no deltas: the collector adds them up."""
    agent = make_application(stack.collector, "deltas", deltas=True)
    for _ in range(3):
        agent.turn("cycle")
        agent.turn("ping_pong")
        agent.flush()

    expect_trips(stack, "deltas", agent)


def test_a_range_counts_the_first_trips_of_a_series(stack: Stack, make_application: Callable[..., Application]) -> None:
    """A series that is born with 12 trips has grown by 12 in all, where increase() alone sees nothing."""
    agent = make_application(stack.collector, "newborn")
    agent.turn(*["generic_repeat"] * 12, calls=12)
    agent.flush()
    expect_trips(stack, "newborn", agent)

    trips = 'loopguard_trips_total{job="newborn"}'
    in_all = quick(total("", in_range(select(recordings.TRIPS, 'job="newborn"'), "1h")))
    wait_until("12 trips in an hour", lambda: stack.prometheus.value(in_all) == 12)
    assert stack.prometheus.value(f"sum(increase({trips}[5m]))") in (None, 0)


def test_trips_far_apart_stay_in_one_series(
    make_collector: Callable[..., Collector], make_application: Callable[..., Application]
) -> None:
    """A service without trips for longer than the exporter keeps a silent series goes on where it was."""
    collector = make_collector(LOOPGUARD_METRIC_EXPIRATION="2s", LOOPGUARD_TRIPS_FLUSH_INTERVAL="500ms")
    agent = make_application(collector, "rare", metrics=False)
    seen: list[float] = []
    for expected in (1, 2):
        agent.turn("cycle")
        agent.flush()
        wait_until(f"{expected} trips", partial(equals, partial(trip_events, collector), expected))
        for _ in range(25):
            seen.append(trip_events(collector))
            time.sleep(0.2)

    assert set(seen) == {1, 2}


def trip_events(collector: Collector) -> float:
    """The sum of the trips counted from events, as the collector's endpoint shows it now."""
    lines = collector.exposition().splitlines()
    return sum(float(line.rsplit(" ", 1)[1]) for line in lines if line.startswith("loopguard_trip_events_total"))
