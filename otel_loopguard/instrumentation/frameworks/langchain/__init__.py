"""LangChain and LangGraph: tools of every sort, and the graph's run as the turn."""

from __future__ import annotations

from .messages import MESSAGES
from .runs import RUNS
from .tools import TOOLS

TARGETS = (*TOOLS, *MESSAGES, *RUNS)
