"""Delivery of spans to the trace back end."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .harness.process import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable

    from .conftest import Stack
    from .harness.application import Application


def test_large_traces_arrive_in_portions_the_back_end_takes(
    stack: Stack, make_application: Callable[..., Application]
) -> None:
    """A back end takes 4 MiB at once, gRPC's default, and refuses more for good: 12 MB of prompts come in portions."""
    agent = make_application(stack.collector, "wordy")
    with agent.foreign.start_as_current_span("invoke_agent") as root:
        with agent.call() as span:
            agent.trip(span, "cycle")
        for _ in range(400):
            agent.foreign.start_span("chat", attributes={"gen_ai.prompt": "x" * 30_000}).end()
    agent.flush()

    trace_id = f"{root.get_span_context().trace_id:032x}"
    wait_until("403 spans in the back end", lambda: stack.tempo.spans()[trace_id] == 403)
