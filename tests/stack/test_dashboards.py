"""The dashboards: up to date, made of names that exist, and every query of theirs finds data after a load."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from functools import partial
from threading import Event, Thread
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from opentelemetry.context import Context

from dashboards import names, recordings
from dashboards import queries as queries_of_panels
from dashboards.build import generated, stale
from dashboards.overview import STEPS_BY_SERVICE
from dashboards.panels import panel_id
from otel_loopguard import Action, Ledger, semconv
from otel_loopguard.engine.vocabulary import RUN_BUDGET, First, Trip

from .harness.agent import run_agent
from .harness.process import wait_until
from .harness.programs import ROOT
from .harness.prometheus import Prometheus, quick

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from .conftest import Stack
    from .harness.application import Application
    from .harness.collector import Collector

BOARDS = {path.stem: json.loads(path.read_text()) for path in sorted((ROOT / "dashboards" / "json").glob("*.json"))}
NOT_LABELS = {"le", "__name__"}
EXEMPLARS = " @ 0"
"""The end of a query that returns exemplars and no samples."""
LIVE = {
    names.TURNS_LIVE, names.LOOPS_OPEN, names.LOOPS_OPEN_STEPS, names.LOOPS_OPEN_AGE,
    # few series, of what is rare
    names.STORE_FAILURES, names.WATCH_REFUSED,
}  # fmt: skip


def all_panels(board: str) -> Iterator[dict[str, Any]]:
    """The panels and rows of a board, with those of its collapsed rows."""
    for panel in BOARDS[board]["panels"]:
        yield panel
        yield from panel.get("panels") or ()


def panels(kind: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """All panels with targets for one kind of data source, by board and title."""
    for name in BOARDS:
        for panel in all_panels(name):
            if panel.get("targets") and panel["datasource"]["type"] == kind:
                yield f"{name}: {panel['title']}", panel


def queries() -> list[Any]:
    """Every PromQL query of every panel."""
    return [
        pytest.param(target["expr"], id=f"{title} ({target.get('legendFormat') or target['refId']})")
        for title, panel in panels("prometheus")
        for target in panel["targets"]
    ]


def metrics(query: str) -> set[str]:
    """The metrics and recorded series in a query."""
    return set(
        re.findall(r"\b((?:\w+:)*(?:loopguard|otelcol)_[\w:]+)", re.sub(r"\{.*?\}|by \(.*?\)|\"[^\"]*\"", "", query))
    )


def test_generated_files_are_up_to_date() -> None:
    """The checked-in files equal the generated ones."""
    assert stale() == []


def test_check_fails_when_a_file_is_stale(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """`--check` names what differs and fails."""
    from dashboards import build

    monkeypatch.setattr(build, "generated", lambda: {"json/overview.json": "{}"})

    assert build.main(["--check"]) == 1
    assert "json/overview.json" in capsys.readouterr().out


def test_no_json_is_left_that_nothing_makes() -> None:
    """A dashboard that was renamed in the code is gone from the directory, too."""
    assert {f"json/{name}.json" for name in BOARDS} <= set(generated())


def known_metrics() -> set[str]:
    """Every metric that applications, the collector, Prometheus or our recording rules make."""
    ours = {value for name, value in vars(names).items() if name.isupper() and isinstance(value, str)}
    ours |= {f"{counter}_{item}" for counter in names.LOSSES for item in names.LOST_ITEMS}
    return ours | {each.record for each in (*recordings.RECORDINGS, *recordings.USUAL)}


def known_labels() -> set[str]:
    """Every label that our telemetry, Prometheus's alerts and our recording rules can have."""
    attributes = {value for value in vars(semconv).values() if isinstance(value, str)}
    of_rules = {"job", "instance", "exporter", "alertname", "alertstate", "severity", recordings.ACCOUNT}
    return {attribute.replace(".", "_") for attribute in attributes} | of_rules


@pytest.mark.parametrize("query", queries())
def test_queries_name_only_what_exists(query: str) -> None:
    """Every metric comes from semconv, the collector or a recording rule; every label is an attribute of semconv."""
    in_braces = re.findall(r"(\w+)(?:=~|!~|!=|=)\"", query)
    in_by = [label for group in re.findall(r"by \(([^)]*)\)", query) for label in re.split(r",\s*", group) if label]

    assert metrics(query) <= known_metrics()
    assert set(in_braces + in_by) - NOT_LABELS <= known_labels()


