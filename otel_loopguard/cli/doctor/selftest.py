"""The program that is examined where no other one is named: it loops on purpose, with every framework there is.

Nothing of it is exported: instrumentation is suppressed, which the guard does without.
"""

from __future__ import annotations

import contextlib
import io
import logging
import os
import tempfile
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from opentelemetry.instrumentation.utils import suppress_instrumentation

from otel_loopguard.cli.demo.drivers import DRIVERS, load, missing
from otel_loopguard.cli.demo.world import World
from otel_loopguard.cli.doctor import facts, probe
from otel_loopguard.errors import LoopGuardError
from otel_loopguard.testing.agent import Ask

if TYPE_CHECKING:
    from collections.abc import Sequence

_TIMES = 6


class Repeater:
    """A model that makes one call six times."""

    def __init__(self) -> None:
        self._made = 0
        self.read: Sequence[str] = ()

    def next(self, read: Sequence[str]) -> Ask | None:
        """The same call again."""
        self.read = list(read)
        self._made += 1
        return Ask("read_file", {"path": "config.yaml"}) if self._made <= _TIMES else None

    def end(self, text: str) -> None:
        """A framework ended the run itself."""


def main() -> None:
    """Try every framework that is installed."""
    if probe.current is None:
        return
    logging.disable()
    os.environ.update(LANGSMITH_TRACING="false", LANGCHAIN_TRACING_V2="false")
    for module in facts.importable():
        with contextlib.suppress(ImportError):  # this version of the framework has no such module
            import_module(module)
    for name in DRIVERS:
        if not missing(name):
            probe.current.label = name
            probe.current.tested[name] = _try(name)


def _try(name: str) -> str:
    """``refused``, ``ran`` or why the framework could not be tried."""
    try:
        run = load(name)
    except LoopGuardError:
        return "too old or too new to be tried"
    model = Repeater()
    with tempfile.TemporaryDirectory() as folder, suppress_instrumentation(), contextlib.redirect_stdout(io.StringIO()):
        try:
            run(World(Path(folder)).tools(), model)  # type: ignore[arg-type]
        except Exception as error:  # noqa: BLE001 - whatever a framework raises is what has to be told
            return f"failed: {type(error).__name__}"
    return "refused" if any("tool_loop_detected" in text for text in model.read) else "ran"


if __name__ == "__main__":
    main()
