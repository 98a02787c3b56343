"""The tools by which LangChain's agents answer: ``create_agent`` with a ``ToolStrategy`` demands a call of one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from otel_loopguard.instrumentation.runtime import active_runtime
from otel_loopguard.instrumentation.targets import CallTarget

if TYPE_CHECKING:
    from collections.abc import Callable

    from otel_loopguard.instrumentation.targets import Original


def _note_tool(original: Original) -> Callable[..., Any]:
    """Wrap the constructor of an answer's tool: note its name."""

    def construct(*given: Any, **kwargs: Any) -> None:
        wrapped, binding, args = original.bind(given)
        wrapped(*args, **kwargs)
        runtime = active_runtime.instrumented
        if runtime is not None:
            with runtime.shield("adapter.answer_tools"):
                active_runtime.add_answer_tools((binding.tool.name,))

    return construct


ANSWERS = (CallTarget("langchain.agents.structured_output", "OutputToolBinding.__init__", _note_tool),)
