"""One program as a child process that cannot outlive the tests."""

from __future__ import annotations

import itertools
import os
import random
import shutil
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request
from contextlib import suppress
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

T = TypeVar("T")

PATIENCE = 30.0


def wait_until(what: str, check: Callable[[], T | None], seconds: float = PATIENCE) -> T:
    """The first truthy answer of ``check``; fails, saying what was waited for, after ``seconds``."""
    deadline = time.monotonic() + seconds
    while True:
        answer = check()
        if answer:
            return answer
        if time.monotonic() > deadline:
            msg = f"waited {seconds:.0f} s in vain: {what}; last answer: {answer!r}"
            raise AssertionError(msg)
        time.sleep(0.1)


def free_ports(count: int) -> list[int]:
    """Ports that nothing listens on, all different, and different from those of the calls before.

    A program binds its ports seconds later. So they are outside of those that the system gives to connections, and the
    processes of a test run have ranges of their own.
    """
    found: list[int] = []
    while len(found) < count:
        port = next(_ports)
        with suppress(OSError), socket.socket() as one:
            one.bind(("127.0.0.1", port))
            found.append(port)
    return found


def _rotated(first: int, count: int) -> Iterator[int]:
    """These numbers for ever, from a drawn one on: a process may have children with the same range."""
    start = random.randrange(count)
    return (first + (start + step) % count for step in itertools.count())


_RANGE = 1_500
_ports = _rotated(20_000 + _RANGE * (int(os.environ.get("PYTEST_XDIST_WORKER", "gw0")[2:]) % 8), _RANGE)


def answers(url: str) -> bool:
    """Return True if a GET of the URL has status 200."""
    try:
        with urllib.request.urlopen(url, timeout=5) as response:
            return bool(response.status == 200)
    except (urllib.error.URLError, OSError):
        return False


def listens(port: int) -> bool:
    """Return True if something takes connections at this port."""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=5):
            return True
    except OSError:
        return False


class Program:
    """A child process with a log file; ``start`` again after ``stop`` or ``kill`` runs the same command.

    ``ready`` is its address: a URL that it answers when it serves, or a port that it then listens on.
    """

    def __init__(self, command: Sequence[str], log: Path, environment: Mapping[str, str], ready: str | int) -> None:
        # The kernel ends the child should the tests be killed before they can.
        guard = ["setpriv", "--pdeathsig", "KILL"] if shutil.which("setpriv") else []
        self._command = [*guard, *command]
        self._log = log
        self._environment = dict(environment)
        self._ready = ready
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it; ``wait_ready`` waits for it."""
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                self._command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=self._environment
            )

    def wait_ready(self, seconds: float = PATIENCE) -> None:
        """Return when it serves, fail with its last words when it ends before."""
        wait_until(f"{self._ready} answers", self._serves, seconds)

    def stop(self) -> None:
        """End it with SIGTERM, and kill it after five seconds."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """Kill it without clean-up (kill -9)."""
        self._end(signal.SIGKILL)

    def log(self) -> str:
        """The text of the log file."""
        return self._log.read_text(errors="replace") if self._log.exists() else ""

    def _serves(self) -> bool:
        if self._process and self._process.poll() is not None:
            msg = f"{self._command} ended with {self._process.returncode}:\n{self.log()[-4000:]}"
            raise AssertionError(msg)
        return listens(self._ready) if isinstance(self._ready, int) else answers(self._ready)

    def _end(self, how: signal.Signals) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        process.send_signal(how)
        try:
            process.wait(5)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(5)
