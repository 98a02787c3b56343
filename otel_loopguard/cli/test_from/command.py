"""``otel-loopguard test-from FILE... -o FILE``: write a test for each loop of a recording that a policy stops."""

from __future__ import annotations

import sys
from collections import Counter
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from otel_loopguard.cli.calibrate.command import again_and_again
from otel_loopguard.cli.calibrate.document import toml
from otel_loopguard.cli.options import add_policy_choice, parse_number
from otel_loopguard.cli.output import counted
from otel_loopguard.cli.policy import chosen_policy
from otel_loopguard.cli.replay import recorded_runs, sources
from otel_loopguard.cli.replay.input_reader import InputReader
from otel_loopguard.cli.replay.judge import PolicyJudge
from otel_loopguard.cli.replay.line_judge import JudgedRun
from otel_loopguard.cli.replay.recorded_turn import RecordedTurn
from otel_loopguard.cli.test_from.recorded_loops import LoopFinder, RecordedLoop
from otel_loopguard.cli.test_from.stricter import stricter
from otel_loopguard.cli.test_from.written_test import names_of, text_of
from otel_loopguard.cli.written_file import writable, write_file
from otel_loopguard.engine.policy.check import dotted
from otel_loopguard.engine.quoting import clean_name
from otel_loopguard.engine.vocabulary import Action
from otel_loopguard.errors import LoopGuardError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable

    from otel_loopguard.cli.replay.input_reader import Judged
    from otel_loopguard.cli.replay.recorded_turn import JudgedCall
    from otel_loopguard.cli.replay.span_buffer import JudgedTurn
    from otel_loopguard.engine.policy.policy import Policy

