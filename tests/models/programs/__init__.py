"""Agents of frameworks: each a small program, unchanged, over a client of a model.

``python -m tests.models.programs.autogen URL QUESTION`` prints the answer of the agent.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import tests.quiet_vendors  # noqa: F401 - before a framework
from tests.models.toolbox import Toolbox

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["SYSTEM", "Toolbox", "main"]

SYSTEM = "You work with the files of a project."


def main(program: Callable[[str, str, Toolbox], object]) -> None:
    """Run a program with the address and the question of the command line."""
    tools = Toolbox()
    _, url, question = sys.argv
    print(f"Answer: {program(url, question, tools)}")
    print(f"{len(tools.runs)} tools were run.")
