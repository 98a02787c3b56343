"""What a URL may name: sockets, passwords, TLS, servers behind sentinels, clusters; and what is no server at all."""

from __future__ import annotations

import asyncio
import itertools
import re
import socket
import subprocess
import threading
from contextlib import contextmanager, suppress

import pytest
from redis.cluster import key_slot
from redis.exceptions import ResponseError

from otel_loopguard.store import background
from otel_loopguard.store.redis_store import name_of
from otel_loopguard.store.servers import Servers, _clients_of
from otel_loopguard.store.settings import open_store
from otel_loopguard.store.store import Swapped
from otel_loopguard.store.url import SCHEMES, parse
from tests.stack.harness.process import free_ports, wait_until

from .servers import KEY, PATIENT, ROOT, Cluster, Sentinels, need, starting, swap, write

_names = (f"turn-{number}" for number in itertools.count())
PAGE = (ROOT / "docs" / "how-to" / "shared-store.md").read_text("utf-8")


def opened(url, timeout=PATIENT):
    return open_store(f"{url}{'&' if '?' in url else '?'}timeout={timeout}", hash_key=KEY)


def rights(text=""):
    """The rights that the documentation gives a user, and those that it names in a sentence with this text."""
    (line,) = re.findall(r"^ACL SETUSER loopguard on >PASSWORD (.*)$", PAGE, re.MULTILINE)
    more = re.search(rf"((?:`\+[^`]+`[ ,]*(?:and )?)+){text}", PAGE)[1] if text else ""
    return [*line.split(), *re.findall(r"\+[\w|-]+", more)]


# --- one server -------------------------------------------------------------------------------------------------------


def test_a_unix_socket(server, key):
    version = write(opened(f"unix://{server.socket}"), key)
    assert swap(server.store(), key).version == version


def test_a_database_of_its_own(server, key):
    assert write(opened(f"{server.url}/3"), key)
    assert swap(server.store(), key).version == b""


def test_a_password(start_server, key):
    server = start_server("requirepass s3cret#/", password="s3cret#/")
    assert write(opened(f"redis://:s3cret%23%2F@127.0.0.1:{server.port}"), key)
    without = opened(server.url)
    assert swap(without, key) is None
    assert without.failures == {"login": 1}


def test_a_user_with_the_rights_of_the_documentation(start_server, key):
    """Each is needed, and no other."""
    server = start_server()
    server("ACL", "SETUSER", "guard", "on", ">s3cret", *rights())
    server("ACL", "LOG", "RESET")
    server("CONFIG", "RESETSTAT")
    store = opened(f"redis://guard:s3cret@127.0.0.1:{server.port}")
    assert all(write(store, key) for _ in range(2))
    assert server("ACL", "LOG") == []
    used = {f"+{one}" for one in re.findall(r"cmdstat_(\w+)", server("INFO", "commandstats").decode())}
    assert set(rights()) - used == {"~loopguard:*", "+ping"}


def test_to_a_user_who_may_not_ask_for_it_the_server_has_no_id(start_server, key):
    server = start_server()
    server("ACL", "SETUSER", "guard", "on", ">s3cret", "~*", "+@all", "-info")
    assert swap(opened(f"redis://guard:s3cret@127.0.0.1:{server.port}"), key).server == b""


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
    start_server(f"tls-port {port}", f"tls-cert-file {pem}", f"tls-key-file {key}", f"tls-ca-cert-file {pem}")
    return port


def test_tls_with_a_certificate_of_the_client(tls_port, certificate, key):
    pem, secret = certificate
    url = f"rediss://localhost:{tls_port}?ssl_ca_certs={pem}&ssl_certfile={pem}&ssl_keyfile={secret}"
    store = opened(url)
    state = b"".join(b"%d" % number for number in range(50_000))
    assert write(store, key, state)
    assert swap(store, key).state == state


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1"])
def test_a_certificate_that_is_not_trusted_or_of_another_host(tls_port, certificate, host, key):
    pem, secret = certificate
    ours = f"&ssl_certfile={pem}&ssl_keyfile={secret}" + (f"&ssl_ca_certs={pem}" if host == "127.0.0.1" else "")
    store = opened(f"rediss://{host}:{tls_port}?{ours[1:]}")
    assert swap(store, key) is None
    assert store.failures == {"tls": 1}
    assert swap(opened(f"rediss://{host}:{tls_port}?ssl_cert_reqs=none{ours}"), key)