_NO_LOOP, _BROKEN = 1, 3
_MOST_SHOWN = 20
_DESCRIPTION = """
Writes a file of tests for pytest. Each plays a loop of the recording that the policy stops, and fails if the policy
stops it no more. Letters stand for arguments, made-up words for results: no value of the recording is written. Other
loops are listed with the reason, and so are lower limits that would have stopped the loops earlier.
"""
_EPILOG = """
Exit status: 0 the tests were written; 1 the recording has no loop that can be a test; 2 wrong use, a missing file or a
wrong policy; 3 some lines were broken, or a file has no run and no tool span. Except with 0 nothing is written.
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `test-from`."""
    parser.description, parser.epilog = _DESCRIPTION, _EPILOG
    parser.add_argument("files", metavar="FILE", nargs="+", help=sources.HELP)
    parser.add_argument("-o", "--output", metavar="FILE", required=True, help="write the tests to this file")
    parser.add_argument("--force", action="store_true", help="overwrite the file")
    add_policy_choice(parser.add_mutually_exclusive_group())
    parser.add_argument(
        "--most",
        metavar="N",
        type=lambda text: int(
            parse_number(text, lambda found: found >= 1 and found == int(found), "must be 1 or more")
        ),
        default=20,
        help="write at most so many tests (default: 20); equal loops have one",
    )
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Run `test-from`. Files and policies are checked before any work begins."""
    sources.check(options.files)
    if writable(options.output).exists() and not options.force:
        raise LoopGuardError(f"{options.output} exists; --force overwrites it")
    policy = chosen_policy(options.preset, options.policy).checked(options.preset or options.policy or "environment")
    if policy.action < Action.REUSE:
        raise LoopGuardError(f'the policy has action = "{policy.action}", so it stops no loop; --policy names another')
    with ExitStack() as stack:
        return _write_tests([again_and_again(name, stack) for name in options.files], policy, options)


def _write_tests(files: list[Any], policy: Policy, options: argparse.Namespace) -> int:
    found = _Found(policy)
    recording = InputReader([found.judge], found.add, extract=found.extract, shows_progress=True)
    recording.read([file() for file in files])
    if recording.broken or recording.nothing_read:
        print(f"otel-loopguard: {options.output} is not written: the recording is broken", file=sys.stderr)
        return _BROKEN
    tests = list(found.scripts.values())[: options.most]
    if not tests:
        number = counted(recording.runs, "run")
        print(f"otel-loopguard: {options.output} is not written: no loop of {number} can be a test", file=sys.stderr)
        _print_others(found, [], sys.stderr)
        return _NO_LOOP
    named = list(zip(names_of(tests), tests, strict=True))
    write_file(options.output, text_of(named, options.preset, options.policy, options.output))
    print(f"{options.output}: {counted(len(tests), 'test')} of {counted(recording.runs, 'run')}")
    for name, loop in named:
        equal = found.equal[loop.script] - 1
        print(f"  {name}: {loop.place}, call {loop.call}" + (f", and {equal:,} equal" if equal else ""))
    _print_others(found, list(found.scripts.values())[options.most :], sys.stdout)

    def read(judges: list[PolicyJudge], add: Any) -> None:
        again = InputReader(judges, add, shows_progress=True, title="reading 2 ", reports=False)
        again.read([file() for file in files])

    lower = stricter(named, found.judge, read)
    if lower.settings.values:
        print("\nPolicy lines that would have stopped them earlier, and no other run of the recording:\n")
        print(toml(lower.settings), end="")
    for path, others in lower.too_strict.items():
        print(f"\nA lower {dotted(path)} would stop {counted(others, 'other run')} of the recording, too.")
    return 0


class _Found:
    """The loops of all runs that were read."""

    def __init__(self, policy: Policy) -> None:
        self.judge = PolicyJudge(policy)
        self._finder = LoopFinder(policy)
        self.scripts: dict[Any, RecordedLoop] = {}
        """The loops with a test, by script: of equal ones the first."""
        self.equal: Counter[Any] = Counter()
        self.others: list[RecordedLoop] = []
        self._number = 0

    def extract(
        self, _judges: Any, run: recorded_runs.RecordedRun, trips: Any, _: Any
    ) -> list[tuple[int, list[JudgedCall]]]:
        """Return the turns of a run with trips."""
        return list(recorded_runs.judged_turns(run, self.judge)) if trips[0] else []

    def add(self, judged: Judged) -> None:
        """Add the loops of a run."""
        self._number += 1
        run = clean_name(judged.run_id) if judged.run_id != "None" else str(self._number)
        if not isinstance(judged, JudgedRun):
            self._add(self._finder.loops(f"turn {run}", self._calls(judged)))
            return
        for turn, calls in judged.extract:
            self._add(self._finder.loops(f"run {run}, turn {turn + 1}", calls))

    def _calls(self, judged: JudgedTurn) -> list[JudgedCall]:
        """Judge the calls of a turn of spans again, if it has trips."""
        calls: list[JudgedCall] = []
        turn = RecordedTurn(self.judge.state(), calls.append)
        turn.state.heeds = judged.own
        for call in judged.recorded if judged.trips[0] else ():
            turn.begin(call)
        turn.end_until(None)
        return calls

    def _add(self, loops: Iterable[RecordedLoop]) -> None:
        for loop in loops:
            if loop.script is None:
                self.others.append(loop)
            else:
                self.scripts.setdefault(loop.script, loop)
                self.equal[loop.script] += 1


def _print_others(found: _Found, beyond: list[RecordedLoop], out: Any) -> None:
    """List the loops without a test, those of one tool, mode and reason in one line."""
    reasons = Counter((loop.tool, loop.trip.mode, "--most leaves it out") for loop in beyond)
    first = {
        (loop.tool, loop.trip.mode, loop.reason): f"{loop.place}, call {loop.call}" for loop in reversed(found.others)
    }
    reasons.update((loop.tool, loop.trip.mode, loop.reason) for loop in found.others)
    if reasons:
        print("Without a test:", file=out)
    for key, number in list(reasons.items())[:_MOST_SHOWN]:
        tool, mode, reason = key
        more = f", and {number - 1:,} more" if number > 1 else ""
        place = f" ({first[key]}{more})" if key in first else more
        print(f"  {mode} of {tool}: {reason}{place}", file=out)
    if len(reasons) > _MOST_SHOWN:
        print(f"  and {len(reasons) - _MOST_SHOWN:,} others", file=out)