@pytest.mark.parametrize("query", queries())
def test_counters_of_applications_are_read_from_recorded_series(query: str) -> None:
    """A counter forgets a process that has ended, and 200 instances have too many of them for a panel."""
    counters = {name for name in metrics(query) - LIVE if name.startswith("loopguard_")}

    assert not counters or query.endswith(EXEMPLARS)


def test_trace_queries_name_only_what_exists() -> None:
    """The attributes and the event in TraceQL are those of semconv; the collector keeps these traces."""
    targets = [target["query"] for _, panel in panels("tempo") for target in panel["targets"]]
    attributes = {name for query in targets for name in re.findall(r"span\.([\w.]+)", query)}

    assert attributes
    assert attributes <= {value for value in vars(semconv).values() if isinstance(value, str)}
    kept = f"span.{semconv.TURN_REQUESTS} >= {queries_of_panels.COSTLY_TURN_REQUESTS} "
    assert all(f'event:name = "{semconv.EVENT_TRIP}"' in query or kept in query for query in targets)
    config = (ROOT / "collector-config.yaml").read_text()
    assert f"key: {semconv.TURN_REQUESTS}\n" in config
    assert f"LOOPGUARD_COSTLY_TURN_REQUESTS:-{queries_of_panels.COSTLY_TURN_REQUESTS}}}" in config


@pytest.mark.parametrize("board", BOARDS)
def test_each_filter_acts_on_every_query(board: str) -> None:
    """All of a board's choices are in all of its queries; a trace has the service by another name."""
    offered = {each["name"] for each in BOARDS[board]["templating"]["list"] if each["type"] == "query"}
    for panel in all_panels(board):
        for target in panel.get("targets", []):
            used = set(re.findall(r"\$\{?(\w+)", target.get("expr", "") + target.get("query", "")))
            same = {"job", "service_name"}

            assert offered - same <= used, panel["title"]
            assert not offered & same or used & same, panel["title"]


def test_only_pages_of_the_chosen_services_are_marked_and_only_when_switched_on() -> None:
    """The marks are on one panel without exemplars: they would cover them."""
    marks = {name: board["annotations"].get("list", []) for name, board in BOARDS.items()}
    (pages,) = marks.pop("overview")
    (panel,) = (each for each in BOARDS["overview"]["panels"] if each["title"] == STEPS_BY_SERVICE)

    assert not any(marks.values())
    assert pages["enable"] is False
    assert 'severity="page"' in pages["expr"]
    assert 'job=~"$job"' in pages["expr"]
    assert pages["filter"] == {"exclude": False, "ids": [panel["id"]]}
    assert not any(target.get("exemplar") for target in panel["targets"])


@pytest.mark.parametrize("board", BOARDS)
def test_panels_keep_their_ids_when_they_move(board: str) -> None:
    """Alerts and links name panels: an id follows from the title, and each is there once."""
    shown = [*all_panels(board)]

    assert len({panel["id"] for panel in shown}) == len(shown)
    assert all(panel["id"] == panel_id(panel["title"]) for panel in shown if panel["type"] != "row")


@pytest.mark.parametrize("board", BOARDS)
def test_panels_fit_side_by_side(board: str) -> None:
    """The grid has 24 columns: Grafana would move a panel that reaches over them."""
    places = [panel["gridPos"] for panel in all_panels(board)]

    assert [place for place in places if place["x"] + place["w"] > 24] == []


def test_each_alert_of_grafana_names_a_panel_that_exists() -> None:
    """From the two annotations Grafana makes the link "View panel"."""
    shown = {(board["uid"], str(panel["id"])) for board in BOARDS.values() for panel in board["panels"]}
    (group,) = yaml.safe_load((ROOT / "dashboards/grafana/provisioning/alerting/loopguard.yaml").read_text())["groups"]

    for rule in group["rules"]:
        assert (rule["annotations"]["__dashboardUid__"], rule["annotations"]["__panelId__"]) in shown, rule["title"]


