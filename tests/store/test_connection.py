"""Connections: unix sockets, passwords, databases, TLS, and what is no server at all."""

from __future__ import annotations

import asyncio
import re
import signal
import socket
import subprocess
import threading
from contextlib import contextmanager

import pytest

from otel_loopguard.store.script import key_of
from otel_loopguard.store.settings import open_store
from tests.stack.harness.process import free_ports, wait_until

from .servers import KEY, ROOT, need

EVENT = (b"operation", b"an event")


def opened(url):
    return open_store(url, hash_key=KEY)


def append(store, key="turn"):
    return store.append(key, [EVENT], epoch=b"", seen=0)


def both(store, key="turn"):
    """The answers to a thread and to a task."""

    async def main():
        return await store.aappend(key, [EVENT], epoch=b"", seen=0)

    return append(store, key), asyncio.run(main())


def test_a_unix_socket(server):
    assert all(both(opened(f"unix://{server.socket}?timeout=5"), "over a socket"))
    assert server.store().append("over a socket", [], epoch=b"", seen=0).entries


def test_a_database_of_its_own(server):
    assert all(both(opened(f"{server.url}/3?timeout=5"), "in database 3"))
    assert not server.store().append("in database 3", [], epoch=b"", seen=0).epoch


def test_a_password(start_server):
    server = start_server("requirepass s3cret#/", password="s3cret#/")
    assert all(both(opened(f"redis://:s3cret%23%2F@127.0.0.1:{server.port}?timeout=5")))
    assert both(opened(f"redis://127.0.0.1:{server.port}?timeout=5")) == (None, None)


def test_a_user_with_the_rights_of_the_documentation(start_server):
    """Each is needed, and no other."""
    page = (ROOT / "docs" / "how-to" / "shared-store.md").read_text("utf-8")
    rights = re.search(r"^ACL SETUSER loopguard on >PASSWORD (.*)$", page, re.MULTILINE)[1].split()
    server = start_server()
    server("ACL", "SETUSER", "guard", "on", ">s3cret", *rights)
    server("ACL", "LOG", "RESET")
    server("CONFIG", "RESETSTAT")
    store = opened(f"redis://guard:s3cret@127.0.0.1:{server.port}?timeout=5")
    first = append(store)
    assert store.append("turn", [(b"2", b"more")], epoch=first.epoch, seen=1, snapshot=(1, b"state")).base == 1
    assert all(both(store, "another"))
    assert server("ACL", "LOG") == []
    used = {f"+{one}" for one in re.findall(r"cmdstat_(\w+)", server("INFO", "commandstats").decode())}
    assert set(rights) - used == {"~loopguard:*", "+ping"}


def test_a_user_who_may_not_ask_for_the_id_of_the_server(start_server):
    server = start_server()
    server("ACL", "SETUSER", "guard", "on", ">s3cret", "~*", "+@all", "-info")
    assert all(both(opened(f"redis://guard:s3cret@127.0.0.1:{server.port}?timeout=5")))


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    """A certificate for localhost, which is its own authority, and its key."""
    folder = tmp_path_factory.mktemp("certificate")
    certificate, key = folder / "certificate.pem", folder / "key.pem"
    subprocess.run(
        [
            need("openssl"), "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
            "-keyout", key, "-out", certificate, "-days", "2", "-subj", "/CN=localhost",
            "-addext", "subjectAltName=DNS:localhost",
        ],
        check=True, capture_output=True,
    )  # fmt: skip
    return certificate, key


@pytest.fixture
def tls_port(start_server, certificate):
    (port,) = free_ports(1)
    pem, key = certificate
    start_server(f"tls-port {port}", f"tls-cert-file {pem}", f"tls-key-file {key}", "tls-auth-clients no")
    return port


def test_tls(tls_port, certificate):
    """Replies of more than a TLS record come in full, and tasks share the connection."""
    store = opened(f"rediss://localhost:{tls_port}?timeout=5&ssl_ca_certs={certificate[0]}")
    ops = [(b"%08d" % number, b"x" * 1_000) for number in range(200)]

    async def main():
        await store.aappend("turn", ops, epoch=b"", seen=0)
        return await asyncio.gather(*(store.aappend("turn", [], epoch=b"", seen=0) for _ in range(5)))

    assert [len(reply.entries) for reply in asyncio.run(main())] == [200] * 5
    assert len(store.append("turn", [], epoch=b"", seen=0).entries) == 200


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1"])
def test_a_certificate_that_is_not_trusted_or_of_another_host(tls_port, certificate, host, caplog):
    ours = f"&ssl_ca_certs={certificate[0]}" if host == "127.0.0.1" else ""
    store = opened(f"rediss://{host}:{tls_port}?timeout=5{ours}")
    assert both(store) == (None, None)
    assert store.failures == {"tls": 2}
    assert append(opened(f"rediss://{host}:{tls_port}?timeout=5{ours}&ssl_cert_reqs=none"))


def test_a_file_of_certificates_that_is_not_there(tls_port):
    store = opened(f"rediss://localhost:{tls_port}?timeout=5&ssl_ca_certs=/nowhere.pem")
    assert both(store) == (None, None)
    assert store.failures == {"connection": 2}


@contextmanager
def answering(text: bytes):
    """A port that sends this text to each connection."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve():
            while True:
                try:
                    taken, _ = listening.accept()
                except OSError:
                    return
                with taken:
                    taken.recv(1000)
                    taken.sendall(text)

        thread = threading.Thread(target=serve)
        thread.start()
        yield listening.getsockname()[1]
        listening.shutdown(socket.SHUT_RDWR)
        thread.join()


@pytest.mark.parametrize("text", [b"HTTP/1.1 400 Bad Request\r\n\r\n", b"", b"$-7\r\n", b"+OK\r\n+OK\r\n+OK\r\n"])
def test_another_kind_of_server_is_a_failure(text):
    with answering(text) as port:
        store = opened(f"redis://127.0.0.1:{port}?timeout=1")
        assert both(store) == (None, None)
    assert sum(store.failures.values()) == 2
    assert "fault" not in store.failures


def test_a_host_whose_name_cannot_be_looked_up_is_a_failure():
    for host in ("no-such-host.invalid", "a" * 70):
        store = opened(f"redis://{host}?timeout=5")
        assert both(store) == (None, None)
        assert store.failures == {"connection": 2}


class TimeLimitError(Exception):
    """As Celery's ``SoftTimeLimitExceeded``."""


def test_a_time_limit_that_strikes_during_a_call_is_passed_on(start_server):
    """The next call does not get the reply to the one that was broken off."""
    server = start_server()
    store = opened(f"{server.url}?timeout=5")
    append(store)

    def strike(number, frame):
        server.resume()
        raise TimeLimitError

    before = signal.signal(signal.SIGALRM, strike)
    server.pause()
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.1)
        with pytest.raises(TimeLimitError):
            store.append("turn", [(b"2", b"event")], epoch=b"", seen=0)
    finally:
        signal.signal(signal.SIGALRM, before)
        server.resume()
    assert not any(store._of_threads._idle.values())
    wait_until("the server has replied", lambda: server("LLEN", key_of("turn")) == 4)
    assert store.append("another", [], epoch=b"", seen=0) == (b"", None, 0, [])
