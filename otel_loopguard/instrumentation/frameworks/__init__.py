"""The supported frameworks, one a file, with every fact of each. A framework is imported only inside of functions.

The start of a process reads the names below. It imports the file of a framework when the program imports one of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from otel_loopguard.instrumentation.lazy_adapters import on_demand

if TYPE_CHECKING:
    from otel_loopguard.instrumentation.targets import Framework

    FRAMEWORKS: tuple[Framework, ...]

PATCHED_MODULES: Final = {
    "ag2": ("ag2.agent", "ag2.tools.executor"),
    "agent_framework": ("agent_framework._tools",),
    "agno": (
        "agno.agent._run",
        "agno.agent.agent",
        "agno.models.base",
        "agno.team._run",
        "agno.team.team",
        "agno.tools.function",
    ),
    "anthropic_runner": ("anthropic.lib.tools._beta_functions", "anthropic.lib.tools._beta_runner"),
    "autogen": ("autogen_agentchat.agents._assistant_agent", "autogen_agentchat.teams._group_chat._base_group_chat"),
    "claude_agent_sdk": ("claude_agent_sdk._internal.query",),
    "crewai": (
        "crewai.agent.core",
        "crewai.agents.agent_executor",
        "crewai.agents.crew_agent_executor",
        "crewai.agents.step_executor",
        "crewai.experimental.agent_executor",
        "crewai.lite_agent",
        "crewai.utilities.agent_utils",
        "crewai.utilities.tool_utils",
    ),
    "dspy": ("dspy.adapters.types.tool", "dspy.predict.react", "dspy.predict.react_v2"),
    "google_adk": (
        "google.adk.agents.base_agent",
        "google.adk.agents.context",
        "google.adk.flows.llm_flows._batch_tool_executor",
        "google.adk.flows.llm_flows._tool_caller",
        "google.adk.flows.llm_flows.functions",
        "google.adk.flows.llm_flows.tools._batch_executor",
        "google.adk.flows.llm_flows.tools._caller",
        "google.adk.flows.llm_flows.tools._functions",
        "google.adk.platform.thread",
        "google.adk.runners",
    ),
    "haystack": (
        "haystack.components.agents.agent",
        "haystack.components.agents.tool_calling",
        "haystack.core.pipeline.pipeline",
    ),
    "langchain": (
        "langchain.agents.agent",
        "langchain.agents.structured_output",
        "langchain.chains.base",
        "langchain_classic.agents.agent",
        "langchain_classic.chains.base",
        "langchain_core.language_models.chat_models",
        "langchain_core.tools.base",
        "langgraph.prebuilt.tool_node",
        "langgraph.pregel",
        "langgraph.pregel._loop",
        "langgraph.pregel.loop",
        "langgraph.pregel.main",
    ),
    "llama_index": (
        "llama_index.core.agent.workflow.base_agent",
        "llama_index.core.agent.workflow.multi_agent_workflow",
    ),
    "mcp": ("mcp.client.client", "mcp.client.session"),
    "openai_agents": (
        "agents.guardrail",
        "agents.models.interface",
        "agents.run",
        "agents.run_internal.tool_execution",
        "agents.run_internal.turn_resolution",
        "agents.tool",
    ),
    "openai_runner": ("openai.lib.responses_tool_runner",),
    "pydantic_ai": (
        "pydantic_ai._tool_manager",
        "pydantic_ai.agent",
        "pydantic_ai.models",
        "pydantic_ai.tool_manager",
    ),
    "semantic_kernel": (
        "semantic_kernel.agents.azure_ai.azure_ai_agent",
        "semantic_kernel.agents.bedrock.bedrock_agent",
        "semantic_kernel.agents.chat_completion.chat_completion_agent",
        "semantic_kernel.agents.open_ai.openai_assistant_agent",
        "semantic_kernel.agents.open_ai.openai_responses_agent",
        "semantic_kernel.connectors.ai.chat_completion_client_base",
        "semantic_kernel.functions.kernel_function",
        "semantic_kernel.kernel",
    ),
    "smolagents": ("smolagents.agents", "smolagents.local_python_executor", "smolagents.tools"),
    "strands": (
        "strands.agent.agent",
        "strands.multiagent.graph",
        "strands.multiagent.swarm",
        "strands.tools.executors._executor",
    ),
    "threads": ("concurrent.futures.thread",),
}
"""The modules that hold the targets of each framework, in all its versions."""

__getattr__ = on_demand(__name__, "FRAMEWORKS", PATCHED_MODULES, "FRAMEWORK")
