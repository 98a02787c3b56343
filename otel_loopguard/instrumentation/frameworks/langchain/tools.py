"""LangChain's tools: those that a ``ToolNode`` runs, and those that are called bare."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from otel_loopguard.core.model import Outcome, ToolCall
from otel_loopguard.instrumentation.hints import hints_of
from otel_loopguard.instrumentation.points import Dialect, Reading, ToolPoint
from otel_loopguard.instrumentation.texts import appended
from otel_loopguard.turns.scope import current

from .runs import conversation

if TYPE_CHECKING:
    from collections.abc import Mapping

    from otel_loopguard.core.model import Hints


class _Bound(NamedTuple):
    """Where a result goes."""

    direct: bool = False
    """To the user, as the answer."""
    text: bool = False
    """To a model, though it is bare text and no message."""
    missing: bool = False
    """It stands for a tool that does not exist, and is an error whatever it says."""


# --- a call in a ToolNode ----------------------------------------------------------------------------------------


def _read_node(instance: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Reading:
    call = args[0] if args else kwargs["call"]
    last = args[2] if len(args) > 2 else kwargs.get("tool_runtime", kwargs.get("config"))
    config = getattr(last, "config", last)  # before langgraph-prebuilt 1.0 it was the configuration itself
    # A middleware may supply tools that the node does not know.
    open_ended = getattr(instance, "_wrap_tool_call", None) or getattr(instance, "_awrap_tool_call", None)
    known = None if open_ended else instance.tools_by_name
    tool = instance.tools_by_name.get(call["name"])
    return Reading(
        ToolCall(call["name"], call.get("args"), call.get("id"), known, _hints(tool), _written()),
        conversation_id=conversation(config),
        note=_Bound(direct=getattr(tool, "return_direct", False)),
    )


def _written() -> int | None:
    """Within a run each call is of one message; a bare one of a message of its own."""
    scope = current()
    if scope is None or scope.boundary is None:
        return None
    return scope.turn.tick if scope.written is None else scope.written


def _hints(tool: Any) -> Hints | None:
    """Adapters put what an MCP server says of a tool into its metadata."""
    metadata = getattr(tool, "metadata", None)
    return hints_of(metadata) if metadata else None


def _read_tool(instance: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Reading:
    arguments = args[0] if args else kwargs.get("tool_input")
    name, known = instance.name, (instance.name,)
    if name == "invalid_tool" and isinstance(arguments, dict) and "requested_tool_name" in arguments:
        # AgentExecutor's stand-in for a tool that does not exist.
        name, known = str(arguments["requested_tool_name"]), tuple(arguments.get("available_tool_names") or ())
        arguments = None
    return Reading(
        ToolCall(name, arguments, kwargs.get("tool_call_id"), known, _hints(instance), _written()),
        conversation_id=conversation(kwargs.get("config")),
        # AgentExecutor, and nobody else, says how verbose a tool is to be; it gives plain results to its model.
        note=_Bound(instance.return_direct, text="verbose" in kwargs, missing=name != instance.name),
    )


def _answer(reading: Reading, content: Any, error: bool) -> Any:  # noqa: FBT001 - the signature of the table
    """A ToolMessage where the call has an id; else the bare content, which is what the caller waits for."""
    if reading.call.call_id is None:
        return content
    from langchain_core.messages import ToolMessage  # noqa: PLC0415 - imported by the program already

    return ToolMessage(
        content=content,
        name=reading.call.tool,
        tool_call_id=reading.call.call_id,
        status="error" if error else "success",
    )


def _outcome(reading: Reading, result: Any) -> Outcome:
    failed = reading.note.missing or getattr(result, "status", None) == "error"
    return Outcome(result=_content(result), is_error=failed)


def _content(result: Any) -> Any:
    """What the model will read of a result: messages carry ids of their own, which differ each time."""
    if isinstance(result, (list, tuple)):
        return [_content(part) for part in result]
    if hasattr(result, "tool_call_id") and hasattr(result, "content"):
        return _without_ids(result.content)
    update = getattr(result, "update", None)
    if hasattr(result, "goto") and not callable(update):  # a Command
        return {"update": _update(update), "goto": str(result.goto)}
    return result


def _without_ids(content: Any) -> Any:
    """Content blocks get an id from LangChain where their maker gave them none."""
    if not isinstance(content, list):
        return content
    return [
        {key: value for key, value in block.items() if key != "id" or not str(value).startswith("lc_")}
        if isinstance(block, dict)
        else block
        for block in content
    ]


def _update(update: Any) -> Any:
    if isinstance(update, dict):
        return {key: _content(value) for key, value in update.items()}
    return _content(update)


def _annotate(reading: Reading, result: Any, text: str) -> Any:
    """Only a message's text is for the model. What a direct tool returns is the answer for the user."""
    if reading.note.direct:
        return None
    if reading.note.text:
        return appended(result, text)
    if not hasattr(result, "tool_call_id"):
        return None
    content = appended(result.content, text)
    return None if content is None else result.model_copy(update={"content": content})


def _signals(error: BaseException) -> bool:
    """Interrupts and hand-overs between graphs are no failures."""
    return any(kind.__name__ == "GraphBubbleUp" for kind in type(error).__mro__)


NODE = Dialect(read=_read_node, answer=_answer, outcome=_outcome, annotate=_annotate, signals=_signals)
TOOL = Dialect(read=_read_tool, answer=_answer, outcome=_outcome, annotate=_annotate, signals=_signals)


TOOLS = (
    ToolPoint("langgraph.prebuilt.tool_node", "ToolNode._run_one", NODE),
    ToolPoint("langgraph.prebuilt.tool_node", "ToolNode._arun_one", NODE, flavour="async"),
    ToolPoint("langchain_core.tools.base", "BaseTool.run", TOOL),
    ToolPoint("langchain_core.tools.base", "BaseTool.arun", TOOL, flavour="async"),
)
