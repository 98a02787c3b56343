"""LangChain's tools: in a ``ToolNode``, and called directly."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from otel_loopguard.engine.vocabulary import Outcome, ToolCall
from otel_loopguard.instrumentation.annotations import hints_of
from otel_loopguard.instrumentation.content import appended
from otel_loopguard.instrumentation.frameworks.langchain import langgraph_command
from otel_loopguard.instrumentation.frameworks.langchain.runs import conversation
from otel_loopguard.instrumentation.targets import MARK, CallStyle, Reading, ToolAdapter, ToolTarget
from otel_loopguard.turns.scope import current_scope

if TYPE_CHECKING:
    from collections.abc import Mapping

    from otel_loopguard.engine.vocabulary import Hints


class _Use(NamedTuple):
    """The use that the framework makes of a result."""

    direct: bool = False
    """It is the answer for the user."""
    text: bool = False
    """The model gets it as plain text, not as a message."""
    missing: bool = False
    """It is the answer for a tool that does not exist, and always an error."""
    supplied: set[str] | None = None
    """The tools that a middleware has supplied so far, if the name is not registered and a middleware may supply it."""


class _Whole(NamedTuple):
    """A result and its artifact, which only the program gets."""

    content: Any
    artifact: Any


# --- a call in a ToolNode ----------------------------------------------------------------------------------------


def _read_node(instance: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Reading:
    call = args[0] if args else kwargs["call"]
    last = args[2] if len(args) > 2 else kwargs.get("tool_runtime", kwargs.get("config"))
    config = getattr(last, "config", last)  # before langgraph-prebuilt 1.0 it is the configuration itself
    known = instance.tools_by_name
    tool = known.get(call["name"])
    supplied = _supplied(instance) if tool is None else None
    if supplied is not None:
        known = {*known, *supplied}
    return Reading(
        ToolCall(
            call["name"],
            _written(instance, call) if hasattr(instance, "tool_to_state_args") else call.get("args"),
            call.get("id"),
            known,
            _hints(tool),
            _message_tick(),
            supplied is not None,
        ),
        conversation_id=conversation(config),
        note=_Use(direct=getattr(tool, "return_direct", False), supplied=supplied),
        of_mcp=_of_mcp(tool),
    )


def _written(node: Any, call: Any) -> Any:
    """Return the arguments that the model wrote. Before langgraph-prebuilt 1.0 the node adds its state to them."""
    name, arguments = call["name"], call.get("args")
    if not isinstance(arguments, dict):
        return arguments
    added = {*(node.tool_to_state_args.get(name) or ()), node.tool_to_store_arg.get(name)}
    return {key: value for key, value in arguments.items() if key not in added}


def _supplied(node: Any) -> set[str] | None:
    """Return the tools that a middleware has supplied to this node so far; None without such a middleware."""
    if not (getattr(node, "_wrap_tool_call", None) or getattr(node, "_awrap_tool_call", None)):
        return None
    if not hasattr(node, _SUPPLIED):
        setattr(node, _SUPPLIED, set())
    names: set[str] = getattr(node, _SUPPLIED)
    return names


_SUPPLIED = "_otel_loopguard_supplied"
"""The attribute of a node that keeps the supplied names, for as long as the node exists."""
_MOST_SUPPLIED = 256


def _message_tick() -> int | None:
    """Return the turn's tick when the model wrote the call; the current tick if unknown, None outside of a run."""
    scope = current_scope()
    if scope is None or scope.run_state is None:
        return None
    return scope.turn.tick if scope.message_tick is None else scope.message_tick


def _hints(tool: Any) -> Hints | None:
    """Return the hints of an MCP server, which adapters put into the metadata of a tool."""
    metadata = getattr(tool, "metadata", None)
    return hints_of(metadata) if metadata else None


def _of_mcp(tool: Any) -> bool:
    """Return True if the function of the tool is LangChain's own that calls an MCP server."""
    return getattr(getattr(tool, "coroutine", None), "__module__", None) == "langchain_mcp_adapters.tools"


