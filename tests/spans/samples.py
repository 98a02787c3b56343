"""One tool call in every dialect, as the packages write it.

Recorded by running the packages: LangSmith, OpenInference and OpenLLMetry (each with LangChain and OpenAI Agents),
Langfuse, Pydantic AI, Strands, AutoGen and Semantic Kernel. The others follow their source or their documentation.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

from opentelemetry.trace import SpanKind, Status, StatusCode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from opentelemetry.trace import Tracer


class Call(NamedTuple):
    """A call to record; ``number`` counts the calls of a test, so that ids differ."""

    tool: str
    arguments: dict[str, Any]
    result: str
    number: int
    error: str | None = None


class Sample(NamedTuple):
    """The span of one dialect: its attributes, its events, and the name of its scope."""

    scope: str
    span_name: str
    attributes: Callable[[Call], dict[str, Any]]
    """All attributes if the call succeeds."""
    results: tuple[str, ...] = ()
    """The attributes that are not there if the call fails."""
    contents: tuple[str, ...] = ()
    """The attributes that are not there if the content of tool calls is not recorded."""
    hidden: str | None = None
    """The value that replaces the content."""
    events: Callable[[Call], Iterator[tuple[str, dict[str, Any]]]] | None = None
    kind: SpanKind = SpanKind.INTERNAL
    exception_event: bool = True
    fails: bool = True
    """False: a failed call cannot be distinguished from a call that succeeded."""

    def record(self, tracer: Tracer, call: Call, *, content: bool = True) -> None:
        """Make the span, with all its attributes set at the end."""
        with tracer.start_as_current_span(self.span_name.format(call.tool), kind=self.kind) as span:
            missing = self.results if call.error is not None else ()
            for key, value in self.attributes(call).items():
                if key in self.contents and not content:
                    if self.hidden is not None:
                        span.set_attribute(key, self.hidden)
                elif key not in missing:
                    span.set_attribute(key, value)
            if self.events is not None and content:
                for name, attributes in self.events(call):
                    span.add_event(name, attributes)
            if call.error is not None:
                span.set_status(Status(StatusCode.ERROR, call.error if not self.exception_event else None))
                if self.exception_event:
                    span.add_event("exception", {"exception.type": "ValueError", "exception.message": call.error})


def genai(call: Call) -> dict[str, Any]:
    """The attributes of the OpenTelemetry conventions that all of them write."""
    return {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": call.tool,
        "gen_ai.tool.call.id": f"call-{call.number}",
    }


def tool_message(call: Call) -> dict[str, Any]:
    """LangChain's message, with the id of the call."""
    return {"content": call.result, "type": "tool", "name": call.tool, "tool_call_id": f"call-{call.number}"}


def langchain_payload(call: Call) -> str:
    """The input of a LangChain callback."""
    inputs = {"input_str": str(call.arguments), "tags": [f"seq:step:{call.number}"], "inputs": call.arguments}
    return json.dumps({**inputs, "metadata": {}, "kwargs": {"tool_call_id": f"call-{call.number}", "name": None}})


def langchain_output(call: Call) -> str:
    """The output of a LangChain callback."""
    output = {"lc": 1, "type": "constructor", "kwargs": {**tool_message(call), "status": "success"}}
    return json.dumps({"output": output, "kwargs": {"tags": [f"seq:step:{call.number}"], "name": call.tool}})


def strands_events(call: Call) -> Iterator[tuple[str, dict[str, Any]]]:
    """Strands writes arguments and results in events."""
    yield "gen_ai.tool.message", {"role": "tool", "content": json.dumps(call.arguments), "id": f"c{call.number}"}
    if call.error is None:
        yield "gen_ai.choice", {"message": json.dumps([{"text": call.result}]), "id": f"c{call.number}"}


ARGUMENTS, RESULT = "gen_ai.tool.call.arguments", "gen_ai.tool.call.result"

