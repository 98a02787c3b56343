"""Start a program as ``opentelemetry-instrument`` does, with the probe in it, and read the probe's reports."""

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
# Run with -I, under which no sitecustomize has started OpenTelemetry before.
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
    """The exit status of the program, and the report of each of its processes."""

    status: int
    reports: list[dict[str, Any]]


def examine(command: list[str], *, quiet: bool = False, environment: dict[str, str] | None = None) -> Examined:
    """Run the program to its end, with its own input and output; ``quiet`` discards the output and raises Ctrl-C."""
    # A process that outlives the program, such as a tracker of multiprocessing, may write while the folder is removed.
    with tempfile.TemporaryDirectory(prefix="loopguard-doctor-", ignore_cleanup_errors=True) as name:
        folder, own = Path(name), {**(environment or {}), FOLDER: name, "OTEL_PYTHON_LOOPGUARD_SUMMARY": "off"}
        status = run_with("otel_loopguard.cli.doctor.probe:start", folder, command, own, quiet=quiet)
        return Examined(status, [json.loads(file.read_text("utf-8")) for file in sorted(folder.glob("*.json"))])


def run_with(
    function: str, folder: Path, command: list[str], environment: dict[str, str], *, quiet: bool = False
) -> int:
    """Run a program with OpenTelemetry, and with this function, which is called once all is instrumented.

    The folder gets a distribution that is only the function's entry point, and is on the path of modules.
    """
    if shutil.which(command[0]) is None:
        is_script = Path(command[0]).suffix == ".py"
        hint = f"; did you mean python {command[0]}?" if is_script else ", or it may not be executed"
        raise LoopGuardError(f"{command[0]}: there is no such command{hint}")
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
    """Return ``opentelemetry-instrument`` and its flags, without the program; nothing for another command."""
    if Path(command[0]).name != _INSTRUMENT:
        return []
    end = 1
    while end < len(command) and command[end].startswith("-"):
        end += 1 if "=" in command[end] else 2  # `--name=value` or `--name value`
    return command[:end]


def _run(command: list[str], environ: dict[str, str], *, quiet: bool) -> int:
    output = subprocess.DEVNULL if quiet else None
    with subprocess.Popen(command, env=environ, stdout=output, stderr=output) as process:  # noqa: S603 - the user's own command
        # Ctrl-C reaches the program itself, which decides when to end, and ends the self-test; SIGTERM is forwarded.
        before = signal.getsignal(signal.SIGINT) if quiet else signal.signal(signal.SIGINT, signal.SIG_IGN)
        other = signal.signal(signal.SIGTERM, lambda number, _: process.send_signal(number))
        try:
            return process.wait()
        finally:
            signal.signal(signal.SIGINT, before)
            signal.signal(signal.SIGTERM, other)


def reason_of_failed_start(command: list[str]) -> str | None:
    """Return the error with which OpenTelemetry's own start fails, also under the flags of this command.

    None if it does not fail, or cannot be told.
    """
    initialize = [*_flags(command), sys.executable, "-I", "-c", _INITIALIZE]
    started = subprocess.run(  # noqa: S603 - our own code
        _instrumented(initialize), capture_output=True, check=False, stdin=subprocess.DEVNULL
    )
    lines = started.stderr.decode("utf-8", "replace").splitlines()
    if not started.returncode or not lines or "swallow_exceptions" in lines[-1]:  # versions without this argument
        return None
    return lines[-1][:_LONGEST_REASON]