def test_the_first_screen_says_who_loops_and_whether_it_helped_and_what_it_cost() -> None:
    """The table of services is first, as on a narrow screen; the figures follow within 18 lines of the grid."""
    first = [each for each in BOARDS["overview"]["panels"] if each["gridPos"]["y"] + each["gridPos"]["h"] <= 18]

    assert [each["title"] for each in first if each["type"] != "row"] == [
        "Who is looping, worst first",
        STEPS_BY_SERVICE,
        "Services looping now",
        "Turns looping now",
        "Ran unhindered",
        "Refused",
        "Runs ended by the guard",
        "Alerts firing",
        "Loop steps",
        "Turns that looped",
        "Turns ended",
        "News after a step",
        "Tokens in loops",
        "Share of tokens",
        "Cost in loops",
        "Not spent (est.)",
    ]


def test_every_panel_says_what_it_shows_and_what_no_data_means() -> None:
    """Grafana shows the same text with an error, so the panel claims nothing; the description has the causes."""
    for title, panel in (*panels("prometheus"), *panels("tempo")):
        defaults = panel["fieldConfig"]["defaults"]
        assert "\n\nNo data: " in panel["description"], title
        assert defaults["noValue"] == "No data", title
        assert defaults["unit"], title


def test_a_cell_without_a_value_is_a_dash() -> None:
    """A row need not have all labels and values: a healthy service has no tool that loops."""
    tables = [panel for _, panel in panels("prometheus") if panel["type"] == "table"]
    columns = [rule for table in tables for rule in table["fieldConfig"]["overrides"]]
    assert columns
    for column in columns:
        assert {"id": "noValue", "value": "-"} in column["properties"], column["matcher"]


# --- with a collector and a Prometheus -------------------------------------------------------------------------------
ALL_TIME = quick("4h")
BAR = quick("1m")


def fill(query: str, job: str) -> str:
    """The query as Grafana sends it for one service, at the pace of the tests."""
    filled = quick(query.replace("$mode", ".*").replace("$tool", ".*")).replace("$job", job)
    return filled.replace("$__range", ALL_TIME).replace("$__interval", BAR)


@pytest.fixture(scope="module")
def loaded(stack: Stack) -> Iterator[str]:
    """The name of a service that goes on to do all that a panel can show."""
    from .harness.application import Application

    agent, over = Application(stack.collector, "shown"), Event()

    def work() -> None:
        while not over.wait(1):
            do_everything(agent)

    worker = Thread(target=work)
    worker.start()
    yield "shown"
    over.set()
    worker.join()
    agent.close()


SPENT = Trip(RUN_BUDGET, "", 5, 4, Action.CONCLUDE, Action.CONCLUDE, reason="tree.tokens")


def do_everything(agent: Application) -> None:
    """Trips of several modes, refused, told and observed, an ended run, recoveries, unknown tools, faults, tokens."""
    for action in ("nudge", "observe"):
        agent.begin_turn()
        with agent.call() as span:
            agent.trip(span, "cycle", action=action)
    agent.meters.turn_ended("turn", "answered", Action.BLOCK)
    for taken in (*[900] * 20, 90_000):
        agent.meters.turn_spent(Ledger(2, 0, taken, 80, cost=0.25, children=2), "planner", "USD")
    agent.meters.genai.agent_ran(1, "planner", None, Context(), calls=2, requests=2)
    agent.meters.trip("turn", SPENT, semconv.UNKNOWN_TOOL, First.NO, Context())
    agent.meters.store_failure("timeout")
    agent.watch_refused.add(1, {semconv.WATCH_REASON: "full"})
    for mode in ("generic_repeat", "ping_pong", "similar_query", "global_circuit_breaker"):
        agent.turn(mode, calls=5)
    with agent.call(semconv.UNKNOWN_TOOL, "blocked") as span:
        agent.trip(span, "unknown_tool_repeat", semconv.UNKNOWN_TOOL, verdict="block", action="observe")
    agent.recover("generic_repeat", "nudge")
    agent.meters.error("decide")
    agent.live = 2
    for step, tokens in (("work", 900), ("loop", 800), ("loop", 1_000), ("work", None)):
        agent.model_request(step, tokens, cost=0.25)
    for action in ("conclude", "abort"):
        with agent.call() as span:
            agent.trip(span, "generic_repeat", verdict="abort", action=action)


