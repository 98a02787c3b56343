"""Haystack: the framework's own features."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("haystack", reason="haystack-ai is tested in an environment of its own")

from haystack import tracing
from haystack.components.agents.tool_calling import ToolNotFoundException
from haystack.core.errors import PipelineRuntimeError
from haystack.tools.errors import ToolInvocationError

from otel_loopguard import semconv
from otel_loopguard.testing import Ask, guarded
from tests.instrumentation.frameworks.looking import attribute, calls, look
from tests.scripted.haystack import (
    WAYS,
    Script,
    agent_of,
    asked,
    pipeline_of,
    plain_tool,
    run,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.filterwarnings("ignore")

over_each = pytest.mark.parametrize("way", WAYS)


def script(*paths: str, name: str = "look", answer: str = "Done.") -> Script:
    return Script(calls(paths, name), answer)


def go(way: str, model: Script, *functions: Any, **options: Any) -> Any:
    """Run an agent in one of the ways."""
    start, make_tool = WAYS[way]
    return start(agent_of(model, [make_tool(one) for one in functions], **options))


@over_each
def test_a_refusal_is_a_failed_call(way: str) -> None:
    """It does not end a run in which failures are answered, and is not the result of a tool that ends the run."""
    ran = []

    def save(path: str) -> str:
        """Save something."""
        ran.append(path)
        raise LookupError(path)

    model = script(*["a"] * 5, name="save")
    with guarded() as recording:
        assert go(way, model, save, exit_conditions=["text", "save"])["last_message"].text == "Done."
        assert recording.outcomes[0] == "failed"
        assert recording.outcomes[-1] == "blocked"
        assert all(result.error for result in model.returned)
        assert attribute(recording, semconv.ERROR_TYPE)[0] == "LookupError"


@over_each
def test_where_a_failed_call_would_end_the_run_a_refusal_is_a_result(way: str) -> None:
    """The agent goes on after a refusal, also with ``raise_on_tool_invocation_failure``."""
    model = script(*["a"] * 4)
    with guarded() as recording:
        go(way, model, look, raise_on_tool_invocation_failure=True)
        assert recording.outcomes == ["executed", "nudged", "blocked", "blocked"]
        assert not any(result.error for result in model.returned)


@over_each
def test_a_failed_call_and_a_made_up_name_end_the_run_as_before(way: str) -> None:
    """With ``raise_on_tool_invocation_failure`` the framework's error reaches the caller, and the call has a span."""

    def fail(path: str) -> str:
        """Fail."""
        raise LookupError(path)

    for model, error in (
        (script("a", name="fail"), ToolInvocationError),
        (script("a", name="nope"), ToolNotFoundException),
    ):
        with guarded() as recording:
            with pytest.raises((error, PipelineRuntimeError)):
                go(way, model, fail, raise_on_tool_invocation_failure=True)
            assert len(recording.spans) == 1
            assert recording.outcomes == ["failed"]
            assert recording.runtime.guard.live == 0


@pytest.mark.parametrize("result", [{"rows": ["a"]}, ["a"]])
def test_a_sentence_is_an_item_of_a_result_that_is_json(result: Any) -> None:
    """The model reads it as JSON. A result that goes into the agent's state stays as it is."""

    def read_rows(path: str) -> Any:
        """Read the rows."""
        return result

    model = script("a", "a", name="read_rows")
    with guarded() as recording:
        run(agent_of(model, [plain_tool(read_rows)]))
        assert recording.outcomes == ["executed", "nudged"]
        assert len(model.read[1]) > len(model.read[0])

    model = script("a", "a", name="read_rows")
    tool = plain_tool(read_rows, outputs_to_state={"rows": {"source": "rows"}})
    with guarded():
        run(agent_of(model, [tool], state_schema={"rows": {"type": list}}))
        assert model.read[1] == model.read[0]


def test_agents_of_one_pipeline_have_turns_of_their_own() -> None:
    """The second agent may read what the first one has read: it does not know the result."""
    pipeline = pipeline_of(agent_of(script("a", "a"), [plain_tool(look)]))
    pipeline.add_component("second", agent_of(script(*["a"] * 4), [plain_tool(look)]))
    pipeline.connect("agent.messages", "second.messages")
    with guarded() as recording:
        pipeline.run({"agent": asked()})
        assert recording.outcomes == ["executed", "nudged"] * 2
        assert len(set(attribute(recording, semconv.TURN_ID))) == 2
        assert recording.runtime.guard.live == 0


class Tracing(tracing.Tracer):
    """Haystack's own tracing, over OpenTelemetry, as its integrations write it."""

    def __init__(self, provider: Any) -> None:
        self.tracer = provider.get_tracer("haystack")

    @contextmanager
    def trace(self, operation_name: str, tags: Any = None, parent_span: Any = None) -> Iterator[Any]:
        """Open a span."""
        with self.tracer.start_as_current_span(operation_name):
            yield tracing.tracer.NullSpan() if hasattr(tracing.tracer, "NullSpan") else NoSpan()

    def current_span(self) -> Any:
        """Return no span: the current one is OpenTelemetry's."""
        return None


class NoSpan(tracing.Span):
    """Keeps nothing."""

    def set_tag(self, key: str, value: Any) -> None:
        """Do nothing."""


@over_each
def test_beside_its_own_tracing_each_call_has_one_span(way: str) -> None:
    """Haystack's own span of a call is no ``execute_tool`` span, and opens inside ours."""
    with guarded() as recording:
        tracing.enable_tracing(Tracing(recording.tracer_provider))
        try:
            go(way, Script([*[[Ask("look", {"path": "a"})]] * 3, [Ask("nope", {})]]), look)
        finally:
            tracing.disable_tracing()
        spans = recording._spans.get_finished_spans()
        executions = [span for span in spans if (span.attributes or {}).get(semconv.OPERATION_NAME) == "execute_tool"]
        assert len(executions) == 4
        assert recording.counted(semconv.METRIC_TOOL_CALLS) == 4
        ours = {span.context.span_id for span in executions}
        inner = [span for span in spans if span.name == "haystack.agent.step.tool"]
        assert len(inner) == 2
        assert all(span.parent.span_id in ours for span in inner)
