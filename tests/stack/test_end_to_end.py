"""From `opentelemetry-instrument python examples/langgraph_agent.py` to the delivered alert."""

from __future__ import annotations

import json
from collections import Counter
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from dashboards import names, queries
from otel_loopguard import semconv
from otel_loopguard.cli.main import main

from .harness.agent import AgentRun, run_agent
from .harness.alertmanager import Alertmanager, Webhook
from .harness.collector import Collector, attributes_of, tripped
from .harness.process import wait_until
from .harness.prometheus import Prometheus, quick
from .harness.tempo import Tempo

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

JOB = "example"


class Scene(NamedTuple):
    """The whole stack after five stuck agents and one that works; and two stuck ones under names of their own."""

    tempo: Tempo
    collector: Collector
    webhook: Webhook
    alertmanager: Alertmanager
    prometheus: Prometheus
    runs: list[AgentRun]

    @property
    def trips(self) -> Counter[str]:
        """The trips of all agents, by mode."""
        return sum((run.trips for run in self.runs), Counter())

    @property
    def looping_traces(self) -> set[str]:
        """The traces with a trip."""
        return set().union(*(run.looping_traces for run in self.runs))


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    """Everything is started, then the agents run."""
    folder = tmp_path_factory.mktemp("scene")
    with ExitStack() as stopping:
        tempo, webhook = Tempo(), Webhook()
        for each in (tempo, webhook):
            each.start()
            stopping.callback(each.stop)
        collector = Collector(folder, tempo=True, **tempo.settings)
        alertmanager = Alertmanager(folder, webhook)
        prometheus = Prometheus(folder, collector, alertmanager_port=alertmanager.port)
        for program in (collector, alertmanager, prometheus):
            stopping.callback(program.stop)
            program.start()
        for program in (collector, alertmanager, prometheus):
            program.wait_ready()
        runs = [run_agent(collector, argument) for argument in ("--stubborn", "--working", *["--stubborn"] * 4)]
        assert runs[0].trips, f"the stuck agent made no trip, so nothing would come: {runs[0].output}"
        run_agent(collector, "--stubborn", service="shadow", OTEL_PYTHON_LOOPGUARD_ACTION="observe")
        run_agent(collector, "--stubborn", service="unsampled", OTEL_TRACES_SAMPLER="always_off")
        yield Scene(tempo, collector, webhook, alertmanager, prometheus, runs)


def fill(query: str, job: str) -> str:
    """A dashboard's query with one service chosen, and everything else left at All."""
    return quick(query.replace("$job", job).replace("$mode", ".*").replace("$tool", ".*").replace("$__range", "4h"))


def test_agents_made_trips(scene: Scene) -> None:
    """The stuck agents were stopped, the working one untouched: what the rest is compared with is no nothing."""
    stuck, working, *_ = scene.runs

    assert stuck.trips["generic_repeat"] >= 5
    assert "tool_loop_detected" in stuck.output
    assert working.trips == Counter()
    assert "tool_loop_detected" not in working.output


def test_nothing_was_refused_on_the_way(scene: Scene) -> None:
    """Traces, metrics and logs, which the distribution exports too, all have a receiver."""
    for run in scene.runs:
        assert "Failed to export" not in run.output


@pytest.mark.parametrize("metric", ["loopguard_trips_total", "loopguard_trip_events_total"])
def test_prometheus_shows_the_trips_the_agents_made(scene: Scene, metric: str) -> None:
    """Prometheus has the exact trips by mode, from metrics and from span events."""
    wait_until(
        f"{metric} shows {scene.trips}",
        lambda: scene.prometheus.by("loopguard_mode", f'{metric}{{job="{JOB}"}}') == scene.trips,
    )


@pytest.mark.parametrize(
    "metric",
    [names.TOOL_TRIPS, names.TOOL_CALLS, names.TURN_TOOL_CALLS, names.CHECK_DURATION, names.TURNS_LIVE],
)
def test_every_metric_has_the_name_that_dashboards_know(scene: Scene, metric: str) -> None:
    """Units and kinds become suffixes on the way: the names are compared with what arrives."""
    assert wait_until(metric, lambda: scene.prometheus.query(f'{metric}{{job="{JOB}"}}'))


def test_shadow_mode_shows_what_enforcing_would_have_refused(scene: Scene) -> None:
    """An observed agent reads its file to the end; the dashboard counts the calls that enforcing would refuse."""
    filled = fill(queries.WOULD_REFUSE_BY_MODE, "shadow")
    samples = wait_until(queries.WOULD_REFUSE_BY_MODE, lambda: scene.prometheus.query(filled))

    assert {sample["metric"][names.ACTION] for sample in samples} == {"observe"}
    assert "block" in {sample["metric"][names.VERDICT] for sample in samples}


