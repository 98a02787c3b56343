"""The MCP client: every ``call_tool`` of a session, and the tools that its server lists.

A session is a connection: a call belongs to the turn of the framework, or of ``loopguard.turn``, around it. If there is
none, and no trace, the session is a weak turn. If a framework calls through a session, its own patch has counted the
call already.
"""

from __future__ import annotations

import json
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

from otel_loopguard.engine.vocabulary import Outcome, ToolCall
from otel_loopguard.instrumentation.annotations import either_name, hints_of
from otel_loopguard.instrumentation.content import appended
from otel_loopguard.instrumentation.runtime import active_runtime
from otel_loopguard.instrumentation.targets import (
    MARK,
    CallStyle,
    CallTarget,
    Framework,
    Reading,
    ToolAdapter,
    ToolTarget,
)
from otel_loopguard.interrupts import pass_interrupt

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from otel_loopguard.engine.vocabulary import Hints
    from otel_loopguard.instrumentation.targets import Original, Target

_LISTING = "_otel_loopguard_listing"
"""The attribute of a session that keeps the listed tools, for as long as the session exists."""
_LONGEST_ECHO = 65_536


# --- the tools that a server lists --------------------------------------------------------------------------------


class _Listed(NamedTuple):
    hints: Hints | None
    structured: bool
    """True if the tool declares a schema of its results."""


class _Listing(NamedTuple):
    tools: Mapping[str, _Listed]
    complete: bool
    """True if all pages were read. Only then a tool that is not listed does not exist."""


_NOTHING_LISTED = _Listing({}, complete=False)
_UNLISTED = _Listed(None, structured=False)


def _list_tools(original: Original) -> Callable[..., Any]:
    async def list_tools(*given: Any, **kwargs: Any) -> Any:
        wrapped, instance, args = original.bind(given)
        result = await wrapped(*args, **kwargs)
        runtime = active_runtime.instrumented
        if runtime is not None:
            with runtime.shield("adapter.tools"):
                _remember(getattr(instance, "session", instance), _cursor(args, kwargs), result)
        return result

    return list_tools


def _cursor(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    given = args[0] if args else kwargs.get("cursor")
    return given if given is not None else getattr(kwargs.get("params"), "cursor", None)


def _remember(session: Any, cursor: Any, result: Any) -> None:
    """Keep a page of tools: the first page replaces the listing, a further page extends it."""
    tools = {
        tool.name: _Listed(hints_of(tool.annotations), either_name(tool, "output_schema", "outputSchema"))
        for tool in result.tools
    }
    last = not either_name(result, "next_cursor", "nextCursor")
    if cursor is not None:
        before = getattr(session, _LISTING, _NOTHING_LISTED)
        tools, last = {**before.tools, **tools}, last and before is not _NOTHING_LISTED
    setattr(session, _LISTING, _Listing(tools, last))


# --- a call ------------------------------------------------------------------------------------------------------


def _read(instance: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Reading | None:
    if kwargs.get("input_responses") is not None or kwargs.get("request_state") is not None:
        return None  # the same call again, with the answers that its server requested
    name = args[0] if args else kwargs["name"]
    session = getattr(instance, "session", instance)
    listing = getattr(session, _LISTING, _NOTHING_LISTED)
    listed = listing.tools.get(name, _UNLISTED)
    known = listing.tools if listing.complete else None
    arguments = args[1] if len(args) > 1 else kwargs.get("arguments")
    call = ToolCall(name, arguments, known_tools=known, hints=listed.hints)
    return Reading(call, session=session, note=listed, of_mcp=True)


def _outcome(reading: Reading, result: Any) -> Outcome:
    if not hasattr(result, "content"):
        return Outcome(cancelled=True)  # no result yet: the server requests input first
    if either_name(result, "is_error", "isError"):
        return Outcome(result="\n".join(_texts(result.content)), is_error=True)
    # Some servers report errors as success: without the flag, the text itself is examined.
    return Outcome(result=_content(result))


def _texts(blocks: Any) -> list[str]:
    return [block.text for block in blocks if block.type == "text"]


def _content(result: Any) -> Any:
    """Return the content for the model, without protocol ids: the text, or all blocks if some are no text."""
    texts, structured = _texts(result.content), either_name(result, "structured_content", "structuredContent")
    only_text = len(texts) == len(result.content)
    text = "\n".join(texts)
    if only_text and (structured is None or structured == {"result": text}):
        return text
    if only_text and _echoes(text, structured):
        return {"structuredContent": structured}
    blocks = [block.model_dump(mode="json", by_alias=True, exclude_none=True) for block in result.content]
    return {"content": blocks, "structuredContent": structured}


def _echoes(text: str, structured: Any) -> bool:
    """Return True if the text repeats the structured content, as the protocol requires for older clients."""
    if len(text) > _LONGEST_ECHO:
        return False
    try:
        return bool(json.loads(text) == structured)
    except ValueError as error:
        pass_interrupt(error)
        return False


def _answer(reading: Reading, content: Any, error: bool) -> Any:
    """Make a refusal, or the content of an earlier result, into the type that the session returns."""
    structured = None
    if isinstance(content, dict):
        structured, content = content.get("structuredContent"), content.get("content")
    elif reading.note.structured and not error:
        structured = {"result": content}
    if not isinstance(content, list):
        text = content if isinstance(content, str) else json.dumps(structured)
        content = [{"type": "text", "text": text}]
    rest = {} if structured is None else {"structuredContent": structured}
    return _types().CallToolResult.model_validate({"content": content, "isError": error, **rest})


def _mark(reading: Reading, answer: Any, mark: str) -> Any:
    return answer.model_copy(update={"meta": {MARK: mark}})


def _annotate(reading: Reading, result: Any, text: str) -> Any:
    """Add a sentence to the last text: many programs read one block alone. JSON and images get one more block.

    The other blocks and the structured content stay as they are.
    """
    if not hasattr(result, "content"):
        return None
    blocks = list(result.content)
    last = max((place for place, block in enumerate(blocks) if block.type == "text"), default=None)
    longer = None if last is None else appended(blocks[last].text, text)
    if last is None or longer is None:
        blocks.append(_types().TextContent(type="text", text=text))
    else:
        blocks[last] = blocks[last].model_copy(update={"text": longer})
    return result.model_copy(update={"content": blocks})


def _types() -> Any:
    return import_module("mcp.types")  # the program has imported it already


TOOL = ToolAdapter(read=_read, answer=_answer, outcome=_outcome, annotate=_annotate, mark=_mark)

_TARGETS: tuple[Target, ...] = (
    ToolTarget("mcp.client.session", "ClientSession.call_tool", TOOL, style=CallStyle.ASYNC),
    CallTarget("mcp.client.session", "ClientSession.list_tools", _list_tools),
    # Since 2.0. It is one call, even if the server requests more input and the session is called again.
    ToolTarget("mcp.client.client", "Client.call_tool", TOOL, style=CallStyle.ASYNC),
    CallTarget("mcp.client.client", "Client.list_tools", _list_tools),
)

FRAMEWORK = Framework(
    "mcp",
    _TARGETS,
    title="MCP clients",
    turns="those of the framework around them; else the trace, else the session: weak",
    notes="by hand, put `with loopguard.turn():` around one message's work",
    modules=("mcp",),
    versions={
        # 1.8 has tool annotations and HTTP. It does not import with the newest pydantic.
        "oldest": ("mcp==1.8.0", "pydantic<2.12"),
        "newest-1": ("mcp<2",),
        "newest": ("mcp>=2",),
    },
    tested={"mcp": "2.3.0"},
)
