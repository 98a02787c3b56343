"""``otel-loopguard watch --otlp``, as a process: real clients, real exports, signals, and wrong use."""

from __future__ import annotations

import json
import re
import signal
import subprocess
from contextlib import contextmanager
from http.client import HTTPConnection
from typing import TYPE_CHECKING

import grpc
import pytest

from tests.cli.processes import COMMAND, command, environment
from tests.docs.blocks import ROOT
from tests.stack.harness.process import free_ports, listens, wait_until
from tests.telemetry.otlp import attributes, receiver

from .messages import as_json, call, message, vercel_call

if TYPE_CHECKING:
    from collections.abc import Iterator

EXPORT = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"
OTLP = {"OTEL_METRICS_EXPORTER": "otlp", "OTEL_LOGS_EXPORTER": "otlp"}


@contextmanager
def watcher(
    *options: str, more: dict[str, str], ports: list[int], window: str = "600"
) -> Iterator[subprocess.Popen[str]]:
    """A watch that listens at these ports; it is killed at the end if it has not ended."""
    arguments = ["watch", *options, "--window", window]
    process = subprocess.Popen(
        [*COMMAND, *arguments], env=environment(more), stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True
    )
    try:
        wait_until("the watcher listens", lambda: process.poll() is not None or all(map(listens, ports)))
        yield process
    finally:
        process.kill()
        process.communicate()


def test_spans_by_grpc_and_http_are_judged_and_a_signal_loses_none(tmp_path) -> None:
    """Nothing was due before the signal: all that was taken is judged and exported after it, and the status is 0."""
    ports = free_ports(2)
    places = ("--otlp", f"127.0.0.1:{ports[0]}", "--otlp-http", f"127.0.0.1:{ports[1]}")
    with receiver() as received:
        with watcher(*places, more={**received.environment, **OTLP}, ports=ports) as process:
            with grpc.insecure_channel(f"127.0.0.1:{ports[0]}") as channel:
                export = channel.unary_unary(EXPORT)
                for number in range(1, 201):
                    export(message(call(number), service="go").SerializeToString(), timeout=30)
            connection = HTTPConnection("127.0.0.1", ports[1], timeout=30)
            for number in range(1, 6):
                body = json.dumps(as_json(message(vercel_call(number, trace=2), service="node")))
                connection.request("POST", "/v1/traces", body, {"content-type": "application/json"})
                assert connection.getresponse().read() == b"{}"
            connection.close()
            process.send_signal(signal.SIGTERM)
            _, errors = process.communicate(timeout=60)
        by_service = {}
        for record in received.log_records:
            by_service.setdefault(attributes(record)["loopguard.turn.id"], []).append(record)

    assert process.returncode == 0, errors
    assert errors.splitlines()[-1] == "otel-loopguard: 205 tool calls, 2 turns with a loop, 203 trips."
    assert sorted(map(len, by_service.values())) == [4, 199]
    trips = [one for one in received.metrics if one.name == "loopguard.trips"]
    assert sum(point.as_int for one in trips[-2:] for point in one.sum.data_points) == 203


def test_the_page_shows_what_happens() -> None:
    """The lines in docs/watch.md are those of a watcher that gets the spans of an agent in JavaScript."""
    (shown,) = re.findall(r"<!-- watch -->\n```\n(.*?)```", (ROOT / "docs" / "watch.md").read_text("utf-8"), re.DOTALL)
    ports = free_ports(1)
    trace = 0x0AF7651916CD43DD8448EB211C80319C
    spans = [vercel_call(number, tool="search_orders", trace=trace) for number in range(1, 13)]
    with watcher("--otlp", f"127.0.0.1:{ports[0]}", window="10", more={}, ports=ports) as process:
        with grpc.insecure_channel(f"127.0.0.1:{ports[0]}") as channel:
            channel.unary_unary(EXPORT)(message(*spans, service="shop-agent").SerializeToString(), timeout=30)
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=60)

    assert errors.replace(str(ports[0]), "14317") == shown


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_a_watcher_that_got_nothing(how) -> None:
    """The status is 0, and the first line says where it listens."""
    ports = free_ports(1)
    with watcher("--otlp-http", f"127.0.0.1:{ports[0]}", more={}, ports=ports) as process:
        process.send_signal(how)
        _, errors = process.communicate(timeout=60)

    assert process.returncode == 0
    assert errors.startswith(f"otel-loopguard: receiving OTLP by HTTP at 127.0.0.1:{ports[0]}.")


