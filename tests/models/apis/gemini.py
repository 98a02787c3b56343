"""``POST /v1beta/models/{model}:generateContent`` and ``:streamGenerateContent`` of Google."""

from __future__ import annotations

import json
import re
from collections import Counter
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
    only,
    pieces,
    price,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tests.models.apis import Json

UNKNOWN = 'Invalid JSON payload received. Unknown name "{}": Cannot find field.'
UNEQUAL = (
    "Please ensure that the number of function response parts is equal to the number of function call parts of the "
    "function call turn."
)
UNASKED = "Please ensure that function response turn comes immediately after a function call turn."
KEYS = {
    "cachedContent", "contents", "generationConfig", "labels", "model", "safetySettings", "serviceTier", "store",
    "systemInstruction", "toolConfig", "tools",
}  # fmt: skip
PART_KEYS = {
    "codeExecutionResult", "executableCode", "fileData", "functionCall", "functionResponse", "inlineData",
    "mediaResolution", "partMetadata", "text", "thought", "thoughtSignature", "videoMetadata",
}  # fmt: skip


class Gemini:
    """The API that keeps nothing, and whose calls may have no ids."""

    paths = re.compile(r"/v1(?:beta)?/(?:models|publishers/google/models)/[^/:]+:(?:generate|streamGenerate)Content")

    def __init__(self, *, ids: bool = False, thoughts: bool = False) -> None:
        self._ids = ids
        self._thoughts = thoughts

    def read(self, path: str, query: Mapping[str, str], headers: Mapping[str, str], body: Json) -> Asked:
        """Read a request, or reject it."""
        demand(
            headers.get("x-goog-api-key") or query.get("key"), "Method doesn't allow unregistered callers.", status=403
        )
        streamed = "streamGenerateContent" in path
        demand(not streamed or query.get("alt") == "sse", "this server streams with alt=sse only")
        body = camel(body)
        only(body, KEYS, UNKNOWN)
        demand(body.get("contents"), "* GenerateContentRequest.contents: contents is not specified")
        messages = [read_content(one) for one in body["contents"]]
        paired(messages, self._signatures(body["contents"]))
        functions = [one for tool in body.get("tools") or () for one in tool.get("functionDeclarations") or ()]
        demand(all(NAME.fullmatch(one.get("name") or "") for one in functions), "Invalid function name.")
        tools = frozenset(one["name"] for one in functions)
        system = body.get("systemInstruction") or {"parts": []}
        head = Message("system", "\n".join(part["text"] for part in system["parts"] if "text" in part))
        return Asked((head, *messages), tools, chosen(body, tools), streamed)

    def _signatures(self, contents: list[Json]) -> bool:
        """Reject calls of the model's open turn that have lost their signature; true if they are asked for."""
        asked = [
            at for at, one in enumerate(contents) if one.get("role") != "model" and "text" in (one["parts"] or [{}])[0]
        ]
        for one in contents[asked[-1] if asked else 0 :] if self._thoughts else ():
            calls = [part for part in one["parts"] if "functionCall" in part]
            demand(
                not calls or calls[0].get("thoughtSignature"),
                "Function call is missing a thought_signature in functionCall parts.",
            )
        return self._ids

    def answer(self, asked: Asked, reply: Reply, body: Json) -> Json:
        """Write the answer to a request."""
        name = f"{asked.key}_{asked.number}"
        parts: list[Json] = [{"text": reply.text}] if reply.text else []
        for at, one in enumerate(reply.calls):
            ids = {"id": f"fc_{name}_{at}"} if self._ids else {}
            signed = {"thoughtSignature": "c2lnbmVk"} if self._thoughts and at == 0 else {}
            parts.append({"functionCall": {**ids, "name": one.name, "args": one.arguments}, **signed})
        return {
            "candidates": [{"content": {"parts": parts, "role": "model"}, "finishReason": "STOP", "index": 0}],
            "usageMetadata": {
                "promptTokenCount": asked.tokens,
                "candidatesTokenCount": price(reply),
                "totalTokenCount": asked.tokens + price(reply),
            },
            "modelVersion": "gemini-local",
            "responseId": f"resp_{name}",
        }

    def events(self, answer: Json, body: Json) -> Iterator[bytes]:
        """Write the same answer as server-sent events."""
        parts = answer["candidates"][0]["content"]["parts"]
        streamed = [{"text": piece} for part in parts if "text" in part for piece in pieces(part["text"])]
        streamed += [part for part in parts if "functionCall" in part]
        head = {key: answer[key] for key in ("modelVersion", "responseId")}
        for at, part in enumerate(streamed):
            last = at == len(streamed) - 1
            finish = {"finishReason": "STOP"} if last else {}
            usage = {"usageMetadata": answer["usageMetadata"]} if last else {}
            candidate = {"content": {"parts": [part], "role": "model"}, "index": 0, **finish}
            yield f"data: {json.dumps({'candidates': [candidate], **usage, **head})}\r\n\r\n".encode()

    def error(self, rejected: RejectedError) -> Json:
        """Write the body of a rejection."""
        names = {400: "INVALID_ARGUMENT", 403: "PERMISSION_DENIED", 429: "RESOURCE_EXHAUSTED", 503: "UNAVAILABLE"}
        status = names.get(rejected.status, "INTERNAL")
        return {"error": {"code": rejected.status, "message": rejected.message, "status": status}}


