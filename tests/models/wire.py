"""The clients' side of each API, as JSON: how a request is written, and how a reply is read.

``tests.models.apis`` is the side of the service. Tests of all APIs are one test over ``WIRES``.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

from tests.models.conversation import Call

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

Json = dict[str, Any]
SCHEMA: Json = {"type": "object", "properties": {"path": {"type": "string"}}}


class Step(NamedTuple):
    """A reply as a program reads it."""

    entries: list[Any]
    """What the next request has of it."""
    calls: list[Call]
    text: str


class Wire:
    """One API."""

    path: str
    entries_in = "messages"
    """The field of a request with its entries."""
    required: Json = {}
    """What each request has besides."""
    no_calls: Json = {"tool_choice": "none"}
    """The fields of a request in which the model may not call tools."""

    def tool(self, name: str = "read_file", text: str = "", schema: Json = SCHEMA) -> Json:
        """Declare a tool."""
        return {"type": "function", "name": name, "description": text, "parameters": schema}

    def user(self, text: str = "task-1: who owns it?") -> Json:
        """Write the user's message."""
        return {"role": "user", "content": text}

    def said(self, text: str) -> Json:
        """Write a text of the model."""
        return {"role": "assistant", "content": text}

    def calls(self, *calls: Call) -> list[Any]:
        """Write the entries of a message of the model with these calls."""
        raise NotImplementedError

    def results(self, *results: tuple[Call, str]) -> list[Any]:
        """Write the entries of the results of calls."""
        raise NotImplementedError

    def body(self, entries: Sequence[Any], tools: Sequence[Json] = (), **more: Any) -> Json:
        """Write a request. The model is named by whoever sends it."""
        return {self.entries_in: [*entries], **self.required, **({"tools": [*tools]} if tools else {}), **more}

    def read(self, answer: Json) -> Step:
        """Read a whole reply."""
        raise NotImplementedError

    def read_events(self, events: Iterable[Json]) -> Step:
        """Read a streamed reply."""
        raise NotImplementedError


class _Chat(Wire):
    path = "/v1/chat/completions"

    def tool(self, name: str = "read_file", text: str = "", schema: Json = SCHEMA) -> Json:
        return {"type": "function", "function": {"name": name, "description": text, "parameters": schema}}

    def calls(self, *calls: Call) -> list[Any]:
        written = [
            {"id": one.id, "type": "function", "function": {"name": one.name, "arguments": json.dumps(one.arguments)}}
            for one in calls
        ]
        return [{"role": "assistant", "content": None, "tool_calls": written}]

    def results(self, *results: tuple[Call, str]) -> list[Any]:
        return [{"role": "tool", "tool_call_id": one.id, "content": text} for one, text in results]

    def read(self, answer: Json) -> Step:
        message = answer["choices"][0]["message"]
        calls = [
            Call(one["function"]["name"], json.loads(one["function"]["arguments"]), one["id"])
            for one in message.get("tool_calls") or ()
        ]
        entry = {name: message[name] for name in ("role", "content", "tool_calls") if message.get(name)}
        return Step([{"content": None, **entry}], calls, message["content"] or "")

    def read_events(self, events: Iterable[Json]) -> Step:
        text, calls = "", []
        for delta in (choice["delta"] for event in events for choice in event["choices"]):
            text += delta.get("content") or ""
            for piece in delta.get("tool_calls") or ():
                if piece["index"] == len(calls):
                    begun = {"name": piece["function"]["name"], "arguments": ""}
                    calls.append({"id": piece["id"], "type": "function", "function": begun})
                calls[piece["index"]]["function"]["arguments"] += piece["function"].get("arguments") or ""
        return self.read(
            {"choices": [{"message": {"role": "assistant", "content": text or None, "tool_calls": calls}}]}
        )


class _Responses(Wire):
    path = "/v1/responses"
    entries_in = "input"
    kept = {"function_call": ("type", "call_id", "name", "arguments"), "message": ("type", "role", "content", "id")}
    """The fields of each kind of item that the next request has."""

    def calls(self, *calls: Call) -> list[Any]:
        return [
            {"type": "function_call", "call_id": one.id, "name": one.name, "arguments": json.dumps(one.arguments)}
            for one in calls
        ]

    def results(self, *results: tuple[Call, str]) -> list[Any]:
        return [{"type": "function_call_output", "call_id": one.id, "output": text} for one, text in results]

    def read(self, answer: Json) -> Step:
        items = [one for one in answer["output"] if one["type"] in self.kept]
        calls = [
            Call(one["name"], json.loads(one["arguments"]), one["call_id"])
            for one in items
            if one["type"] == "function_call"
        ]
        text = "".join(part["text"] for one in items if one["type"] == "message" for part in one["content"])
        return Step([{name: one[name] for name in self.kept[one["type"]]} for one in items], calls, text)

    def read_events(self, events: Iterable[Json]) -> Step:
        return self.read({"output": [one["item"] for one in events if one["type"] == "response.output_item.done"]})