@pytest.mark.parametrize("option", ["--otlp", "--otlp-http"])
def test_a_port_without_a_host_is_of_this_machine_only(option) -> None:
    """Nothing is to be warned of."""
    ports = free_ports(1)
    with watcher(option, f":{ports[0]}", more={}, ports=ports) as process:
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=60)

    assert f" at 127.0.0.1:{ports[0]}." in errors.splitlines()[0]
    assert "warning" not in errors


@pytest.mark.parametrize("option", ["--otlp", "--otlp-http"])
@pytest.mark.parametrize("host", ["0.0.0.0", "[::]"])
def test_a_watcher_at_all_interfaces_warns_of_it(option, host) -> None:
    """One line says who may send, and what to write instead. It listens at the loopback, too."""
    ports = free_ports(1)
    with watcher(option, f"{host}:{ports[0]}", more={}, ports=ports) as process:
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=60)

    (line,) = (one for one in errors.splitlines() if "warning" in one)
    assert f"{host}:{ports[0]} is open at all addresses" in line
    assert "anyone who reaches it may send" in line
    assert f":{ports[0]}" in line


def test_a_port_in_use_is_wrong_use_with_a_remedy() -> None:
    """It is reported at once, before anything is exported."""
    ports = free_ports(1)
    place = f"127.0.0.1:{ports[0]}"
    with watcher("--otlp", place, more={}, ports=ports):
        second = command("watch", "--otlp", place)

    assert second.returncode == 2
    assert f"--otlp {place}: nothing can listen there" in second.stderr
    assert "take another one, such as --otlp 127.0.0.1:" in second.stderr
    assert len(second.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    ("arguments", "remedy"),
    [
        (("--otlp", "nowhere"), "such as :4317"),
        (("--otlp", ":4317", "--preset", "nix"), "it must be one of chat_turn, default"),
        (("--otlp", ":4317", "--policy", "missing.toml"), "missing.toml"),
        (("--otlp", ":4317", "--window", "-1"), "must be seconds from 0 to 3600"),
        (("--otlp", ":4317", "--turns", "day"), "'conversation', 'agent', 'trace'"),
        (("--otlp", ":14999", "--", "true"), "leave one out"),
        ((), "otel-loopguard watch --otlp :4317"),
    ],
)
def test_wrong_use_names_the_remedy(arguments, remedy) -> None:
    """The status is 2."""
    done = command("watch", *arguments)

    assert done.returncode == 2
    assert remedy in done.stderr


@pytest.mark.parametrize(
    "more",
    [
        OTLP,
        {**OTLP, "OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:4317"},
        {"OTEL_LOGS_EXPORTER": "otlp", "OTEL_EXPORTER_OTLP_LOGS_ENDPOINT": "localhost:4317"},
    ],
)
def test_a_watcher_does_not_export_to_itself(more) -> None:
    """The default endpoint of the exporters is the usual port of the receiver."""
    done = command("watch", "--otlp", ":4317", more=more)

    assert done.returncode == 2
    assert "set OTEL_EXPORTER_OTLP_ENDPOINT to the address of the collector" in done.stderr


@pytest.mark.parametrize(
    ("more", "named"),
    [
        ({"OTEL_METRICS_EXPORTER": "prom"}, "there is no exporter 'prom'; set one of console, none, otlp"),
        ({**OTLP, "OTEL_EXPORTER_OTLP_PROTOCOL": "http/json"}, "there is no protocol 'http/json'; set one of grpc"),
    ],
)
def test_an_exporter_that_does_not_exist_is_wrong_use(more, named) -> None:
    """The error has the variable and the names that there are."""
    done = command("watch", "--otlp", "127.0.0.1:0", more=more)

    assert done.returncode == 2
    assert named in done.stderr
