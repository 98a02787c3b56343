"""Tool spans of others for calls that a model has written in a reply that was read: the requests count them."""

from __future__ import annotations

import json
from threading import Thread
from typing import TYPE_CHECKING, Any

import pytest

from otel_loopguard import semconv
from otel_loopguard.testing import guarded
from tests.models.scripts import Looping, call
from tests.models.server import Server

if TYPE_CHECKING:
    from collections.abc import Callable

    from otel_loopguard.testing import Recording

READ = call("read_file", path="a.txt")
TOOLS: Any = [{"type": "function", "function": {"name": "read_file", "parameters": {"type": "object"}}}]


def here(work: Callable[[], None]) -> None:
    """Run a tool in the code that has read the reply."""
    work()


def in_thread(work: Callable[[], None]) -> None:
    """Run a tool in a thread that has no context of the reply."""
    thread = Thread(target=work)
    thread.start()
    thread.join()


def loop(recording: Recording, url: str, run: Callable[[Callable[[], None]], None], *, with_id: bool) -> str:
    """Ask until the model answers; each tool runs in a span, as agent frameworks with spans of their own do it."""
    client = pytest.importorskip("openai").OpenAI(base_url=f"{url}/v1", api_key="local")
    tracer = recording.tracer_provider.get_tracer("a framework")
    messages: list[Any] = [{"role": "user", "content": "task-1"}]
    while True:
        reply = client.chat.completions.create(model="gpt-4.1", messages=messages, tools=TOOLS).choices[0].message
        if not reply.tool_calls:
            return str(reply.content)
        (asked,) = reply.tool_calls
        attributes = {
            semconv.OPERATION_NAME: semconv.OPERATION_EXECUTE_TOOL,
            semconv.TOOL_NAME: asked.function.name,
            "gen_ai.tool.call.arguments": json.dumps({"path": "a.txt"}),
            **({semconv.TOOL_CALL_ID: asked.id} if with_id else {}),
        }

        def work(attributes: dict[str, str] = attributes) -> None:
            with tracer.start_as_current_span("execute_tool read_file", attributes=attributes):
                pass

        run(work)
        messages += [reply, {"role": "tool", "tool_call_id": asked.id, "content": "the text"}]


@pytest.mark.parametrize(("run", "with_id"), [(here, True), (here, False), (in_thread, True)])
def test_a_span_for_a_call_of_a_reply_is_counted_once(run: Any, with_id: bool, caplog: Any) -> None:
    """By its request: the other span has no trip, is not counted, and nothing is said of its missing results."""
    with guarded() as recording, Server(Looping(READ, answer="I looked.")).running() as server:
        assert loop(recording, server.url, run, with_id=with_id) == "I looked."
    assert len(server.bodies()) == 10
    assert recording.counted(semconv.METRIC_TOOL_CALLS) == len(recording.spans) == 9
    others = [span for span in recording._spans.get_finished_spans() if span not in recording.spans]
    assert [span.events for span in others if span.name.startswith("execute_tool")] == [()] * 9
    assert "cannot be" not in caplog.text
