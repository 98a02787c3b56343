"""``otel-loopguard COMMAND``: the table of all commands. The module of a command is imported only if it is called."""

from __future__ import annotations

import argparse
import os
import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

from otel_loopguard.cli.output import clean_output
from otel_loopguard.errors import LoopGuardError
from otel_loopguard.version import __version__

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

_WRONG_USE = 2
_PIPE_BROKEN = 141  # 128 + SIGPIPE, the status that a shell shows for any program


_EXAMPLES = """\
examples:
  otel-loopguard run -- python app.py     guard a program
  otel-loopguard watch -- python app.py   refuse nothing, and report the loops
  otel-loopguard demo                     see agents in loops being stopped
"""


class Command(NamedTuple):
    """A command. ``configure(parser)`` in its module adds the arguments, and sets the default ``run``.

    ``run(options) -> int`` executes the command and returns the exit status.
    """

    name: str
    help: str
    module: str
    """Its place below ``otel_loopguard.cli``."""


COMMANDS = (
    Command("calibrate", "make a policy from good runs, proven on runs that were held out", "calibrate.command"),
    Command("demo", "show an agent in each kind of loop, and the guard stopping it", "demo.command"),
    Command("doctor", "check that loops are stopped here or in your program; name the remedy if not", "doctor.command"),
    Command("hooks", "guard coding agents, such as Claude Code and Codex, by their hooks", "hooks"),
    Command("policy", "check a policy file; show a policy and the source of each value", "policy"),
    Command("replay", "judge recorded runs or exported spans by a policy, and show its decisions", "replay.command"),
    Command("run", "run a program with the guard on; say at its end which loops were stopped", "run.command"),
    Command("stack", "write or check the files for collector, Prometheus, Grafana and compose", "stack"),
    Command(
        "test-from", "write a test for each loop of a recording, which fails if it is not stopped", "test_from.command"
    ),
    Command(
        "watch", "run a program, or receive spans of others; refuse nothing, and report the loops", "watch.command"
    ),
)


class _Parser(argparse.ArgumentParser):
    """Reports an unknown option with the usage of its command, and with the nearest name that exists."""

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse the arguments. A command's parser is of this class, too, and reports unknown arguments first."""
        options, unknown = super().parse_known_args(args, namespace)
        if unknown:
            names = [name for name in self._option_string_actions if name.startswith("--")]
            self.error(f"unrecognized arguments: {' '.join(unknown)}{_near(unknown[0], names)}")
        return options, unknown


def _near(name: str, names: Collection[str]) -> str:
    from otel_loopguard.engine.policy.problems import suggestion  # noqa: PLC0415 - only wrong use needs it

    near = suggestion(name.partition("=")[0], names)
    return near and f"; {near}"


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command of ``argv``, or of the process if it is None, and return the exit status."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    options = _parser(arguments[0] if arguments else None).parse_args(arguments or ["--help"])
    with clean_output():
        return _run(options)


def _run(options: argparse.Namespace) -> int:
    try:
        status: int = options.run(options)
        sys.stdout.flush()
    except LoopGuardError as error:
        print(f"otel-loopguard: {error}", file=sys.stderr)
        return _WRONG_USE
    except BrokenPipeError:  # `| head` has closed the pipe
        return _PIPE_BROKEN
    except OSError as error:  # a full disk, most likely
        print(f"otel-loopguard: {error}", file=sys.stderr)
        return _WRONG_USE
    except KeyboardInterrupt:
        return 130
    finally:
        _flush()
    return status


def _flush() -> None:
    """Write what is left of the output. If that fails, discard it: else the interpreter reports it at exit."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _parser(called: str | None) -> argparse.ArgumentParser:
    parser = _Parser(
        prog="otel-loopguard",
        description="Stops LLM agents that loop, and shows it.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"otel-loopguard {__version__}")
    subparsers = parser.add_subparsers(metavar="COMMAND", required=True)
    for command in COMMANDS:
        subparser = subparsers.add_parser(command.name, help=command.help, description=command.help)
        if command.name == called:
            import_module(f"otel_loopguard.cli.{command.module}").configure(subparser)
    names = [command.name for command in COMMANDS]
    if called is not None and not called.startswith("-") and called not in names:
        parser.error(f"there is no command {called!r}{_near(called, names)}; there are {', '.join(names)}")
    return parser


if __name__ == "__main__":
    sys.exit(main())
