"""Start a user's program as ``opentelemetry-instrument`` does, for run, watch and doctor."""

from __future__ import annotations

import argparse
import os
import re
import shutil
import signal
import subprocess
import sys
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from otel_loopguard.errors import LoopGuardError
from otel_loopguard.private_files import check_writable
from otel_loopguard.version import __version__

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

INSTRUMENT = "opentelemetry-instrument"
_START = """
import sys
from opentelemetry.instrumentation.auto_instrumentation import run
try:
    run()
except OSError as error:
    print(f"otel-loopguard: {sys.argv[1]} cannot be started: {error.strerror}", file=sys.stderr)
    sys.exit(126)
"""
_METADATA = "Metadata-Version: 2.1\nName: loopguard-start\nVersion: 0\n"
_VERSION = "import importlib.metadata as m; print(m.version('otel-loopguard'))"
_PYTHON = re.compile(r"(python|pypy)[\d.]*(\.exe)?")
_LONGEST_SHEBANG = 256


def add_program(parser: argparse.ArgumentParser) -> None:
    """Add the arguments that name a program: ``app.py ...``, ``-m module ...`` or ``-- command ...``."""
    parser.add_argument(
        "-m", dest="module", nargs=argparse.REMAINDER, metavar="MODULE", help="run this module, as python -m does"
    )
    parser.add_argument(
        "program",
        nargs=argparse.REMAINDER,
        metavar="PROGRAM",
        help="a file.py, or -- and a command; with its arguments",
    )


def command_of(arguments: argparse.Namespace) -> list[str]:
    """Return the command that the arguments of ``add_program`` name; empty if they name none."""
    if arguments.module is not None:
        if not arguments.module:
            raise LoopGuardError("-m: name the module to run")
        return [sys.executable, "-m", *arguments.module]
    words: list[str] = arguments.program[arguments.program[:1] == ["--"] :]
    if not words or not words[0].endswith(".py"):
        return words
    if not Path(words[0]).exists():
        raise LoopGuardError(f"{words[0]}: there is no such file")
    return [sys.executable, *words]


def write_distribution(folder: Path, entry_points: Mapping[str, str]) -> None:
    """Write a distribution with functions (``module:name``) by group of entry points, for ``start``."""
    info = folder / "loopguard_start-0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(_METADATA, "utf-8")
    sections = (f"[{group}]\nloopguard_start = {function}\n" for group, function in entry_points.items())
    (info / "entry_points.txt").write_text("\n".join(sections), "utf-8")


def start(
    command: list[str], environment: Mapping[str, str], folder: Path | None = None, *, quiet: bool = False
) -> int:
    """Run a program under OpenTelemetry to its end, and return its exit status, negative for a signal.

    ``environment`` are more variables for it. ``folder`` has a distribution, whose entry points each of its processes
    loads. ``quiet`` discards its output, and lets Ctrl-C end this process, too.
    """
    executable = shutil.which(command[0])
    if executable is None:
        what = "it is neither a .py file nor executable" if Path(command[0]).is_file() else "there is no such program"
        raise LoopGuardError(f"{command[0]}: {what}; name a program that is on the PATH and executable")
    python = _other_python(executable)
    if python is not None:
        say(
            f"otel-loopguard {__version__} is not installed for {python}, so nothing is guarded. "
            f"Remedy: {python} -m pip install otel-loopguard=={__version__}"
        )
        return _wait(command, dict(os.environ), quiet=quiet)
    more = {**os.environ, **environment}
    if folder is not None:
        more["PYTHONPATH"] = os.pathsep.join(filter(None, [str(folder), os.environ.get("PYTHONPATH")]))
    return _wait(instrumented(command), more, quiet=quiet)


def say(text: str) -> None:
    """Write a text to standard error, unless that is closed."""
    with suppress(OSError, ValueError):
        print(f"otel-loopguard: {text}", file=sys.stderr, flush=True)


def writable(path: str, instead: str | None = None) -> str | None:
    """Return the path, or None if the file cannot be written: that is said before the program starts.

    ``instead``: the path that is taken in its place, if this one can be written.
    """
    try:
        check_writable(path)
    except OSError as error:
        other = writable(instead) if instead and instead != path else None
        consequence = f"it will be {other}" if other else "the program runs without it"
        say(f"{path} cannot be written ({error.strerror or error}); {consequence}")
        return other
    return path


def shell_status(status: int) -> int:
    """Return an exit status as a shell has it: 128 and the number of the signal, if that ended the program."""
    return status if status >= 0 else 128 - status


def instrumented(command: list[str]) -> list[str]:
    """Return the command that starts this one under OpenTelemetry."""
    return command if Path(command[0]).name == INSTRUMENT else [sys.executable, "-c", _START, *command]


def _wait(command: list[str], environ: dict[str, str], *, quiet: bool) -> int:
    output = subprocess.DEVNULL if quiet else None
    # Files that were handed to this process, such as sockets, are the program's.
    process = subprocess.Popen(command, env=environ, stdout=output, stderr=output, close_fds=False)  # noqa: S603 - the user's own command
    with process, _signals(process, quiet=quiet):
        return process.wait()


@contextmanager
def _signals(process: subprocess.Popen[bytes], *, quiet: bool) -> Iterator[None]:
    """Leave the end of the program to itself.

    Ctrl-C reaches the program, too. A user's program decides when to end; one with ``quiet`` is ended. Other signals
    reach only this process, and are passed on, unless they are ignored, as under nohup.
    """
    handlers: dict[signal.Signals, Any] = {} if quiet else {signal.SIGINT: signal.SIG_IGN}
    for name in ("SIGTERM", "SIGHUP"):
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) is not signal.SIG_IGN:
            handlers[number] = lambda got, _: process.send_signal(got)
    with ExitStack() as restored:
        for number, handler in handlers.items():
            restored.callback(signal.signal, number, signal.signal(number, handler))
        yield


def _other_python(executable: str) -> str | None:
    """Return the Python that runs this file, if it is another one than ours and has not our package; else None."""
    python = _python_of(executable)
    if python is None or _is_ours(python):
        return None
    asked = subprocess.run([python, "-c", _VERSION], capture_output=True, text=True, check=False)  # noqa: S603 - the user's own Python
    return None if asked.stdout.strip() == __version__ else python


def _python_of(executable: str) -> str | None:
    """Return the Python that runs this file: itself, or that of its first line. None if it is not known."""
    if _PYTHON.fullmatch(Path(executable).name):
        return executable
    with open(executable, "rb") as file:
        first = file.read(_LONGEST_SHEBANG).partition(b"\n")[0].decode("utf-8", "replace")
    words = first[2:].split() if first.startswith("#!") else []
    if words and Path(words[0]).name == "env":
        words = words[1:]
    found = shutil.which(words[0]) if words else None
    return found if found and _PYTHON.fullmatch(Path(found).name) else None


def _is_ours(python: str) -> bool:
    other, ours = Path(python).absolute(), Path(sys.executable).absolute()
    return other.parent == ours.parent and other.resolve() == ours.resolve()