def test_a_file_of_certificates_that_is_not_there(tls_port, key):
    store = opened(f"rediss://localhost:{tls_port}?ssl_ca_certs=/nowhere.pem")
    assert swap(store, key) is None
    assert store.failures == {"connection": 1}


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

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield listening.getsockname()[1]


@pytest.mark.parametrize(
    "text", [b"HTTP/1.1 400 Bad Request\r\n\r\n", b"", b"$-7\r\n", b"+OK\r\n+OK\r\n", b"*1\r\n:1\r\n"]
)
def test_another_kind_of_server_is_a_failure(text, key):
    with answering(text) as port:
        store = opened(f"redis://127.0.0.1:{port}", 1)
        assert swap(store, key) is None
    assert store.failures.total() == 1
    assert not store.shield.seen


@pytest.mark.parametrize("host", ["no-such-host.invalid", "a" * 70])
def test_a_host_whose_name_cannot_be_looked_up_is_a_failure(host, key):
    store = opened(f"redis://{host}")
    assert swap(store, key) is None
    assert store.failures == {"connection": 1}


def test_a_server_that_has_become_a_replica_is_left_for_the_one_that_the_address_leads_to_now(start_server, relay, key):
    """As behind a load balancer: connections to the replica live on, and nothing can be written over them."""
    server, other = start_server(), start_server()
    relay.target = server.port
    store = opened(relay.url)
    version = write(store, key)
    server("REPLICAOF", "127.0.0.1", other.port)
    assert swap(store, key, version, b"version1", b"state") is None
    assert store.failures == {"replica": 1}
    relay.target = other.port
    assert isinstance(swap(store, key, b"", b"version1", b"state"), Swapped)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_each_scheme_has_a_client(scheme):
    """Made, and not connected."""
    url = parse(
        f"{scheme}:///run/redis.sock" if scheme == "unix" else f"{scheme}://localhost:7/{'main' * ('sent' in scheme)}"
    )

    async def main():
        servers = Servers(url)
        await servers.close()
        return servers.client

    assert background.wait(main())


# --- servers behind sentinels -----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def sentinels(tmp_path_factory):
    with starting(tmp_path_factory) as start:
        yield Sentinels(start)


def test_a_service_that_no_sentinel_knows_is_a_failure(sentinels, key):
    store = opened(sentinels.url.replace("turns", "others"))
    assert swap(store, key) is None
    assert store.failures == {"connection": 1}


def test_a_user_of_the_sentinels_with_the_rights_of_the_documentation(sentinels, key):
    for sentinel in sentinels.sentinels:
        sentinel("ACL", "SETUSER", "asker", "on", ">s3cret", *rights("at sentinels")[-1:])
        sentinel("ACL", "LOG", "RESET")
    assert swap(opened(f"{sentinels.url}?sentinel_username=asker&sentinel_password=s3cret"), key)
    assert [sentinel("ACL", "LOG") for sentinel in sentinels.sentinels] == [[], [], []]


def test_sentinels_that_are_gone_or_do_not_answer_are_passed_over(sentinels, key):
    sentinels.sentinels[0].pause()
    store = opened(sentinels.url, 0.1)
    assert wait_until("another one is asked", lambda: swap(store, key))
    sentinels.sentinels[0].resume()
    sentinels.sentinels[0].kill()
    assert swap(opened(sentinels.url), key)


