"""Count the conditions and effects of the engine that the comparison would miss.

``python -m tests.engine.compare.mutations``: each mutant runs the same drawn traces as the old turn, until one differs.
One that is missed decides nothing, or nothing that is drawn. ``--shared``: the mutants of shared turns, for which the
tests of shared turns are run. ``--help`` names the other options.
"""

from __future__ import annotations

import argparse
import gc
import logging
import os
import re
import signal
import sys
import tempfile
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest

from tests.engine.compare.drawn import POLICIES
from tests.engine.compare.driver import WAYS, Trace, run
from tests.engine.compare.mutants import Mutant, in_place, mutants_of
from tests.engine.compare.sides import ROOT, Side, extract

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

MODULES = ("engine.fold", "engine.state", "engine.decide", "guard.turn")
LONGEST = 20
"""Seconds for a trace of a mutant: one that hangs is found."""
OF_SHARED_TURNS = re.compile(
    r"_shared|unproven|cell|event\.ran\b|_lower|would_trip|needs_no_proof|_gap|_turn_began|_turn_ended|_said"
    r"|begin_turn|keep_conversation|set_place|_MemoryOf|_LockedMemory|\.answer:|runs_elsewhere"
)
"""Mutants of what only a shared turn has. The old turn is none: tests/store is to find them."""
TESTS_OF_SHARED_TURNS = ("cell", "stale", "counts", "faults")


def traces(count: int, first: int = 0) -> list[Trace]:
    """Return traces of all policies and ways in turn."""
    many = len(POLICIES)
    return [Trace(POLICIES[n % many], WAYS[n // many % len(WAYS)], n) for n in range(first, first + count)]


class Result(NamedTuple):
    """What became of a mutant."""

    mutant: Mutant
    found: int | None
    """The number of the trace that found it; None if all were as before."""


def search(mutants: Iterable[Mutant], find: Callable[[int], bool], jobs: int = 1) -> Iterator[Result]:
    """Have each mutant searched for, in a process of its own. ``find`` writes a byte for each trace that is passed."""
    gc.collect()
    gc.freeze()  # else each process would copy what the collector touches
    running: list[tuple[Mutant, int, int]] = []
    for mutant in mutants:
        if len(running) >= jobs:
            yield _result(*running.pop(0))
        reader, writer = os.pipe()
        pid = os.fork()
        if pid == 0:
            with in_place(mutant):
                os._exit(find(writer))
        os.close(writer)
        running.append((mutant, pid, reader))
    for one in running:
        yield _result(*one)


def _result(mutant: Mutant, pid: int, reader: int) -> Result:
    with open(reader, "rb") as pipe:
        tried = len(pipe.read())
    _, status = os.waitpid(pid, 0)
    return Result(mutant, None if status == 0 else tried)


def finds_by_traces(expected: dict[Trace, list[str]]) -> Callable[[int], bool]:
    """Return the function that runs the traces until one is not as expected. An alarm ends what hangs."""

    def find(writer: int) -> bool:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        for trace, seen in expected.items():
            signal.alarm(LONGEST)
            try:
                if run(trace) != seen:
                    return True
            except BaseException:
                return True
            os.write(writer, b".")
        return False

    return find


def finds_by_tests(_: int) -> bool:
    """Run the tests of shared turns until one fails. An alarm ends what hangs."""
    signal.alarm(15 * LONGEST)
    sys.stdout = sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115 - for the rest of this process
    os.dup2(sys.stdout.fileno(), 1)
    os.dup2(sys.stdout.fileno(), 2)
    files = [str(ROOT / "tests" / "store" / f"test_{name}.py") for name in TESTS_OF_SHARED_TURNS]
    return pytest.main(["-x", "-q", "-p", "no:cacheprovider", *files]) != 0


def expected_of(count: int) -> dict[Trace, list[str]]:
    """Return what the old package lets see of traces; empty if this clone does not have it."""
    with tempfile.TemporaryDirectory() as folder:
        if not extract(Path(folder)):
            return {}
        old = Side(Path(folder))
        try:
            return {trace: old.ask(trace)() for trace in traces(count)}
        finally:
            old.close()


def all_mutants(only: str = "") -> list[Mutant]:
    """Return the mutants of all modules whose description has this text."""
    modules = [import_module(f"otel_loopguard.{name}") for name in MODULES]
    return [mutant for module in modules for mutant in mutants_of(module) if only in str(mutant)]


def main() -> int:
    """Search for all mutants, and name those that were missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--traces", type=int, default=2000)
    parser.add_argument("--only", default="", help="only mutants whose description has this text")
    parser.add_argument("--every", type=int, default=1, help="only every Nth mutant")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--shared", action="store_true", help="search for the mutants of shared turns")
    given = parser.parse_args()
    logging.disable()
    mutants = [one for one in all_mutants(given.only) if bool(OF_SHARED_TURNS.search(str(one))) is given.shared]
    mutants = mutants[:: given.every]
    expected = {} if given.shared else expected_of(given.traces)
    missed = deepest = 0
    find = finds_by_tests if given.shared else finds_by_traces(expected)
    for mutant, found in search(mutants, find, given.jobs):
        missed += found is None
        deepest = max(deepest, found or 0)
        print("MISSED" if found is None else f"{found:6d}", mutant, flush=True)
    print(f"{len(mutants) - missed} of {len(mutants)} mutants found, the last by trace {deepest} of {len(expected)}")
    return missed > 0


if __name__ == "__main__":
    sys.exit(main())
