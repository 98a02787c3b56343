"""``otel-loopguard hooks``: guard coding agents by the hooks that they call before and after each tool."""

from __future__ import annotations

import difflib
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from otel_loopguard.errors import LoopGuardError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

    from otel_loopguard.hooks.home import Home
    from otel_loopguard.hooks.programs.program import Program
    from otel_loopguard.hooks.registration import Change

_DESCRIPTION = """
Guards coding agents by their hooks: each tool call is judged before it runs. `install` writes the hooks into the
program's own settings. One judge for all of them runs in the background; the first hook starts it, and it ends when
nobody has asked it for half an hour. Without a judge, or after a fault, every call runs.
"""
_RESIDENT: Final = "otel_loopguard.hooks.resident"
_PATIENCE: Final = 10.0
_KEY: Final = "OTEL_PYTHON_LOOPGUARD_HASH_KEY"


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the commands of `hooks`."""
    from otel_loopguard.hooks.programs import programs  # noqa: PLC0415 - `otel-loopguard --help` needs none of it

    parser.description = _DESCRIPTION
    commands = parser.add_subparsers(metavar="install|uninstall|status|serve|stop|log", required=True)
    for name, run, about in (
        ("install", _install, "write our hooks into the settings of a program"),
        ("uninstall", _uninstall, "take them out: a file that nobody else has edited is as it was"),
    ):
        one = commands.add_parser(name, help=about, description=f"{about[0].upper()}{about[1:]}.")
        one.add_argument("program", choices=sorted(programs()), metavar="PROGRAM", help=", ".join(sorted(programs())))
        one.add_argument("--project", action="store_true", help="in this folder's settings, not in the user's")
        one.add_argument("--dry-run", action="store_true", help="show the change, and write nothing")
        one.set_defaults(run=run)
    status = commands.add_parser("status", help="say where hooks are installed, and if the judge runs")
    status.set_defaults(run=_status)
    serve = commands.add_parser("serve", help="run the judge, until it is stopped or nobody asks it any more")
    serve.add_argument("--background", action="store_true", help="return at once; its output goes to the log")
    serve.add_argument("--idle", type=float, default=1_800.0, metavar="SECONDS", help="(default: %(default)s)")
    serve.set_defaults(run=_serve)
    commands.add_parser("stop", help="end the judge").set_defaults(run=_stop)
    commands.add_parser("log", help="show what the judge in the background has said").set_defaults(run=_log)


def _home() -> Home:
    from otel_loopguard.hooks.home import Home  # noqa: PLC0415 - as above

    return Home.of(os.environ)


def _install(options: argparse.Namespace) -> int:
    from otel_loopguard.hooks.registration import installed, is_fast  # noqa: PLC0415 - as above

    program = _changed(options, installed)
    if not is_fast():
        print("There is no perl and no curl: each hook starts a Python, which takes a good tenth of a second.")
    if program.registration is not None and program.registration.still and not options.dry_run:
        print(f"Now {program.registration.still}")
    return 0


def _uninstall(options: argparse.Namespace) -> int:
    from otel_loopguard.hooks.registration import uninstalled  # noqa: PLC0415 - as above

    _changed(options, uninstalled)
    return 0


def _changed(options: argparse.Namespace, change_of: Callable[..., Change]) -> Program:
    """Make a change of a program's settings, or show it. Return the program."""
    from otel_loopguard.hooks.programs import programs  # noqa: PLC0415 - as above
    from otel_loopguard.hooks.registration import write  # noqa: PLC0415 - as above

    program, home = programs()[options.program], _home()
    root = Path.cwd() if options.project else Path.home()
    change = change_of(program, root, home, is_project=options.project)
    if change.before == change.after:
        print(f"{change.path}: nothing to change")
    elif options.dry_run:
        before, after = ((text or b"").decode().splitlines(keepends=True) for text in change[1:])
        sys.stdout.writelines(difflib.unified_diff(before, after, str(change.path), str(change.path)))
    else:
        write(change, home)
        print(f"{change.path}: {'removed' if change.after is None else 'written'}")
    return program


def _status(_: argparse.Namespace) -> int:
    from otel_loopguard.hooks.programs import programs  # noqa: PLC0415 - as above
    from otel_loopguard.hooks.registration import is_installed  # noqa: PLC0415 - as above

    for program in programs().values():
        if program.registration is not None:
            places = ((Path.home(), False, "the user's settings"), (Path.cwd(), True, "this project's settings"))
            found = [name for root, own, name in places if is_installed(program, root, is_project=own)]
            print(f"{program.name}: {' and '.join(found) if found else 'not installed'}")
    process = _home().process
    print(f"judge: {'does not run' if process is None else f'runs, process {process}'}")
    return 0


def _serve(options: argparse.Namespace) -> int:
    """Run the judge as ``run`` runs a program: with its last line and its report."""
    command = [sys.executable, "-m", "otel_loopguard.cli.main", "run", "-m", _RESIDENT, str(options.idle)]
    home = _home()
    home.make()
    # A judge goes on with the turns of the one before: their fingerprints need the same key.
    environment = {_KEY: home.secret("key"), **os.environ}
    if not options.background:
        os.execve(command[0], command, environment)  # noqa: S606 - our own code
    if home.process is None:
        with open(home.log, "ab", opener=home.private) as log:
            subprocess.Popen(  # noqa: S603 - our own code
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                cwd=home.folder,
                env=environment,
            )
    return 0


def _stop(_: argparse.Namespace) -> int:
    home = _home()
    process = home.process
    if process is None:
        print("no judge runs")
        return 0
    with suppress(ProcessLookupError):
        os.kill(process, signal.SIGTERM)
    end = time.monotonic() + _PATIENCE
    while home.process is not None:
        if time.monotonic() > end:
            raise LoopGuardError(f"the judge, process {process}, does not end. Remedy: kill -9 {process}")
        time.sleep(0.05)
    print("the judge has ended")
    return 0


def _log(_: argparse.Namespace) -> int:
    try:
        sys.stdout.write(_home().log.read_text("utf-8", "replace"))
    except FileNotFoundError:
        print("there is no log: no judge has run in the background")
    return 0
