"""An agent without a framework that asks its model through the proxy: one loop, three APIs, streamed or not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import httpx

from otel_loopguard.gateway.gateway import END
from tests.gateway.proxy import ANTHROPIC, KEY, OPENAI
from tests.models.toolbox import Toolbox, described
from tests.models.wire import WIRES, Json, Step, events_of

if TYPE_CHECKING:
    from collections.abc import Iterator

MODELS = {"chat": OPENAI, "responses": OPENAI, "messages": ANTHROPIC}
"""The APIs of the proxy, and the model for each."""


class RefusedError(Exception):
    """The proxy has answered with an error."""

    def __init__(self, response: httpx.Response) -> None:
        super().__init__(f"{response.status_code}: {response.text}")
        self.status = response.status_code
        is_json = response.headers.get("content-type", "").startswith("application/json")
        self.error: Json = response.json()["error"] if is_json else {}


class Agent:
    """A conversation over one API: ``chat``, ``responses`` or ``messages``."""

    def __init__(
        self,
        urls: Iterator[str],
        api: str = "chat",
        *,
        stream: bool = False,
        key: str = KEY,
        headers: dict[str, str] | None = None,
        **body: Any,
    ) -> None:
        self.wire = WIRES[api]
        self.stream = stream
        self.tools = Toolbox()
        self.entries: list[Json] = []
        self.headers = {"authorization": f"Bearer {key}", "x-api-key": key, **(headers or {})}
        self.more = {"model": MODELS[api], "stream": stream, **body}
        self.urls = urls
        """The address for each request."""
        self.end: str | None = None
        """How the proxy says that the turn has ended, in its last response; None if it does not say so."""

    def ask(self, question: str) -> str:
        """Ask until the model answers."""
        self.entries.append(self.wire.user(question))
        while True:
            step = self.send()
            self.take(step)
            if not step.calls:
                return step.text

    def take(self, step: Step) -> None:
        """Run the calls of a reply, and take it and their results into the next request."""
        results = [(one, self.run(one.name, one.arguments)) for one in step.calls]
        self.entries += [*step.entries, *(self.wire.results(*results) if results else ())]

    def run(self, name: str, arguments: Json) -> str:
        """Run a tool. A job goes on from look to look."""
        if name != "job_status":
            return self.tools.run(name, arguments)
        self.tools.runs.append((name, arguments))
        return f"{8 * len(self.tools.runs)} % done"

    def send(self) -> Step:
        """Send one request, and read the reply."""
        body = self.wire.body(self.entries, [self.wire.tool(*one) for one in described(self.tools)], **self.more)
        with httpx.Client(timeout=60, verify=False) as client:
            response = client.post(next(self.urls) + self.wire.path, json=body, headers=self.headers)
        self.end = response.headers.get(END)
        if response.status_code != 200:
            raise RefusedError(response)
        return self.wire.read_events(events_of(response.text)) if self.stream else self.wire.read(response.json())
