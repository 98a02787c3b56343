"""Servers for the tests: Redis and Valkey, as child processes that cannot outlive the tests."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import threading
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from redis import Redis
from redis.exceptions import ConnectionError as NotConnectedError

from otel_loopguard.store import background
from otel_loopguard.store.settings import open_store
from otel_loopguard.store.store import READ_ONLY
from tests.stack.harness.process import free_ports, wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from otel_loopguard.store.redis_store import RedisStore
    from otel_loopguard.store.store import Newer, Store, Swapped

ROOT = Path(__file__).resolve().parents[2]
VALKEY = ROOT / ".envs" / "valkey" / "usr" / "bin"
REQUIRED = os.environ.get("LOOPGUARD_REQUIRE_REDIS") == "1"
PATIENT = 5.0
"""A time-out that no busy machine reaches; tests of time-outs take a shorter one."""
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

    def __init__(self, folder: Path, *lines: str, kind: str = "redis-server", password: str | None = None) -> None:
        self._binary = need(kind)
        (self.port,) = free_ports(1)
        self.socket = folder / f"{self.port}.sock"
        self.url = f"redis://127.0.0.1:{self.port}"
        self._client = Redis(unix_socket_path=str(self.socket), password=password, protocol=2)
        self._client.response_callbacks.clear()
        self._config, self._log = folder / f"{self.port}.conf", folder / f"{self.port}.log"
        keeps_nothing = [] if kind == "redis-sentinel" else ['save ""', "appendonly no"]
        places = [f"port {self.port}", "bind 127.0.0.1", f"unixsocket {self.socket}", f"dir {folder}"]
        self._config.write_text("\n".join([*places, *keeps_nothing, *lines, ""]))
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it and wait until it answers."""
        guard = ["setpriv", "--pdeathsig", "KILL"] if shutil.which("setpriv") else []
        with self._log.open("ab") as log:
            command = [*guard, self._binary, str(self._config)]
            self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        wait_until(f"port {self.port} answers", self._answers)

    def _answers(self) -> bool:
        try:
            self("PING")
        except NotConnectedError:
            return False
        return True

    def __call__(self, *command: str | int | bytes) -> Any:
        """Run a command and return its reply as it is."""
        try:
            return self._client.execute_command(*command)
        finally:
            self._client.close()

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

    def store(self, timeout: float = PATIENT) -> RedisStore:
        """A store on this server."""
        return open_store(f"{self.url}?timeout={timeout}", hash_key=KEY)


def swap(
    store: Store, key: str, seen: bytes = READ_ONLY, version: bytes = b"", state: bytes = b""
) -> Swapped | Newer | None:
    """Swap a cell, from a thread. Without a version the cell is only read."""
    return background.wait(store.swap(key, seen, version, state))


def write(store: Store, key: str, state: bytes = b"state") -> bytes | None:
    """Write to a cell whatever is in it, and return the version; None if the store cannot be used."""
    version, found = os.urandom(8), swap(store, key)
    return version if found and swap(store, key, found.version, version, state) else None  # type: ignore[union-attr]  # read only


@contextmanager
def starting(folders: pytest.TempPathFactory) -> Iterator[Callable[..., Server]]:
    """A function that starts servers, which end with the block. Each has a folder of its own."""
    with ExitStack() as stopping:

        def start(*lines: str, **settings: str) -> Server:
            server = Server(folders.mktemp("server"), *lines, **settings)
            stopping.callback(server.kill)
            server.start()
            return server

        yield start


class Relay:
    """A port before a server, as of a load balancer. Connections stay with the server that they were made to."""

    def __init__(self, target: int) -> None:
        self.target = target
        self.delay = 0.0
        """Seconds for which an answer is held back."""
        self.loses = False
        """The next answer is lost, and with it the connection."""
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.url = f"redis://127.0.0.1:{self._listening.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with suppress(OSError):  # closed
            while True:
                taken = self._listening.accept()[0]
                threading.Thread(target=self._serve, args=(taken,), daemon=True).start()

    def _serve(self, taken: socket.socket) -> None:
        with suppress(OSError), taken, socket.create_connection(("127.0.0.1", self.target)) as server:
            while asked := taken.recv(100_000):
                server.sendall(asked)
                answer = server.recv(100_000)
                threading.Event().wait(self.delay)
                if self.loses:
                    self.loses = False
                    return
                taken.sendall(answer)

    def close(self) -> None:
        """Take no more connections."""
        self._listening.close()


class Sentinels:
    """A server, its replica, and three sentinels that make the replica the server once that has been silent for 1 s."""

    service = "turns"

    def __init__(self, start: Callable[..., Server]) -> None:
        self.servers = [start()]
        self.servers.append(start(f"replicaof 127.0.0.1 {self.servers[0].port}"))
        wait_until("the replica is in step", lambda: b"master_link_status:up" in self.servers[1]("INFO", "replication"))
        watch = (
            f"sentinel monitor {self.service} 127.0.0.1 {self.servers[0].port} 2",
            f"sentinel down-after-milliseconds {self.service} 1000",
            f"sentinel failover-timeout {self.service} 5000",
        )
        self.sentinels = [start(*watch, kind="redis-sentinel") for _ in range(3)]
        self.url = f"redis+sentinel://{','.join(f'127.0.0.1:{one.port}' for one in self.sentinels)}/{self.service}"
        for sentinel in self.sentinels:
            wait_until("the sentinels know each other", lambda one=sentinel: self._knows_all(one))

    def _knows_all(self, sentinel: Server) -> bool:
        known = sentinel("SENTINEL", "master", self.service)
        fields = dict(zip(known[::2], known[1::2], strict=True))
        return fields[b"num-other-sentinels"] == b"2" and fields[b"num-slaves"] == b"1"


class Cluster:
    """Three nodes that share the keys, and a replica of the first."""

    def __init__(self, start: Callable[..., Server]) -> None:
        lines = ("cluster-enabled yes", "cluster-node-timeout 1000", "cluster-require-full-coverage no")
        self.nodes = [start(*lines, f"cluster-port {free_ports(1)[0]}") for _ in range(4)]
        places = [f"127.0.0.1:{node.port}" for node in self.nodes]
        run = [need("redis-cli"), "--cluster"]
        subprocess.run([*run, "create", *places[:3], "--cluster-yes"], check=True, capture_output=True)
        for node in self.nodes[:3]:
            wait_until("the cluster is complete", lambda one=node: b"cluster_state:ok" in one("CLUSTER", "INFO"))
        first = self.nodes[0]("CLUSTER", "MYID").decode()
        add = [*run, "add-node", places[3], places[0], "--cluster-slave", "--cluster-master-id", first]
        subprocess.run(add, check=True, capture_output=True)
        wait_until("the replica is in step", lambda: b"master_link_status:up" in self.nodes[3]("INFO", "replication"))
        self.url = f"redis+cluster://{','.join(places[:2])}"
