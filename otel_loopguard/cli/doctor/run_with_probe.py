"""Start a program as ``opentelemetry-instrument`` does, with a function of ours in it, and read the probe's reports."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

from otel_loopguard.cli.doctor.probe import FOLDER
from otel_loopguard.errors import LoopGuardError

_INSTRUMENT = "opentelemetry-instrument"
_START = "from opentelemetry.instrumentation.auto_instrumentation import run; run()"
# Run with -I: else a sitecustomize on PYTHONPATH would start OpenTelemetry before this.
_INITIALIZE = """
import logging, os, sys
sys.path[:0] = os.environ["PYTHONPATH"].split(os.pathsep)
logging.disable()
from opentelemetry.instrumentation.auto_instrumentation import initialize
initialize(swallow_exceptions=False)
"""
_LONGEST_REASON = 300
_METADATA = "Metadata-Version: 2.1\nName: loopguard-probe\nVersion: 0\n"


class Examined(NamedTuple):
    """The facts about a program that has ended."""

    status: int
    """The exit status, negative for a signal."""
    reports: list[dict[str, Any]]
    """The report of the probe in each process."""


def examine(command: list[str], *, quiet: bool = False, environment: dict[str, str] | None = None) -> Examined:
    """Run a program with the probe to its end, and return its status and the reports.

    ``environment`` are more variables for it. ``quiet`` discards its output, and lets Ctrl-C end the doctor, too.
    """
    # A process that outlives the program, such as a tracker of multiprocessing, may write while the folder is removed.
    with tempfile.TemporaryDirectory(prefix="loopguard-doctor-", ignore_cleanup_errors=True) as name:
        folder, own = Path(name), {**(environment or {}), FOLDER: name, "OTEL_PYTHON_LOOPGUARD_SUMMARY": "off"}
        status = run_with("otel_loopguard.cli.doctor.probe:start", folder, command, own, quiet=quiet)
        return Examined(status, [json.loads(file.read_text("utf-8")) for file in sorted(folder.glob("*.json"))])


def run_with(
    function: str, folder: Path, command: list[str], environment: dict[str, str], *, quiet: bool = False
) -> int:
    """Run a program under OpenTelemetry, and return its exit status, negative for a signal.

    ``function`` (``module:name``) is called in each of its processes once all is instrumented: by an entry point, for
    which a distribution is written to ``folder``. ``environment`` and ``quiet`` are as of ``examine``.
    """
    if shutil.which(command[0]) is None:
        is_script = Path(command[0]).suffix == ".py"
        hint = f"did you mean python {command[0]}?" if is_script else "name one that is on the PATH and executable"
        raise LoopGuardError(f"{command[0]}: there is no such program; {hint}")
    info = folder / "loopguard_probe-0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(_METADATA, "utf-8")
    entry_points = f"[opentelemetry_post_instrument]\nloopguard_probe = {function}\n"
    (info / "entry_points.txt").write_text(entry_points, "utf-8")
    paths = os.pathsep.join(filter(None, [str(folder), os.environ.get("PYTHONPATH")]))
    return _run(_instrumented(command), {**os.environ, **environment, "PYTHONPATH": paths}, quiet=quiet)


def _instrumented(command: list[str]) -> list[str]:
    if Path(command[0]).name == _INSTRUMENT:
        return command
    return [sys.executable, "-c", _START, *command]


def _flags(command: list[str]) -> list[str]:
    """Return ``opentelemetry-instrument`` and its flags, without the program after them; else an empty list."""
    if Path(command[0]).name != _INSTRUMENT:
        return []
    end = 1
    while end < len(command) and command[end].startswith("-"):
        end += 1 if "=" in command[end] else 2  # `--name=value` or `--name value`
    return command[:end]


def _run(command: list[str], environ: dict[str, str], *, quiet: bool) -> int:
    output = subprocess.DEVNULL if quiet else None
    with subprocess.Popen(command, env=environ, stdout=output, stderr=output) as process:  # noqa: S603 - the user's own command
        # Ctrl-C reaches the program, too. A user's program decides when to end; the self-test is ended. SIGTERM reaches
        # only this process, and is passed on.
        before = signal.getsignal(signal.SIGINT) if quiet else signal.signal(signal.SIGINT, signal.SIG_IGN)
        other = signal.signal(signal.SIGTERM, lambda number, _: process.send_signal(number))
        try:
            return process.wait()
        finally:
            signal.signal(signal.SIGINT, before)
            signal.signal(signal.SIGTERM, other)


def reason_of_failed_start(command: list[str]) -> str | None:
    """Return the last line of the error with which OpenTelemetry fails to start, under the flags of this command.

    None if it does not fail, or does not show the error: older versions do not.
    """
    initialize = [*_flags(command), sys.executable, "-I", "-c", _INITIALIZE]
    started = subprocess.run(  # noqa: S603 - our own code
        _instrumented(initialize), capture_output=True, check=False, stdin=subprocess.DEVNULL
    )
    lines = started.stderr.decode("utf-8", "replace").splitlines()
    if not started.returncode or not lines or "swallow_exceptions" in lines[-1]:  # versions without this argument
        return None
    return lines[-1][:_LONGEST_REASON]
