"""Names that are written once, and that others read."""

from __future__ import annotations

from opentelemetry.semconv.schemas import Schemas

from otel_loopguard import semconv
from otel_loopguard.testing import guarded
from tests.telemetry.agents import stuck


def version_of(url: str) -> tuple[int, ...]:
    """The version at the end of a schema's URL, in numbers that can be compared."""
    return tuple(map(int, url.removeprefix("https://opentelemetry.io/schemas/").split(".")))


def test_the_schema_url_is_published() -> None:
    """OpenTelemetry lists it, or lists no version of its age yet: its Python package follows a release weeks later.

    A consumer that translates between versions gets no schema from another URL.
    """
    listed = {version_of(schema.value) for schema in Schemas}
    assert version_of(semconv.SCHEMA_URL) in listed or version_of(semconv.SCHEMA_URL) > max(listed)


def test_spans_and_metrics_name_the_schema() -> None:
    """The instrumentation scope of each signal has the URL."""
    with guarded() as recording:
        stuck()
        (resource,) = recording._metrics.get_metrics_data().resource_metrics
        scopes = [scope.scope for scope in resource.scope_metrics]
        scopes += [span.instrumentation_scope for span in recording.spans]
    assert len(scopes) == 4
    assert {(scope.name, scope.schema_url) for scope in scopes} == {("otel_loopguard", semconv.SCHEMA_URL)}