SAMPLES = {
    "opentelemetry": Sample(
        "opentelemetry.instrumentation.genai.langchain",
        "execute_tool {}",
        lambda call: {**genai(call), ARGUMENTS: json.dumps(call.arguments), RESULT: call.result},
        (RESULT,),
        (ARGUMENTS, RESULT),
    ),
    "opentelemetry-hashes": Sample(
        "somebody",
        "execute_tool {}",
        lambda call: {
            **genai(call),
            f"{ARGUMENTS}_hash": f"sha256:{abs(hash(str(call.arguments))):064x}",
            f"{RESULT}_hash": f"sha256:{abs(hash(call.result)):064x}",
        },
        (f"{RESULT}_hash",),
        (f"{ARGUMENTS}_hash", f"{RESULT}_hash"),
    ),
    "openinference-langchain": Sample(
        "openinference.instrumentation.langchain",
        "{}",
        lambda call: {
            "openinference.span.kind": "TOOL",
            "tool.name": call.tool,
            "tool.description": "Does it.",
            # The value itself, if there is only one.
            "input.value": json.dumps(call.arguments)
            if len(call.arguments) != 1
            else str(next(iter(call.arguments.values()))),
            "output.value": json.dumps({"type": "tool", "data": {**tool_message(call), "id": None}}),
            "output.mime_type": "application/json",
        },
        ("output.value", "output.mime_type"),
        ("input.value", "output.value"),
        "__REDACTED__",
    ),
    "openinference-openai-agents": Sample(
        "openinference.instrumentation.openai_agents",
        "{}",
        lambda call: {
            "openinference.span.kind": "TOOL",
            "tool.name": call.tool,
            "tool.parameters": f'{{"schema": {call.number}}}',
            "input.value": json.dumps(call.arguments),
            "output.value": call.result,
        },
        (),
        ("input.value", "output.value"),
        "__REDACTED__",
        exception_event=False,
    ),
    "openllmetry-langchain": Sample(
        "opentelemetry.instrumentation.langchain",
        "execute_tool {}",
        lambda call: {
            **genai(call),
            "traceloop.span.kind": "tool",
            "traceloop.entity.name": call.tool,
            "traceloop.entity.input": langchain_payload(call),
            ARGUMENTS: langchain_payload(call),
            "traceloop.entity.output": langchain_output(call),
            RESULT: langchain_output(call),
        },
        ("traceloop.entity.output", RESULT),
        ("traceloop.entity.input", "traceloop.entity.output", ARGUMENTS, RESULT),
        exception_event=False,
    ),
    "openllmetry-openai-agents": Sample(
        "opentelemetry.instrumentation.openai_agents",
        "{}.tool",
        lambda call: {
            **genai(call),
            "traceloop.span.kind": "tool",
            ARGUMENTS: json.dumps(call.arguments),
            RESULT: call.result,
        },
        (),
        (ARGUMENTS, RESULT),
        exception_event=False,
    ),
    "openllmetry-decorator": Sample(
        "opentelemetry.instrumentation.mcp",
        "{}.tool",
        lambda call: {
            "traceloop.span.kind": "tool",
            "traceloop.entity.name": call.tool,
            "traceloop.entity.input": json.dumps({"args": [], "kwargs": call.arguments}),
            "traceloop.entity.output": json.dumps(call.result),
        },
        ("traceloop.entity.output",),
        ("traceloop.entity.input", "traceloop.entity.output"),
    ),
    "langfuse": Sample(
        "langfuse-sdk",
        "{}",
        lambda call: {
            "langfuse.observation.type": "tool",
            "langfuse.observation.input": json.dumps({"args": [], "kwargs": call.arguments}),
            "langfuse.observation.output": json.dumps({"found": call.result}),
        },
        ("langfuse.observation.output",),
        ("langfuse.observation.input", "langfuse.observation.output"),
        exception_event=False,
    ),
    "langsmith": Sample(
        "langsmith",
        "{}",
        lambda call: {
            **genai(call),
            "langsmith.span.kind": "tool",
            "langsmith.trace.name": call.tool,
            "gen_ai.system": "langchain",
            "gen_ai.prompt": json.dumps(call.arguments),
            "gen_ai.completion": "{}" if call.error is not None else json.dumps({"output": tool_message(call)}),
        },
        (),
        ("gen_ai.prompt", "gen_ai.completion"),
        "{}",
    ),
    "mlflow": Sample(
        "mlflow",
        "{}",
        lambda call: {
            "mlflow.spanType": '"TOOL"',
            "mlflow.spanFunctionName": json.dumps(call.tool),
            "mlflow.spanInputs": json.dumps(call.arguments),
            "mlflow.spanOutputs": json.dumps(call.result),
        },
        ("mlflow.spanOutputs",),
        ("mlflow.spanInputs", "mlflow.spanOutputs"),
    ),
    "vercel": Sample(
        "ai",
        "ai.toolCall",
        lambda call: {
            "operation.name": "ai.toolCall",
            "ai.operationId": "ai.toolCall",
            "ai.toolCall.name": call.tool,
            "ai.toolCall.id": f"call_{call.number}",
            "ai.toolCall.args": json.dumps(call.arguments),
            "ai.toolCall.result": json.dumps(call.result),
        },
        ("ai.toolCall.result",),
        ("ai.toolCall.args", "ai.toolCall.result"),
    ),
    "adk": Sample(
        "gcp.vertex.agent",
        "execute_tool {}",
        lambda call: {
            **genai(call),
            "gen_ai.tool.type": "FunctionTool",
            "gcp.vertex.agent.llm_request": "{}",
            "gcp.vertex.agent.tool_call_args": json.dumps(call.arguments),
            "gcp.vertex.agent.tool_response": json.dumps({"result": call.result}),
        },
        ("gcp.vertex.agent.tool_response",),
        ("gcp.vertex.agent.tool_call_args", "gcp.vertex.agent.tool_response"),
        "{}",
    ),
    "logfire": Sample(
        "pydantic-ai",
        "running tool",
        lambda call: {
            **genai(call),
            "logfire.msg": f"running tool: {call.tool}",
            "tool_arguments": json.dumps(call.arguments),
            "tool_response": call.result,
        },
        ("tool_response",),
        ("tool_arguments", "tool_response"),
        "[Scrubbed due to 'secret']",
    ),
    "pydantic-ai": Sample(
        "pydantic-ai",
        "execute_tool {}",
        lambda call: {
            **genai(call),
            "logfire.msg": f"running tool: {call.tool}",
            ARGUMENTS: json.dumps(call.arguments),
            RESULT: call.result,
        },
        (),
        (ARGUMENTS, RESULT),
    ),
    "strands": Sample(
        "strands.telemetry.tracer",
        "execute_tool {}",
        lambda call: {**genai(call), "gen_ai.system": "strands-agents"},
        events=strands_events,
        exception_event=False,
    ),
    "semantic-kernel": Sample(
        "semantic_kernel.functions.kernel_function",
        "execute_tool P-{}",
        lambda call: {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": f"P-{call.tool}",
            ARGUMENTS: json.dumps(call.arguments),
            RESULT: call.result,
            **({} if call.error is None else {"error.type": "ValueError"}),
        },
        (RESULT,),
        (ARGUMENTS, RESULT),
    ),
}
WITHOUT_CONTENT = {
    "autogen": Sample("autogen-core", "execute_tool {}", lambda call: {**genai(call), "gen_ai.system": "autogen"}),
    "mcp": Sample(
        "mcp-python-sdk",
        "MCP send tools/call {}",
        lambda call: {"mcp.method.name": "tools/call", "jsonrpc.request.id": str(call.number)},
        kind=SpanKind.CLIENT,
    ),
}
"""Dialects that never have arguments or results."""
