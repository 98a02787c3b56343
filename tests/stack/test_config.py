"""The collector's configuration, as checked in."""

from __future__ import annotations

import re
import subprocess
from typing import TYPE_CHECKING

import pytest
from opentelemetry.trace import set_span_in_context

from .harness.collector import CONFIG, CONFIG_BALANCER, CONFIG_KAFKA, CONFIG_TEMPO, CONFIG_WATCH, page_configs
from .harness.process import answers, wait_until
from .harness.programs import ROOT, need

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from .harness.application import Application
    from .harness.collector import Collector

DOCS = ROOT / "docs" / "stack.md"
WHOLE = (CONFIG, CONFIG_BALANCER, CONFIG_KAFKA)
"""The configurations that run by themselves; the others are added to the first one."""
NUMBERS = [
    (path, name) for path in WHOLE for name in sorted(set(re.findall(r"\+\$\{env:(LOOPGUARD_\w+):-", path.read_text())))
]


def validate(*configs: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [need("collector"), "validate", *(f"--config={config}" for config in configs)]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=30, check=False)


@pytest.mark.parametrize("config", WHOLE, ids=lambda path: path.stem)
def test_config_is_valid_without_any_setting(config: Path) -> None:
    """The file runs unchanged: every variable has a default."""
    result = validate(config)

    assert result.returncode == 0, result.stderr


@pytest.mark.parametrize(("number", "config"), [(0, CONFIG), (1, CONFIG_KAFKA)], ids=["producer", "login"])
def test_what_the_page_about_kafka_adds_is_valid(number: int, config: Path, tmp_path: Path) -> None:
    """The page has the side that writes to Kafka, and a login; here each is added to its file."""
    added = tmp_path / "added.yaml"
    added.write_text(page_configs()[number])

    result = validate(config, added, KAFKA_PASSWORD="of the test")

    assert result.returncode == 0, result.stderr


@pytest.mark.parametrize(("config", "name"), NUMBERS)
def test_an_empty_number_is_refused(config: Path, name: str) -> None:
    """A variable that is set but empty stops the collector: read as 0 it would keep no trace, or wait for none."""
    result = validate(config, **{name: ""})

    assert result.returncode != 0


@pytest.mark.parametrize("config", WHOLE, ids=lambda path: path.stem)
def test_every_number_and_duration_is_guarded(config: Path) -> None:
    """Every variable that is a number or a duration has a plus sign before it."""
    defaults = dict(re.findall(r"\$\{env:(LOOPGUARD_\w+):-([^}]*)\}", config.read_text()))
    numeric = {name for name, value in defaults.items() if re.fullmatch(r"\d+(\.\d+)?(ms|s|m|h)?", value)}

    assert numeric == {name for path, name in NUMBERS if path == config}


@pytest.mark.parametrize("value", ["0.5", "1", "100"])
def test_a_share_may_be_whole_or_not(value: str) -> None:
    """The guard against emptiness refuses no real percentage."""
    result = validate(CONFIG, LOOPGUARD_SAMPLING_PERCENTAGE=value)

    assert result.returncode == 0, result.stderr


def test_collector_starts_without_a_complaint(make_collector: Callable[..., Collector]) -> None:
    """Validation does not look into tail sampling's conditions, a start does; and no name in the file is deprecated."""
    collector = make_collector()

    complaints = [line for line in collector.log().splitlines() if re.search(r"\t(warn|error)\t", line)]
    assert complaints == []


def test_every_setting_is_documented_with_its_default() -> None:
    """The table in docs/stack.md and the configurations agree, and these agree with one another."""
    text = "".join(each.read_text() for each in (CONFIG, CONFIG_TEMPO, CONFIG_WATCH, CONFIG_KAFKA, CONFIG_BALANCER))
    settings = set(re.findall(r"\$\{env:(LOOPGUARD_\w+):-([^}]*)\}", text))
    used = dict(settings)
    documented = dict(re.findall(r"^\| `(LOOPGUARD_\w+)` \| `([^`]*)`", DOCS.read_text(), re.MULTILINE))

    assert documented == used
    assert len(settings) == len(used)


def test_everything_listens_on_the_loopback_address_only(make_collector: Callable[..., Collector]) -> None:
    """By default telemetry is received from, and shown to, this machine alone."""
    collector = make_collector()
    ports = (collector.grpc, collector.http, collector.health, collector.metrics, collector.own_metrics)
    listening = subprocess.run(["ss", "-Hltn"], capture_output=True, text=True, timeout=10, check=True).stdout
    addresses = {port: re.findall(rf"\s(\S+):{port}\s", listening) for port in ports}

    assert addresses == {port: ["127.0.0.1"] for port in ports}


def test_memory_is_limited_and_the_collector_lives_on(
    make_collector: Callable[..., Collector], make_application: Callable[..., Application]
) -> None:
    """Traces that wait for a decision fill the memory: spans are then refused, and nothing crashes."""
    collector = make_collector(LOOPGUARD_MEMORY_LIMIT_MIB="50", LOOPGUARD_MEMORY_SPIKE_MIB="20")
    agent = make_application(collector, patience=1)

    def refused() -> float:
        open_trace(agent, note="x" * 2_000_000)
        return collector.own_metric("otelcol_receiver_refused_spans")

    wait_until("spans are refused", refused)
    assert answers(f"http://127.0.0.1:{collector.health}/")


def test_an_export_full_of_prompts_is_taken(
    make_collector: Callable[..., Collector], make_application: Callable[..., Application]
) -> None:
    """One batch of spans with whole prompts on them is larger than the 4 MiB that gRPC takes by default."""
    collector = make_collector()
    for protocol in ("grpc", "http"):
        agent = make_application(collector, protocol=protocol)
        open_trace(agent, note="x" * 30_000_000)

    wait_until("both spans are accepted", lambda: collector.own_metric("otelcol_receiver_accepted_spans") == 2)


def open_trace(agent: Application, note: str) -> None:
    """Export one span of a trace whose root goes on."""
    root = agent.foreign.start_span("invoke_agent")
    agent.foreign.start_span("chat", context=set_span_in_context(root), attributes={"gen_ai.prompt": note}).end()
    agent.flush()
