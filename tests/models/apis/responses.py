"""``POST /v1/responses`` of OpenAI and Azure."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

from tests.models.apis.chat import CREATED, authorised, chosen, error_of, text_of
from tests.models.conversation import (
    NAME,
    Asked,
    Call,
    Message,
    RejectedError,
    Reply,
    Result,
    demand,
    drawn,
    only,
    pieces,
    price,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tests.models.apis import Json

PARAMETERS = {
    "background", "client_metadata", "context_management", "conversation", "include", "input", "instructions",
    "max_output_tokens", "max_tool_calls", "metadata", "model", "parallel_tool_calls", "previous_response_id",
    "prompt", "prompt_cache_key", "prompt_cache_retention", "reasoning", "safety_identifier", "service_tier",
    "store", "stream", "stream_options", "temperature", "text", "tool_choice", "tools", "top_logprobs", "top_p",
    "truncation", "user",
}  # fmt: skip
KEYS = {
    "message": {"type", "role", "content", "id", "status", "phase"},
    # LiteLLM's proxy spells "async" as Python does, and clients send the items of an answer back as they are.
    "function_call": {"type", "id", "call_id", "name", "arguments", "status", "namespace", "async", "async_", "caller"},
    "function_call_output": {"type", "id", "call_id", "output", "status"},
    "reasoning": {"type", "id", "summary", "content", "encrypted_content", "status"},
}
HOSTED = ("web_search",)
"""The tools that the service runs itself. No script calls them."""
PARTS = ("input_text", "output_text", "refusal", "input_image", "input_file")


class Responses:
    """The API that keeps responses, and continues one by its id or by the id of a conversation."""

    paths = re.compile(r"(?:/openai)?(?:/v1)?/responses")

    def __init__(self, *, thoughts: bool = False) -> None:
        self._thoughts = thoughts
        self._kept: dict[str, list[Json]] = {}

    def read(self, path: str, query: Mapping[str, str], headers: Mapping[str, str], body: Json) -> Asked:
        """Read a request, or reject it."""
        authorised(path, query, headers)
        only(body, PARAMETERS, "Unknown parameter: '{}'.")
        demand(isinstance(body.get("model"), str), "Missing required parameter: 'model'.")
        items = self._items(body)
        tools = frozenset(name for tool in body.get("tools") or () for name in declared(tool))
        messages = tuple(map(read_item, items))
        paired(items)
        head = (Message("system", body["instructions"]),) if body.get("instructions") else ()
        choice = chosen(body, tools, lambda given: given.get("name"))
        return Asked((*head, *messages), tools, choice, bool(body.get("stream")))

    def _items(self, body: Json) -> list[Json]:
        """All items that the model reads: those that are kept, and those of the request."""
        given = body.get("input")
        demand(given, "Missing required parameter: 'input'.")
        new = [{"role": "user", "content": given}] if isinstance(given, str) else given
        previous, conversation = body.get("previous_response_id"), conversation_of(body)
        demand(
            not (previous and conversation), "Mutually exclusive parameters: 'previous_response_id' and 'conversation'."
        )
        demand(
            not previous or previous in self._kept,
            f"Previous response with id '{previous}' not found.",
            code="previous_response_not_found",
        )
        return [*self._kept.get(previous or conversation or "", ()), *new]

    def answer(self, asked: Asked, reply: Reply, body: Json) -> Json:
        """Write the answer to a request, and keep the conversation unless the request says not to."""
        name = f"{asked.key}_{asked.number}"
        output: list[Json] = []
        if self._thoughts:
            secret = (
                {"encrypted_content": f"secret-{name}"}
                if "reasoning.encrypted_content" in (body.get("include") or ())
                else {}
            )
            output.append({"type": "reasoning", "id": f"rs_{name}", "summary": [], **secret})
        if reply.text:
            text = {"type": "output_text", "text": reply.text, "annotations": [], "logprobs": []}
            written = {"type": "message", "id": f"msg_{name}", "role": "assistant", "status": "completed"}
            output.append({**written, "content": [text]})
        output += [
            {
                "type": "function_call",
                "id": f"fc_{name}_{at}",
                "call_id": drawn("call", name, at),
                **called(one.name),
                "arguments": json.dumps(one.arguments),
                "status": "completed",
            }
            for at, one in enumerate(reply.calls)
        ]
        response = f"resp_{name}"
        if body.get("store") is not False:
            self._kept[response] = self._kept[conversation_of(body) or response] = [*self._items(body), *output]
        return {
            "id": response,
            "object": "response",
            "created_at": CREATED,
            "status": "completed",
            "background": False,
            "error": None,
            "incomplete_details": None,
            "instructions": body.get("instructions"),
            "max_output_tokens": body.get("max_output_tokens"),
            "model": body["model"],
            "output": output,
            "parallel_tool_calls": body.get("parallel_tool_calls", True),
            "previous_response_id": body.get("previous_response_id"),
            "reasoning": {"effort": None, "summary": None},
            "store": body.get("store", True),
            "temperature": 1.0,
            "text": {"format": {"type": "text"}},
            "tool_choice": body.get("tool_choice", "auto"),
            "tools": body.get("tools") or [],
            "top_p": 1.0,
            "truncation": body.get("truncation", "disabled"),
            "usage": {
                "input_tokens": asked.tokens,
                "input_tokens_details": {"cached_tokens": 0},
                "output_tokens": price(reply),
                "output_tokens_details": {"reasoning_tokens": 0},
                "total_tokens": asked.tokens + price(reply),
            },
            "user": None,
            "metadata": body.get("metadata") or {},
        }

    def events(self, answer: Json, body: Json) -> Iterator[bytes]:
        """Write the same answer as server-sent events."""
        begun = {**answer, "status": "in_progress", "output": [], "usage": None}
        events = [("created", {"response": begun}), ("in_progress", {"response": begun})]
        for at, item in enumerate(answer["output"]):
            events += item_events(at, item)
        events.append(("completed", {"response": answer}))
        for number, (kind, data) in enumerate(events):
            line = json.dumps({"type": f"response.{kind}", "sequence_number": number, **data})
            yield f"event: response.{kind}\ndata: {line}\n\n".encode()

    def error(self, rejected: RejectedError) -> Json:
        """Write the body of a rejection."""
        return error_of(rejected)


def conversation_of(body: Json) -> str | None:
    """The id of the conversation that the request continues, if it names one."""
    given = body.get("conversation")
    return given["id"] if isinstance(given, dict) else given


def item_events(at: int, item: Json) -> list[tuple[str, Json]]:
    """The events of one output item."""
    place = {"item_id": item["id"], "output_index": at}
    empty: Json = {"message": {"content": []}, "function_call": {"arguments": ""}}.get(item["type"], {})
    begun = item if item["type"] == "reasoning" else {**item, "status": "in_progress", **empty}
    events: list[tuple[str, Json]] = [("output_item.added", {"output_index": at, "item": begun})]
    if item["type"] == "message":
        (part,) = item["content"]
        place = {**place, "content_index": 0}
        events.append(("content_part.added", {**place, "part": {**part, "text": ""}}))
        events += [("output_text.delta", {**place, "delta": piece, "logprobs": []}) for piece in pieces(part["text"])]
        events.append(("output_text.done", {**place, "text": part["text"], "logprobs": []}))
        events.append(("content_part.done", {**place, "part": part}))
    if item["type"] == "function_call":
        events += [("function_call_arguments.delta", {**place, "delta": piece}) for piece in pieces(item["arguments"])]
        done = {**place, "name": item["name"], "arguments": item["arguments"]}
        events.append(("function_call_arguments.done", done))
    return [*events, ("output_item.done", {"output_index": at, "item": item})]


def declared(tool: Json) -> list[str]:
    """The names by which scripts call a declared tool: ``namespace.name`` for those of a namespace."""
    kind = tool.get("type")
    if kind in HOSTED:
        return []
    demand(kind in ("function", "namespace"), f"Invalid value: {kind!r}. This server has functions only.")
    demand(NAME.fullmatch(tool.get("name") or ""), "Missing required parameter: 'tools[0].name'.")
    if kind == "function":
        return [str(tool["name"])]
    return [f"{tool['name']}.{name}" for one in tool.get("tools") or () for name in declared(one)]


def called(name: str) -> Json:
    """The fields of a call that name its tool."""
    namespace, _, last = name.rpartition(".")
    return {"name": last, "namespace": namespace} if namespace else {"name": last}


def read_item(item: Json) -> Message:
    """Read one item of the input."""
    kind = item.get("type", "message")
    demand(kind in KEYS, f"Invalid value: {kind!r} - 'input[0].type'")
    only(item, KEYS[kind], "Unknown parameter: 'input[0].{}'.")
    if kind == "message":
        demand(
            item.get("role") in ("user", "assistant", "system", "developer"),
            f"Invalid value: {item.get('role')!r} - 'input[0].role'",
        )
        return Message(item["role"], text_of(item.get("content"), PARTS))
    if kind == "reasoning":
        demand(isinstance(item.get("summary"), list), "Missing required parameter: 'input[0].summary'.")
        return Message("assistant")
    demand(
        isinstance(item.get("call_id"), str) and len(item["call_id"]) <= 64,
        "Missing required parameter: 'input[0].call_id'.",
    )
    if kind == "function_call":
        demand(isinstance(item.get("arguments"), str), "Missing required parameter: 'input[0].arguments'.")
        demand(NAME.fullmatch(item.get("name") or ""), "Missing required parameter: 'input[0].name'.")
        return Message("assistant", calls=(Call(item["name"], {"text": item["arguments"]}, item["call_id"]),))
    demand(item.get("output") is not None, "Missing required parameter: 'input[0].output'.")
    output = item["output"]
    return Message("tool", results=(Result(item["call_id"], output if output == "" else text_of(output, PARTS)),))


def paired(items: list[Json]) -> None:
    """Reject items in which a call has no output or two, an output no call, or a call has lost its reasoning."""
    calls: set[str] = set()
    answered: set[str] = set()
    for at, item in enumerate(items):
        kind, call_id = item.get("type"), item.get("call_id", "")
        if kind == "function_call":
            demand(call_id not in calls, f"Duplicate item found with call_id {call_id}.")
            calls.add(call_id)
        if kind == "function_call_output":
            demand(call_id in calls, f"No tool call found for function call output with call_id {call_id}.")
            demand(call_id not in answered, f"Duplicate output found for function call with call_id {call_id}.")
            answered.add(call_id)
        if kind == "reasoning":
            follows = items[at + 1].get("type", "message") if at + 1 < len(items) else ""
            demand(
                follows in ("function_call", "reasoning")
                or (items[at + 1 : at + 2] and items[at + 1].get("role") == "assistant"),
                f"Item '{item.get('id')}' of type 'reasoning' was provided without its required following item.",
            )
    missing = [
        item["call_id"] for item in items if item.get("type") == "function_call" and item["call_id"] not in answered
    ]
    demand(not missing, f"No tool output found for function call {', '.join(missing[:1])}.")
