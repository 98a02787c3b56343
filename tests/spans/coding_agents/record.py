"""Run a coding agent over a model that follows a script, with its telemetry on, and keep what this package reads of it.

The run: four equal calls, a note beside a file that is missing, a command that fails, a tool that does not exist, and
a sub-agent with a note. Paths and the ids of sessions are replaced; nothing else of the machine is kept.
"""

from __future__ import annotations

import gzip
import json
import re
import sys
import tempfile
import threading
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any

from opentelemetry.proto.logs.v1.logs_pb2 import LogsData
from opentelemetry.proto.trace.v1.trace_pb2 import TracesData

from otel_loopguard.spans import dialects, model_requests, otlp
from tests.hooks.programs import AGENTS
from tests.hooks.programs.agent import DELEGATED, Steps

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.hooks.programs.agent import CodingAgent

HERE = Path(__file__).parent
OF_LOGS = {
    "event.name", "success", "duration_ms", "tool_parameters", "tool_name", "tool_namespace", "mcp_server",
    "tool_input", "tool_use_id", "session.id", "agent_id", "error", "arguments", "output", "call_id", "conversation.id",
}  # fmt: skip
CALLS = {"tool_result", "codex.tool_result"}
"""The log records that are kept."""
UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")


class Receiver(BaseHTTPRequestHandler):
    """Keeps all bodies, by path."""

    protocol_version = "HTTP/1.1"

    def __init__(self, kept: list[tuple[str, bool, bytes]], *args: Any) -> None:
        self._kept = kept
        super().__init__(*args)

    def do_POST(self) -> None:
        """Take a message."""
        body = b"".join(self._chunks()) if self.headers.get("transfer-encoding") else b""
        body = body or self.rfile.read(int(self.headers.get("content-length") or 0))
        if self.headers.get("content-encoding") == "gzip":
            body = gzip.decompress(body)
        kind = self.headers.get("content-type", "")
        self._kept.append((self.path, "json" in kind, body))
        self.send_response(200)
        self.send_header("content-type", kind)
        self.send_header("content-length", "0")
        self.end_headers()

    def _chunks(self) -> Iterator[bytes]:
        while size := int(self.rfile.readline(), 16):
            yield self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()

    def log_message(self, *_: object) -> None:
        """Log nothing."""


def switched_on(agent: CodingAgent, url: str, environment: dict[str, str]) -> dict[str, str]:
    """Return the environment with which it sends its telemetry to this URL, or write that into its settings."""
    if agent.name == "claude-code":
        exporters = dict.fromkeys(("OTEL_TRACES_EXPORTER", "OTEL_LOGS_EXPORTER"), "otlp")
        on = ("CLAUDE_CODE_ENABLE_TELEMETRY", "CLAUDE_CODE_ENHANCED_TELEMETRY_BETA", "OTEL_LOG_TOOL_DETAILS")
        environment |= {**exporters, **dict.fromkeys(on, "1"), "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf"}
    elif agent.name == "codex":
        path = agent.home / ".codex/config.toml"
        target = f'{{ otlp-http = {{ endpoint = "{url}/v1/logs", protocol = "json" }} }}'
        path.write_text(f"{path.read_text()}\n[otel]\nexporter = {target}\n")
    elif agent.name == "copilot":
        environment["OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"] = "true"
    else:
        path = agent.home / f".{agent.name}/settings.json"
        own = {"enabled": True, "target": "local", "otlpEndpoint": url, "otlpProtocol": "http", "traces": True}
        own |= {"includeSensitiveSpanAttributes": True} if agent.name == "qwen" else {}
        path.write_text(json.dumps({**json.loads(path.read_text()), "telemetry": own}))
    return {**environment, "OTEL_EXPORTER_OTLP_ENDPOINT": url}


def record(agent: CodingAgent) -> list[str]:
    """Run it, and return the lines that are kept."""
    taken: list[tuple[str, bool, bytes]] = []
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Receiver, taken)) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        made, url = agent.environment, f"http://127.0.0.1:{server.server_address[1]}"
        agent.environment = lambda more: switched_on(agent, url, made(more))  # type: ignore[method-assign]  # of this run
        both, command = (agent.note("one"), agent.read("missing.txt")), agent.shell("echo out; exit 3")
        steps = [*[agent.read()] * 4, both, command, agent.unknown(), *agent.delegate(DELEGATED)]
        agent.run(Steps(steps, [agent.note("one"), *agent.hand_over()]), guarded=False)
        server.shutdown()
    lines = [line for path, is_json, body in taken for line in kept(path, body, is_json=is_json)]
    text = "\n".join(lines).replace(str(agent.home), "/home/user")
    for number, found in enumerate(dict.fromkeys(UUID.findall(text))):
        text = text.replace(found, f"00000000-0000-4000-8000-{number:012}")
    return text.splitlines()


