"""The program of the doctor's self-test: a loop by hand that makes one call six times. It exports nothing."""

from __future__ import annotations

import contextlib
import logging
from importlib import import_module

from opentelemetry.instrumentation.utils import suppress_instrumentation

from otel_loopguard.cli.doctor import facts, probe
from otel_loopguard.testing.agent import Ask, ScriptedAgent

_NAME = "by-hand"
_LOOP = [Ask("read_file", {"path": "config.yaml"})] * 6


def main() -> None:
    """Run the loop, then import every module with functions to patch, so that the probe finds the patches."""
    if probe.current is None:
        return
    logging.disable()
    probe.current.label = _NAME
    probe.current.tested[_NAME] = "refused" if _is_refused() else "ran"
    for module in facts.importable():
        with contextlib.suppress(ImportError):  # this version of the framework has no such module
            import_module(module)


def _is_refused() -> bool:
    """Return True if the guard refuses a call of the loop. Instrumentation is suppressed, so nothing is exported."""
    with suppress_instrumentation():
        transcript = ScriptedAgent({"read_file": lambda path: f"the text of {path}"}, _LOOP).run()
    return bool(transcript.refused or transcript.error)


if __name__ == "__main__":
    main()