def _read_tool(instance: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Reading:
    arguments = args[0] if args else kwargs.get("tool_input")
    name, known = instance.name, (instance.name,)
    if name == "invalid_tool" and isinstance(arguments, dict) and "requested_tool_name" in arguments:
        # AgentExecutor's replacement for a tool that does not exist.
        name, known = str(arguments["requested_tool_name"]), tuple(arguments.get("available_tool_names") or ())
        arguments = None
    return Reading(
        ToolCall(name, arguments, kwargs.get("tool_call_id"), known, _hints(instance), _message_tick()),
        conversation_id=conversation(kwargs.get("config")),
        # Only AgentExecutor passes ``verbose``; it gives plain results to its model.
        note=_Use(instance.return_direct, text="verbose" in kwargs, missing=name != instance.name),
        of_mcp=_of_mcp(instance),
    )


def _answer(reading: Reading, content: Any, error: bool) -> Any:
    """Make a ToolMessage if the call has an id; else return the content alone, as the caller expects."""
    content, artifact = content if isinstance(content, _Whole) else (content, None)
    if reading.call.call_id is None:
        return content
    from langchain_core.messages import ToolMessage  # noqa: PLC0415 - imported by the program already

    return ToolMessage(
        content=content,
        name=reading.call.tool,
        tool_call_id=reading.call.call_id,
        artifact=artifact,
        status="error" if error else "success",
    )


def _mark(reading: Reading, answer: Any, mark: str) -> Any:
    """Mark a ToolMessage. A plain result, of a call without an id, has no other field."""
    if hasattr(answer, "additional_kwargs"):
        answer.additional_kwargs[MARK] = mark
    return answer


def _outcome(reading: Reading, result: Any) -> Outcome:
    failed = reading.note.missing or getattr(result, "status", None) == "error"
    content, artifact = _content(result, reading.call.call_id), getattr(result, "artifact", None)
    keep, supplied = None if artifact is None else _Whole(content, artifact), reading.note.supplied
    exists = supplied is not None and _exists(reading.call.tool, supplied, content, failed=failed)
    return Outcome(result=content, is_error=failed, exists=exists, keep=keep)


def _exists(name: str, supplied: set[str], content: Any, *, failed: bool) -> bool:
    """Return True if a middleware supplied the tool: its result is not the node's error. On success keep its name."""
    if isinstance(content, str) and content.startswith(f"Error: {name} is not a valid tool"):
        return False
    if not failed and len(supplied) < _MOST_SUPPLIED:
        supplied.add(name)
    return True


def _content(result: Any, call_id: str | None) -> Any:
    """Return the content for the model, without the ids of messages, which differ each time."""
    if type(getattr(result, "content", None)) is str:
        return result.content
    if isinstance(result, (list, tuple)):
        return [_content(part, call_id) for part in result]
    return (
        langgraph_command.result_of(result, call_id)
        if langgraph_command.is_command(result)
        else langgraph_command.content_of(result)
    )


def _annotate(reading: Reading, result: Any, text: str) -> Any:
    """Append to the text of a message. The result of a direct tool is the answer for the user, and is not changed."""
    if reading.note.direct:
        return None
    if reading.note.text:
        return appended(result, text)
    if langgraph_command.is_command(result):
        return langgraph_command.annotated(result, reading.call.call_id, text)
    if not hasattr(result, "tool_call_id"):
        return None
    content = appended(result.content, text)
    return None if content is None else result.model_copy(update={"content": content})


def _signals(error: BaseException) -> bool:
    """Return True for interrupts and hand-overs between graphs, which are no failures."""
    return any(kind.__name__ == "GraphBubbleUp" for kind in type(error).__mro__)


NODE = ToolAdapter(read=_read_node, answer=_answer, outcome=_outcome, annotate=_annotate, mark=_mark, signals=_signals)
TOOL = ToolAdapter(read=_read_tool, answer=_answer, outcome=_outcome, annotate=_annotate, mark=_mark, signals=_signals)


TOOLS = (
    ToolTarget("langgraph.prebuilt.tool_node", "ToolNode._run_one", NODE),
    ToolTarget("langgraph.prebuilt.tool_node", "ToolNode._arun_one", NODE, style=CallStyle.ASYNC),
    ToolTarget("langchain_core.tools.base", "BaseTool.run", TOOL),
    ToolTarget("langchain_core.tools.base", "BaseTool.arun", TOOL, style=CallStyle.ASYNC),
)
