"""A script behind a client of a model: the client's own HTTP transport is answered in the process."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.models.conversation import Call, Reply
from tests.models.server import Server
from tests.scripted import next_calls

if TYPE_CHECKING:
    from tests.models.conversation import Asked
    from tests.scripted import Steps


class ServedScript:
    """Makes the calls of its steps, one step a request, and keeps the requests. No socket stays open.

    ``http``: the HTTP library of the client, ``httpx`` or ``httpx2``.
    """

    def __init__(self, http: Any, steps: Steps, answer: str = "Done.") -> None:
        self._http = http
        self.steps = steps
        self.answer = answer
        self.seen: list[Asked] = []
        self.server = Server(self._reply)
        self.server._http.server_close()

    def _reply(self, asked: Asked) -> Reply:
        self.seen.append(asked)
        step = 0  # counted from the last message of the user
        for message in asked.messages:
            step = 0 if message.role == "user" and message.text else step + bool(message.calls)
        calls = next_calls(self.steps, step) if asked.may_call else ()
        return Reply("" if calls else self.answer, tuple(Call(ask.tool, ask.arguments) for ask in calls))

    def _send(self, request: Any) -> Any:
        headers = {name.lower(): value for name, value in request.headers.items()}
        exchange, events = self.server.respond(request.url.raw_path.decode(), headers, request.read())
        if events is None:
            return self._http.Response(exchange.status, json=exchange.answer)
        return self._http.Response(200, headers={"content-type": "text/event-stream"}, content=b"".join(events))

    def client(self, kind: Any, **options: Any) -> Any:
        """Make a client of this class that the script answers."""
        is_async = hasattr(kind, "__aenter__")
        http_client = (self._http.AsyncClient if is_async else self._http.Client)(
            transport=self._http.MockTransport(self._send)
        )
        return kind(api_key="local", max_retries=0, http_client=http_client, **options)

    @property
    def read(self) -> list[str]:
        """The text of the tool results in the last request."""
        return [result.text for result in self.seen[-1].results] if self.seen else []
