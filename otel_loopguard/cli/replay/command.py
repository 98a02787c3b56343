"""``otel-loopguard replay FILE...``: judge recorded runs and exported spans by a policy, and show its decisions."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from otel_loopguard.cli.options import add_policy_choice, megabytes
from otel_loopguard.cli.policy import chosen_policy
from otel_loopguard.cli.replay import sources, workers
from otel_loopguard.cli.replay.replay import Replay
from otel_loopguard.engine.vocabulary import Action
from otel_loopguard.errors import PolicyError
from otel_loopguard.policy_files.load import preset_names

if TYPE_CHECKING:
    import argparse

    from otel_loopguard.engine.policy.policy import Policy

_FAILED_ON, _NOT_ALL_READ = 1, 3
_DESCRIPTION = """
Judges recorded runs by a policy, and shows the calls that it would have nudged or refused, by mode and by tool. Nothing
is run, and no model is asked.
"""
_EPILOG = """
Exit status: 0 all was read; 1 --fail-on found something; 2 wrong use, a missing file or a wrong policy, or a process
of --jobs was killed; 3 some lines were broken and skipped, or a file has no run and no tool span; 130 Ctrl-C.
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `replay`."""
    parser.description, parser.epilog = _DESCRIPTION, _EPILOG
    parser.add_argument("files", metavar="FILE", nargs="+", help=sources.HELP)
    add_policy_choice(parser.add_mutually_exclusive_group())
    parser.add_argument("--compare", metavar="OTHER", help="judge by this preset or policy file, too, and show both")
    parser.add_argument("--json", action="store_true", help="write one JSON line for each run instead of tables")
    parser.add_argument("--html", metavar="FILE", help="also write an HTML report, without arguments and results")
    parser.add_argument(
        "--fail-on",
        choices=["nudge", "reuse", "block", "conclude", "abort"],
        help="exit status 1 if a run meets this action or a stronger one under the (first) policy",
    )
    parser.add_argument(
        "--longest-line",
        metavar="MB",
        type=megabytes,
        default=sources.LONGEST_LINE,
        help="skip longer lines; a parsed line may take twenty times its bytes in memory "
        f"(default: {sources.LONGEST_LINE >> 20})",
    )
    workers.add_jobs(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Run `replay`. Files and policies are checked before any work begins."""
    sources.check(options.files)
    policies = [_policy(options.preset, options.policy)]
    if options.compare:
        policies.append(_other(options.compare))
    replay = Replay(policies, json=options.json, html=options.html, jobs=options.jobs)
    replay.files([sources.Reader(name, options.longest_line) for name in options.files])
    if not replay.is_empty:
        replay.write_report("Replay", unit="run")
    elif options.html:
        print(f"otel-loopguard: nothing was read; {options.html} is not written", file=sys.stderr)
    if not options.json and (replay.is_complete or not replay.is_empty):
        replay.print_tables(sys.stdout)
    replay.print_notes(sys.stderr if options.json else sys.stdout)
    if not replay.is_complete:
        return _NOT_ALL_READ
    failed = options.fail_on is not None and replay.strongest >= Action[options.fail_on.upper()]
    return _FAILED_ON if failed else 0


def _policy(preset: str | None, file: str | None) -> tuple[str, Policy]:
    loaded = chosen_policy(preset, file)
    name = preset or (Path(file).name if file else "default")
    return name, loaded.checked(name)


def _other(name: str) -> tuple[str, Policy]:
    if name in preset_names():
        return _policy(name, None)
    if Path(name).exists() or "/" in name or name.endswith(".toml"):
        return _policy(None, name)
    problem = f"{name} is neither a preset ({', '.join(preset_names())}) nor an existing file"
    raise PolicyError([problem], source="--compare")
