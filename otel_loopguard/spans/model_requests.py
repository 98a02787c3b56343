"""Read the tokens of a model request from its span of another instrumentation, by one table: a row for each dialect.

The guard's own span of a call has the tokens of the request that wrote the call, under attributes of its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from otel_loopguard import semconv
from otel_loopguard.engine.vocabulary import Usage

if TYPE_CHECKING:
    from collections.abc import Mapping


class _Names(NamedTuple):
    """The attributes of one dialect. If there are several for one fact, the first one that the span has is read."""

    sign: tuple[str, tuple[str, ...]]
    """An attribute, and the values of it that make a span a model request."""
    model: tuple[str, ...]
    input: tuple[str, ...]
    cached: tuple[str, ...]
    output: tuple[str, ...]


_VERCEL: Final = (
    "generateText.doGenerate", "streamText.doStream", "generateObject.doGenerate", "streamObject.doStream",
)  # fmt: skip
_DIALECTS: Final = (
    _Names(
        (semconv.OPERATION_NAME, ("chat", "generate_content", "text_completion")),
        (semconv.REQUEST_MODEL, "gen_ai.response.model"),
        ("gen_ai.usage.input_tokens", "gen_ai.usage.prompt_tokens"),
        ("gen_ai.usage.cache_read.input_tokens",),
        ("gen_ai.usage.output_tokens", "gen_ai.usage.completion_tokens"),
    ),
    _Names(  # OpenInference
        ("openinference.span.kind", ("LLM",)),
        ("llm.model_name",),
        ("llm.token_count.prompt",),
        ("llm.token_count.prompt_details.cache_read",),
        ("llm.token_count.completion",),
    ),
    _Names(  # OpenLLMetry, before it had the operation's name
        ("llm.request.type", ("chat", "completion")),
        (semconv.REQUEST_MODEL, "gen_ai.response.model"),
        ("gen_ai.usage.prompt_tokens", "gen_ai.usage.input_tokens"),
        ("gen_ai.usage.cache_read_input_tokens",),
        ("gen_ai.usage.completion_tokens", "gen_ai.usage.output_tokens"),
    ),
    _Names(  # Vercel AI SDK; the spans around these have the sums
        ("ai.operationId", tuple(f"ai.{one}" for one in _VERCEL)),
        (semconv.REQUEST_MODEL, "ai.model.id"),
        ("gen_ai.usage.input_tokens", "ai.usage.inputTokens", "ai.usage.promptTokens"),
        ("ai.usage.cachedInputTokens",),
        ("gen_ai.usage.output_tokens", "ai.usage.outputTokens", "ai.usage.completionTokens"),
    ),
)
_OURS: Final = _Names(
    (semconv.MODEL_NAME, ()),
    (semconv.MODEL_NAME,),
    (semconv.MODEL_INPUT_TOKENS,),
    (semconv.MODEL_CACHED_TOKENS,),
    (semconv.MODEL_OUTPUT_TOKENS,),
)


READ: Final = frozenset(
    key for row in _DIALECTS for key in (row.sign[0], *row.model, *row.input, *row.cached, *row.output)
)
"""All attributes of a model request that this file reads."""


def usage_of_request(attributes: Mapping[str, Any]) -> Usage | None:
    """Return the usage in the span of a model request; None if the span is no model request."""
    for names in _DIALECTS:
        if attributes.get(names.sign[0]) in names.sign[1]:
            return _usage(names, attributes)
    return None


def usage_on_call(attributes: Mapping[str, Any]) -> Usage | None:
    """Return the usage in the guard's own span of a call; None if it has none."""
    return _usage(_OURS, attributes) if semconv.MODEL_NAME in attributes else None


def _usage(names: _Names, attributes: Mapping[str, Any]) -> Usage:
    of_model = _first(names.model, attributes)
    tokens = (_first(keys, attributes) for keys in (names.input, names.output, names.cached))
    return Usage.of(of_model, *tokens)


def _first(keys: tuple[str, ...], attributes: Mapping[str, Any]) -> Any:
    return next((attributes[key] for key in keys if key in attributes), None)
