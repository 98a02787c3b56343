"""Google's client for Gemini and Vertex: ``generate_content``, also streamed, and each round of automatic calling.

Most programs send calls and results without ids, even if the server has given them some.
"""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING, Any

from otel_loopguard import semconv
from otel_loopguard.instrumentation.model_api import Dialect, ModelClient, Sent
from otel_loopguard.instrumentation.model_request import (
    async_request_wrapper,
    generator_request_wrapper,
    request_wrapper,
)
from otel_loopguard.instrumentation.models.error_classes import error_class
from otel_loopguard.instrumentation.models.fields import count, field, sequence
from otel_loopguard.instrumentation.models.streams import tapped
from otel_loopguard.instrumentation.targets import CallTarget
from otel_loopguard.turns.messages import Message, Reply, WrittenCall, WrittenResult, plain_text, unmarked

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

# --- requests ----------------------------------------------------------------------------------------------------


def _mark(content: Any) -> int:
    get = content.get if type(content) is dict else partial(field, content)
    keys = [get("role")]
    for part in sequence(get("parts")):
        get = part.get if type(part) is dict else partial(field, part)
        call, result = get("functionCall"), get("functionResponse")
        if call is not None:  # without the signature of thoughts
            keys += (field(call, "id"), field(call, "name"), unmarked(field(call, "args")))
        elif result is not None:
            keys += (field(result, "id"), unmarked(field(result, "response")))
        else:
            keys.append(get("text") or unmarked(part))
    return hash(tuple(keys))


def _read(content: Any) -> Message:
    parts, by_user = sequence(field(content, "parts")), field(content, "role") in ("user", None)
    written = [part for part in parts if field(part, "text")] if by_user else []
    texts = [part for part in parts if field(part, "text") and not field(part, "thought")]
    said = texts if texts and not by_user else None
    return Message(tuple(_calls(parts)), tuple(_results(parts)), bool(written), written, said)


def _calls(parts: Any) -> Iterator[WrittenCall]:
    for part in parts:
        call = field(part, "functionCall")
        if call is not None:
            yield WrittenCall(field(call, "id"), field(call, "name"), field(call, "args") or {})


def _results(parts: Any) -> Iterator[WrittenResult]:
    for part in parts:
        result = field(part, "functionResponse")
        if result is not None:
            response = field(result, "response")
            failed = True if isinstance(response, dict) and response.keys() == {"error"} else None
            yield WrittenResult(field(result, "id"), response, failed, field(result, "name"))


def _tools(body: Mapping[str, Any]) -> frozenset[str] | None:
    names: list[Any] = []
    for tool in sequence(body.get("tools")):
        functions = field(tool, "functionDeclarations")
        # Each other tool is a key of its own, such as googleSearch.
        names += tool if functions is None else [field(function, "name") for function in functions]
    return None if None in names else frozenset(names)


def _annotate(content: Any, texts: Mapping[int, str]) -> Any:
    parts, position = [], 0
    for part in content["parts"]:
        result = field(part, "functionResponse")
        if result is not None:
            if position in texts:
                # A response has no place for text, so the sentence is a field.
                longer = {**result, "response": {**result["response"], "loopguard": texts[position]}}
                part = {**part, "functionResponse": longer}  # noqa: PLW2901 - the copy takes its place
            position += 1
        parts.append(part)
    return {**content, "parts": parts if position else [*parts, {"text": texts[0]}]}


def _calling(body: Mapping[str, Any]) -> Mapping[str, Any]:
    return (body.get("toolConfig") or {}).get("functionCallingConfig") or {}


def _with_calling(body: Mapping[str, Any], changed: Mapping[str, Any]) -> Mapping[str, Any]:
    return {**body, "toolConfig": {**(body.get("toolConfig") or {}), "functionCallingConfig": changed}}


def _withdraw(body: Mapping[str, Any]) -> Mapping[str, Any]:
    if not body.get("tools"):
        return body
    calling = {**_calling(body), "mode": "NONE"}
    calling.pop("allowedFunctionNames", None)  # allowed with the mode ANY only
    return _with_calling(body, calling)


