"""``otel-loopguard watch``: report the loops of a program (``app.py``), or of received spans (``--otlp``)."""

from __future__ import annotations

import os
import sys
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from otel_loopguard.cli import shown_arguments
from otel_loopguard.cli.options import add_policy_choice
from otel_loopguard.cli.program import add_program, command_of, say, shell_status, writable
from otel_loopguard.cli.watch import service
from otel_loopguard.errors import LoopGuardError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping

    from otel_loopguard.engine.policy.policy import Policy

_DESCRIPTION = """
Runs your program with the guard on and the action `observe`: every call runs. When the program ends, its calls are
judged by the policy, as `replay` judges them: a summary of what would have been refused goes to
standard error, and an HTML report to a file. In a terminal the last row shows the calls meanwhile. Input and output are
those of your program. OpenTelemetry's exporters are off. With --otlp or --otlp-http it runs no program, and judges the
spans of programs that run elsewhere.
"""
_EPILOG = (
    "Exit status: that of your program, or 128 and the number of the signal that ended it; 2 wrong use. Without a "
    "program: 0 after SIGTERM or Ctrl-C, when all received spans are judged and exported."
)
_REPORT = "loopguard-watch.html"
_NO_CALLS = (
    "the program made no tool call that the guard saw, so there is no report. `otel-loopguard doctor -- COMMAND` names "
    "the reason."
)
_ENVIRONMENT = {
    "OTEL_PYTHON_LOOPGUARD_ACTION": "observe",
    "OTEL_TRACES_EXPORTER": "none",
    "OTEL_METRICS_EXPORTER": "none",
    "OTEL_LOGS_EXPORTER": "none",
    "OTEL_TRACES_SAMPLER": "always_on",
    "OTEL_SDK_DISABLED": "false",
}


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `watch`."""
    parser.description, parser.epilog = _DESCRIPTION, _EPILOG
    parser.usage = (
        "otel-loopguard watch [-h] [-q] [-o FILE] [--record FILE]\n"
        "                            [--show-arguments]\n"
        "                            [--preset NAME | --policy FILE] PROGRAM\n"
        "       otel-loopguard watch [--otlp [HOST]:PORT] [--otlp-http [HOST]:PORT]\n"
        "                            [--window SECONDS] [--queue MB]\n"
        "                            [--turns conversation|agent|trace]\n"
        "                            [--preset NAME | --policy FILE]"
    )
    parser.add_argument("-q", "--quiet", action="store_true", help="show no strip while the program runs")
    parser.add_argument("-o", "--output", metavar="FILE", default=_REPORT, help=f"the report (default: {_REPORT})")
    parser.add_argument("--record", metavar="FILE", help="keep the spans for `otel-loopguard replay FILE`")
    shown_arguments.add_option(parser)
    add_policy_choice(parser.add_mutually_exclusive_group())
    add_program(parser)
    service.configure(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Run the program, then judge and report its calls. Return its exit status."""
    if service.is_wanted(arguments):
        return service.run(arguments)
    service.refuse_options(arguments)
    command = command_of(arguments)
    if not command:
        raise LoopGuardError(
            "name the program; for example: otel-loopguard watch app.py. To judge the spans of programs that run "
            "elsewhere: otel-loopguard watch --otlp :4317"
        )
    # Imported here, because `--help` needs none of these, and they import the SDK.
    from otel_loopguard.cli.live_strip.strip import live_strip  # noqa: PLC0415 - see above
    from otel_loopguard.cli.policy import variable_of  # noqa: PLC0415 - see above
    from otel_loopguard.cli.replay.replay import Replay  # noqa: PLC0415 - see above
    from otel_loopguard.cli.replay.sources import Reader  # noqa: PLC0415 - see above
    from otel_loopguard.cli.watch.recorded_program import RecordedProgram  # noqa: PLC0415 - see above
    from otel_loopguard.cli.watch.recorder import QUIET  # noqa: PLC0415 - see above

    variable = variable_of(arguments.preset, arguments.policy)
    name, policy = _policy(variable)
    output = writable(arguments.output, _REPORT)
    record = writable(arguments.record) if arguments.record else None
    replay = Replay([(name, policy)], json=False, html=output, if_nothing=_NO_CALLS)
    with (
        shown_arguments.shown_arguments(arguments.show_arguments) as shown,
        closing(RecordedProgram()) as program,
    ):
        status = program.run(
            command,
            {**_ENVIRONMENT, **variable, **shown.environment, QUIET: "1"},
            lambda spans: live_strip(spans, policy, wanted=not arguments.quiet),
        )
        reader = Reader(str(program.spans))
        reader.name = "otel-loopguard"  # in messages
        replay.files([reader])
        is_kept = record is not None and program.keep(record)
    if replay.calls:
        title = "Watch: every call ran; this is what the guard would have done"
        replay.print_watch(sys.stderr)
        shown.print()
        if output:
            try:
                replay.write_report(title, shown=shown.counted)
            except LoopGuardError as error:
                say(str(error))
            else:
                say(f"the report: {Path(output).absolute().as_uri()}")
    else:
        replay.print_texts(sys.stderr)
    if is_kept:
        say(f"the spans, for `otel-loopguard replay`: {record}")
    return shell_status(status)


def _policy(variable: Mapping[str, str]) -> tuple[str, Policy]:
    """Return the policy of the environment with this variable, and its name; its action is at least ``block``."""
    from otel_loopguard.engine.policy.policy import Policy  # noqa: PLC0415 - see above
    from otel_loopguard.engine.vocabulary import Action  # noqa: PLC0415 - see above
    from otel_loopguard.policy_files.load import load_environment  # noqa: PLC0415 - see above

    policy = load_environment({**os.environ, **variable}).checked("environment")
    given = next(iter(variable.values()), "policy of the environment")
    name = "default policy" if policy == Policy() else Path(given).name
    if policy.action < Action.BLOCK:
        policy = replace(policy, action=Action.BLOCK)
    return f"{name}, as if enforced", policy
