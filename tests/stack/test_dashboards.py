"""The dashboards: up to date, made of names that exist, and every query of theirs finds data after a load."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from dashboards import names, recordings
from dashboards import queries as queries_of_panels
from dashboards.build import generated, stale
from otel_loopguard import semconv

from .harness.process import wait_until
from .harness.programs import ROOT
from .harness.prometheus import quick

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .conftest import Stack
    from .harness.application import Application

BOARDS = sorted((ROOT / "dashboards" / "json").glob("*.json"))
NOT_LABELS = {"le", "__name__"}


def panels(kind: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """All panels with targets for one kind of data source, by board and title."""
    for path in BOARDS:
        for panel in json.loads(path.read_text())["panels"]:
            if panel.get("targets") and panel["datasource"]["type"] == kind:
                yield f"{path.stem}: {panel['title']}", panel


def queries() -> list[Any]:
    """Every PromQL query of every panel."""
    return [
        pytest.param(target["expr"], id=f"{title} ({target.get('legendFormat', target['refId'])})")
        for title, panel in panels("prometheus")
        for target in panel["targets"]
    ]


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
    assert {f"json/{path.name}" for path in BOARDS} <= set(generated())


def known_metrics() -> set[str]:
    """Every metric that applications, the collector, Prometheus or our recording rules make."""
    ours = {getattr(names, name) for name in vars(names) if name.isupper()}
    return ours | {each.record for each in (*recordings.RECORDINGS, *recordings.USUAL)}


def known_labels() -> set[str]:
    """Every label that our telemetry can have."""
    attributes = {value for value in vars(semconv).values() if isinstance(value, str)}
    return {attribute.replace(".", "_") for attribute in attributes} | {"job", "instance", "exporter"}


@pytest.mark.parametrize("query", queries())
def test_queries_name_only_what_exists(query: str) -> None:
    """Every metric comes from semconv, the collector or a recording rule; every label is an attribute of semconv."""
    metrics = set(re.findall(r"\b((?:\w+:)*(?:loopguard|otelcol)_[\w:]+)", re.sub(r"\{.*?\}|by \(.*?\)", "", query)))
    in_braces = re.findall(r"(\w+)(?:=~|!~|!=|=)\"", query)
    in_by = [label for group in re.findall(r"by \(([^)]*)\)", query) for label in re.split(r",\s*", group) if label]

    assert metrics <= known_metrics()
    assert set(in_braces + in_by) - NOT_LABELS <= known_labels()


def test_trace_queries_name_only_what_exists() -> None:
    """The attributes and the event in TraceQL are those of semconv."""
    targets = [target["query"] for _, panel in panels("tempo") for target in panel["targets"]]
    attributes = {name for query in targets for name in re.findall(r"span\.([\w.]+)", query)}

    assert attributes
    assert attributes <= {value for value in vars(semconv).values() if isinstance(value, str)}
    assert all(f'event:name = "{semconv.EVENT_TRIP}"' in query for query in targets)


@pytest.fixture(scope="module")
def loaded(stack: Stack) -> Iterator[str]:
    """The name of a service that did all that a panel can show."""
    from .harness.application import Application

    agent = Application(stack.collector, "shown")
    do_everything(agent)
    agent.flush()
    wait_until(
        "the load is in Prometheus and in the recording rules",
        lambda: stack.prometheus.query('job:loopguard_trips_per_tool_call:ratio15m{job="shown"} > 0'),
    )
    # A second export: increase() needs two samples.
    agent.turn("cycle")
    agent.flush()
    yield "shown"
    agent.close()


def do_everything(agent: Application) -> None:
    """Trips of several modes, refused and observed, an ended run, recoveries, unknown tools, faults, turns, tokens."""
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


@pytest.mark.parametrize("query", queries())
def test_every_query_finds_data(query: str, loaded: str, stack: Stack) -> None:
    """After a real load no panel is empty."""
    expression = quick(query.replace("$job", loaded).replace("$mode", ".*").replace("$tool", ".*"))
    expression = expression.replace("$__range", quick("4h"))

    assert "$" not in expression
    wait_until(f"data for {expression}", partial(stack.prometheus.query, expression), seconds=10)


def test_the_price_of_loops_is_right(loaded: str, stack: Stack) -> None:
    """Each figure follows from the load, and a service whose tokens are not known has none of them, not a zero."""
    expected = {
        queries_of_panels.TOKENS_IN_LOOPS: 1_800,
        queries_of_panels.TOKEN_SHARE: 1_800 / 2_700,
        queries_of_panels.COST_IN_LOOPS: 0.5,
        queries_of_panels.UNKNOWN_USAGE_SHARE: 0.25,
        queries_of_panels.TOKENS_NOT_SPENT: 900,
    }

    def shows(query: str, value: float) -> bool:
        return stack.prometheus.value(query) == pytest.approx(value)

    for query, value in expected.items():
        of_range = quick(query).replace("$__range", quick("4h"))
        wait_until(f"{value} for {query}", partial(shows, of_range.replace("$job", loaded), value))
        assert stack.prometheus.value(of_range.replace("$job", "nobody")) is None


def test_every_panel_says_what_it_shows_and_why_it_may_be_empty() -> None:
    """Title, description, unit and an empty state."""
    for title, panel in panels("prometheus"):
        defaults = panel["fieldConfig"]["defaults"]
        assert panel["description"], title
        assert defaults["noValue"], title
        assert defaults["unit"], title


def test_build_runs_as_a_command(tmp_path: Any) -> None:
    """`python -m dashboards.build --check` is what CI runs."""
    command = [sys.executable, "-m", "dashboards.build", "--check"]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)

    assert result.returncode == 0, result.stdout
