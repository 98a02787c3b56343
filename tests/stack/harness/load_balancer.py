"""A load balancer that hands every request to the next back end, as the one of a cluster may."""

from __future__ import annotations

import http.client
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .collector import Collector


class LoadBalancer:
    """Takes OTLP over HTTP; an application exports to it as to a collector."""

    def __init__(self, *collectors: Collector) -> None:
        self.collectors = list(collectors)
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self.collectors))
        self.http = self._server.server_port
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def stop(self) -> None:
        """Listen no more."""
        self._server.shutdown()
        self._server.server_close()


def _handler(collectors: list[Collector]) -> type[BaseHTTPRequestHandler]:
    requests = {"/v1/traces": count(), "/v1/metrics": count()}

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            collector = collectors[next(requests[self.path]) % len(collectors)]
            back_end = http.client.HTTPConnection("127.0.0.1", collector.http, timeout=10)
            back_end.request("POST", self.path, body, dict(self.headers))
            answer = back_end.getresponse()
            self.send_response(answer.status)
            self.end_headers()
            self.wfile.write(answer.read())
            back_end.close()

        def log_message(self, *_: object) -> None:
            """Log nothing."""

    return Handler
