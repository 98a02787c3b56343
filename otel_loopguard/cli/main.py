"""``otel-loopguard COMMAND``: each command is one module, named in one table, imported only if it is asked for."""

from __future__ import annotations

import argparse
import os
import sys
from importlib import import_module
from typing import TYPE_CHECKING, NamedTuple

from otel_loopguard.errors import LoopGuardError
from otel_loopguard.version import __version__

if TYPE_CHECKING:
    from collections.abc import Sequence

_WRONG_USE = 2
_PIPE_BROKEN = 141  # 128 + SIGPIPE, as a shell shows it of any other program


class Command(NamedTuple):
    """A sub-command. Its module has ``configure(parser)``, which adds arguments and sets ``run`` as a default.

    ``run(arguments) -> int`` does it and gives back the exit status.
    """

    name: str
    help: str
    module: str


COMMANDS = (
    Command("demo", "see an agent fall into each kind of loop, and what the guard does about it", "demo.command"),
    Command("doctor", "say whether loops are stopped here or in your app, and what to do if not", "doctor.command"),
    Command("policy", "check a policy file; show a policy, and where each value comes from", "policy"),
    Command("replay", "feed recorded runs or exported spans to a policy, and see what it would do", "replay.command"),
    Command("stack", "write the files of collector, Prometheus, Grafana and compose; check them", "stack"),
)


def main(argv: Sequence[str] | None = None) -> int:
    """What the console script calls; gives back the exit status."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    asked = _parser(arguments[0] if arguments else None).parse_args(arguments)
    try:
        status: int = asked.run(asked)
        sys.stdout.flush()
    except LoopGuardError as error:
        print(f"otel-loopguard: {error}", file=sys.stderr)
        return _WRONG_USE
    except BrokenPipeError:  # `| head` has seen enough
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
    """What cannot be written any more is let go, else the interpreter complains of it at its end."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _parser(asked: str | None) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="otel-loopguard", description="Stops LLM agents that loop, and shows it.")
    parser.add_argument("--version", action="version", version=f"otel-loopguard {__version__}")
    subparsers = parser.add_subparsers(metavar="COMMAND", required=True)
    for command in COMMANDS:
        own = subparsers.add_parser(command.name, help=command.help, description=command.help)
        if command.name == asked:
            import_module(f"otel_loopguard.cli.{command.module}").configure(own)
    return parser


if __name__ == "__main__":
    sys.exit(main())
