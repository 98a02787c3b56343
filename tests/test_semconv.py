"""Names that are written once, and that others read."""

from __future__ import annotations

from opentelemetry.semconv.schemas import Schemas

from otel_loopguard import semconv
from otel_loopguard.testing import guarded
from tests.telemetry.agents import stuck


def test_the_schema_url_is_published() -> None:
    """OpenTelemetry lists it. A consumer that translates between versions gets no schema from another one."""
    assert semconv.SCHEMA_URL in {schema.value for schema in Schemas}


def test_spans_and_metrics_name_the_schema() -> None:
    """The instrumentation scope of each signal has the URL."""
    with guarded() as recording:
        stuck()
        (resource,) = recording._metrics.get_metrics_data().resource_metrics
        scopes = [scope.scope for scope in resource.scope_metrics]
        scopes += [span.instrumentation_scope for span in recording.spans]
    assert len(scopes) == 4
    assert {(scope.name, scope.schema_url) for scope in scopes} == {("otel_loopguard", semconv.SCHEMA_URL)}
