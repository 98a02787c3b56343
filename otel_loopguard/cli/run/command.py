"""``otel-loopguard run app.py``: run a program with the guard on, and say at its end which loops were stopped."""

from __future__ import annotations

import os
import signal
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

from otel_loopguard.cli import shown_arguments
from otel_loopguard.cli.options import add_policy_choice
from otel_loopguard.cli.program import add_program, command_of, say, shell_status, start, writable
from otel_loopguard.engine.vocabulary import Action
from otel_loopguard.errors import DOCS, LoopGuardError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping

    from otel_loopguard.cli.run.loops import Loops
    from otel_loopguard.cli.shown_arguments import ShownArguments
    from otel_loopguard.cli.watch.recorded_program import RecordedProgram
    from otel_loopguard.engine.policy.policy import Policy

_DESCRIPTION = """
Runs your program with the guard on, by the policy of the environment. At its end standard error has one line about its
tool calls, and one for each loop; if there is a loop, an HTML report is written. Input and output are those of your
program. OpenTelemetry's exporters are off, unless an endpoint is set (OTEL_EXPORTER_OTLP_ENDPOINT, or that of a
signal), or an exporter (OTEL_TRACES_EXPORTER and so on).
"""
_EPILOG = "Exit status: that of your program, or 128 and the number of the signal that ended it; 2 wrong use."
_REPORT = "loopguard-run.html"
_NOT_STARTED = (
    "the guard was not started in the program: it is no Python program, or its Python has no otel-loopguard. "
    "Install it where the program is installed."
)
_ONLY_TOLD = (
    "the calls of these loops had run when the guard saw them, in the model's requests. "
    f"To refuse them before they run, put @otel_loopguard.tool on the functions: {DOCS}/how-to/openai.md"
)
_NO_CALLS = "no tool call was seen. If the program made any: `otel-loopguard doctor -- COMMAND` names the reason."
_TOO_EARLY = "no tool call was seen before the program was ended."
_INTERRUPTED = 128 + signal.SIGINT


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `run`."""
    parser.description, parser.epilog = _DESCRIPTION, _EPILOG
    parser.usage = (
        "otel-loopguard run [-h] [-q] [-o FILE] [--record FILE] [--show-arguments]\n"
        "                          [--preset NAME | --policy FILE] PROGRAM"
    )
    parser.add_argument("-q", "--quiet", action="store_true", help="show no strip, and say nothing at the end")
    parser.add_argument(
        "-o", "--output", metavar="FILE", help=f"write a report in any case (default: {_REPORT}, if there is a loop)"
    )
    parser.add_argument("--record", metavar="FILE", help="keep the spans for `otel-loopguard replay FILE`")
    shown_arguments.add_option(parser)
    add_policy_choice(parser.add_mutually_exclusive_group())
    add_program(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Run the program, and report its calls. Return its exit status."""
    command = command_of(arguments)
    if not command:
        raise LoopGuardError("name the program; for example: otel-loopguard run app.py")
    output = writable(arguments.output, _REPORT) if arguments.output else _REPORT
    record = writable(arguments.record) if arguments.record else None
    # Imported here, because `--help` needs none of these, and they import the SDK.
    from otel_loopguard.cli.live_strip.strip import live_strip  # noqa: PLC0415 - see above
    from otel_loopguard.cli.policy import variable_of  # noqa: PLC0415 - see above
    from otel_loopguard.cli.run.loops import Loops  # noqa: PLC0415 - see above
    from otel_loopguard.cli.watch.recorded_program import RecordedProgram  # noqa: PLC0415 - see above
    from otel_loopguard.shield import Shield  # noqa: PLC0415 - see above

    environment = {**_exporters(), **variable_of(arguments.preset, arguments.policy)}
    try:
        program = RecordedProgram()
    except OSError as error:
        say(f"the program is guarded, and there will be no report: {error.strerror or error}")
        return shell_status(start(command, environment))
    with closing(program):
        with shown_arguments.shown_arguments(arguments.show_arguments) as shown:
            status = program.run(
                command,
                {**environment, **shown.environment},
                lambda spans: live_strip(spans, _in_force(environment), wanted=not arguments.quiet),
            )
        with Shield()("run.report"):
            loops = Loops(program.spans)
            if not arguments.quiet:
                _tell(program, loops, status, _in_force(environment).currency or "")
                shown.print()
            if output and loops.calls and (loops.rows or arguments.output):
                _write(program, environment, output, shown, quiet=arguments.quiet)
            if record and program.keep(record) and not arguments.quiet:
                say(f"the spans, for `otel-loopguard replay`: {record}")
    return shell_status(status)


