"""Count the files and the Python frames of this package on one tool call.

    python -m benchmarks.call_frames            # both numbers
    python -m benchmarks.call_frames --files    # and the files, in the order of the first visit
    python -m benchmarks.call_frames --frames   # and every frame, in order

The call is an everyday one: a LangChain tool in a LangGraph agent's run, after a warm-up, with arguments that are new
and a short text as its result. Spans go through our processor. The count begins where the ``ToolNode`` calls its
executor of one call, and ends where that returns.
"""

from __future__ import annotations

import argparse
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider

import otel_loopguard
from otel_loopguard import instrument, uninstrument

if TYPE_CHECKING:
    from types import FrameType

PACKAGE = str(Path(otel_loopguard.__file__).parent) + "/"
WARM_UP = 7


class Frames:
    """The calls of this package's functions while ``recording`` is true, in every thread."""

    def __init__(self) -> None:
        self.recording = False
        self.seen: list[tuple[str, str]] = []

    def __call__(self, frame: FrameType, event: str, _: Any) -> None:
        """Note a call event: the signature of a profile function."""
        code = frame.f_code
        if event == "call" and self.recording and code.co_filename.startswith(PACKAGE):
            self.seen.append((code.co_filename.removeprefix(PACKAGE), getattr(code, "co_qualname", code.co_name)))

    @property
    def files(self) -> list[str]:
        """The files, in the order of the first visit."""
        return list(dict.fromkeys(file for file, _ in self.seen))


def run_agent(frames: Frames) -> None:
    """Run an agent whose model calls one tool several times; record one of these calls."""
    from langchain_core.messages import AIMessage
    from langchain_core.tools import tool
    from langgraph.graph import END, START, MessagesState, StateGraph
    from langgraph.prebuilt import ToolNode

    @tool
    def read_file(path: str) -> str:
        """Read a file."""
        letter = "zyxwvutsrqpo"[ord(path[4]) - ord("a")]
        return f"{letter} is the text, {letter}"

    steps = iter(range(WARM_UP + 2))

    class Node(ToolNode):
        def _run_one(self, call: Any, *args: Any, **kwargs: Any) -> Any:
            frames.recording = call["id"] == f"call-{WARM_UP}"
            try:
                return super()._run_one(call, *args, **kwargs)
            finally:
                frames.recording = False

    def model(_: Any) -> dict[str, Any]:
        step = next(steps)
        if step > WARM_UP:
            return {"messages": [AIMessage("done")]}
        call = {"name": "read_file", "args": {"path": f"src/{'abcdefghijkl'[step]}.py"}, "id": f"call-{step}"}
        return {"messages": [AIMessage("", tool_calls=[call])]}

    graph = StateGraph(MessagesState)
    graph.add_node("model", model)
    graph.add_node("tools", Node([read_file]))
    graph.add_edge(START, "model")
    graph.add_conditional_edges("model", lambda state: "tools" if state["messages"][-1].tool_calls else END)
    graph.add_edge("tools", "model")
    graph.compile().invoke({"messages": [("user", "read the files")]}, {"recursion_limit": 50})


def count() -> Frames:
    """Record one call of a guarded agent."""
    frames = Frames()
    instrument(tracer_provider=TracerProvider(), meter_provider=MeterProvider([InMemoryMetricReader()]))
    threading.setprofile(frames)
    sys.setprofile(frames)
    try:
        run_agent(frames)
    finally:
        sys.setprofile(None)
        threading.setprofile(None)  # type: ignore[arg-type]
        uninstrument()
    return frames


def main() -> None:
    """Count, and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--files", action="store_true", help="print the files in the order of the first visit")
    parser.add_argument("--frames", action="store_true", help="print every frame")
    given = parser.parse_args()
    frames = count()
    print(f"{len(frames.files)} files, {len(frames.seen)} frames")
    if given.files:
        print("\n".join(frames.files))
    if given.frames:
        print("\n".join(f"{file}: {name}" for file, name in frames.seen))


if __name__ == "__main__":
    main()