@pytest.mark.parametrize("query", [query for query in queries() if not query.values[0].endswith(EXEMPLARS)])
def test_every_query_finds_data(query: str, loaded: str, stack: Stack) -> None:
    """After a real load no panel is empty."""
    expression = fill(query, loaded)

    assert "$" not in expression
    wait_until(f"data for {expression}", partial(stack.prometheus.query, expression))


@pytest.mark.parametrize("query", [query for query in queries() if query.values[0].endswith(EXEMPLARS)])
def test_every_query_for_exemplars_finds_them_and_nothing_else(query: str, loaded: str, stack: Stack) -> None:
    """Recorded series have no exemplars: the query of the counter adds them, and no line and no load."""
    expression = fill(query, loaded)

    wait_until(f"exemplars of {expression}", partial(stack.prometheus.exemplars, expression))
    assert stack.prometheus.query(expression) == []


@pytest.mark.parametrize("title", [title for title, panel in panels("prometheus") if panel["type"] == "table"])
def test_a_table_has_its_columns_and_no_others(title: str, loaded: str, stack: Stack) -> None:
    """Every label that the queries return is a column, and every column is a label or the values of a query."""
    panel = dict(panels("prometheus"))[title]
    (columns,) = (each["options"] for each in panel["transformations"] if each["id"] == "organize")
    several = len(panel["targets"]) > 1
    fields = {f"Value #{target['refId']}" if several else "Value" for target in panel["targets"]}
    for target in panel["targets"]:
        expression = fill(target["expr"], loaded)
        samples = wait_until(f"data for {expression}", partial(stack.prometheus.query, expression))
        fields.update(label for sample in samples for label in sample["metric"])

    assert fields == {*columns["renameByName"], *columns["excludeByName"]} - {"Time"}
    assert [each["id"] for each in panel["transformations"]] == (["merge"] if several else []) + ["organize"]
    assert panel["options"]["sortBy"][0]["displayName"] in columns["renameByName"].values()


@pytest.mark.parametrize("board", BOARDS)
def test_variables_find_their_values_in_recorded_series(board: str, loaded: str, stack: Stack) -> None:
    """A service that has ended can be chosen, and 200 instances are few series."""
    for variable in BOARDS[board]["templating"]["list"]:
        if variable["type"] == "query":
            selector, label = re.fullmatch(r"label_values\((.*), (\w+)\)", variable["query"]).groups()  # type: ignore[union-attr]
            found = partial(
                stack.prometheus.get, f"label/{label}/values", **{"match[]": selector.replace("$job", loaded)}
            )

            series = set(re.findall(r"[\w:]*loopguard_[\w:]+", selector))
            assert series
            assert series <= {each.record for each in recordings.RECORDINGS}
            wait_until(f"values of {variable['name']}", found)


def shows(stack: Stack, query: str, job: str, value: float | None) -> None:
    """Wait until a figure shows this value for a service."""
    expression = fill(query, job)

    def shown() -> bool:
        found = stack.prometheus.value(expression)
        return found is None if value is None else found == pytest.approx(value)

    wait_until(f"{value} for {expression}", shown)


def test_the_figures_are_right(stack: Stack, make_application: Callable[..., Application]) -> None:
    """Three turns are nudged: one gives in, one is refused, one is also ended. A fourth is observed. Each counts."""
    agent = make_application(stack.collector, "figures")
    turns = (("nudge",), ("nudge", "block", "block"), ("nudge", "block", "conclude"), ("observe",))
    for actions in turns:
        agent.turn()
        for action in actions:
            with agent.call() as span:
                agent.trip(span, "cycle", action=action)
    agent.flush()

    for query, value in {
        queries_of_panels.SERVICES_LOOPING: 1,
        queries_of_panels.TURNS_OPEN: 4,
        queries_of_panels.UNHINDERED: 1,
        queries_of_panels.REFUSED: 4,
        queries_of_panels.RUNS_ENDED: 1,
        queries_of_panels.STEPS: 8,
        queries_of_panels.TURNS: 3,
        queries_of_panels.ENDED_SHARE: 1 / 3,
    }.items():
        shows(stack, query, "figures", value)