def test_trips_are_counted_where_no_span_is_sampled(scene: Scene) -> None:
    """The guard and its counters do not depend on tracing."""
    trips = 'loopguard_trips_total{job="unsampled"}'
    wait_until(trips, lambda: scene.prometheus.by("loopguard_mode", trips) == scene.runs[0].trips)


@pytest.mark.parametrize("query", [queries.STEPS, queries.TOP_TOOLS], ids=["loop steps", "top tools"])
def test_dashboard_queries_find_the_loop(scene: Scene, query: str) -> None:
    """The number of the loop's steps and its tool are on the overview."""
    assert wait_until(query, lambda: [s for s in scene.prometheus.query(fill(query, JOB)) if float(s["value"][1]) > 0])


@pytest.mark.parametrize("metric", ["loopguard_trips_total", "loopguard_trip_events_total"])
def test_exemplars_lead_to_looping_traces(scene: Scene, metric: str) -> None:
    """A trip in Prometheus links to a trace that has a trip."""
    selector = f'{metric}{{job="{JOB}"}}'
    exemplars = wait_until(f"exemplars of {selector}", lambda: scene.prometheus.exemplars(selector))

    assert {each["labels"]["trace_id"] for each in exemplars} <= scene.looping_traces


def test_file_has_every_trip_and_no_argument(scene: Scene) -> None:
    """The file exporter's lines hold the events, and neither the file's name nor its content."""
    made = sum(scene.trips.values())
    wait_until(f"{made} tripped spans in the file", lambda: sum(map(tripped, scene.collector.file_spans(JOB))) == made)
    text = scene.collector.file_text()

    assert "config.yaml" not in text
    assert "retries: 3" not in text
    modes = Counter(
        attributes_of(event)[semconv.MODE]
        for span in scene.collector.file_spans(JOB)
        for event in span.get("events", [])
    )
    assert modes == scene.trips


def test_file_replayed_makes_the_same_trips(scene: Scene, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """From hashes alone, `otel-loopguard replay` decides as the guard did in the process."""
    made = sum(scene.trips.values())
    wait_until(f"{made} tripped spans", lambda: sum(map(tripped, scene.collector.file_spans(JOB))) == made)
    recorded = tmp_path / "traces.jsonl"
    lines = scene.collector.file_text().splitlines()
    recorded.write_text("\n".join(line for line in lines if f'"stringValue":"{JOB}"' in line))

    assert main(["replay", "--json", str(recorded)]) == 0
    runs = [json.loads(line) for line in capsys.readouterr().out.splitlines() if line.startswith("{")]
    assert Counter(trip["mode"] for run in runs for trip in run["trips"]) == scene.trips
    assert len(runs) == len(scene.runs)


def test_every_looping_trace_is_kept_whole(scene: Scene) -> None:
    """Under 1 % sampling the back end has all spans of each trace with a trip, once."""
    made = Counter(
        span["context"]["trace_id"].removeprefix("0x")
        for run in scene.runs
        for span in run.spans
        if span["context"]["trace_id"].removeprefix("0x") in scene.looping_traces
    )
    wait_until(
        f"{made} in the back end",
        lambda: {trace: count for trace, count in scene.tempo.spans().items() if trace in made} == made,
    )

    assert scene.tempo.duplicates() == 0


def test_alert_is_delivered_and_resolved(scene: Scene) -> None:
    """Five aborted runs reach the pager's webhook with tool, mode, dashboard and runbook, and so does the end."""

    def posted(status: str) -> list[dict[str, Any]]:
        alerts = scene.webhook.alerts("/page", "LoopguardTripSpike", status)
        return [alert for alert in alerts if alert["labels"]["job"] == JOB]

    fired = wait_until("the alert at the webhook", lambda: posted("firing"), seconds=120)[0]
    wait_until("its end at the webhook", lambda: posted("resolved"), seconds=120)

    assert fired["labels"] == {"alertname": "LoopguardTripSpike", "job": JOB, "severity": "page"}
    assert fired["annotations"]["summary"] == (
        f"{JOB}: 5 turns loop in 10 minutes, ended by the guard or a flood, mostly read_file (generic_repeat)"
    )
    assert fired["annotations"]["dashboard_url"].endswith(f"/d/loopguard-overview?var-job={JOB}")
    assert fired["annotations"]["runbook_url"].endswith("docs/runbooks/trip-spike.md")
