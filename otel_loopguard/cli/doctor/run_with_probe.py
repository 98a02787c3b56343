"""Run a program with the probe in it, and read the probe's reports."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

from otel_loopguard.cli.doctor.probe import FOLDER
from otel_loopguard.cli.program import INSTRUMENT, instrumented, start, write_distribution

# Run with -I: else a sitecustomize on PYTHONPATH would start OpenTelemetry before this.
_INITIALIZE = """
import logging, os, sys
sys.path[:0] = os.environ["PYTHONPATH"].split(os.pathsep)
logging.disable()
from opentelemetry.instrumentation.auto_instrumentation import initialize
initialize(swallow_exceptions=False)
"""
_LONGEST_REASON = 300
_TIMEOUT = "OTEL_EXPORTER_OTLP_TIMEOUT"
_SECONDS = "2"
"""For each exporter of an examined program: with OpenTelemetry's ten, three of them wait half a minute in vain."""
_ENTRY_POINTS = {"opentelemetry_post_instrument": "otel_loopguard.cli.doctor.probe:start"}


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
        own[_TIMEOUT] = os.environ.get(_TIMEOUT) or _SECONDS
        write_distribution(folder, _ENTRY_POINTS)
        status = start(command, own, folder, quiet=quiet)
        return Examined(status, [json.loads(file.read_text("utf-8")) for file in sorted(folder.glob("*.json"))])


def _flags(command: list[str]) -> list[str]:
    """Return ``opentelemetry-instrument`` and its flags, without the program after them; else an empty list."""
    if Path(command[0]).name != INSTRUMENT:
        return []
    end = 1
    while end < len(command) and command[end].startswith("-"):
        end += 1 if "=" in command[end] else 2  # `--name=value` or `--name value`
    return command[:end]


def reason_of_failed_start(command: list[str]) -> str | None:
    """Return the last line of the error with which OpenTelemetry fails to start, under the flags of this command.

    None if it does not fail, or does not show the error: older versions do not.
    """
    initialize = [*_flags(command), sys.executable, "-I", "-c", _INITIALIZE]
    started = subprocess.run(  # noqa: S603 - our own code
        instrumented(initialize), capture_output=True, check=False, stdin=subprocess.DEVNULL
    )
    lines = started.stderr.decode("utf-8", "replace").splitlines()
    if not started.returncode or not lines or "swallow_exceptions" in lines[-1]:  # versions without this argument
        return None
    return lines[-1][:_LONGEST_REASON]