def test_the_price_of_loops_is_right(stack: Stack, make_application: Callable[..., Application]) -> None:
    """Each figure follows from the load, and a service whose tokens are not known has none of them, not a zero."""
    do_everything(agent := make_application(stack.collector, "price"))
    agent.flush()
    for query, value in {
        queries_of_panels.TOKENS_IN_LOOPS: 1_800,
        queries_of_panels.TOKEN_SHARE: 1_800 / 2_700,
        queries_of_panels.COST_IN_LOOPS: 0.5,
        queries_of_panels.PRICED_SHARE: 1,
        queries_of_panels.TOKENS_NOT_SPENT: 900,
    }.items():
        shows(stack, query, "price", value)
        assert stack.prometheus.value(fill(query, "nobody")) is None


FIGURES = [
    pytest.param(panel["targets"][0]["expr"], id=title)
    for title, panel in panels("prometheus")
    if panel["type"] == "stat"
]
SHARES_AND_TOKENS = {
    queries_of_panels.ENDED_SHARE,
    queries_of_panels.NEWS_SHARE,
    queries_of_panels.TOKENS_IN_LOOPS,
    queries_of_panels.TOKEN_SHARE,
    queries_of_panels.COST_IN_LOOPS,
    queries_of_panels.PRICED_SHARE,
    queries_of_panels.TOKENS_NOT_SPENT,
}


@pytest.mark.parametrize("query", FIGURES)
def test_a_figure_is_zero_for_a_quiet_service_and_empty_without_any(
    query: str, stack: Stack, make_application: Callable[..., Application]
) -> None:
    """Zero is a claim: it needs a service that reports. A share of nothing has no value."""
    agent = make_application(stack.collector, "quiet")
    agent.meters.announce([("cycle", "block", "block")])
    agent.turn(calls=2)
    agent.flush()

    shows(stack, queries_of_panels.STEPS, "quiet", 0)
    shows(stack, query, "quiet", None if query in SHARES_AND_TOKENS else 0)
    assert stack.prometheus.value(fill(query, "nobody")) is None


def test_bars_add_up_to_the_number_of_the_range(stack: Stack, make_application: Callable[..., Application]) -> None:
    """Each step of a loop is in one bar only, as far as its growth: Grafana's bars begin where the last one ended."""
    agent = make_application(stack.collector, "bars")
    for _ in range(5):
        agent.turn("cycle", "cycle")
        agent.flush()
        time.sleep(1.5)
    shows(stack, queries_of_panels.STEPS, "bars", 10)
    width = int(BAR.removesuffix("ms")) // 1000
    time.sleep(2 * width)  # the growth of the last minute is complete, and in a bar

    end = int(stack.prometheus.value("vector(time())") or 0) // width * width
    parameters = {"start": str(end - 60 * width), "end": str(end), "step": str(width)}
    (series,) = stack.prometheus.get(
        "query_range", query=fill(queries_of_panels.STEPS_BY_ACTION, "bars"), **parameters
    )["result"]

    assert sum(float(value) for _, value in series["values"]) == 10


@pytest.fixture
def forgetful(make_collector: Callable[..., Collector], tmp_path: Path) -> Iterator[tuple[Collector, Prometheus]]:
    """A collector that drops the series of an ended process after seconds, and a Prometheus that scrapes it."""
    collector = make_collector(LOOPGUARD_METRIC_EXPIRATION="3s")
    prometheus = Prometheus(tmp_path, collector)
    prometheus.start()
    prometheus.wait_ready()
    yield collector, prometheus
    prometheus.stop()


def test_a_range_has_the_steps_of_processes_that_have_ended(forgetful: tuple[Collector, Prometheus]) -> None:
    """Two short runs, one after the other, as of a job or a deploy: their steps stay when their series are gone."""
    collector, prometheus = forgetful
    expression = fill(queries_of_panels.STEPS, "job")
    made = 0
    for _ in range(2):
        made += run_agent(collector, "--stubborn", service="job").trips.total()
        wait_until("no series of the process", lambda: not prometheus.query(f'{names.TRIPS}{{job="job"}}'))
        wait_until(f"{made} steps", lambda: prometheus.value(expression) == made)  # noqa: B023 - called at once

    assert made > 0


def test_build_runs_as_a_command(tmp_path: Any) -> None:
    """`python -m dashboards.build --check` is what CI runs."""
    command = [sys.executable, "-m", "dashboards.build", "--check"]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)

    assert result.returncode == 0, result.stdout
