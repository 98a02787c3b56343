"""``POST /v1/messages`` of Anthropic, and its beta form."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

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
    "cache_control", "container", "context_management", "inference_geo", "max_tokens", "mcp_servers", "messages",
    "metadata", "model", "output_config", "service_tier", "stop_sequences", "stream", "system", "temperature",
    "thinking", "thread", "tool_choice", "tools", "top_k", "top_p",
}  # fmt: skip
KEYS = {
    "text": {"type", "text", "cache_control", "citations"},
    "tool_use": {"type", "id", "name", "input", "cache_control", "caller"},
    "tool_result": {"type", "tool_use_id", "content", "is_error", "cache_control"},
    "thinking": {"type", "thinking", "signature"},
    "redacted_thinking": {"type", "data"},
}
THREADS = "message-threads-2026-08-12"
UNANSWERED = (
    "messages.{}: `tool_use` ids were found without `tool_result` blocks immediately after: {}. Each `tool_use` block "
    "must have a corresponding `tool_result` block in the next message."
)
UNASKED = (
    "messages.{}.content.{}: unexpected `tool_use_id` found in `tool_result` blocks: {}. Each `tool_result` block must "
    "have a corresponding `tool_use` block in the previous message."
)


class Messages:
    """The API that keeps nothing, unless a request of the beta asks for a thread."""

    paths = re.compile(r"/v1/messages")

    def __init__(self) -> None:
        self._threads: dict[str, Json] = {}
        """For each message that begins or continues a thread: system, tools and all messages with it."""

    def read(self, path: str, query: Mapping[str, str], headers: Mapping[str, str], body: Json) -> Asked:
        """Read a request, or reject it."""
        demand(headers.get("x-api-key") or headers.get("authorization"), "x-api-key header is required", status=401)
        demand(headers.get("anthropic-version"), "anthropic-version: header is required")
        only(body, PARAMETERS, "{}: Extra inputs are not permitted")
        beta = {"thread", "context_management", "mcp_servers"} & body.keys()
        demand(not beta or headers.get("anthropic-beta"), f"{', '.join(beta)}: Extra inputs are not permitted")
        demand(isinstance(body.get("model"), str), "model: Field required")
        demand(isinstance(body.get("max_tokens"), int) and body["max_tokens"] > 0, "max_tokens: Field required")
        whole = self._whole(body, headers)
        demand(whole["messages"], "messages: at least one message is required")
        tools = frozenset(declared(tool) for tool in whole.get("tools") or ())
        roles, contents = merged(whole["messages"])
        demand(roles[0] == "user", 'messages: first message must use the "user" role')
        paired(contents)
        last = contents[-1][-1] if roles[-1] == "assistant" else {}
        demand(
            not last.get("text", "").endswith(" "),
            "messages: final assistant content cannot end with trailing whitespace",
        )
        used = any(block["type"] in ("tool_use", "tool_result") for content in contents for block in content)
        demand(
            tools or not used, "Requests which have `tool_use` or `tool_result` blocks in the history must define tools"
        )
        choice = chosen(body, tools)
        thoughtful(body, contents)
        system = whole.get("system") or ""
        head = Message("system", system if isinstance(system, str) else "\n".join(block["text"] for block in system))
        messages = [read_message(role, content) for role, content in zip(roles, contents, strict=True)]
        return Asked((head, *messages), tools, choice, bool(body.get("stream")))

    def _whole(self, body: Json, headers: Mapping[str, str]) -> Json:
        """The conversation with what the thread holds of it."""
        demand(isinstance(body.get("messages"), list), "messages: Field required")
        thread = body.get("thread")
        if thread is None:
            return body
        demand(THREADS in headers.get("anthropic-beta", ""), "thread: Extra inputs are not permitted")
        demand(thread.get("type") in ("create", "continue"), "thread.type: Input should be 'create' or 'continue'")
        if thread["type"] == "create":
            return body
        demand(not {"system", "tools"} & body.keys(), "system and tools are those of the thread")
        kept = self._threads.get(thread.get("previous_message_id", ""))
        if kept is None:
            raise RejectedError("No usable Thread state was found.", status=404, code="thread_not_found")
        return {**kept, "messages": [*kept["messages"], *body["messages"]]}

    def answer(self, asked: Asked, reply: Reply, body: Json) -> Json:
        """Write the answer to a request, and keep the thread if the request asks for one."""
        name = f"{asked.key}_{asked.number}"
        content: list[Json] = []
        if thinking(body):
            content.append({"type": "thinking", "thinking": "Let me see.", "signature": f"signed-{name}"})
        if reply.text:
            content.append({"type": "text", "text": reply.text})
        content += [
            {"type": "tool_use", "id": drawn("toolu", name, at), "name": one.name, "input": one.arguments}
            for at, one in enumerate(reply.calls)
        ]
        answer = {
            "id": f"msg_{name}",
            "type": "message",
            "role": "assistant",
            "model": body["model"],
            "content": content,
            "stop_reason": "tool_use" if reply.calls else "end_turn",
            "stop_sequence": None,
            "usage": {
                "input_tokens": asked.tokens,
                "cache_creation_input_tokens": 0,
                "cache_read_input_tokens": 0,
                "output_tokens": price(reply),
            },
        }
        if body.get("thread"):
            kept = self._threads.get(body["thread"].get("previous_message_id", ""), {**body, "messages": []})
            written = {"role": "assistant", "content": content}
            self._threads[answer["id"]] = {**kept, "messages": [*kept["messages"], *body["messages"], written]}
        return answer

    def events(self, answer: Json, body: Json) -> Iterator[bytes]:
        """Write the same answer as server-sent events."""
        usage = answer["usage"]
        begun = {**answer, "content": [], "stop_reason": None, "usage": {**usage, "output_tokens": 1}}
        yield event({"type": "message_start", "message": begun})
        for at, block in enumerate(answer["content"]):
            yield from block_events(at, block)
        stop = {"stop_reason": answer["stop_reason"], "stop_sequence": None}
        yield event({"type": "message_delta", "delta": stop, "usage": {"output_tokens": usage["output_tokens"]}})
        yield event({"type": "message_stop"})

    def error(self, rejected: RejectedError) -> Json:
        """Write the body of a rejection."""
        kinds = {401: "authentication_error", 404: "not_found_error", 429: "rate_limit_error", 529: "overloaded_error"}
        kind = kinds.get(rejected.status, "invalid_request_error" if rejected.status < 500 else "api_error")
        details = {"details": {"error_code": rejected.code}} if rejected.code else {}
        return {"type": "error", "error": {"type": kind, "message": rejected.message, **details}}


def event(data: Json) -> bytes:
    """One event, named by its type."""
    return f"event: {data['type']}\ndata: {json.dumps(data)}\n\n".encode()


def block_events(at: int, block: Json) -> Iterator[bytes]:
    """The events of one content block."""
    parts: list[Json]
    if block["type"] == "text":
        empty = {"text": ""}
        parts = [{"type": "text_delta", "text": piece} for piece in pieces(block["text"])]
    elif block["type"] == "thinking":
        empty = {"thinking": "", "signature": ""}
        parts = [{"type": "thinking_delta", "thinking": piece} for piece in pieces(block["thinking"])]
        parts.append({"type": "signature_delta", "signature": block["signature"]})
    else:
        empty = {"input": {}}
        parts = [
            {"type": "input_json_delta", "partial_json": piece} for piece in ("", *pieces(json.dumps(block["input"])))
        ]
    yield event({"type": "content_block_start", "index": at, "content_block": {**block, **empty}})
    if at == 0:
        yield event({"type": "ping"})
    for part in parts:
        yield event({"type": "content_block_delta", "index": at, "delta": part})
    yield event({"type": "content_block_stop", "index": at})


def declared(tool: Json) -> str:
    """The name of a declared tool."""
    demand(
        tool.get("type") in (None, "custom"), f"tools.0.type: this server has functions only, no {tool.get('type')!r}"
    )
    demand(NAME.fullmatch(tool.get("name") or ""), "tools.0.custom.name: String should match pattern")
    demand(isinstance(tool.get("input_schema"), dict), "tools.0.custom.input_schema: Field required")
    return str(tool["name"])


def chosen(body: Json, tools: frozenset[str]) -> str:
    """The choice that a request leaves to the model: none, auto, required or the name of a tool."""
    given = body.get("tool_choice")
    if given is None:
        return "auto"
    demand(tools, "tool_choice: may only be specified while providing tools")
    demand(
        isinstance(given, dict) and given.get("type") in ("auto", "any", "tool", "none"),
        "tool_choice: Input should be a valid dictionary",
    )
    known = {"type"} | ({"name"} if given["type"] == "tool" else set())
    only(
        given,
        known | ({"disable_parallel_tool_use"} if given["type"] != "none" else set()),
        "tool_choice.{}: Extra inputs are not permitted",
    )
    demand(given["type"] != "tool" or given.get("name") in tools, "Tool choice not found in provided tools")
    demand(
        not thinking(body) or given["type"] in ("auto", "none"),
        "Thinking may not be enabled when tool_choice forces tool use.",
    )
    return {"any": "required", "tool": given.get("name", "")}.get(given["type"], given["type"])


def thinking(body: Json) -> bool:
    """True if the request asks the model to think."""
    return (body.get("thinking") or {}).get("type") in ("enabled", "adaptive")


def thoughtful(body: Json, contents: list[list[Json]]) -> None:
    """Reject a conversation whose open calls have lost the signed thought before them."""
    calling = [content for content in contents if any(block["type"] == "tool_use" for block in content)]
    if thinking(body) and calling and any(block["type"] == "tool_result" for block in contents[-1]):
        demand(
            calling[-1][0]["type"] in ("thinking", "redacted_thinking"),
            "messages.1.content.0.type: Expected `thinking` or `redacted_thinking`, but found `tool_use`.",
        )


def merged(messages: list[Json]) -> tuple[list[str], list[list[Json]]]:
    """The roles and contents of the messages; messages in a row that have one role are one."""
    roles: list[str] = []
    contents: list[list[Json]] = []
    for one in messages:
        content = blocks(one)
        if roles and roles[-1] == one["role"]:
            contents[-1] = [*contents[-1], *content]
        else:
            roles.append(one["role"])
            contents.append(content)
    return roles, contents


def blocks(given: Json) -> list[Json]:
    """The content blocks of a message, each of a known form."""
    demand(given.get("role") in ("user", "assistant"), "messages.0.role: Input should be 'user' or 'assistant'")
    only(given, {"role", "content"}, "messages.0.{}: Extra inputs are not permitted")
    content = given.get("content")
    if isinstance(content, str):
        content = [{"type": "text", "text": content}]
    demand(isinstance(content, list) and content, "messages: all messages must have non-empty content")
    for block in content:
        demand(
            isinstance(block, dict) and block.get("type") in KEYS,
            f"messages.0.content.0: Input tag {block!r:.60} is unknown",
        )
        only(block, KEYS[block["type"]], f"messages.0.content.0.{block['type']}.{{}}: Extra inputs are not permitted")
        demand(block["type"] != "text" or block.get("text"), "messages: text content blocks must be non-empty")
        mine = {
            "tool_use": "assistant",
            "thinking": "assistant",
            "redacted_thinking": "assistant",
            "tool_result": "user",
        }
        demand(
            mine.get(block["type"], given["role"]) == given["role"],
            f"`{block['type']}` blocks can not be in `{given['role']}` messages",
        )
        demand(
            block["type"] != "tool_use" or isinstance(block.get("input"), dict),
            "tool_use.input: Input should be a valid dictionary",
        )
        demand(block["type"] != "thinking" or block.get("signature"), "thinking.signature: Field required")
    return content


def read_message(role: str, content: list[Json]) -> Message:
    """Read one message."""
    calls = tuple(Call(block["name"], block["input"], block["id"]) for block in content if block["type"] == "tool_use")
    results = tuple(
        Result(block["tool_use_id"], result_text(block)) for block in content if block["type"] == "tool_result"
    )
    return Message(role, "\n".join(block["text"] for block in content if block["type"] == "text"), calls, results)


def result_text(block: Json) -> str:
    """The text of a tool result, which is absent, a string or a list of blocks."""
    content = block.get("content", "")
    if isinstance(content, str):
        return content
    demand(isinstance(content, list), "tool_result.content: Input should be a valid list")
    for part in content:
        demand(
            part.get("type") in ("text", "image", "document", "search_result"),
            "tool_result.content.0: Input tag is unknown",
        )
        demand(part["type"] != "text" or part.get("text"), "messages: text content blocks must be non-empty")
    return "\n".join(part["text"] for part in content if part["type"] == "text")


def paired(contents: list[list[Json]]) -> None:
    """Reject a conversation in which a call is not answered exactly once, first thing in the next message."""
    waiting: list[str] = []
    seen: set[str] = set()
    for at, content in enumerate(contents):
        kinds = [block["type"] for block in content]
        answered = [block["tool_use_id"] for block in content if block["type"] == "tool_result"]
        for place, one in enumerate(answered):
            demand(one in waiting, UNASKED.format(at, place, one))
            demand(
                answered.count(one) == 1,
                f"messages.{at}.content.{place}: each tool_use must have a single result. "
                f"Found multiple `tool_result` blocks with id: {one}",
            )
        first = all(kind == "tool_result" for kind in kinds[: len(answered)])
        missing = [one for one in waiting if one not in answered]
        demand(not missing and (first or not waiting), UNANSWERED.format(at - 1, ", ".join(missing or waiting)))
        waiting = [block["id"] for block in content if block["type"] == "tool_use"]
        demand(
            len({*waiting}) == len(waiting) and not seen & {*waiting}, f"messages.{at}: `tool_use` ids must be unique"
        )
        seen.update(waiting)
    demand(not waiting, UNANSWERED.format(len(contents) - 1, ", ".join(waiting)))
