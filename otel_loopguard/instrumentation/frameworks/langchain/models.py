"""LangChain's chat models: what a request took, whatever its client is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from otel_loopguard.engine.vocabulary import Usage
from otel_loopguard.instrumentation.model_boundary import async_boundary, boundary
from otel_loopguard.instrumentation.targets import CallTarget


def _hear(model: Any, reply: Any) -> Usage:
    """Read LangChain's own form of a reply, which every integration makes."""
    message = reply.generations[0].message
    told = _mapping(getattr(message, "usage_metadata", None))
    named = _mapping(message.response_metadata)
    name = named.get("model_name") or named.get("model") or getattr(model, "model_name", getattr(model, "model", ""))
    cached = _mapping(told.get("input_token_details")).get("cache_read", 0)
    return Usage.of(name, told.get("input_tokens"), told.get("output_tokens"), cached)


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


_MODULE = "langchain_core.language_models.chat_models"

MODELS = (
    CallTarget(_MODULE, "BaseChatModel._generate_with_cache", boundary(_hear)),
    CallTarget(_MODULE, "BaseChatModel._agenerate_with_cache", async_boundary(_hear)),
)
