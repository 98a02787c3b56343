"""``otel-loopguard hooks``: guard coding agents by the hooks that they call before and after each tool."""

from __future__ import annotations

import difflib
import json
import math
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from otel_loopguard.cli.options import add_policy_choice, parse_number
from otel_loopguard.errors import LoopGuardError
from otel_loopguard.private_files import write_private
from otel_loopguard.version import __version__

if TYPE_CHECKING:
    import argparse

    from otel_loopguard.hooks.home import Home
    from otel_loopguard.hooks.registration import Change

_DESCRIPTION = """
Guards coding agents by their hooks: each tool call is judged before it runs. `install` writes the hooks into the
program's own settings. One judge for all of them runs in the background; the first hook starts it, and it ends when
nobody has asked it for half an hour. Without a judge, or after a fault, every call runs.
"""
_EPILOG: Final = "Exit status: 0 success; 2 wrong use, or a file that cannot be read or written."
_EPILOG_OF_DOCTOR: Final = """
The judge leaves no trace of the sample calls: no span, no count, no line in its log. Exit status: 0 the hooks work
(there may be warnings); 1 they do not, or none was run; 2 wrong use.
"""
_RESIDENT: Final = "otel_loopguard.hooks.resident"
_PATIENCE: Final = 10.0
_LONGEST_START: Final = 3.0
"""Seconds that the first hook of a session waits for a judge. Then calls run, until it judges."""
_LONGEST_LOG: Final = 1 << 20


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the commands of `hooks`."""
    from otel_loopguard.hooks.programs import programs  # noqa: PLC0415 - `otel-loopguard --help` needs none of it

    parser.description = _DESCRIPTION
    commands = parser.add_subparsers(metavar="install|uninstall|status|doctor|serve|stop|log", required=True)
    found = {}
    for name, (run, about) in _COMMANDS.items():
        found[name] = commands.add_parser(
            name, help=about, description=f"{about[0].upper()}{about[1:]}.", epilog=_EPILOG
        )
        found[name].set_defaults(run=run)
    names = ", ".join(sorted(programs()))
    for name in ("install", "uninstall"):
        one = found[name]
        one.add_argument("program", choices=sorted(programs()), metavar="PROGRAM", help=names)
        one.add_argument("--project", action="store_true", help="in this folder's settings, not in the user's")
        one.add_argument("--dry-run", action="store_true", help="show the change, and write nothing")
    install, serve, doctor = found["install"], found["serve"], found["doctor"]
    doctor.add_argument("program", nargs="*", metavar="PROGRAM", help=f"{names} (default: all that have our hooks)")
    doctor.epilog = _EPILOG_OF_DOCTOR
    install.add_argument(
        "--interrupt", action="store_true", help="end runs that no answer ends with SIGINT, as Ctrl-C does"
    )
    install.add_argument("--http", action="store_true", help="ask on a loopback port, without a process (Claude Code)")
    add_policy_choice(install.add_mutually_exclusive_group())
    serve.add_argument("--background", action="store_true", help="return when it judges; its output goes to the log")
    serve.add_argument("-o", "--output", metavar="FILE", help="write a report at the end in any case")
    serve.add_argument("--record", metavar="FILE", help="keep the spans for `otel-loopguard replay FILE`")
    add_policy_choice(serve.add_mutually_exclusive_group())
    serve.add_argument(
        "--idle",
        type=_seconds,
        default=1_800.0,
        metavar="SECONDS",
        help="end when nobody has asked for so long (default: %(default)s)",
    )


def _seconds(text: str) -> float:
    return parse_number(text, lambda found: 0 < found < math.inf, "must be a number of seconds above 0")


def _home() -> Home:
    if sys.platform == "win32":
        raise LoopGuardError("hooks are asked on a Unix socket, which this system has not")
    from otel_loopguard.hooks.home import Home  # noqa: PLC0415 - as above

    return Home.of(os.environ)


def _install(options: argparse.Namespace) -> int:
    from otel_loopguard.cli.policy import variable_of  # noqa: PLC0415 - as above
    from otel_loopguard.hooks.programs import programs  # noqa: PLC0415 - as above
    from otel_loopguard.hooks.registration import Choice, installed, is_fast  # noqa: PLC0415 - as above

    program, home = programs()[options.program], _home()
    if options.interrupt and program.ends_by_answer:
        raise LoopGuardError(f"{program.title} is ended by an answer. Remedy: leave out --interrupt")
    if options.http and (options.project or program.registration.http_entry is None):
        raise LoopGuardError("--http is for Claude Code, in the user's settings: its address has a secret")
    address = ""
    if options.http:
        address = "PORT/TOKEN" if options.dry_run else home.http_address()
    choice = Choice(options.interrupt, address)
    _make_change(options, installed(program, _root(options), home, choice, is_project=options.project))
    if not options.dry_run:
        home.make()
        policy = variable_of(options.preset, options.policy)
        settings = {name: value for name, value in (os.environ | policy).items() if name.startswith(home.OF_SETTINGS)}
        write_private(home.settings, json.dumps(settings, indent=2).encode(), is_secret=True)
        if home.running is not None:
            print("The judge that runs keeps its settings. For new ones: otel-loopguard hooks stop")
    if not is_fast():
        print("There is no perl and no curl: each hook starts a Python, which takes a good tenth of a second.")
    if program.registration.still and not options.dry_run:
        print(f"Now {program.registration.still}")
    return 0


def _uninstall(options: argparse.Namespace) -> int:
    from otel_loopguard.hooks.programs import programs  # noqa: PLC0415 - as above
    from otel_loopguard.hooks.registration import uninstalled  # noqa: PLC0415 - as above

    program = programs()[options.program]
    _make_change(options, uninstalled(program, _root(options), _home(), is_project=options.project))
    return 0


def _root(options: argparse.Namespace) -> Path:
    return Path.cwd() if options.project else Path.home()


def _make_change(options: argparse.Namespace, change: Change) -> None:
    """Make a change of a program's settings, or show it."""
    from otel_loopguard.hooks.registration import write  # noqa: PLC0415 - as above

    if change.before == change.after:
        print(f"{change.path}: nothing to change")
    elif options.dry_run:
        before, after = ((text or b"").decode().splitlines(keepends=True) for text in change[1:])
        sys.stdout.writelines(difflib.unified_diff(before, after, str(change.path), str(change.path)))
    else:
        write(change, _home())
        print(f"{change.path}: {'removed' if change.after is None else 'written'}")


