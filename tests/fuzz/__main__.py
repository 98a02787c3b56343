"""Fuzz a target with atheris: python -m tests.fuzz TARGET [--runs N] [--seconds N].

Inputs that break a promise are written to ``tests/fuzz/corpus/TARGET/`` and replayed by ``tests/fuzz/test_targets.py``.
Without a limit it runs until it is stopped.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

import atheris

CORPUS = Path(__file__).parent / "corpus"
SEED = 20_26

parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
parser.add_argument("target")
parser.add_argument("--runs", type=int, help="stop after this many inputs; with a fixed seed")
parser.add_argument("--seconds", type=int, help="stop after this time")
parser.add_argument("--inputs", metavar="DIR", help="keep the inputs that reach new code, for the next time")
options = parser.parse_args()

with atheris.instrument_imports(include=["otel_loopguard"]):
    from tests.fuzz.targets import TARGETS

if options.target not in TARGETS:
    parser.error(f"there is no target {options.target}; there are {', '.join(TARGETS)}")
found = CORPUS / options.target
found.mkdir(exist_ok=True)
flags = [f"-artifact_prefix={found}/", "-timeout=5", "-rss_limit_mb=2048", "-max_len=512", "-verbosity=0"]
if options.runs:
    flags += [f"-runs={options.runs}", f"-seed={SEED}"]
if options.seconds:
    flags.append(f"-max_total_time={options.seconds}")
inputs = options.inputs or tempfile.mkdtemp()  # new inputs are written to the first folder
Path(inputs).mkdir(parents=True, exist_ok=True)
atheris.Setup([sys.argv[0], *flags, inputs, str(found)], TARGETS[options.target])
atheris.Fuzz()