def test_all_sentinels_are_closed_although_the_client_lost_one_of_them():
    """Two tasks that ask at once write its list over each other's."""

    async def closed():
        client, others = _clients_of(parse("redis+sentinel://127.0.0.1:1,127.0.0.1:2,127.0.0.1:3/turns"))
        of_client = client.connection_pool.sentinel_manager.sentinels
        of_client[0] = of_client[1]
        return len(set(others))

    assert asyncio.run(closed()) == 3


def test_after_a_failover_the_new_server_is_known_by_its_id_and_has_the_cells(sentinels, key):
    """The last test of these sentinels, because it kills a server. Its replica was in step."""
    store = opened(sentinels.url, 0.5)
    version, before = write(store, key), swap(store, key)
    wait_until("the replica has it", lambda: sentinels.servers[1]("EXISTS", name_of(key)))
    sentinels.servers[0].kill()
    after = wait_until("the replica has taken over", lambda: swap(store, key))
    assert after.version == version
    assert after.server not in (b"", before.server)
    assert write(store, key)


# --- clusters ---------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    with starting(tmp_path_factory) as start:
        yield Cluster(start)


def held(node, keys):
    """The keys whose cells a node has."""
    found = set()
    for key in keys:
        with suppress(ResponseError):  # it is another node's
            found |= {key} if node("EXISTS", name_of(key)) else set()
    return found


def test_cells_are_spread_over_a_cluster(cluster):
    store, keys = opened(cluster.url), [next(_names) for _ in range(30)]
    assert all(write(store, key) for key in keys)
    homes = [held(node, keys) for node in cluster.nodes[:3]]
    assert all(homes)
    assert set.union(*homes) == set(keys)
    assert not store.failures


def test_a_user_of_a_cluster_with_the_rights_of_the_documentation(cluster):
    for node in cluster.nodes:
        node("ACL", "SETUSER", "guard", "on", ">s3cret", *rights("in a cluster"))
        node("ACL", "LOG", "RESET")
    store = opened(cluster.url.replace("://", "://guard:s3cret@"))
    assert all(write(store, next(_names)) for _ in range(10))
    assert [node("ACL", "LOG") for node in cluster.nodes] == [[]] * 4


def test_a_cell_that_moves_to_another_node_is_found_before_while_and_after(cluster):
    store = opened(cluster.url)
    key = next(name for name in _names if key_slot(name.encode()) < 5_000)
    source, target = cluster.nodes[0], cluster.nodes[1]
    version, slot = write(store, key), key_slot(key.encode())
    ids = [node("CLUSTER", "MYID") for node in (source, target)]
    target("CLUSTER", "SETSLOT", slot, "IMPORTING", ids[0])
    source("CLUSTER", "SETSLOT", slot, "MIGRATING", ids[1])
    source("MIGRATE", "127.0.0.1", target.port, name_of(key), 0, 5_000)
    assert swap(store, key).version == version
    for node in cluster.nodes[:3]:
        node("CLUSTER", "SETSLOT", slot, "NODE", ids[1])
    assert swap(store, key).version == version
    assert not store.failures


def test_a_node_of_a_cluster_needs_the_scheme_of_clusters(cluster):
    store = opened(cluster.nodes[0].url)
    answers = [swap(store, next(_names)) for _ in range(40)]
    assert None in answers
    assert set(store.failures) <= {"cluster", "breaker_open"}


def test_while_a_node_is_down_only_its_cells_are_affected_and_its_replica_takes_over(cluster):
    """The last test of this cluster, because it kills a node."""
    store, keys = opened(cluster.url, 0.5), [next(_names) for _ in range(30)]
    assert all(write(store, key) for key in keys)
    of_first = held(cluster.nodes[0], keys)
    before = swap(store, min(of_first)).server
    cluster.nodes[0].kill()
    assert swap(store, min(of_first)) is None
    assert all(swap(store, key) for key in keys if key not in of_first)
    wait_until("the replica has taken over", lambda: all(swap(store, key) for key in of_first))
    assert swap(store, min(of_first)).server not in (b"", before)
