"""The server: one HTTP server on loopback that speaks every API, follows a script and records all requests."""

from __future__ import annotations

import json
import sys
import threading
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, urlsplit

from tests.models.apis.chat import Chat
from tests.models.apis.gemini import Gemini
from tests.models.apis.messages import Messages
from tests.models.apis.responses import Responses
from tests.models.conversation import Asked, RejectedError, Reply

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tests.models.apis import Api
    from tests.models.scripts import Script


@dataclass(frozen=True)
class Exchange:
    """One request and its answer."""

    path: str
    headers: Mapping[str, str]
    """With names in lower case."""
    body: bytes
    status: int
    answer: Any
    """The JSON of the answer, also where it was streamed."""
    asked: Asked | None = None
    """The request as the model read it; None if it was rejected."""
    reply: Reply | None = None

    @property
    def json(self) -> Any:
        """The parsed body."""
        return json.loads(self.body)


class Server:
    """Answers each conversation by its script. The first word like ``task-17`` tells conversations apart.

    All answers depend on the script, the conversation and the number of the request alone, so that two runs of
    one program get the same ids and can be compared byte by byte.
    """

    def __init__(
        self, script: Script | Mapping[str, Script], *, gemini_ids: bool = False, thoughts: bool = False
    ) -> None:
        self._script = script
        self._apis: tuple[Api, ...] = (
            Chat(), Responses(thoughts=thoughts), Messages(), Gemini(ids=gemini_ids, thoughts=thoughts),
        )  # fmt: skip
        self._answered: Counter[str] = Counter()
        self._lock = threading.Condition()
        self._at_most = sys.maxsize
        self.held = 0
        """The requests that wait for the end of ``holding``."""
        self.exchanges: list[Exchange] = []
        self.faults: list[BaseException] = []
        """Exceptions of the server or of a script."""
        self._http = Listener(("127.0.0.1", 0), self)

    @property
    def url(self) -> str:
        """The address, without a path."""
        return f"http://127.0.0.1:{self._http.server_address[1]}"

    def bodies(self, key: str = "") -> list[bytes]:
        """The body of each answered request, or of those of one conversation."""
        return [one.body for one in self.exchanges if one.asked and key in (one.asked.key, "")]

    @property
    def rejected(self) -> list[str]:
        """What was wrong with each rejected request."""
        return [str(one.answer) for one in self.exchanges if one.status >= 400]

    @contextmanager
    def running(self) -> Iterator[Server]:
        """Serve until the end of the block."""
        thread = threading.Thread(target=self._http.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        try:
            yield self
        finally:
            self._http.shutdown()
            self._http.server_close()
            thread.join()
            if self.faults:
                raise self.faults[0]

    @contextmanager
    def holding(self, after: int) -> Iterator[None]:
        """Answer so many requests of each conversation, and the next ones at the end of the block."""
        self._at_most = after
        try:
            yield
        finally:
            self._at_most = sys.maxsize
            with self._lock:
                self._lock.notify_all()

    def respond(self, target: str, headers: Mapping[str, str], body: bytes) -> tuple[Exchange, list[bytes] | None]:
        """Answer a request; the second value are the events of an answer that is streamed."""
        address = urlsplit(target)
        api = next((one for one in self._apis if one.paths.fullmatch(address.path)), None)
        events = None
        if api is None:
            exchange = Exchange(target, headers, body, 404, {"error": {"message": f"unknown path {address.path}"}})
        else:
            with self._lock:
                exchange = self._exchange(api, target, headers, body)
            if exchange.asked and exchange.asked.stream:
                events = list(api.events(exchange.answer, exchange.json))
        self.exchanges.append(exchange)
        return exchange, events

    def _exchange(self, api: Api, target: str, headers: Mapping[str, str], body: bytes) -> Exchange:
        """Let the model of the conversation answer, or reject the request."""
        address = urlsplit(target)
        try:
            given = json.loads(body)
            asked = api.read(address.path, dict(parse_qsl(address.query)), headers, given)
            self.held += 1
            self._lock.wait_for(lambda: self._answered[asked.key] < self._at_most)
            self.held -= 1
            asked = replace(asked, number=self._answered[asked.key] + 1)
            reply = self._scripted(asked.key)(asked)
            answer = api.answer(asked, reply, given)
        except RejectedError as rejected:
            return Exchange(target, headers, body, rejected.status, api.error(rejected))
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            rejected = RejectedError(f"We could not parse the JSON body of your request: {error!r}")
            return Exchange(target, headers, body, 400, api.error(rejected))
        self._answered[asked.key] += 1
        return Exchange(target, headers, body, 200, answer, asked, reply)

    def _scripted(self, key: str) -> Script:
        if callable(self._script):
            return self._script
        if key not in self._script:
            raise RejectedError(f"There is no script for the conversation {key!r}.")
        return self._script[key]


class Listener(ThreadingHTTPServer):
    """The sockets; a thread for each connection, and room for many that connect at once."""

    daemon_threads = True
    block_on_close = False
    request_queue_size = 512

    def __init__(self, address: tuple[str, int], server: Server) -> None:
        super().__init__(address, Handler)
        self.models = server

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Keep a fault of the server for its test; a client that has gone is none."""
        error = sys.exc_info()[1]
        if error is not None and not isinstance(error, ConnectionError):
            self.models.faults.append(error)


class Handler(BaseHTTPRequestHandler):
    """HTTP/1.1 with connections that are kept, and chunks where the answer is streamed."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: Listener

    def do_POST(self) -> None:
        """Answer a request."""
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        headers = {name.lower(): value for name, value in self.headers.items()}
        exchange, events = self.server.models.respond(self.path, headers, body)
        if events is None:
            self._plain(exchange)
        else:
            self._streamed(events)

    def _plain(self, exchange: Exchange) -> None:
        data = json.dumps(exchange.answer).encode()
        self.send_response(exchange.status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def _streamed(self, events: list[bytes]) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for event in events:
            self.wfile.write(b"%x\r\n%s\r\n" % (len(event), event))
        self.wfile.write(b"0\r\n\r\n")

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name is the base class's
        """Write no log."""
