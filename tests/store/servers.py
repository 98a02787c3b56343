"""Servers for the tests: Redis and Valkey, as child processes that cannot outlive the tests."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from otel_loopguard.store.connection import connect
from otel_loopguard.store.settings import open_store
from otel_loopguard.store.url import Address, Login
from tests.stack.harness.process import free_ports, wait_until

ROOT = Path(__file__).resolve().parents[2]
VALKEY = ROOT / ".envs" / "valkey" / "usr" / "bin"
REQUIRED = os.environ.get("LOOPGUARD_REQUIRE_REDIS") == "1"
KEY = b"the hash key of these tests, 32+"


def need(program: str) -> str:
    """The path of a program; without it the test is skipped, or fails where the servers are required."""
    path = shutil.which(program) or shutil.which(program, path=str(VALKEY))
    if path is None:
        reason = f"{program} is not installed here: .ci/redis installs what these tests run"
        pytest.fail(reason) if REQUIRED else pytest.skip(reason)
    return path


class Server:
    """A server that keeps nothing on disk. ``start`` after ``kill`` starts it empty."""

    def __init__(self, folder: Path, *options: str, kind: str = "redis", password: str | None = None) -> None:
        self.binary = need(f"{kind}-server")
        self.folder = folder
        (self.port,) = free_ports(1)
        self.socket = folder / f"{self.port}.sock"
        self.url = f"redis://127.0.0.1:{self.port}"
        self.login = Login(None, password)
        self._options = options
        self._process: subprocess.Popen[bytes] | None = None
        self.start()

    def start(self) -> None:
        """Start it and wait until it answers."""
        guard = ["setpriv", "--pdeathsig", "KILL"] if shutil.which("setpriv") else []
        settings = ["--bind", "127.0.0.1", "--unixsocket", str(self.socket), "--save", "", "--dir", str(self.folder)]
        command = [*guard, self.binary, "--port", str(self.port), *settings, *self._options]
        with (self.folder / f"{self.port}.log").open("ab") as log:
            self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        wait_until(f"port {self.port} answers", self._answers)

    def _answers(self) -> bool:
        try:
            self("PING")
        except OSError:
            return False
        return True

    def __call__(self, *command: str | int | bytes) -> Any:
        """Run a command and return its reply."""
        connection = connect(Address(str(self.socket), None), self.login, 0, None)
        (reply,) = connection.exchange([command], float("inf"))
        connection.close()
        if isinstance(reply, Exception):
            raise reply
        return reply

    def send(self, number: signal.Signals) -> None:
        """Send a signal to the process."""
        assert self._process is not None
        self._process.send_signal(number)

    def pause(self) -> None:
        """Stop the process: it takes connections, and answers nothing."""
        self.send(signal.SIGSTOP)

    def resume(self) -> None:
        """Let a stopped process go on."""
        self.send(signal.SIGCONT)

    def kill(self) -> None:
        """Kill it without clean-up (kill -9)."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait(10)

    def store(self, **options: Any) -> Any:
        """A store on this server."""
        return open_store(self.url, hash_key=KEY, **options)