def _exporters() -> dict[str, str]:
    """Return the variables for telemetry: as under ``opentelemetry-instrument`` where the user has set it up, else off.

    Without exports all spans are sampled, for the report.
    """
    is_off = os.environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true"
    exporters = {}
    for name in ("TRACES", "METRICS", "LOGS"):
        endpoints = ("OTEL_EXPORTER_OTLP_ENDPOINT", f"OTEL_EXPORTER_OTLP_{name}_ENDPOINT")
        usual = "otlp" if any(os.environ.get(one) for one in endpoints) else "none"
        exporters[f"OTEL_{name}_EXPORTER"] = "none" if is_off else os.environ.get(f"OTEL_{name}_EXPORTER") or usual
    if exporters["OTEL_TRACES_EXPORTER"] == "none":
        exporters["OTEL_TRACES_SAMPLER"] = "always_on"
    return {**exporters, "OTEL_SDK_DISABLED": "false"}


def _in_force(environment: Mapping[str, str]) -> Policy:
    """Return the policy of the program, which has these variables more."""
    from otel_loopguard.policy_files.load import load_environment  # noqa: PLC0415 - `--help` needs none of it

    return load_environment({**os.environ, **environment}).policy


def _tell(program: RecordedProgram, loops: Loops, status: int, currency: str) -> None:
    """Say what was seen. ``currency``: that of the policy's prices."""
    from otel_loopguard.cli.replay.summary import ends_in_words  # noqa: PLC0415 - `--help` needs none of it

    if loops.calls or loops.spent:
        ends = ends_in_words(loops.ends.values())
        say("\n  ".join([loops.in_words(currency), *loops.shown, *ends]))
    else:
        ended = f"the program ended with status {status}, and " if status > 0 and program.is_seen else ""
        is_early = status < 0 or status == _INTERRUPTED
        say(_TOO_EARLY if is_early else f"{ended}{_NO_CALLS if program.is_seen else _NOT_STARTED}")
    if loops.only_told:
        say(_ONLY_TOLD)
    for sentence in program.unseen:
        say(sentence)
    if status < 0:
        say(f"the program was ended by {_signal(-status)}.")
    for number in program.running:
        say(f"process {number} of the program goes on: it is guarded, and not recorded any more.")


def _signal(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _write(
    program: RecordedProgram, environment: Mapping[str, str], output: str, shown: ShownArguments, *, quiet: bool
) -> None:
    """Write the HTML report."""
    from otel_loopguard.cli.replay.replay import Replay  # noqa: PLC0415 - most runs have no loop
    from otel_loopguard.cli.replay.sources import Reader  # noqa: PLC0415 - see above

    policy = _in_force(environment)
    try:
        replay = Replay([("the policy in force", policy)], json=False, html=output)
        replay.files([Reader(str(program.spans))])
        title, conditional = "Run: the tool calls and their loops", policy.action < Action.BLOCK
        replay.write_report(title, conditional=conditional, shown=shown.counted)
    except LoopGuardError as error:
        say(str(error))
        return
    if not quiet:
        say(f"the report: {Path(output).absolute().as_uri()}")
