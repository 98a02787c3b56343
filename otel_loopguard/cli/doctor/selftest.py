"""The program of the self-test: it loops on purpose, with every installed framework.

It exports nothing: instrumentation is suppressed, and the guard works without it.
"""

from __future__ import annotations

import contextlib
import io
import logging
import tempfile
from importlib import import_module
from pathlib import Path

from opentelemetry.instrumentation.utils import suppress_instrumentation

from otel_loopguard.cli.doctor import facts, probe
from otel_loopguard.errors import LoopGuardError
from otel_loopguard.testing.agent import Ask
from otel_loopguard.testing.scripted import installed, load
from otel_loopguard.testing.scripted.world import World

_STEPS = [[Ask("read_file", {"path": "config.yaml"})]] * 6


def main() -> None:
    """Try every framework that is installed."""
    if probe.current is None:
        return
    logging.disable()
    for name in installed():
        probe.current.label = name
        probe.current.tested[name] = _try(name)
    for module in facts.importable():
        with contextlib.suppress(ImportError):  # this version of the framework has no such module
            import_module(module)


def _try(name: str) -> str:
    """Return ``refused``, ``ran``, or the reason why the framework could not be tried."""
    try:
        run = load(name)
    except LoopGuardError:
        return "too old or too new to be tried"
    with tempfile.TemporaryDirectory() as folder, suppress_instrumentation(), contextlib.redirect_stdout(io.StringIO()):
        try:
            transcript = run(World(Path(folder)).tools(), _STEPS)
        except Exception as error:  # noqa: BLE001 - it is reported by its type
            return f"failed: {type(error).__name__}"
    if transcript.error is not None:
        return f"failed: {type(transcript.error).__name__}"
    return "refused" if transcript.refused else "ran"


if __name__ == "__main__":
    main()
