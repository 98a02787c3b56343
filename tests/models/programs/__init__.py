"""Agents of frameworks: each a small program, unchanged, over a client of a model.

``python -m tests.models.programs.autogen URL QUESTION`` prints the answer of the agent.
"""

from __future__ import annotations

import os
import sys
import tempfile
from typing import TYPE_CHECKING

from tests.models.toolbox import Toolbox

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["SYSTEM", "Toolbox", "main"]

SYSTEM = "You work with the files of a project."

# Nothing is fetched or reported, and nothing is written to the user's folder.
os.environ |= {
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    "CREWAI_DISABLE_TELEMETRY": "true",
    "CREWAI_DISABLE_TRACKING": "true",
    "CREWAI_STORAGE_DIR": tempfile.mkdtemp(),
    "MSWEA_GLOBAL_CONFIG_DIR": tempfile.mkdtemp(),
    "MSWEA_SILENT_STARTUP": "1",
}


def main(program: Callable[[str, str, Toolbox], object]) -> None:
    """Run a program with the address and the question of the command line."""
    tools = Toolbox()
    _, url, question = sys.argv
    print(f"Answer: {program(url, question, tools)}")
    print(f"{len(tools.runs)} tools were run.")
