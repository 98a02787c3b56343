"""LangChain and LangGraph: tools of every sort, and the graph's run as the turn."""

from __future__ import annotations

from otel_loopguard.instrumentation.frameworks.langchain.messages import MESSAGES
from otel_loopguard.instrumentation.frameworks.langchain.runs import RUNS
from otel_loopguard.instrumentation.frameworks.langchain.tools import TOOLS
from otel_loopguard.instrumentation.targets import Framework

FRAMEWORK = Framework("langchain", (*TOOLS, *MESSAGES, *RUNS))
