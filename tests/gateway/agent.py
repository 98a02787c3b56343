"""An agent without a framework that asks its model through the proxy: one loop, three APIs, streamed or not."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import httpx

from tests.gateway.proxy import ANTHROPIC, KEY, OPENAI
from tests.models.toolbox import Toolbox, described

if TYPE_CHECKING:
    from collections.abc import Iterator

    Json = dict[str, Any]
    Step = tuple[list[Json], list[tuple[str, str, Json]], str]
    """The entries of a reply for the next request, its calls (id, name, arguments), and its text."""


class RefusedError(Exception):
    """The proxy has answered with an error."""

    def __init__(self, response: httpx.Response) -> None:
        super().__init__(f"{response.status_code}: {response.text}")
        self.status = response.status_code
        is_json = response.headers.get("content-type", "").startswith("application/json")
        self.error: Json = response.json()["error"] if is_json else {}


class Agent:
    """A conversation over one API: ``chat``, ``responses`` or ``messages``."""

    def __init__(
        self,
        urls: Iterator[str],
        api: str = "chat",
        *,
        stream: bool = False,
        key: str = KEY,
        headers: dict[str, str] | None = None,
        **body: Any,
    ) -> None:
        self.api = APIS[api]
        self.stream = stream
        self.tools = Toolbox()
        self.entries: list[Json] = []
        self.replies: list[Any] = []
        """Each reply: its JSON, or the JSON of its events."""
        self.headers = {"authorization": f"Bearer {key}", "x-api-key": key, **(headers or {})}
        self.more = body
        self.urls = urls
        """The address for each request."""

    def ask(self, question: str) -> str:
        """Ask until the model answers."""
        self.entries.append({"role": "user", "content": question})
        while True:
            entries, calls, text = self.send()
            self.entries += entries
            if not calls:
                return text
            self.entries += self.api.results([(call_id, self.run(name, given)) for call_id, name, given in calls])

    def run(self, name: str, arguments: Json) -> str:
        """Run a tool. A job goes on from look to look."""
        if name != "job_status":
            return self.tools.run(name, arguments)
        self.tools.runs.append((name, arguments))
        return f"{8 * len(self.tools.runs)} % done"

    def send(self) -> Step:
        """Send one request, and read the reply."""
        body = {**self.api.body(self.entries, stream=self.stream), **self.more}
        with httpx.Client(timeout=60, verify=False) as client:
            response = client.post(next(self.urls) + self.api.path, json=body, headers=self.headers)
        if response.status_code != 200:
            raise RefusedError(response)
        if not self.stream:
            self.replies.append(response.json())
            return self.api.read(response.json())
        events = [json.loads(line[5:]) for line in response.text.splitlines() if line.startswith("data: {")]
        self.replies.append(events)
        return self.api.read_events(events)


class Api:
    """One API."""

    path: str

    def body(self, entries: list[Json], *, stream: bool) -> Json:
        """The request."""
        raise NotImplementedError

    def results(self, results: list[tuple[str, str]]) -> list[Json]:
        """The entries of tool results."""
        raise NotImplementedError

    def read(self, reply: Json) -> Step:
        """Read a whole reply."""
        raise NotImplementedError

    def read_events(self, events: list[Json]) -> Step:
        """Read a streamed reply."""
        raise NotImplementedError


class _Chat(Api):
    path = "/v1/chat/completions"

    def body(self, entries, *, stream):
        tools = [
            {"type": "function", "function": {"name": name, "description": text, "parameters": schema}}
            for name, text, schema in described(Toolbox())
        ]
        return {"model": OPENAI, "messages": entries, "tools": tools, "stream": stream}

    def results(self, results):
        return [{"role": "tool", "tool_call_id": call_id, "content": text} for call_id, text in results]

    def read(self, reply):
        return self._step(reply["choices"][0]["message"])

    def _step(self, message):
        calls = [
            (call["id"], call["function"]["name"], json.loads(call["function"]["arguments"]))
            for call in message.get("tool_calls") or ()
        ]
        entry = {"role": "assistant", "content": message.get("content")}
        if calls:
            entry["tool_calls"] = message["tool_calls"]
        return [entry], calls, message.get("content") or ""

    def read_events(self, events):
        message: Json = {"content": "", "tool_calls": []}
        for delta in (choice["delta"] for event in events for choice in event["choices"]):
            message["content"] += delta.get("content") or ""
            for piece in delta.get("tool_calls") or ():
                if piece["index"] == len(message["tool_calls"]):
                    function = {"name": piece["function"]["name"], "arguments": ""}
                    message["tool_calls"].append({"id": piece["id"], "type": "function", "function": function})
                function = message["tool_calls"][piece["index"]]["function"]
                function["arguments"] += piece["function"].get("arguments") or ""
        return self._step({**message, "content": message["content"] or None})


class _Responses(Api):
    path = "/v1/responses"

    def body(self, entries, *, stream):
        tools = [
            {"type": "function", "name": name, "description": text, "parameters": schema, "strict": False}
            for name, text, schema in described(Toolbox())
        ]
        return {"model": OPENAI, "input": entries, "tools": tools, "stream": stream}

    def results(self, results):
        return [{"type": "function_call_output", "call_id": call_id, "output": text} for call_id, text in results]

    def read(self, reply):
        return self._step(reply["output"])

    def _step(self, output):
        calls = [
            (item["call_id"], item["name"], json.loads(item["arguments"]))
            for item in output
            if item["type"] == "function_call"
        ]
        kept = {"function_call": ("type", "call_id", "name", "arguments"), "message": ("type", "role", "content", "id")}
        entries = [{name: item[name] for name in kept[item["type"]]} for item in output]
        texts = [part["text"] for item in output if item["type"] == "message" for part in item["content"]]
        return entries, calls, "".join(texts)

    def read_events(self, events):
        return self._step([event["item"] for event in events if event["type"] == "response.output_item.done"])


class _Messages(Api):
    path = "/v1/messages"

    def body(self, entries, *, stream):
        tools = [
            {"name": name, "description": text, "input_schema": schema} for name, text, schema in described(Toolbox())
        ]
        return {"model": ANTHROPIC, "max_tokens": 512, "messages": entries, "tools": tools, "stream": stream}

    def results(self, results):
        blocks = [{"type": "tool_result", "tool_use_id": call_id, "content": text} for call_id, text in results]
        return [{"role": "user", "content": blocks}]

    def read(self, reply):
        return self._step(reply["content"])

    def _step(self, content):
        calls = [(block["id"], block["name"], block["input"]) for block in content if block["type"] == "tool_use"]
        texts = [block["text"] for block in content if block["type"] == "text"]
        return [{"role": "assistant", "content": content}], calls, "".join(texts)

    def read_events(self, events):
        content: list[Json] = []
        written = ""
        for event in events:
            if event["type"] == "content_block_start":
                content.append(event["content_block"])
                written = ""
            elif event["type"] == "content_block_delta":
                delta = event["delta"]
                written += delta.get("partial_json", "")
                if "text" in delta:
                    content[-1]["text"] += delta["text"]
            elif event["type"] == "content_block_stop" and content[-1]["type"] == "tool_use":
                content[-1]["input"] = json.loads(written or "{}")
        return self._step(content)


APIS: dict[str, Api] = {"chat": _Chat(), "responses": _Responses(), "messages": _Messages()}
