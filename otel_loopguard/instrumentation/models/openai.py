"""OpenAI's client, and its client for Azure: chat completions and responses."""

from __future__ import annotations

from typing import TYPE_CHECKING

from otel_loopguard.instrumentation.model_api import ModelClient
from otel_loopguard.instrumentation.models.openai_chat import CHAT
from otel_loopguard.instrumentation.models.openai_responses import RESPONSES
from otel_loopguard.instrumentation.models.stainless import targets

if TYPE_CHECKING:
    from otel_loopguard.instrumentation.model_api import Dialect


def _dialect_of(path: str) -> Dialect | None:
    if path.endswith("/chat/completions"):
        return CHAT
    return RESPONSES if path.endswith("/responses") else None


CLIENT = ModelClient(
    name="openai",
    title="OpenAI",
    modules=("openai",),
    targets=targets("openai", "OpenAI", _dialect_of),
    # With a newer httpx, a client of this openai cannot be made.
    versions={"oldest": ("openai==1.54.0", "httpx<0.28"), "newest": ("openai",)},
    tested={"openai": "3.57.0"},
)
