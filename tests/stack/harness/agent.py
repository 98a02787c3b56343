"""Runs an example agent the way its user would: `opentelemetry-instrument python example.py`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from otel_loopguard import semconv

from .programs import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .collector import Collector

EXAMPLE = ROOT / "examples" / "langgraph_agent.py"


@dataclass(frozen=True)
class AgentRun:
    """The output of an agent and the spans it ended, read from its console before any collector."""

    output: str
    spans: list[dict[str, Any]]

    @property
    def trips(self) -> Counter[str]:
        """Trips by mode."""
        return Counter(event["attributes"][semconv.MODE] for span in self.spans for event in trip_events(span))

    @property
    def looping_traces(self) -> set[str]:
        """The traces with a trip."""
        return {span["context"]["trace_id"].removeprefix("0x") for span in self.spans if any(trip_events(span))}

    @property
    def span_count(self) -> int:
        """The number of spans that the agent ended."""
        return len(self.spans)


def run_agent(collector: Collector, *arguments: str, service: str = "example", **settings: str) -> AgentRun:
    """One run of the example; its spans go to the collector and to its own output."""
    environment = {
        "PATH": os.environ["PATH"],
        "OTEL_SERVICE_NAME": service,
        "OTEL_TRACES_EXPORTER": "otlp,console",
        "OTEL_METRIC_EXPORT_INTERVAL": "1000",
        **collector.otlp_environment(),
        **settings,
    }
    instrument = str(Path(sys.executable).with_name("opentelemetry-instrument"))
    command = [instrument, sys.executable, str(EXAMPLE), *arguments]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return AgentRun(done.stdout + done.stderr, list(_printed_spans(done.stdout)))


def trip_events(span: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The trips on one span."""
    return (event for event in span["events"] if event["name"] == semconv.EVENT_TRIP)


def _printed_spans(output: str) -> Iterator[dict[str, Any]]:
    """The spans that the console exporter wrote between the agent's own lines."""
    decoder, position = json.JSONDecoder(), 0
    while (position := output.find('{\n    "name"', position)) >= 0:
        span, position = decoder.raw_decode(output, position)
        yield span
