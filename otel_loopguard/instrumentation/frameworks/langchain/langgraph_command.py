"""The ``Command`` of a tool, as hand-offs return it: the part that is its result, and the place for a sentence.

The update of a hand-off usually holds the whole conversation, which is longer each time. What counts is the place where
it goes, the answer to its call with all that follows, and what was written since the same hand-off before. So agents
that hand over to each other without a new word are a loop, and agents that write and criticise in turns are not.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from otel_loopguard.instrumentation.content import appended

_MANAGED: Final = ("remaining_steps", "is_last_step")
"""Keys of a state that LangGraph itself counts."""


def is_command(result: Any) -> bool:
    """Return True if a tool's result tells its graph where to go."""
    return hasattr(result, "goto") and not callable(getattr(result, "update", None))


def result_of(command: Any, call_id: str | None) -> dict[str, Any]:
    """Return the part of a command that is the result of this call."""
    goto = command.goto if isinstance(command.goto, (list, tuple)) else [command.goto]
    return {"goto": [_destination(one, call_id) for one in goto], "update": _state(command.update, call_id)}


def _destination(goto: Any, call_id: str | None) -> Any:
    return [goto.node, _state(goto.arg, call_id)] if hasattr(goto, "node") else str(goto)  # a Send, or a name


def _state(state: Any, call_id: str | None) -> Any:
    if not isinstance(state, dict):
        return _news(state, call_id)
    return {key: _news(value, call_id) for key, value in state.items() if key not in _MANAGED}


def _news(value: Any, call_id: str | None) -> Any:
    """Return the messages of a list that this call has added: of a whole conversation, those at its end."""
    if not isinstance(value, (list, tuple)):
        return content_of(value)
    answer = _answer_in(value, call_id)
    if answer is None:
        is_conversation = any(getattr(message, "type", None) == "ai" for message in value)
        return [content_of(message) for message in (value[-1:] if is_conversation else value)]
    texts, name = [], getattr(value[answer], "name", None)
    for message in reversed(value[:answer]):
        if not hasattr(message, "tool_call_id"):
            texts.append(_text(message))
        elif message.name == name:
            break
    return [[text for text in texts if text], [content_of(message) for message in value[answer:]]]


def _answer_in(messages: Any, call_id: str | None) -> int | None:
    """Return the position of the message that answers this call."""
    found = (n for n in reversed(range(len(messages))) if getattr(messages[n], "tool_call_id", None) == call_id)
    return None if call_id is None else next(found, None)


def _text(message: Any) -> str:
    """Return the text of a message, without blocks that repeat its calls under new ids."""
    content = getattr(message, "content", "")
    if isinstance(content, list):
        return "".join(part if isinstance(part, str) else str(part.get("text") or "") for part in content)
    return str(content)


def content_of(message: Any) -> Any:
    """Return the content of a tool's message, without the ids that LangChain itself gives to its blocks."""
    content = message.content if hasattr(message, "tool_call_id") and hasattr(message, "content") else message
    if not isinstance(content, list) or content is message:
        return content
    return [
        {key: value for key, value in block.items() if key != "id" or not str(value).startswith("lc_")}
        if isinstance(block, dict)
        else block
        for block in content
    ]


def annotated(command: Any, call_id: str | None, text: str) -> Any:
    """Return the command with a text in the message that answers this call; None if it has no such message."""
    update = command.update
    messages = update.get("messages") if isinstance(update, dict) else None
    answer = _answer_in(messages, call_id) if isinstance(messages, (list, tuple)) else None
    if messages is None or answer is None:
        return None
    longer = appended(messages[answer].content, text)
    if longer is None:
        return None
    message = messages[answer].model_copy(update={"content": longer})
    return replace(command, update={**update, "messages": [*messages[:answer], message, *messages[answer + 1 :]]})
