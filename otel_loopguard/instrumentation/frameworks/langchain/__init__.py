"""LangChain and LangGraph: tools of every kind, and the run of a graph as the turn."""

from __future__ import annotations

from otel_loopguard.instrumentation.frameworks.langchain.answer_tools import ANSWERS
from otel_loopguard.instrumentation.frameworks.langchain.models import MODELS
from otel_loopguard.instrumentation.frameworks.langchain.parallel_calls import PARALLEL_CALLS
from otel_loopguard.instrumentation.frameworks.langchain.runs import RUNS
from otel_loopguard.instrumentation.frameworks.langchain.tools import TOOLS
from otel_loopguard.instrumentation.targets import Framework, FrameworkLimit

FRAMEWORK = Framework(
    "langchain",
    (*TOOLS, *PARALLEL_CALLS, *RUNS, *ANSWERS, *MODELS),
    title="LangChain, LangGraph",
    turns="graph runs; a loop by hand has those of its requests",
    notes="ToolNode, `create_agent`, StateGraph, functional API, AgentExecutor, bare tools; "
    "agents as tools are child turns, agents as nodes stay in the turn; the requests of every `BaseChatModel` are read",
    modules=("langchain", "langgraph"),
    versions={
        "oldest": ("langchain-core==0.3.80", "langgraph==0.3.34", "langgraph-prebuilt==0.1.8"),
        "newest": ("langchain", "langgraph"),
    },
    tested={"langchain-core": "1.8.3", "langgraph": "1.2.22"},
    limits=tuple(
        FrameworkLimit(f"LangChain {name}", f"langchain.agents.middleware.{module}", f"{name}.__init__")
        for module, name in (
            ("tool_call_limit", "ToolCallLimitMiddleware"),
            ("model_call_limit", "ModelCallLimitMiddleware"),
        )
    ),
)
