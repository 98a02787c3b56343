"""Send hostile messages to the receivers of `watch`, and make each function that takes or judges a message raise.

After each attempt a good sender sends a loop, which has to be taken and found.
"""

from __future__ import annotations

import gzip
import json
import logging
import socket
import threading
import time
from contextlib import closing
from http.client import HTTPConnection, HTTPException
from itertools import count
from random import Random
from typing import TYPE_CHECKING, Any

import grpc

from benchmarks.reliability.faults import FAULTS, Logged
from benchmarks.reliability.result import Row
from otel_loopguard.cli.replay.judge import PolicyJudge
from otel_loopguard.cli.watch.address import ListenAddress
from otel_loopguard.cli.watch.exports import exports
from otel_loopguard.cli.watch.grpc_receiver import GrpcReceiver
from otel_loopguard.cli.watch.http_receiver import HttpReceiver
from otel_loopguard.cli.watch.live import LiveJudge
from otel_loopguard.cli.watch.report import WatchReport
from otel_loopguard.engine.policy.policy import Policy
from otel_loopguard.shield import Shield
from otel_loopguard.telemetry.settings import Settings
from tests.cli.watch.messages import as_json, call, message
from tests.instrumentation.fault_injection import EXCUSED, broken, ours

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

TITLE = "Receivers of `watch`"
ABOUT = """Messages that are no OTLP, changed copies of good ones, requests that are no HTTP; and good messages while
a function of the package raises. *Broken*: the thread that judges ends; spans are lost and not counted; the text of
an exception is in the log or on stderr; or a later loop is not found."""
HOSTILE = 2_000
CALLS = 4
"""Of a loop, with a trip at all but the first."""
SECONDS = 10
"""After which a sender counts as shut out."""
FATES = ("judged", "guarded", "inner", "duplicate", "dropped")
"""Those of which each span has one."""
METHOD = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"
_numbers = count(1)


class Watcher:
    """The receivers with their judge and report, as `watch` has them, and a sender."""

    def __init__(self) -> None:
        judge, none = PolicyJudge(Policy()), {"OTEL_METRICS_EXPORTER": "none", "OTEL_LOGS_EXPORTER": "none"}
        self.report = WatchReport(judge, exports(none, Shield()), Settings.from_environment({}))
        self.judge = LiveJudge(judge, self.report, self.report.shield, window=0.0)
        self.report.watch(self.judge)
        here = ListenAddress("127.0.0.1", 0)
        self.http, self.grpc = HttpReceiver(here, self.judge), GrpcReceiver(here, self.judge)
        self.channel = grpc.insecure_channel(str(self.grpc.address))
        self.taken = 0
        """Tool spans in messages that were answered with success."""
        for one in (self.http, self.grpc):
            one.start()

    def close(self) -> None:
        """End all."""
        self.channel.close()
        self.http.stop()
        self.grpc.stop()
        self.judge.close()

    def post(self, body: bytes, content_type: str = "application/x-protobuf", **headers: str) -> bool:
        """Send a message by HTTP. Return True if it was taken."""
        with closing(HTTPConnection(*self.http.address, timeout=SECONDS)) as connection:
            try:
                connection.request("POST", "/v1/traces", body, {"content-type": content_type, **headers})
                return connection.getresponse().status == 200
            except (OSError, HTTPException):
                return False

    def call(self, body: bytes) -> bool:
        """Send a message by gRPC. Return True if it was taken."""
        try:
            self.channel.unary_unary(METHOD)(body, timeout=SECONDS)
        except grpc.RpcError:
            return False
        return True

    def raw(self, data: bytes) -> None:
        """Send bytes to both ports, and go."""
        for one in (self.http, self.grpc):
            with socket.create_connection(one.address, timeout=SECONDS) as sock:
                sock.sendall(data)

    def send_loops(self) -> int:
        """Send a loop in each form. Return the number of those that were taken."""
        plain, packed = [_loop().SerializeToString() for _ in range(2)], gzip.compress(_loop().SerializeToString())
        taken = [
            self.post(plain[0]),
            self.post(json.dumps(as_json(_loop())).encode(), "application/json"),
            self.post(packed, **{"content-encoding": "gzip"}),
            self.call(plain[1]),
        ]
        self.taken += CALLS * sum(taken)
        return sum(taken)

    def problems(self) -> Iterator[str]:
        """Send loops, and yield what is wrong."""
        fates = self.report._fates
        if not soon(lambda: self.taken <= sum(fates[name] for name in FATES) or bool(self.report.shield.seen)):
            yield "spans are lost"
        before, sent = self.report.trips, self.send_loops()
        if sent < 4:
            yield f"{4 - sent} of 4 later messages are not taken"
        if not soon(lambda: self.report.trips - before >= sent * (CALLS - 1)):
            yield "the judge hangs, or has ended" if self.judge.budget.used else "a later loop is not found"

    def is_idle(self) -> bool:
        """Return True if nothing waits to be judged."""
        return not (self.judge.budget.used or self.judge.turns.waiting)


