"""Measure a real export, OTLP over HTTP to a sink in this process: python -m benchmarks.bench_export [--quick].

The calls are LangChain's ``tool.invoke``. Each instrumentation has a process, as in ``bench_frameworks``.
"""

from __future__ import annotations

import statistics
import sys
import threading
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING

from benchmarks.bench_frameworks import CASES, added_by, in_turns, started, versions
from benchmarks.framework_process import BARE, CALLS, NOTHING
from benchmarks.harness import Row, Section, main

if TYPE_CHECKING:
    from collections.abc import Iterator

    from benchmarks.bench_frameworks import Process

RUNS = 60


class Sink(BaseHTTPRequestHandler):
    """Take everything, and count its bytes by the path."""

    protocol_version = "HTTP/1.1"
    received: Counter[str] = Counter()

    def do_POST(self) -> None:
        """Read the body, and answer with an empty message of protobuf."""
        size = int(self.headers["Content-Length"])
        self.rfile.read(size)
        self.received[self.path] += size
        self.send_response(200)
        self.send_header("Content-Type", "application/x-protobuf")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Write no log."""


TITLE = "A real export"
ABOUT = (
    "OTLP over HTTP, uncompressed, from LangChain's `tool.invoke` to a local sink, by the batch processor; metrics are "
    "exported every 900 calls. Processor time of the whole process, with its exporting threads, above that of the "
    "process without anything."
)


def sections(*, quick: bool) -> Iterator[Section]:
    """Measure processor time and bytes."""
    case = CASES[0]
    server = ThreadingHTTPServer(("127.0.0.1", 0), Sink)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    processes = started(case, "--export", f"http://127.0.0.1:{server.server_port}")
    sizes: dict[str, list[tuple[float, float]]] = {name: [] for name in processes}

    def round_of(process: Process) -> None:
        Sink.received.clear()
        process.round(RUNS)
        if not process.problem:
            calls = (RUNS + 1) * CALLS
            received = Sink.received["/v1/traces"], Sink.received["/v1/metrics"]
            sizes[process.library.name].append((received[0] / calls, received[1] / calls))

    in_turns(processes, 2 if quick else 7, round_of)
    server.shutdown()
    yield Section(TITLE, f"{ABOUT} With {versions(processes)}.", list(rows(processes, sizes)))


def rows(processes: dict[str, Process], sizes: dict[str, list[tuple[float, float]]]) -> Iterator[Row]:
    """A row for each instrumentation."""
    added = added_by(processes)
    for name, values in added.items():
        if not values:
            yield Row(f"{name}, 1,000 calls", note=processes[name].problem or processes[NOTHING].problem)
            continue
        traces, metrics = (statistics.median(column) for column in zip(*sizes[name], strict=True))
        yield Row(
            f"{name}, 1,000 calls",
            values,  # microseconds a call
            "ms",
            base=added[BARE] if name != BARE else [],
            base_name=BARE,
            note=f"{traces:,.0f} B of traces and {metrics:,.0f} B of metrics a call",
        )


if __name__ == "__main__":
    sys.exit(main(sections, __doc__))