class _Messages(Wire):
    path = "/v1/messages"
    required = {"max_tokens": 512}
    no_calls = {"tool_choice": {"type": "none"}}

    def tool(self, name: str = "read_file", text: str = "", schema: Json = SCHEMA) -> Json:
        return {"name": name, "description": text, "input_schema": schema}

    def calls(self, *calls: Call) -> list[Any]:
        blocks = [{"type": "tool_use", "id": one.id, "name": one.name, "input": one.arguments} for one in calls]
        return [{"role": "assistant", "content": blocks}]

    def results(self, *results: tuple[Call, str]) -> list[Any]:
        blocks = [{"type": "tool_result", "tool_use_id": one.id, "content": text} for one, text in results]
        return [{"role": "user", "content": blocks}]

    def read(self, answer: Json) -> Step:
        content = answer["content"]
        calls = [Call(one["name"], one["input"], one["id"]) for one in content if one["type"] == "tool_use"]
        text = "".join(one["text"] for one in content if one["type"] == "text")
        return Step([{"role": "assistant", "content": content}], calls, text)

    def read_events(self, events: Iterable[Json]) -> Step:
        content: list[Json] = []
        written = ""
        for event in events:
            if event["type"] == "content_block_start":
                content.append({**event["content_block"]})
                written = ""
            elif event["type"] == "content_block_delta":
                written += event["delta"].get("partial_json", "")
                if "text" in event["delta"]:
                    content[-1]["text"] += event["delta"]["text"]
            elif event["type"] == "content_block_stop" and content[-1]["type"] == "tool_use":
                content[-1]["input"] = json.loads(written or "{}")
        return self.read({"content": content})


class _Gemini(Wire):
    """Calls have an id if they are given one."""

    path = "/v1beta/models/gemini-2.5-flash:generateContent"
    entries_in = "contents"
    no_calls = {"toolConfig": {"functionCallingConfig": {"mode": "NONE"}}}

    def tool(self, name: str = "read_file", text: str = "", schema: Json = SCHEMA) -> Json:
        return {"functionDeclarations": [{"name": name, "description": text, "parameters": schema}]}

    def user(self, text: str = "task-1: who owns it?") -> Json:
        return {"role": "user", "parts": [{"text": text}]}

    def said(self, text: str) -> Json:
        return {"role": "model", "parts": [{"text": text}]}

    def calls(self, *calls: Call) -> list[Any]:
        parts = [{"functionCall": {"name": one.name, "args": one.arguments, **_id_of(one)}} for one in calls]
        return [{"role": "model", "parts": parts}]

    def results(self, *results: tuple[Call, str]) -> list[Any]:
        parts = [
            {"functionResponse": {"name": one.name, "response": {"result": text}, **_id_of(one)}}
            for one, text in results
        ]
        return [{"role": "user", "parts": parts}]

    def read(self, answer: Json) -> Step:
        content = answer["candidates"][0]["content"]
        functions = [part["functionCall"] for part in content["parts"] if "functionCall" in part]
        calls = [Call(one["name"], one["args"], one.get("id", "")) for one in functions]
        return Step([content], calls, "".join(part.get("text", "") for part in content["parts"]))

    def read_events(self, events: Iterable[Json]) -> Step:
        parts = [part for one in events for part in one["candidates"][0]["content"]["parts"]]
        return self.read({"candidates": [{"content": {"role": "model", "parts": parts}}]})


def _id_of(call: Call) -> Json:
    return {"id": call.id} if call.id else {}


CHAT, RESPONSES, MESSAGES, GEMINI = _Chat(), _Responses(), _Messages(), _Gemini()
WIRES: dict[str, Wire] = {"chat": CHAT, "responses": RESPONSES, "messages": MESSAGES, "gemini": GEMINI}


def events_of(text: str | bytes) -> list[Json]:
    """Read the JSON of server-sent events."""
    lines = (text.decode() if isinstance(text, bytes) else text).splitlines()
    return [json.loads(line[6:]) for line in lines if line.startswith("data: {")]


def looped(wire: Wire, count: int, call: Callable[[int], Call], question: str = "what is in it?") -> list[Any]:
    """A question, and so many calls, each with the result ``text``. ``call`` gives the nth of them, from 1."""
    entries = [wire.user(question)]
    for number in range(1, count + 1):
        entries += [*wire.calls(call(number)), *wire.results((call(number), "text"))]
    return entries
