"""Run one loop as a program: ``python -m tests.models.loops openai.chat URL QUESTION``."""

from __future__ import annotations

import sys

from tests.models.loops import loops_of, run
from tests.models.toolbox import Toolbox

if __name__ == "__main__":
    name, url, question = sys.argv[1:]
    tools = Toolbox()
    print(run(loops_of(name.split(".")[0])[name], url, question, tools))
    print(f"{len(tools.runs)} tools were run.")