def kept(path: str, body: bytes, *, is_json: bool) -> Iterator[str]:
    """Yield what is kept of a message, as a line: of spans those that are read, and those around them."""
    if path not in ("/v1/traces", "/v1/logs"):
        return
    whole = json.loads(body) if is_json else of_protobuf(path, body)
    name, scopes, items = next(one for one in SHAPES if one[0] in whole)
    for resource in whole[name]:
        service = [one for one in resource["resource"]["attributes"] if one["key"] == "service.name"]
        for scope in resource[scopes]:
            found = spans(scope[items]) if items == "spans" else [*filter(None, map(log_record, scope[items]))]
            if found:
                rest = {"scope": {"name": scope["scope"]["name"]}, items: found}
                yield json.dumps({name: [{"resource": {"attributes": service}, scopes: [rest]}]})


SHAPES = (("resourceSpans", "scopeSpans", "spans"), ("resourceLogs", "scopeLogs", "logRecords"))


def of_protobuf(path: str, body: bytes) -> Any:
    """Decode a message as JSON has it: ids in hex."""
    from google.protobuf.json_format import MessageToDict

    message = (LogsData if path == "/v1/logs" else TracesData).FromString(body)
    text = json.dumps(MessageToDict(message, use_integers_for_enums=True))
    ids = re.compile(r'"(traceId|spanId|parentSpanId)": "([\w+/]+={0,2})"')
    return json.loads(ids.sub(lambda one: f'"{one[1]}": "{hexed(one[2])}"', text))


def hexed(text: str) -> str:
    """Return an id in hex."""
    from base64 import b64decode

    return b64decode(text).hex()


def log_record(record: Any) -> Any:
    """Return a record of a call, as far as it is read; None of another one."""
    if otlp.attributes_of(record).get("event.name") not in CALLS:
        return None
    attributes = [one for one in record["attributes"] if one["key"] in OF_LOGS]
    ids = ("timeUnixNano", "observedTimeUnixNano", "traceId", "spanId")
    return {**{key: record[key] for key in ids if key in record}, "attributes": attributes}


def spans(found: list[Any]) -> list[Any]:
    """Return the spans of calls, agents and model requests, and those around the calls, as far as they are read."""
    parents = {one["spanId"]: one.get("parentSpanId") for one in found}
    around: set[Any] = set()
    calls = {one["spanId"] for one in found if is_call(one)}
    for call in calls:
        span: Any = call
        while span in parents and span not in around:
            around.add(span)
            span = parents[span]
    wanted = dialects.READ | model_requests.READ
    own = {"name", "kind", "traceId", "spanId", "parentSpanId", "startTimeUnixNano", "endTimeUnixNano", "status"}
    result = []
    for one in found:
        read = otlp.attributes_of(one)
        if one["spanId"] in around or model_requests.usage_of_request(read) or dialects.agent_name(read) is not None:
            content = dialects.CONTENT if one["spanId"] not in calls else set()
            attributes = [
                {**pair, "value": pruned(pair["value"])}
                for pair in one.get("attributes", ())
                if pair["key"] in wanted - content
            ]
            result.append({**{key: one[key] for key in own & one.keys()}, "attributes": attributes})
    return result


def is_call(span: Any) -> bool:
    """True for the span of a call, also where the call is read in logs."""
    return span["name"] == "claude_code.tool" or dialects.tool_name(span["name"], otlp.attributes_of(span)) is not None


def pruned(value: Any) -> Any:
    """Return a value without the description of the tool, which Gemini CLI has in each result."""
    text = value.get("stringValue", "")
    if not text.startswith('{"status"'):
        return value
    parsed = json.loads(text)
    return {"stringValue": json.dumps({key: one for key, one in parsed.items() if key != "tool"})}


def main() -> None:
    """Record the named programs."""
    for agent in AGENTS:
        if agent.name in sys.argv[1:]:
            with tempfile.TemporaryDirectory(prefix="record-", ignore_cleanup_errors=True) as folder:
                (HERE / f"{agent.name}.jsonl").write_text("\n".join(record(agent(Path(folder)))) + "\n")


if __name__ == "__main__":
    main()
