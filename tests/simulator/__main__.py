"""Play many runs: python -m tests.simulator [--seeds N] [--first SEED] [--setting NAME].

It tells how far it is, and ends with 1 at the first run that breaks a promise, with the fewest steps that do.
"""

from __future__ import annotations

import argparse
import logging
import secrets
import sys

from tests.simulator.runs import SETTINGS, broken, drawn, report

parser = argparse.ArgumentParser(prog="python -m tests.simulator", description=__doc__)
parser.add_argument("--seeds", type=int, default=1_000, help="the number of runs")
parser.add_argument("--first", type=int, default=secrets.randbelow(2**32), help="the first seed")
parser.add_argument("--setting", choices=SETTINGS, default="", help="play runs of this setting only")
options = parser.parse_args()
logging.getLogger("otel_loopguard").addHandler(logging.NullHandler())

steps = 0
for number in range(options.seeds):
    run = drawn(options.first + number, options.setting)
    steps += len(run.steps)
    if found := broken(run):
        print(report(run, found))
        sys.exit(1)
    if number % 50 == 49 or number + 1 == options.seeds:
        print(f"{number + 1} runs from seed {options.first}, {steps} steps: all promises kept", flush=True)
