"""Draw docs/images/loop.svg, the same program alone and guarded: python -m tests.docs.loop_picture."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from html import escape
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.docs.blocks import ROOT
from tests.instrumentation.processes import NOTHING_EXPORTED, clean_environment

PICTURE = ROOT / "docs" / "images" / "loop.svg"
PROGRAM = f"{ROOT / 'examples' / 'langgraph_agent.py'} --reads 600"
ALONE, GUARDED = "python app.py", "otel-loopguard run -- python app.py"
HOW = {ALONE: f"python {PROGRAM}", GUARDED: f"otel-loopguard run -- python {PROGRAM}"}
"""The commands as the picture shows them, and as they are run."""
WIDTH, HEIGHT, MARGIN = 880, 250, 28
SIDES = {ALONE: "#f85149", GUARDED: "#3fb950"}
"""The colour of each number."""


def run(command: str) -> tuple[int, str]:
    """Run a program; return how often it has read the file, and its answer."""
    environment = clean_environment(NOTHING_EXPORTED)
    environment["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{environment['PATH']}"
    with TemporaryDirectory() as folder:  # for the report
        done = subprocess.run(
            command, cwd=folder, shell=True, env=environment, check=True, text=True, stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )  # fmt: skip
    (answer,) = re.findall(r"^The agent answers: (.*)$", done.stdout, re.MULTILINE)
    (read,) = re.findall(r"^The file was read (\d+) times\.$", done.stdout, re.MULTILINE)
    return int(read), answer


def draw() -> str:
    """Run both and return the picture."""
    (alone, _), (guarded, answer) = run(HOW[ALONE]), run(HOW[GUARDED])
    below = {
        ALONE: (alone, 'times read_file("config.yaml"),', "and each time the same result"),
        GUARDED: (guarded, f"ran, number {guarded + 1} was refused. The model:", f"“{answer}”"),
    }
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-labelledby="title">',
        f'<title id="title">Alone the program reads a file {alone} times, guarded {guarded} times.</title>',
        f'<rect width="{WIDTH}" height="{HEIGHT}" rx="10" fill="#0d1117"/>',
        f'<path d="M{WIDTH // 2} {MARGIN}v{HEIGHT - 2 * MARGIN}" stroke="#30363d"/>',
    ]
    for side, (command, colour) in enumerate(SIDES.items()):
        number, *lines = below[command]
        x = MARGIN + side * WIDTH // 2
        parts += [_text(x, 48, 15, "#8b949e", f"$ {command}"), _text(x, 152, 96, colour, str(number))]
        parts += [_text(x, 194 + 24 * row, 15, "#e6edf3", line) for row, line in enumerate(lines)]
    return "\n".join([*parts, "</svg>", ""])


def _text(x: int, y: int, size: int, colour: str, text: str) -> str:
    font = f'font-family="ui-monospace, Menlo, Consolas, monospace" font-size="{size}"'
    return f'<text x="{x}" y="{y}" {font} fill="{colour}">{escape(text, quote=False)}</text>'


if __name__ == "__main__":
    PICTURE.write_text(draw(), "utf-8")
