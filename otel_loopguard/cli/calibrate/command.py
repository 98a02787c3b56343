"""``otel-loopguard calibrate FILE...``: read good runs, and write a policy that does not refuse their calls."""

from __future__ import annotations

import shutil
import sys
import tempfile
from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING

from otel_loopguard.cli.calibrate import document, proof
from otel_loopguard.cli.calibrate.loosen import loosen, starting_settings
from otel_loopguard.cli.calibrate.survey import ReasonLeftOut, Survey, facts_of, probes
from otel_loopguard.cli.options import parse_number
from otel_loopguard.cli.output import counted
from otel_loopguard.cli.replay import sources, workers
from otel_loopguard.cli.replay.input_reader import InputReader
from otel_loopguard.cli.replay.judge import PolicyJudge
from otel_loopguard.cli.replay.summary import notes
from otel_loopguard.cli.written_file import writable, write_file
from otel_loopguard.engine.policy.policy import Policy
from otel_loopguard.engine.vocabulary import Action
from otel_loopguard.errors import LoopGuardError
from otel_loopguard.policy_files.load import load_text

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

    from otel_loopguard.cli.calibrate.loosen import LoosenedSettings

_FAILED_ON, _NOT_ALL_READ = 1, 3
_MOST_READINGS = 10
_DESCRIPTION = """
Reads runs that went well, and writes a policy that refuses none of their calls, except in the share of runs that
--target-false-positives allows. Comments in it tell what the runs hold, how far each limit is from the busiest run, and
why each setting is needed; they propose a budget. The policy is fitted to half of the runs, and proven on the others,
which are held out. No limit is lowered. Runs that look stuck raise no limit, and are named. The files are read several
times.
"""
_EPILOG = """
Exit status: 0 the policy was written; 1 --fail-on found something; 2 wrong use, a missing file or a wrong policy, or a
process of --jobs was killed; 3 some lines were broken and skipped, a file has no run and no tool span, or there is no
good run (then nothing is written); 130 Ctrl-C.
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `calibrate`."""
    parser.description, parser.epilog = _DESCRIPTION, _EPILOG
    parser.add_argument("files", metavar="FILE", nargs="+", help=sources.HELP)
    parser.add_argument("-o", "--output", metavar="FILE", help="write the policy to this file, and print the proof")
    parser.add_argument(
        "--policy",
        metavar="FILE",
        help="start from this policy file instead of the defaults; its settings are written, too",
    )
    parser.add_argument(
        "--target-false-positives",
        metavar="SHARE",
        type=_share,
        default=0.001,
        help="the share of good runs that may have refused calls, such as 0.5%% or 0.005 (default: 0.1%%)",
    )
    parser.add_argument(
        "--all-good", action="store_true", help="count runs as good that look stuck, or are labelled as failed"
    )
    parser.add_argument(
        "--fail-on",
        choices=["stuck", "unproven"],
        action="append",
        default=[],
        help="exit with status 1 if a run looks stuck, or if the held-out runs leave the target unproven",
    )
    workers.add_jobs(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Run `calibrate`. Files and the policy are checked before any work begins."""
    sources.check(options.files)
    _check_output(options.output, options.files, options.policy)
    settings = starting_settings(options.policy)
    with ExitStack() as stack:
        files = [again_and_again(name, stack) for name in options.files]
        return _calibrate(files, settings, options)


def _calibrate(
    files: list[Callable[[], sources.Reader]], settings: LoosenedSettings, options: argparse.Namespace
) -> int:
    target, begin = options.target_false_positives, _policy(settings, options.policy)
    first, recording = _read(files, begin, begin, options, 1)
    if not first.fitted.runs + first.held_out.runs:
        left_out = "".join(f"\n  left out {reason.value}: {count:,}" for reason, count in first.left_out.items())
        print(f"otel-loopguard: there is no good run; nothing is written{left_out}", file=sys.stderr)
        return _NOT_ALL_READ
    last = first
    for reading in range(2, _MOST_READINGS + 2):
        if not loosen(settings, last, target):
            break
        last, _ = _read(files, begin, _policy(settings, options.policy), options, reading)
    how = f"--target-false-positives {100 * target:g}%" + (f" --policy {options.policy!r}" if options.policy else "")
    proven = proof.figures(last, target)
    head = [document.title(how), "", *proven]
    text = document.comments(first, last, settings, head, notes(recording.missing, [begin]))
    if settings.values:
        text += "\n" + document.toml(settings)
    budget = document.commented(last.most_spent.proposal(begin))
    if budget:  # at the end of the file, so that it can be a table
        text += "\n" + budget
    if options.output is None:
        sys.stdout.write(text)
    else:
        write_file(options.output, text)
        print(*proven, "", _sum(settings, options), sep="\n")
    _warn(last, settings, recording)
    if recording.broken:
        print(f"{counted(recording.broken, 'broken line')} skipped", file=sys.stderr)
    if recording.broken or recording.nothing_read:
        return _NOT_ALL_READ
    is_stuck = "stuck" in options.fail_on and bool(last.stuck)
    is_unproven = "unproven" in options.fail_on and not proof.is_proven(last, target)
    return _FAILED_ON if is_stuck or is_unproven else 0


def _read(
    files: list[Callable[[], sources.Reader]], begin: Policy, policy: Policy, options: argparse.Namespace, reading: int
) -> tuple[Survey, InputReader]:
    """Read all files once. Judge the runs by the policy to start from (``begin``), and by the one found so far."""
    probed = probes(begin) if reading == 1 else {}
    judges = [PolicyJudge(begin), PolicyJudge(policy), *probed.values()]
    survey = Survey(judges, tuple(probed), all_good=options.all_good)
    title = f"reading {reading} "
    recording = InputReader(
        judges,
        survey.add,
        extract=facts_of,
        jobs=options.jobs,
        shows_progress=True,
        title=title,
        reports=reading == 1,
    )
    recording.read([file() for file in files])
    return survey, recording


def _policy(settings: LoosenedSettings, own_file: str | None) -> Policy:
    """Load the policy that would be written now. To be tried it refuses calls, also if its ``action`` would not."""
    policy = load_text(document.toml(settings), own_file=own_file).checked("the policy")
    if policy.action < Action.BLOCK:
        policy = replace(policy, action=Action.BLOCK)
    if not policy.conclude_after and not policy.abort_after:  # else no run would look stuck
        policy = replace(policy, conclude_after=Policy().conclude_after)
    return policy


def _sum(settings: LoosenedSettings, options: argparse.Namespace) -> str:
    count = counted(settings.added, "setting")
    return (
        f"{options.output}: {options.policy}, with {count} added or changed"
        if options.policy
        else f"{options.output}: {count}"
    )


def _warn(survey: Survey, settings: LoosenedSettings, recording: InputReader) -> None:
    """Name the runs that may be loops: they look stuck, are refused in spite of the policy, or need a limit alone."""
    if survey.stuck:
        print(*document.stuck(survey), sep="\n", file=sys.stderr)
    if survey.left_out[ReasonLeftOut.STUCK]:
        print(_remedy(survey.left_out[ReasonLeftOut.STUCK], has_spans=recording.has_spans), file=sys.stderr)
    for line in document.still_refused(survey):
        print(line, file=sys.stderr)
    rare = list(document.rare(settings))
    if rare:
        print("Settings for one run alone. If it is a loop, leave it out:", *rare, sep="\n", file=sys.stderr)


def _remedy(left_out: int, *, has_spans: bool) -> str:
    """Return how a user can have runs that look stuck counted as good."""
    they, are, them = ("it", "is", "it") if left_out == 1 else ("they", "are", "them")
    if has_spans:
        return f"If {they} {are} good, use --all-good: spans have no place for a label."
    return f'If {they} {are} good, label {them} ("success": true), or use --all-good.'


def again_and_again(name: str, stack: ExitStack) -> Callable[[], sources.Reader]:
    """Return a function that opens an input from its beginning, each time. Standard input is copied to a file first."""
    if name != sources.STDIN:
        return lambda: sources.Reader(name)
    kept = stack.enter_context(tempfile.NamedTemporaryFile(prefix="loopguard-"))  # noqa: SIM115 - the stack closes it
    shutil.copyfileobj(sys.stdin.buffer, kept)
    kept.flush()

    def reader() -> sources.Reader:
        found = sources.Reader(kept.name)
        found.name = "standard input"
        return found

    return reader


def _check_output(output: str | None, files: list[str], policy: str | None) -> None:
    if output is None:
        return
    place = writable(output)
    if place.exists() and any(name != sources.STDIN and place.samefile(name) for name in files):
        raise LoopGuardError(f"{output} is a file of runs, which the policy would overwrite; name another file")
    if place.exists() and policy is not None and place.samefile(policy):
        raise LoopGuardError(f"{output} is the file of --policy, whose comments would be lost; name another file")


def _share(text: str) -> float:
    """Return the share that a text is, such as 0.1% or 0.001."""
    rule = "must be a share above 0 and below 1, such as 0.1% or 0.001"
    percent = 100 if text.endswith("%") else 1
    return parse_number(text.removesuffix("%"), lambda found: 0 < found < percent, rule) / percent
