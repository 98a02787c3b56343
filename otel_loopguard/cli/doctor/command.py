"""``otel-loopguard doctor [app.py]``: report whether tool loops are stopped, and what to do if not."""

from __future__ import annotations

import signal
import sys
from typing import TYPE_CHECKING

from otel_loopguard.cli.program import add_program, command_of
from otel_loopguard.engine.quoting import escaped
from otel_loopguard.errors import LoopGuardError
from otel_loopguard.private_files import check_writable, write_private

if TYPE_CHECKING:
    import argparse

_DESCRIPTION = """
Reports whether tool loops are stopped here, and what to do if not. Without a command it runs a self-test: a small
program that loops on purpose, started as opentelemetry-instrument starts programs. It also looks for the patches of all
installed frameworks, and exports nothing. With `app.py`,
`-m module` or `-- command` it starts your program the same way, and reports on it when it ends: input and output are
those of your program, and the findings go to standard error, or to a file (--output). It reads the environment
variables that your program reads. The hash key is never shown.
"""
_EPILOG = """
Exit status: 0 guarded calls were seen, and no problem (there may be warnings); 1 a problem, or no tool call was seen;
2 wrong use; 130 Ctrl-C ended the doctor or your program. The status of your program is in the report.
"""
_INTERRUPTED = 130
_SELFTEST = [sys.executable, "-m", "otel_loopguard.cli.doctor.selftest"]


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `doctor`."""
    parser.description, parser.epilog = _DESCRIPTION, _EPILOG
    parser.usage = "otel-loopguard doctor [-h] [--json] [--output FILE] [PROGRAM]"
    parser.add_argument("--json", action="store_true", help="write the report as JSON")
    parser.add_argument("--output", metavar="FILE", help="write the report to this file")
    add_program(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Examine the program, or run the self-test, and write the report."""
    command = command_of(arguments)
    if not command and arguments.program:
        raise LoopGuardError("no program after `--`; for example: otel-loopguard doctor app.py")
    if arguments.output:
        _writable(arguments.output)
    from otel_loopguard.cli.doctor.diagnosis import diagnose  # noqa: PLC0415 - `--help` needs none of it

    try:
        found = diagnose(command or None, _SELFTEST)
    except KeyboardInterrupt:
        print("otel-loopguard: interrupted", file=sys.stderr)
        return _INTERRUPTED
    text = found.json() if arguments.json else found.text()
    if arguments.output:
        write_private(arguments.output, escaped(text).encode())
    else:
        print(text, end="", file=sys.stderr if command else sys.stdout)
    if found.status in (-signal.SIGINT, _INTERRUPTED):
        return _INTERRUPTED
    return 0 if found.ok else 1


def _writable(path: str) -> None:
    try:
        check_writable(path)
    except OSError as error:
        raise LoopGuardError(f"{path}: the report cannot be written: {error.strerror}. Name another file") from error
