"""``POST /v1/chat/completions`` of OpenAI and Azure."""

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
    from collections.abc import Callable, Iterator, Mapping

    from tests.models.apis import Json

CREATED = 1_700_000_000
PARAMETERS = {
    "audio", "frequency_penalty", "function_call", "functions", "logit_bias", "logprobs", "max_completion_tokens",
    "max_tokens", "messages", "metadata", "modalities", "model", "moderation", "n", "parallel_tool_calls", "prediction",
    "presence_penalty", "prompt_cache_key", "prompt_cache_retention", "reasoning_effort", "response_format",
    "safety_identifier", "seed", "service_tier", "stop", "store", "stream", "stream_options", "temperature",
    "tool_choice", "tools", "top_logprobs", "top_p", "user", "verbosity", "web_search_options",
}  # fmt: skip
KEYS = {
    "system": {"role", "content", "name"},
    "developer": {"role", "content", "name"},
    "user": {"role", "content", "name"},
    # The message that the client's parse() returns has "parsed", and programs send it back as it is.
    "assistant": {
        "role",
        "content",
        "name",
        "tool_calls",
        "function_call",
        "refusal",
        "audio",
        "annotations",
        "parsed",
    },
    "tool": {"role", "content", "tool_call_id", "name"},
}
UNANSWERED = (
    "An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'. "
    "The following tool_call_ids did not have response messages: {}"
)
UNASKED = "Invalid parameter: messages with role 'tool' must be a response to a preceeding message with 'tool_calls'."


class Chat:
    """The API that keeps nothing: each request carries the whole conversation."""

    paths = re.compile(r"(?:/openai)?/v1/chat/completions|/openai/deployments/[^/]+/chat/completions")

    def read(self, path: str, query: Mapping[str, str], headers: Mapping[str, str], body: Json) -> Asked:
        """Read a request, or reject it."""
        authorised(path, query, headers)
        only(body, PARAMETERS, "Unrecognized request argument supplied: {}")
        demand(isinstance(body.get("model"), str), "you must provide a model parameter")
        demand(isinstance(body.get("messages"), list) and body["messages"], "[] is too short - 'messages'")
        demand(body.get("n") in (None, 1), "this server writes one choice")
        stream = bool(body.get("stream"))
        demand(
            stream or "stream_options" not in body,
            "The 'stream_options' parameter is only allowed when 'stream' is enabled.",
        )
        tools = frozenset(declared(tool) for tool in body.get("tools") or ())
        demand(
            body.get("tools") is None or tools, "Invalid 'tools': empty array. Expected an array with minimum length 1."
        )
        messages = tuple(message(one) for one in body["messages"])
        paired(messages)
        choice = chosen(body, tools, lambda given: given.get("function", given).get("name"))
        return Asked(messages, tools, choice, stream)

    def answer(self, asked: Asked, reply: Reply, body: Json) -> Json:
        """Write the answer to a request."""
        name = f"{asked.key}_{asked.number}"
        calls = [
            {
                "id": drawn("call", name, at),
                "type": "function",
                "function": {"name": one.name, "arguments": json.dumps(one.arguments)},
            }
            for at, one in enumerate(reply.calls)
        ]
        written = {"role": "assistant", "content": reply.text or None, "refusal": None, "annotations": []}
        choice = {
            "index": 0,
            "message": {**written, **({"tool_calls": calls} if calls else {})},
            "logprobs": None,
            "finish_reason": "tool_calls" if calls else "stop",
        }
        return {
            "id": f"chatcmpl-{name}",
            "object": "chat.completion",
            "created": CREATED,
            "model": body["model"],
            "choices": [choice],
            "usage": {
                "prompt_tokens": asked.tokens,
                "completion_tokens": price(reply),
                "total_tokens": asked.tokens + price(reply),
            },
            "system_fingerprint": "fp_local",
        }

    def events(self, answer: Json, body: Json) -> Iterator[bytes]:
        """Write the same answer as server-sent events."""
        (choice,) = answer["choices"]
        usage = bool((body.get("stream_options") or {}).get("include_usage"))
        head = {key: answer[key] for key in ("id", "created", "model", "system_fingerprint")}

        def chunk(choices: list[Json], given: Json | None = None) -> bytes:
            last = {"usage": given} if usage else {}
            return event({**head, "object": "chat.completion.chunk", "choices": choices, **last})

        def delta(part: Json, finish: str | None = None) -> bytes:
            return chunk([{"index": 0, "delta": part, "logprobs": None, "finish_reason": finish}])

        calls = choice["message"].get("tool_calls", [])
        yield delta({"role": "assistant", "content": None if calls else "", "refusal": None})
        for piece in pieces(choice["message"]["content"] or ""):
            yield delta({"content": piece})
        for at, one in enumerate(calls):
            begun = {**one["function"], "arguments": ""}
            yield delta({"tool_calls": [{"index": at, "id": one["id"], "type": "function", "function": begun}]})
            for piece in pieces(one["function"]["arguments"]):
                yield delta({"tool_calls": [{"index": at, "function": {"arguments": piece}}]})
        yield delta({}, choice["finish_reason"])
        if usage:
            yield chunk([], answer["usage"])
        yield b"data: [DONE]\n\n"

    def error(self, rejected: RejectedError) -> Json:
        """Write the body of a rejection."""
        return error_of(rejected)