def camel(given: object) -> object:
    """The same JSON with its keys as the service documents them; it also reads ``snake_case``."""
    free = {"args", "response", "parameters", "parametersJsonSchema", "responseSchema", "responseJsonSchema", "labels"}
    if isinstance(given, list):
        return [camel(one) for one in given]
    if not isinstance(given, dict):
        return given
    named = {re.sub(r"_([a-z])", lambda found: found[1].upper(), key): value for key, value in given.items()}
    return {key: value if key in free else camel(value) for key, value in named.items()}


def chosen(body: Json, tools: frozenset[str]) -> str:
    """The choice that a request leaves to the model: none, auto, required or the name of a tool."""
    config = (body.get("toolConfig") or {}).get("functionCallingConfig")
    if config is None:
        return "auto"
    demand(tools, "Function calling config is set without function_declarations.")
    mode = config.get("mode", "AUTO")
    demand(
        mode in ("AUTO", "ANY", "NONE", "VALIDATED"),
        f"Invalid value at 'tool_config.function_calling_config.mode': {mode!r}",
    )
    allowed = config.get("allowedFunctionNames")
    demand(
        not allowed or mode in ("ANY", "VALIDATED"),
        "Allowed function names should be set only when function calling mode is ANY or VALIDATED.",
    )
    demand({*(allowed or ())} <= tools, "allowed_function_names contains a function that is not declared.")
    if mode == "ANY" and len(allowed or ()) == 1:
        return str(allowed[0])
    return {"NONE": "none", "ANY": "required"}.get(mode, "auto")


def read_content(given: Json) -> Message:
    """Read one content."""
    only(given, {"role", "parts"}, UNKNOWN)
    role = given.get("role", "user")
    demand(role in ("user", "model", "function"), "Please use a valid role: user, model.")
    demand(given.get("parts"), "* GenerateContentRequest.contents.parts: contents.parts must not be empty.")
    texts, calls, results = [], [], []
    for part in given["parts"]:
        only(part, PART_KEYS, UNKNOWN)
        demand(
            {"text", "inlineData", "fileData", "functionCall", "functionResponse"} & part.keys(),
            "required oneof field 'data' must have one initialized field",
        )
        texts.append(part.get("text", ""))
        if "functionCall" in part:
            one = part["functionCall"]
            only(one, {"name", "args", "id", "partialArgs", "willContinue"}, UNKNOWN)
            demand(role == "model" and one.get("name"), "Please ensure that function call turns have the role model.")
            calls.append(Call(one["name"], one.get("args") or {}, one.get("id") or ""))
        if "functionResponse" in part:
            one = part["functionResponse"]
            only(one, {"name", "response", "id", "parts", "scheduling", "willContinue"}, UNKNOWN)
            demand(
                role != "model" and one.get("name"),
                "Please ensure that function responses have a name and the role user.",
            )
            demand(
                isinstance(one.get("response"), dict),
                "Invalid value at 'function_response.response': expected a Struct",
            )
            results.append((one["name"], Result(one.get("id") or "", json.dumps(one["response"], ensure_ascii=False))))
    named = tuple(Result(result.id or name, result.text) for name, result in results)
    return Message(role, "\n".join(filter(None, texts)), tuple(calls), named)


def paired(messages: list[Message], ids: bool) -> None:
    """Reject a conversation in which calls and responses are not equal in number, names and ids, turn by turn."""
    waiting: tuple[Call, ...] = ()
    for one in messages:
        if one.results:
            demand(waiting, UNASKED)
        demand(len(one.results) == len(waiting), UNEQUAL)
        names = Counter(call.name for call in waiting), Counter(call.id for call in waiting)
        given = Counter(result.id for result in one.results)
        demand(given in names, "Please ensure that function responses match the function calls.")
        waiting = one.calls
    demand(not waiting, UNEQUAL)
