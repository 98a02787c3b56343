"""``otel-loopguard calibrate FILE...``: read good runs, and write a policy that does not refuse them."""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from otel_loopguard.cli.calibrate import document
from otel_loopguard.cli.calibrate.loosen import Settings, loosen
from otel_loopguard.cli.calibrate.survey import Survey, probes
from otel_loopguard.cli.replay import sources
from otel_loopguard.cli.replay.judge import PolicyJudge
from otel_loopguard.cli.replay.recording import Recording
from otel_loopguard.cli.replay.summary import notes
from otel_loopguard.core.policy.load import load_text
from otel_loopguard.core.policy.policy import Policy
from otel_loopguard.errors import LoopGuardError

if TYPE_CHECKING:
    from collections.abc import Callable

_FAILED_ON, _NOT_ALL_READ = 1, 3
_MOST_READINGS = 10
_DESCRIPTION = """
Reads runs that went well, in the formats of `replay`: runs (JSON lines) and tool spans (OTLP JSON lines, as a
collector's file exporter writes them); plain, gzip or zstd; `-` is standard input. Writes a policy with comments: what
the runs hold, how far each limit is from the busiest one, and the settings without which good runs would be refused.
Half of the runs are held out, and prove it. No limit is below the defaults. The files are read several times.

Exit status: 0 the policy was written; 1 --fail-on; 2 wrong use or a missing file; 3 some lines were broken and skipped,
a file has no run and no tool span, or there is no good run (then nothing is written).
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `calibrate`."""
    parser.description = _DESCRIPTION
    parser.add_argument("files", metavar="FILE", nargs="+")
    parser.add_argument("-o", "--output", metavar="FILE", help="write the policy there, and the proof to the terminal")
    parser.add_argument(
        "--target-false-positives",
        metavar="SHARE",
        type=_share,
        default=0.001,
        help="the share of good runs that may be refused, such as 0.5%% or 0.005 (default: 0.1%%)",
    )
    parser.add_argument(
        "--all-good", action="store_true", help="also take runs for good that look stuck, or are labelled as failed"
    )
    parser.add_argument(
        "--fail-on",
        choices=["stuck", "unproven"],
        action="append",
        default=[],
        help="exit status 1 if a run looks stuck; or if the runs that were held out do not prove the target",
    )
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Run `calibrate`. Files are checked before any work begins."""
    sources.check(options.files)
    _check_output(options.output, options.files)
    with ExitStack() as stack:
        files = [_again_and_again(name, stack) for name in options.files]
        return _calibrate(files, options)


def _calibrate(files: list[Callable[[], sources.Reader]], options: argparse.Namespace) -> int:
    target, settings = options.target_false_positives, Settings()
    first, recording = _read(files, settings, options, is_first=True)
    if not first.fitted.runs + first.held_out.runs:
        left_out = "".join(f"\n  left out {reason.value}: {count:,}" for reason, count in first.left_out.items())
        print(f"otel-loopguard: there is no good run; nothing is written{left_out}", file=sys.stderr)
        return _NOT_ALL_READ
    last = first
    for _ in range(_MOST_READINGS):
        if not loosen(settings, last, target):
            break
        last, _ = _read(files, settings, options, is_first=False)
    found = notes(recording.missing, [Policy()])
    text = document.comments(first, last, settings, target, found)
    if settings.values:
        text += "\n" + document.toml(settings)
    if options.output is None:
        sys.stdout.write(text)
    else:
        Path(options.output).write_text(text, "utf-8")
        print(*document.proof(last, target), "", f"{options.output}: {len(settings.values)} settings", sep="\n")
    if recording.broken:
        print(f"{recording.broken:,} broken lines were skipped", file=sys.stderr)
    if recording.broken or recording.nothing_read:
        return _NOT_ALL_READ
    is_stuck = "stuck" in options.fail_on and bool(last.stuck)
    is_unproven = "unproven" in options.fail_on and not document.is_proven(last, target)
    return _FAILED_ON if is_stuck or is_unproven else 0


def _read(
    files: list[Callable[[], sources.Reader]], settings: Settings, options: argparse.Namespace, *, is_first: bool
) -> tuple[Survey, Recording]:
    """Read all files once. The policy is loaded from the text that is written, so that the text is what is proven."""
    policy = load_text(document.toml(settings)).checked("the policy")
    probed = probes() if is_first else {}
    judges = [PolicyJudge(Policy()), PolicyJudge(policy), *probed.values()]
    survey = Survey(judges, tuple(probed), all_good=options.all_good)
    recording = Recording(judges, survey.add, shows_progress=True, reports=is_first)
    recording.read([file() for file in files])
    return survey, recording


def _again_and_again(name: str, stack: ExitStack) -> Callable[[], sources.Reader]:
    """Return a function that opens an input from its beginning. Standard input is kept in a temporary file."""
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


def _check_output(output: str | None, files: list[str]) -> None:
    if output is None:
        return
    place = Path(output)
    if not place.absolute().parent.is_dir() or place.is_dir():
        raise LoopGuardError(f"{output}: no such folder, or a folder itself")
    if place.exists() and any(name != sources.STDIN and place.samefile(name) for name in files):
        raise LoopGuardError(f"{output} is read: the policy would overwrite the runs")


def _share(text: str) -> float:
    """Parse a share: 0.1% or 0.001."""
    number = text.strip()
    share = float(number[:-1]) / 100 if number.endswith("%") else float(number)
    if not 0 < share < 1:
        raise argparse.ArgumentTypeError(f"{text} is no share between 0 and 1, such as 0.1% or 0.001")
    return share
