"""The clients of model providers, one a file, with every fact of each. None is imported outside of functions."""

from __future__ import annotations

from otel_loopguard.instrumentation.model_api import TextProtocol
from otel_loopguard.instrumentation.models import anthropic, google_genai, litellm, openai

CLIENTS = tuple(module.CLIENT for module in (anthropic, google_genai, litellm, openai))

TEXT_PROTOCOLS = (
    TextProtocol("ReAct of DSPy", "dspy.predict.react", "ReAct.__init__"),
    TextProtocol("ReActV2 of DSPy", "dspy.predict.react_v2", "ReActV2.__init__"),
    TextProtocol("CodeAgent of smolagents", "smolagents.agents", "CodeAgent.__init__"),
    TextProtocol("ReActAgent of LlamaIndex", "llama_index.core.agent.workflow.react_agent", "ReActAgent.take_step"),
    TextProtocol(
        "CodeActAgent of LlamaIndex", "llama_index.core.agent.workflow.codeact_agent", "CodeActAgent.take_step"
    ),
)
"""The doctor names those that a program uses."""
