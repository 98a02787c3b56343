"""The metrics of the GenAI conventions about tool calls, agents' runs and model requests."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.trace import NonRecordingSpan

from otel_loopguard import semconv
from otel_loopguard.interrupts import pass_interrupt
from otel_loopguard.telemetry.measurements import MOST_LABELS, histogram

if TYPE_CHECKING:
    from typing import TypeAlias

    from opentelemetry.metrics import Meter
    from opentelemetry.trace import SpanContext

    from otel_loopguard.engine.vocabulary import Usage
    from otel_loopguard.telemetry.measurements import Records

    ToolRun: TypeAlias = tuple[float, str, str, str | None, str | None, SpanContext]
    """An ``execute_tool`` span that has ended: its seconds, tool, the tool's type, agent or None, error type or None,
    and context."""

# The bounds of the histograms, from the conventions.
TOOL_SECONDS = tuple(round(0.01 * 2**power, 2) for power in range(14))
RUN_SECONDS = tuple(round(0.1 * 2**power, 1) for power in range(13))
RUN_CALLS = tuple(2**power for power in range(8))
MOST_WAITING = 4_096


class GenAIMeters:
    """The instruments, made from one meter.

    A measurement by the SDK takes a good part of a guarded call's time. So the durations of calls wait for the next
    export, which records them in its own thread.
    """

    def __init__(self, meter: Meter, record: Records) -> None:
        self._record = record
        self._waiting: deque[ToolRun] = deque()
        self._series: dict[tuple[str | None, ...], dict[str, str]] = {}
        self._tool_seconds = histogram(
            meter, semconv.METRIC_EXECUTE_TOOL_DURATION, "s", "Duration of a tool call.", TOOL_SECONDS
        )
        self._run_seconds = histogram(
            meter, semconv.METRIC_INVOKE_AGENT_DURATION, "s", "Duration of an agent's run.", RUN_SECONDS
        )
        self._run_calls = histogram(
            meter, semconv.METRIC_INVOKE_AGENT_TOOL_CALLS, "{tool_call}", "Tool calls of an agent's run.", RUN_CALLS
        )
        self._run_requests = histogram(
            meter, semconv.METRIC_INVOKE_AGENT_INFERENCE_CALLS, "{inference_call}",
            "Model requests of an agent's run; none if no request was read.", RUN_CALLS,
        )  # fmt: skip
        counter = meter.create_counter
        self._input = counter(semconv.METRIC_INPUT_TOKENS, "{token}", "Input tokens of model requests, all of them.")
        self._output = counter(semconv.METRIC_OUTPUT_TOKENS, "{token}", "Output tokens of model requests.")
        self._cached = counter(
            semconv.METRIC_CACHE_READ_TOKENS, "{token}", "Input tokens that came from the provider's cache."
        )

    def tool_ran(self, run: ToolRun) -> None:
        """Keep the duration of a call for the next export. If 4,096 wait, record the oldest one now."""
        self._waiting.append(run)
        if len(self._waiting) > MOST_WAITING:
            self._record_oldest()

    def flush(self) -> None:
        """Record all durations that wait."""
        for _ in range(len(self._waiting)):
            self._record_oldest()

    def _record_oldest(self) -> None:
        try:
            seconds, tool, tool_type, agent, error_type, span = self._waiting.popleft()
        except IndexError as error:  # another thread has recorded it
            pass_interrupt(error)
            return
        context = trace.set_span_in_context(NonRecordingSpan(span), Context())
        self._record(self._tool_seconds.record, seconds, self._attributes(agent, error_type, tool, tool_type), context)

    def agent_ran(
        self, seconds: float, agent: str | None, error_type: str | None, context: Context, *, calls: int, requests: int
    ) -> None:
        """Record the run of an agent: its seconds, its tool calls and its model requests.

        Without a known request it has no number of them: an agent whose client is not read has made some, too.
        """
        self._record(self._run_seconds.record, seconds, self._attributes(agent, error_type), context)
        self._record(self._run_calls.record, calls, self._attributes(agent), context)
        if requests > 0:
            self._record(self._run_requests.record, requests, self._attributes(agent), context)

    def inference(self, usage: Usage, model: str, operation: str, provider: str, context: Context) -> None:
        """Count the tokens of a model request; zero, as the conventions want it, if the response does not tell them."""
        attributes = {
            semconv.OPERATION_NAME: operation,
            semconv.PROVIDER_NAME: provider,
            semconv.REQUEST_MODEL: model,
            semconv.TOKEN_MODALITY: semconv.UNKNOWN_MODALITY,
        }
        self._record(self._input.add, usage.input_tokens or 0, attributes, context)
        self._record(self._output.add, usage.output_tokens or 0, attributes, context)
        self._record(self._cached.add, usage.cached_tokens, attributes, context)

    def _attributes(
        self, agent: str | None, error_type: str | None = None, tool: str | None = None, tool_type: str | None = None
    ) -> dict[str, str]:
        """Return the attributes of a measurement. Beyond 200 sets of attributes all others share one."""
        key = agent, error_type, tool, tool_type
        found = self._series.get(key)
        if found is None:
            known = {
                semconv.TOOL_NAME: tool,
                semconv.TOOL_TYPE: tool_type,
                semconv.AGENT_NAME: agent,
                semconv.ERROR_TYPE: error_type,
            }
            found = {name: value for name, value in known.items() if value is not None}
            if len(self._series) >= MOST_LABELS:
                return dict.fromkeys(found, semconv.OTHER_TOOL)
            self._series[key] = found
        return found

    def after_fork(self, record: Records) -> None:
        """Drop the durations that wait, in a forked child: the parent records them."""
        self._record = record
        self._waiting.clear()
