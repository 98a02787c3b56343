"""The clients of model providers, one a file, with every fact of each. None is imported outside of functions."""

from __future__ import annotations

from otel_loopguard.instrumentation.models import anthropic, google_genai, litellm, openai

CLIENTS = tuple(module.CLIENT for module in (anthropic, google_genai, litellm, openai))
