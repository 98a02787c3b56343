"""The table of metrics in docs/stack.md is what a program exports."""

from __future__ import annotations

import re
from pathlib import Path

from opentelemetry import context as otel_context

from otel_loopguard import semconv
from otel_loopguard.core.model import Usage
from otel_loopguard.core.policy.policy import Policy
from otel_loopguard.telemetry.run_span import RunSpan
from otel_loopguard.testing import ScriptedAgent, guarded
from otel_loopguard.turns.scope import Scope
from tests.telemetry.agents import look

PAGE = Path(__file__).resolve().parents[2] / "docs" / "stack.md"
ROW = re.compile(r"^\| `((?:loopguard|gen_ai)\.[\w.]+)` \| (\w+), `([^`]+)` \| (.*?) \| (.*?) \|$", re.MULTILINE)
KINDS = {"Sum": "counter", "Histogram": "histogram", "Gauge": "gauge"}


def documented():
    """Kind, unit, description and labels of each metric, as the table has them."""
    rows = ROW.findall(PAGE.read_text("utf-8"))
    return {name: (kind, unit, text, set(re.findall(r"`([\w.]+)`", labels))) for name, kind, unit, text, labels in rows}


def exported():
    """The same, of a program that makes every measurement."""
    policy = Policy(cost_per_million_tokens={"*": {"input": 1, "output": 1}})
    with guarded(policy) as recording:
        paths = ["a", "a", "a", "b"]
        ScriptedAgent({"look": look}, [("look", {"path": path}) for path in paths], agent_name="planner").run()
        scope = Scope(recording.runtime.guard.turn(), agent_name="planner")
        RunSpan.start(recording.runtime.providers, scope).end(ZeroDivisionError())
        recording.runtime.usage.response("turn", (), Usage("gpt-5", 1, 1), otel_context.get_current())
        recording.runtime.shield.report("a site", ZeroDivisionError())
        (resource,) = recording._metrics.get_metrics_data().resource_metrics
        (scope,) = resource.scope_metrics
        found = {}
        for metric in scope.metrics:
            labels = {label for point in metric.data.data_points for label in point.attributes}
            found[metric.name] = KINDS[type(metric.data).__name__], metric.unit, metric.description, labels
        return found


def test_the_program_exports_every_metric():
    """A metric that no measurement is made of would be missing below, too."""
    names = {value for name, value in vars(semconv).items() if name.startswith("METRIC_")}
    assert exported().keys() == names


def test_the_table_of_metrics_is_what_a_program_exports():
    """Name, kind, unit, description and labels."""
    assert documented() == exported()