def _only(body: Mapping[str, Any], tool: str) -> Mapping[str, Any]:
    return _with_calling(body, {**_calling(body), "mode": "ANY", "allowedFunctionNames": [tool]})


# --- replies -----------------------------------------------------------------------------------------------------


def _parsed(reply: Any) -> Any:
    """Return a reply or a chunk as a dict. Newer versions return its JSON text."""
    return reply if isinstance(reply, dict) else json.loads(field(reply, "body") or "{}")


def _reply(reply: Any) -> Reply | None:
    parsed = _parsed(reply)
    return _read_reply([parsed], parsed.get("usageMetadata")) if "candidates" in parsed else None


def _read_reply(chunks: list[Any], usage: Any) -> Reply:
    contents = (field(one, "content") for chunk in chunks for one in sequence(field(chunk, "candidates")))
    return Reply(
        # Without ids: the client does not send them back.
        calls=tuple(
            call._replace(id=None) for content in contents for call in _calls(sequence(field(content, "parts")))
        ),
        input_tokens=count(usage, "promptTokenCount"),
        output_tokens=_output_tokens(usage),
        cached_tokens=count(usage, "cachedContentTokenCount"),
    )


def _output_tokens(usage: Any) -> int | None:
    written = [count(usage, f"{kind}TokenCount") for kind in ("candidates", "thoughts")]
    return None if written == [None, None] else sum(one or 0 for one in written)


def _text(reply: Any) -> str:
    candidates = sequence(_parsed(reply).get("candidates"))
    content = field(candidates[0], "content") if candidates else None
    return plain_text(sequence(field(content, "parts")))


class _Chunks:
    """A streamed reply: calls come whole. The usage comes with each chunk, and the last one counts."""

    def __init__(self) -> None:
        self._with_calls: list[Any] = []
        self._usage: Any = None

    def add(self, chunk: Any) -> None:
        parsed = _parsed(chunk)
        self._usage = parsed.get("usageMetadata") or self._usage
        if _read_reply([parsed], None).calls:
            self._with_calls.append(parsed)

    def reply(self) -> Reply:
        return _read_reply(self._with_calls, self._usage)


GENERATE_CONTENT = Dialect(
    messages=lambda body: sequence(body.get("contents")),
    marks=lambda contents: [*map(_mark, contents)],
    read=_read,
    tools=_tools,
    previous=lambda body: None,
    annotate=_annotate,
    replace=lambda body, contents: {**body, "contents": contents},
    withdraw=_withdraw,
    demands=lambda body: _calling(body).get("mode") == "ANY",
    only=_only,
    reply=_reply,
    collector=_Chunks,
    text=_text,
    operation=semconv.OPERATION_GENERATE_CONTENT,
    provider="gcp.gen_ai",
)

# --- the client --------------------------------------------------------------------------------------------------

_NAMES = ("http_method", "path", "request_dict")


def _read_request(instance: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Sent | None:
    given = {**dict(zip(_NAMES, args, strict=False)), **kwargs}
    path, body = str(given["path"]).partition("?")[0], given["request_dict"]
    if not path.endswith((":generateContent", ":streamGenerateContent")) or not isinstance(body, dict):
        return None

    def arguments(changed: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
        if len(args) > 2:
            return (*args[:2], changed, *args[3:]), kwargs
        return args, {**kwargs, "request_dict": changed}

    model = path.rpartition("/")[2].partition(":")[0]
    return Sent(GENERATE_CONTENT, body, model, arguments, tapped)


CLIENT = ModelClient(
    name="google_genai",
    title="Google Gen AI",
    modules=("google.genai",),
    targets=tuple(
        CallTarget("google.genai._api_client", f"{owner}.{method}", wrapper(_read_request, error_class))
        for owner in ("BaseApiClient", "ApiClient")  # the second: until 1.1
        for method, wrapper in (
            ("request", request_wrapper),
            ("request_streamed", generator_request_wrapper),
            ("async_request", async_request_wrapper),
            ("async_request_streamed", async_request_wrapper),
        )
    ),
    versions={"oldest": ("google-genai==1.0.0",), "newest": ("google-genai",)},
    tested={"google-genai": "3.6.1"},
)
