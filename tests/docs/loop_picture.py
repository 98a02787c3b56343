"""Draw docs/images/terminal.svg, a real run in a terminal: python -m tests.docs.terminal_picture."""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
from pathlib import Path

from rich.console import Console
from rich.text import Text

from tests.docs.blocks import ROOT
from tests.instrumentation.processes import NOTHING_EXPORTED, clean_environment

PICTURE = ROOT / "docs" / "images" / "terminal.svg"
COLUMNS = 100
COMMANDS = {
    "python app.py | tail -n 1": "python examples/langgraph_agent.py | tail -n 1",
    "opentelemetry-instrument python app.py": "opentelemetry-instrument python examples/langgraph_agent.py",
}
"""The commands as the picture shows them, and as they are run."""


def draw() -> str:
    """Run the commands and return the picture."""
    console = Console(record=True, width=COLUMNS, file=io.StringIO(), force_terminal=True, color_system="truecolor")
    environment = clean_environment({**NOTHING_EXPORTED, "PYTHONUNBUFFERED": "1"})
    environment["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{environment['PATH']}"
    for shown, command in COMMANDS.items():
        console.print(Text.assemble(("$ ", "dim"), (shown, "bold")))
        done = subprocess.run(
            command, cwd=ROOT, shell=True, env=environment, check=True, text=True, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )  # fmt: skip
        for line in done.stdout.splitlines():
            is_ours = line.startswith("otel_loopguard:")
            console.print(Text(line, "yellow" if is_ours else "", overflow="fold"), soft_wrap=False)
    return console.export_svg(title="a LangGraph agent whose model asks for the same file again and again")


def text_of(picture: str) -> str:
    """Return the letters of a picture, with each hash and each id of a turn as one word."""
    letters = "".join(re.findall(r"<text[^>]*>([^<]*)</text>", picture))
    return re.sub(r"[0-9a-f]{8,}", "HEX", letters.replace("&#160;", "").replace("\n", ""))


if __name__ == "__main__":
    PICTURE.write_text(draw(), "utf-8")