def soon(check: Callable[[], bool], seconds: float | None = None) -> bool:
    """Return True once this holds, and False if it does not within these seconds."""
    deadline = time.monotonic() + (SECONDS if seconds is None else seconds)
    while not check():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.005)
    return True


def measure(seed: int, scale: float) -> Iterator[Row]:
    """Send what is hostile, then break functions."""
    random, logged, printed = Random(seed), Logged(), Printed()
    logging.getLogger().addHandler(logged)
    threading.excepthook = printed
    with closing(Watcher()) as watcher:
        tried, problems = 0, []
        for tried, send in enumerate(_hostile(watcher, random, max(50, int(HOSTILE * scale))), 1):
            send()
            if tried % 50 == 0:
                problems += watcher.problems()
        problems += watcher.problems()
    yield Row("hostile messages", tried, len(problems), "; ".join(problems[:5]))
    labels = sorted(_called() - set(EXCUSED))
    drawn = labels if scale >= 1 else random.sample(labels, max(1, int(len(labels) * scale)))
    hurt = [f"{label} ({problem})" for label in drawn for problem in broken_once(label, random.choice(FAULTS))]
    yield Row(f"faults: {len(labels)} functions", len(drawn), len(hurt), "; ".join(hurt[:5]))
    yield Row("the text of an exception in the log, or on stderr", logged.records, logged.leaks + printed.times)


def broken_once(label: str, fault: Any) -> Iterator[str]:
    """Break a function while messages are sent, and yield what is wrong afterwards."""
    with closing(Watcher()) as watcher:
        with broken(ours(())[label], fault):
            watcher.send_loops()
            soon(watcher.is_idle, 1.0)
        yield from watcher.problems()


def _called() -> set[str]:
    """Return the functions that take and judge messages, in all threads."""
    codes: set[Any] = set()

    def note(frame: Any, event: str, _: Any) -> None:
        if event == "call":
            codes.add(frame.f_code)

    threading.setprofile(note)
    with closing(Watcher()) as watcher:
        codes.clear()
        loops = watcher.send_loops()
        soon(lambda: watcher.report.trips == loops * (CALLS - 1))
        found = frozenset(codes)
    threading.setprofile(None)
    return {name for name, function in ours(()).items() if function.__code__ in found}


def _loop() -> Any:
    """Return a message with a loop in a trace of its own."""
    trace = next(_numbers)
    return message(*[call(trace * 100 + number, at=float(number), trace=trace) for number in range(CALLS)])


def _hostile(watcher: Watcher, random: Random, drawn: int) -> Iterator[Callable[[], object]]:
    """Yield functions that send something hostile."""
    good = json.dumps(as_json(_loop())).encode()
    texts = [
        b"", b"{", b"null", b"5", b'"x"', b"[" * 100_000, b'{"resourceSpans":5}', b'{"resourceSpans":[null]}',
        b'{"resourceSpans":[{"scopeSpans":[{"spans":[null,5,"a",[]]}]}]}', good.replace(b'"search"', b"NaN"),
        good.replace(b'"search"', b'"\\ud800"'), good.replace(b"search", b"\xff\xfe"),
        good.replace(b'"startTimeUnixNano": "', b'"startTimeUnixNano": "-999999999999999999999999'),
        good.replace(b'"stringValue"', b'"arrayValue"'), good.replace(b'"spanId": "', b'"spanId": ["'),
    ]  # fmt: skip
    for text in texts:
        yield lambda text=text: watcher.post(text, "application/json")
        yield lambda text=text: watcher.post(text)
        yield lambda text=text: watcher.post(text, **{"content-encoding": "gzip"})
        yield lambda text=text: watcher.post(gzip.compress(text), **{"content-encoding": "gzip"})
        yield lambda text=text: watcher.call(text)
        yield lambda text=text: watcher.call(gzip.compress(text)[:-4])
    head = b"POST /v1/traces HTTP/1.1\r\nhost: x\r\n"
    chunked = head + b"transfer-encoding: chunked\r\n\r\n"
    for data in (
        b"\0" * 9_000, b"GET / HTTP/9.9\r\n\r\n", head, head + b"x: " + b"y" * 90_000, chunked + b"zz\r\n",
        head + b"content-length: -1\r\n\r\n", head + b"content-length: 99\r\n\r\nx", chunked + b"f" * 15 + b"\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\xff\xff\xff\xff",
    ):  # fmt: skip
        yield lambda data=data: watcher.raw(data)
    for _ in range(drawn):
        body = bytearray(_loop().SerializeToString() if random.random() < 0.5 else good)
        for _ in range(random.randint(1, 9)):
            body[random.randrange(len(body))] = random.randrange(256)
        sent, is_json = (
            bytes(body[: random.randint(0, len(body))] if random.random() < 0.3 else body),
            body[0] == ord("{"),
        )
        if is_json:
            yield lambda sent=sent: watcher.post(sent, "application/json")
        else:
            yield lambda sent=sent: (watcher.post(sent), watcher.call(sent))


class Printed:
    """Counts the exceptions that end a thread: Python writes them to stderr."""

    times = 0

    def __call__(self, *_: object) -> None:
        self.times += 1