def error_of(rejected: RejectedError) -> Json:
    """The body of a rejection by OpenAI."""
    kind = "invalid_request_error" if rejected.status < 500 else "server_error"
    return {"error": {"message": rejected.message, "type": kind, "param": None, "code": rejected.code}}


def event(data: Json) -> bytes:
    """One event without a name."""
    return f"data: {json.dumps(data)}\n\n".encode()


def authorised(path: str, query: Mapping[str, str], headers: Mapping[str, str]) -> None:
    """Reject a request without a key, and one to Azure without a version of the API."""
    azure = path.startswith("/openai/")
    key = headers.get("api-key") if azure else None
    demand(key or headers.get("authorization", "").startswith("Bearer "), "You didn't provide an API key.", status=401)
    demand(not azure or path.startswith("/openai/v1/") or query.get("api-version"), "Resource not found", status=404)


def declared(tool: Json) -> str:
    """The name of a declared tool."""
    demand(
        tool.get("type") in ("function", "custom"),
        f"Invalid value: {tool.get('type')!r}. Supported values are: 'function' and 'custom'.",
    )
    given = tool.get(tool["type"]) or {}
    demand(NAME.fullmatch(given.get("name", "")), "Invalid 'tools[0].function.name': string does not match pattern.")
    return str(given["name"])


def chosen(body: Json, tools: frozenset[str], named: Callable[[Json], str | None]) -> str:
    """The choice that a request leaves to the model: none, auto, required or the name of a tool."""
    for parameter in ("tool_choice", "parallel_tool_calls"):
        demand(
            tools or body.get(parameter) is None,
            f"Invalid value for '{parameter}': '{parameter}' is only allowed when 'tools' are specified.",
        )
    given = body.get("tool_choice") or "auto"
    if isinstance(given, dict):
        name = named(given)
        demand(name is None or name in tools, f"Tool choice '{name}' not found in 'tools' parameter.")
        return "required" if name is None else name
    demand(
        given in ("none", "auto", "required"),
        f"Invalid value: {given!r}. Supported values are: 'none', 'auto', and 'required'.",
    )
    return str(given)


def text_of(content: object, kinds: tuple[str, ...] = ("text",)) -> str:
    """The text of a content, which is a string or a list of parts."""
    if isinstance(content, str):
        return content
    demand(
        isinstance(content, list) and content, "Invalid value for 'content': expected a string or an array of objects."
    )
    for part in content:
        demand(isinstance(part, dict) and part.get("type") in kinds, f"Invalid value for 'content': {part!r:.60}")
        demand("text" not in kinds or part["type"] != "text" or isinstance(part.get("text"), str), "Missing 'text'.")
    return "\n".join(part["text"] for part in content if "text" in part)


def message(given: Json) -> Message:
    """Read one message."""
    role = given.get("role")
    demand(
        role in KEYS,
        f"Invalid value: {role!r}. Supported values are: 'system', 'assistant', 'user', 'tool', and 'developer'.",
    )
    only(given, KEYS[role], f"Additional properties are not allowed ('{{}}' was unexpected) - 'messages.{role}'")
    if role == "tool":
        demand(
            isinstance(given.get("tool_call_id"), str),
            "Missing parameter 'tool_call_id': messages with role 'tool' must have a 'tool_call_id'.",
        )
        return Message(role, results=(Result(given["tool_call_id"], text_of(given.get("content"))),))
    calls = tuple(map(read_call, given.get("tool_calls") or ()))
    demand(given.get("tool_calls") is None or calls, "Invalid 'tool_calls': empty array.")
    if role == "assistant" and given.get("content") is None:
        demand(calls or given.get("refusal"), "Invalid value for 'content': expected a string, got null.")
        return Message(role, calls=calls)
    kinds = ("text", "refusal") if role == "assistant" else ("text", "image_url", "input_audio", "file")
    return Message(role, text_of(given.get("content"), kinds), calls)


def read_call(given: Json) -> Call:
    """Read a call in an assistant's message."""
    demand(isinstance(given.get("id"), str) and given["id"], "Missing required parameter: 'tool_calls[0].id'.")
    demand(
        len(given["id"]) <= 40, "Invalid 'tool_calls[0].id': string too long. Expected a string with maximum length 40."
    )
    demand(given.get("type") == "function", "Missing required parameter: 'tool_calls[0].type'.")
    function = given.get("function") or {}
    demand(
        NAME.fullmatch(function.get("name") or ""),
        "Invalid 'tool_calls[0].function.name': string does not match pattern.",
    )
    demand(
        isinstance(function.get("arguments"), str),
        "Invalid type for 'tool_calls[0].function.arguments': expected a string.",
    )
    return Call(function["name"], {"text": function["arguments"]}, given["id"])


def paired(messages: tuple[Message, ...]) -> None:
    """Reject a conversation in which a call is not answered exactly once, directly behind its message."""
    open_calls: list[str] = []
    known: set[str] = set()
    for one in messages:
        for result in one.results:
            demand(
                result.id not in known or result.id in open_calls, f"Duplicate value for 'tool_call_id' of {result.id}"
            )
            demand(result.id in open_calls, UNASKED)
            open_calls.remove(result.id)
        demand(one.results or not open_calls, UNANSWERED.format(", ".join(open_calls)))
        ids = [call.id for call in one.calls]
        demand(len({*ids}) == len(ids) and not known & {*ids}, "Duplicate value found in 'tool_calls'.")
        open_calls += ids
        known.update(ids)
    demand(not open_calls, UNANSWERED.format(", ".join(open_calls)))
