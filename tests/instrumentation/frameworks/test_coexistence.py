"""OpenInference and OpenLLMetry together with this package, instrumented in either order."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("openinference.instrumentation.langchain")
pytest.importorskip("opentelemetry.instrumentation.langchain")

from openinference.instrumentation.langchain import LangChainInstrumentor as OpenInference
from opentelemetry.instrumentation.langchain import LangchainInstrumentor as OpenLLMetry
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import otel_loopguard as loopguard
from otel_loopguard import semconv
from otel_loopguard.instrumentation.instrumentor import LoopGuardInstrumentor
from otel_loopguard.testing import SCENARIOS, Scenario
from tests.instrumentation.frameworks.langchain.test_graphs import look, results, script
from tests.scripted.langchain import DRIVERS, QUESTION, prebuilt_agent

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.filterwarnings("ignore")

OTHERS = {"openinference": OpenInference, "openllmetry": OpenLLMetry}


@contextmanager
def other(name: str) -> Iterator[InMemorySpanExporter]:
    """Switch another instrumentation on, with a separate provider."""
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    instrumentor = OTHERS[name]()
    instrumentor.instrument(tracer_provider=provider)
    try:
        yield exporter
    finally:
        instrumentor.uninstrument()


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
@pytest.mark.parametrize("driver", ["agent-invoke", "graph-astream"])
@pytest.mark.parametrize("name", OTHERS)
def test_scenario_beside_another_instrumentation(name: str, driver: str, scenario: Scenario) -> None:
    """Every scenario passes with the other instrumentation, which has its spans; each call is counted once."""
    with other(name) as theirs:
        scenario.run(DRIVERS[driver])
        assert theirs.get_finished_spans()


@pytest.mark.parametrize("ours_first", [True, False])
@pytest.mark.parametrize("out_first", ["ours", "theirs"])
@pytest.mark.parametrize("name", OTHERS)
def test_any_order_of_coming_and_going(name: str, out_first: str, ours_first: bool) -> None:
    """After either instrumentation is removed, in any order, the other one still works."""
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    their, our = OTHERS[name](), LoopGuardInstrumentor()
    for one in (our, their) if ours_first else (their, our):
        one.instrument(tracer_provider=provider)

    def stuck() -> list[str]:
        exporter.clear()
        return [message.status for message in results(prebuilt_agent(script("a", "a", "a"), [look]).invoke(QUESTION))]

    def scopes() -> set[bool]:
        return {
            span.instrumentation_scope is not None and span.instrumentation_scope.name == semconv.SCOPE
            for span in exporter.get_finished_spans()
        }

    try:
        assert stuck() == ["success", "success", "error"]
        assert scopes() == {True, False}
        if out_first == "ours":
            our.uninstrument()
            assert stuck() == ["success"] * 3
            assert scopes() == {False}
        else:
            their.uninstrument()
            assert stuck() == ["success", "success", "error"]
            assert True in scopes()  # OpenLLMetry leaves some patches of its own behind
    finally:
        for one in (our, their):
            if one.is_instrumented_by_opentelemetry:
                one.uninstrument()


def test_a_tool_is_the_same_object_to_everybody() -> None:
    """After all instrumentations are removed, LangChain has its original functions."""
    from langchain_core.tools.base import BaseTool

    before: Any = vars(BaseTool)["run"]
    loopguard.instrument()
    loopguard.uninstrument()
    assert vars(BaseTool)["run"] is before
