"""The supported frameworks, one a file, with every fact of each. A framework is imported only inside of functions."""

from __future__ import annotations

from otel_loopguard.instrumentation.frameworks import langchain, mcp, openai_agents, pydantic_ai, threads

FRAMEWORKS = tuple(module.FRAMEWORK for module in (langchain, mcp, openai_agents, pydantic_ai, threads))