def _status(_: argparse.Namespace) -> int:
    from otel_loopguard.hooks.programs import programs  # noqa: PLC0415 - as above
    from otel_loopguard.hooks.registration import is_installed  # noqa: PLC0415 - as above

    for program in programs().values():
        places = ((Path.home(), False, "the user's settings"), (Path.cwd(), True, "this project's settings"))
        found = [name for root, own, name in places if is_installed(program, root, is_project=own)]
        print(f"{program.name}: {' and '.join(found) if found else 'not installed'}")
    running = _home().running
    state = "does not run" if running is None else f"{running.version} runs, process {running.process}"
    print(f"judge: {state}")
    return 0


def _doctor(options: argparse.Namespace) -> int:
    from otel_loopguard.hooks.programs import programs  # noqa: PLC0415 - as above

    unknown = next((name for name in options.program if name not in programs()), None)
    if unknown is not None:  # argparse checks no choices of a list that may be empty
        raise LoopGuardError(f"{unknown} is no program whose hooks are known. There are: {', '.join(programs())}")
    home = _home()
    from otel_loopguard.cli.doctor.coding_agents import diagnose_hooks  # noqa: PLC0415 - as above

    found = diagnose_hooks(options.program, home)
    sys.stdout.write(found.text())
    return 0 if found.ok else 1


def _serve(options: argparse.Namespace) -> int:
    """Run the judge as ``run`` runs a program: with its last line and its report."""
    from otel_loopguard.cli.policy import variable_of  # noqa: PLC0415 - as above
    from otel_loopguard.hooks.client import is_served  # noqa: PLC0415 - as above

    home = _home()
    home.make()
    running = home.running
    if running is not None and _is_older(running.version):
        _end(home, running.process)
        running = None
    command = [sys.executable, "-m", "otel_loopguard.cli.main", "run"]
    for name in ("output", "record"):
        path = getattr(options, name)
        command += [f"--{name}", os.path.abspath(path)] if path else []
    command += ["-m", _RESIDENT, str(options.idle)]
    environment = {home.KEY: home.secret("key"), **os.environ, **variable_of(options.preset, options.policy)}
    if not options.background:
        if running is not None:
            raise LoopGuardError(f"a judge runs, process {running.process}. Remedy: otel-loopguard hooks stop")
        os.execve(command[0], command, environment)  # noqa: S606 - our own code
    if running is None:
        with open(home.log, "wb" if _is_long(home.log) else "ab", opener=home.private) as log:
            judge = subprocess.Popen(  # noqa: S603 - our own code
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                cwd=home.folder,
                env=home.environment(environment),
            )
        end = time.monotonic() + _LONGEST_START
        while judge.poll() is None and not is_served(str(home.socket)) and time.monotonic() < end:
            time.sleep(0.02)
        if judge.poll() is not None and home.running is None:
            raise LoopGuardError("the judge has ended at its start. Why: otel-loopguard hooks log")
    return 0


def _is_long(path: Path) -> bool:
    return path.exists() and path.stat().st_size > _LONGEST_LOG


def _is_older(other: str) -> bool:
    from packaging.version import InvalidVersion, Version  # noqa: PLC0415 - only this command needs it

    with suppress(InvalidVersion):
        return Version(other) < Version(__version__)
    return False


def _stop(_: argparse.Namespace) -> int:
    home = _home()
    running = home.running
    if running is None:
        print("no judge runs")
        return 0
    _end(home, running.process)
    print("the judge has ended")
    return 0


def _end(home: Home, process: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(process, signal.SIGTERM)
    end = time.monotonic() + _PATIENCE
    while home.running is not None:
        if time.monotonic() > end:
            raise LoopGuardError(f"the judge, process {process}, does not end. Remedy: kill -9 {process}")
        time.sleep(0.05)


def _log(_: argparse.Namespace) -> int:
    try:
        sys.stdout.write(_home().log.read_text("utf-8", "replace"))
    except FileNotFoundError:
        print("there is no log: no judge has run in the background")
    return 0


_COMMANDS: Final = {
    "install": (_install, "write our hooks into the settings of a program"),
    "uninstall": (_uninstall, "take them out: a file that nobody else has edited is as it was"),
    "status": (_status, "say where hooks are installed, and if the judge runs"),
    "doctor": (_doctor, "run the hooks with sample calls, and say what works, and what to do"),
    "serve": (_serve, "run the judge, until it is stopped or nobody asks it any more"),
    "stop": (_stop, "end the judge"),
    "log": (_log, "show what the judge in the background has said"),
}
