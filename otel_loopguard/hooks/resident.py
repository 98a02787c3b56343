"""The resident judge of a user's coding agents: ``python -m otel_loopguard.hooks.resident [IDLE_SECONDS]``.

``otel-loopguard hooks serve`` starts it as ``otel-loopguard run`` starts a program, so it has the user's policy, and
sends spans and metrics where that is set up. It ends by a signal, when nobody has asked it for a while, or when a newer
judge takes its place.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from threading import Event
from typing import Final

from otel_loopguard.hooks.home import Home
from otel_loopguard.hooks.judge import Judge
from otel_loopguard.hooks.server import HookServer
from otel_loopguard.instrumentation.runtime import active_runtime
from otel_loopguard.private_files import write_private
from otel_loopguard.version import __version__

IDLE: Final = 1_800.0
_LOOK: Final = 1.0
_LOOKS_AT_VERSION: Final = 60


def main() -> int:
    """Serve until the end. Return 0, or 1 if there is a judge that does not give way."""
    idle = float(sys.argv[1]) if len(sys.argv) > 1 else IDLE
    over = Event()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda *_: over.set())
    home = Home.of(os.environ)
    home.make()
    if not home.hold():
        sys.stderr.write(f"otel-loopguard: a judge serves {home.socket} already\n")
        return 1
    with suppress(FileNotFoundError):  # a killed judge has left it
        home.socket.unlink()
    judge = Judge(active_runtime.get(), is_elsewhere=home.is_claimed)
    with suppress(FileNotFoundError):
        judge.restore(home.turns.read_bytes())
        home.turns.unlink()
    server = HookServer(judge, home.socket, home.secret("token"), home.port)
    server.start()
    looks = 0
    try:
        while not over.wait(_LOOK) and time.monotonic() - server.last_used < idle:
            looks += 1
            if looks % _LOOKS_AT_VERSION == 0 and _is_replaced():
                _start_the_next()
    finally:
        server.stop()
        with suppress(OSError):  # a full disk: the next judge begins anew
            write_private(home.turns, judge.state())
        judge.close()
    return 0


def _is_replaced() -> bool:
    """Return True if another version is installed in place of this one."""
    with suppress(PackageNotFoundError):
        return version("otel-loopguard") != __version__
    return False


def _start_the_next() -> None:
    """Start the judge of the version that is installed now. It ends this one, and goes on with its turns."""
    command = [sys.executable, "-m", "otel_loopguard.cli.main", "hooks", "serve", "--background"]
    subprocess.Popen(command, stdin=subprocess.DEVNULL, start_new_session=True)  # noqa: S603 - our own code


if __name__ == "__main__":
    sys.exit(main())
