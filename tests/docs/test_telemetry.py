"""docs/telemetry.md has every name that is exported, and none that is not."""

from __future__ import annotations

import re

import pytest

from benchmarks.telemetry import PAGE, Exported, exported, page, tables
from tests.instrumentation.processes import EXAMPLE, start
from tests.telemetry.otlp import attributes, receiver

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::PendingDeprecationWarning")


@pytest.fixture(scope="module")
def found() -> Exported:
    """The telemetry of a program that emits everything."""
    return exported()


def test_the_tables_are_what_a_program_exports(found: Exported) -> None:
    """After a change of a name, a type, a place or a description, run python -m benchmarks.telemetry."""
    text = PAGE.read_text("utf-8")
    assert page(text, tables(found)) == text


def test_a_name_without_a_description_is_an_error(found: Exported) -> None:
    """The page cannot be made while something is exported that ``semconv`` does not describe."""
    found.add("call", {"loopguard.new": 1})
    with pytest.raises(LookupError, match=r"without a constant: \['loopguard.new'\]"):
        tables(found)
    del found.types["loopguard.new"]


def test_a_name_that_is_never_exported_is_an_error(found: Exported) -> None:
    """The page cannot be made while ``semconv`` describes something that no program exports."""
    types = found.types.pop("loopguard.site")
    with pytest.raises(LookupError, match=r"never emitted: \['loopguard.site'\]"):
        tables(found)
    found.types["loopguard.site"] = types


def test_a_program_under_opentelemetry_instrument_exports_nothing_else() -> None:
    """Every span, attribute, event, record and metric that leaves an unchanged program by OTLP is on the page."""
    named = set(re.findall(r"^\| `([\w.]+)(?: \.\.\.)?` \|", PAGE.read_text("utf-8"), re.MULTILINE))
    with receiver() as received:
        start(EXAMPLE, "--stubborn", environment=received.environment)
        metrics = received.metrics
        items = [*received.all_spans, *received.log_records]
        items += [event for span in received.all_spans for event in span.events]
        items += [point for metric in metrics for point in (*metric.sum.data_points, *metric.histogram.data_points)]
        keys = {key for item in items for key in attributes(item)}
        names = {span.name.split()[0] for span in received.all_spans} | {metric.name for metric in metrics}
        assert {record.event_name for record in received.log_records} == {"loopguard.tool_loop_detected"}
    assert len(keys) > 20
    assert keys | names <= named
