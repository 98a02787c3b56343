"""Fuzzing breaks no promise: the inputs that once did, random ones, and some thousand that coverage leads to."""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fuzz.targets import TARGETS

CORPUS = Path(__file__).parent / "corpus"
FOUND = sorted(path for path in CORPUS.rglob("*") if path.is_file())
RUNS = 4_000


@pytest.mark.parametrize("path", FOUND, ids=lambda path: f"{path.parent.name}-{path.name}")
def test_the_finds_of_the_fuzzer_stay_mended(path):
    """Each input that broke a promise once breaks none now."""
    TARGETS[path.parent.name](path.read_bytes())


@pytest.mark.parametrize("name", [name for name in TARGETS if name != "every"])
def test_random_inputs_break_no_promise(name):
    """Without coverage, and with the same inputs in each run."""
    rng = random.Random(7)
    for _ in range(60):
        TARGETS[name](rng.randbytes(rng.randrange(200)))


def test_coverage_guided_inputs_break_no_promise():
    """A fixed number of inputs from a fixed seed; CONTRIBUTING.md tells how to run more."""
    pytest.importorskip("atheris", reason="atheris has no package for this system")
    command = [sys.executable, "-m", "tests.fuzz", "every", "--runs", str(RUNS)]
    done = subprocess.run(command, cwd=Path(__file__).parents[2], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-4_000:]
