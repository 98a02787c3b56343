"""OpenAI's chat completions, which many other providers copy."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from otel_loopguard.instrumentation.content import arguments_of
from otel_loopguard.instrumentation.model_api import Dialect
from otel_loopguard.instrumentation.models.fields import count, demands_call, field, sequence
from otel_loopguard.interrupts import pass_interrupt
from otel_loopguard.turns.messages import Message, Reply, WrittenCall, WrittenResult, plain_text, unmarked

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

# --- requests ----------------------------------------------------------------------------------------------------


def _marks(messages: Sequence[Any]) -> list[int]:
    """Return a hash of each entry: of its text, with the id of a result or else the role, and of the calls in it."""
    try:
        return [
            hash((one.get("tool_call_id") or one.get("role"), one.get("content"), *_parts_of_calls(one)))
            for one in messages
        ]
    except (TypeError, AttributeError) as error:  # a content is in parts, or an entry is an object of a client
        pass_interrupt(error)
        return [_mark(one) for one in messages]


def _mark(message: Any) -> int:
    key = field(message, "tool_call_id") or field(message, "role")
    calls = [unmarked(part) for part in _parts_of_calls(message)]
    return hash((key, unmarked(field(message, "content")), *calls))


def _parts_of_calls(message: Any) -> list[Any]:
    """Return the ids, names and arguments of the calls in a message, as they are."""
    parts: list[Any] = []
    for call in sequence(field(message, "tool_calls")):
        function = _function_of(call)
        parts += (field(call, "id"), field(function, "name"), _written(function))
    return parts


def _read(message: Any) -> Message:
    get = message.get if type(message) is dict else partial(field, message)
    role = get("role")
    if role == "tool":
        return Message((), (WrittenResult(get("tool_call_id"), get("content")),))
    if role == "assistant":
        return Message(tuple(_calls(message)), said=get("content"))
    if role == "function":
        return Message((), (WrittenResult(None, get("content"), name=get("name")),))
    return Message(by_user=role == "user", text=get("content"))


def _calls(message: Any) -> Iterator[WrittenCall]:
    """Read the calls of an assistant's message, in a request or in a reply."""
    for call in sequence(field(message, "tool_calls")):
        function = _function_of(call)
        if function is not None:
            yield _call(field(call, "id"), function)
    function = field(message, "function_call")  # deprecated, and without ids
    if function is not None:
        yield _call(None, function)


def _function_of(call: Any) -> Any:
    return field(call, "function") or field(call, "custom")


def _call(call_id: str | None, function: Any) -> WrittenCall:
    return WrittenCall(call_id, field(function, "name"), arguments_of(_written(function)))


def _written(function: Any) -> Any:
    """Return the arguments of a function, or the text for a custom tool."""
    arguments = field(function, "arguments")
    return field(function, "input") if arguments is None else arguments


def _tools(body: Mapping[str, Any]) -> frozenset[str] | None:
    tools = sequence(body.get("tools"))
    try:
        names = [tool.get("function").get("name") for tool in tools]
    except AttributeError as error:  # a custom tool, or an object of a client
        pass_interrupt(error)
        names = [field(field(tool, "function") or field(tool, "custom"), "name") for tool in tools]
    names += [field(function, "name") for function in sequence(body.get("functions"))]
    return None if None in names else frozenset(names)


def _annotate(message: Any, texts: Mapping[int, str]) -> Any:
    content = field(message, "content")
    if not isinstance(message, dict) or not isinstance(content, (str, list, type(None))):
        return message
    if isinstance(content, list):
        return {**message, "content": [*content, {"type": "text", "text": texts[0]}]}
    return {**message, "content": f"{content}\n\n{texts[0]}" if content else texts[0]}


def _withdraw(body: Mapping[str, Any]) -> Mapping[str, Any]:
    kept = {**body, "tool_choice": "none"} if body.get("tools") else dict(body)
    return {**kept, "function_call": "none"} if body.get("functions") else kept


def _only(body: Mapping[str, Any], tool: str) -> Mapping[str, Any]:
    return {**body, "tool_choice": {"type": "function", "function": {"name": tool}}}


# --- replies -----------------------------------------------------------------------------------------------------


def _reply(reply: Any) -> Reply | None:
    choices = field(reply, "choices")
    if choices is None:
        return None
    calls = (call for choice in sequence(choices) for call in _calls(field(choice, "message")))
    return _reply_of(calls, field(reply, "usage"))


def _reply_of(calls: Iterable[WrittenCall], usage: Any) -> Reply:
    return Reply(
        calls=tuple(calls),
        input_tokens=count(usage, "prompt_tokens"),
        output_tokens=count(usage, "completion_tokens"),
        cached_tokens=count(field(usage, "prompt_tokens_details"), "cached_tokens"),
    )


def _text(reply: Any) -> str:
    choices = sequence(field(reply, "choices"))
    message = (field(choices[0], "delta") or field(choices[0], "message")) if choices else None
    return plain_text(field(message, "reasoning_content") or field(message, "content"))


class CallPieces:
    """The calls of a streamed reply: the arguments come in pieces, and only the first one has id and name."""

    def __init__(self) -> None:
        self._calls: list[_Call] = []
        self._open: dict[Any, _Call] = {}
        """The calls that the next pieces belong to, by choice and index."""
        self._usage: Any = None

    def add(self, chunk: Any) -> None:
        """Take one chunk."""
        self._usage = field(chunk, "usage") or self._usage
        for choice in sequence(field(chunk, "choices")):
            delta, place = field(choice, "delta"), field(choice, "index")
            for piece in sequence(field(delta, "tool_calls")):
                function = field(piece, "function") or field(piece, "custom")
                self.piece((place, field(piece, "index")), field(piece, "id"), function)
            function = field(delta, "function_call")
            if function is not None:
                self.piece((place, None), None, function)

    def piece(self, place: Any, call_id: str | None, function: Any) -> None:
        """Take a piece of a call. ``place``: the same for all pieces of one call, if they do not all have its id."""
        call = self._open.get(place)
        # Some providers give all calls of a reply the same index.
        if call is None or (call_id and call.id and call_id != call.id):
            call = self._open[place] = _Call()
            self._calls.append(call)
        call.id = call_id or call.id
        call.name = field(function, "name") or call.name
        call.pieces.append(_written(function) or "")

    def calls(self) -> list[WrittenCall]:
        """Return the calls so far."""
        calls = [call for call in self._calls if call.name]
        return [WrittenCall(call.id, call.name, arguments_of("".join(call.pieces))) for call in calls]

    def reply(self) -> Reply:
        """Return the reply of all chunks."""
        return _reply_of(self.calls(), self._usage)


class _Call:
    """A call of which more pieces may come."""

    def __init__(self) -> None:
        self.id: str | None = None
        self.name = ""
        self.pieces: list[str] = []


CHAT = Dialect(
    messages=lambda body: sequence(body.get("messages")),
    marks=_marks,
    read=_read,
    tools=_tools,
    previous=lambda body: None,
    annotate=_annotate,
    replace=lambda body, messages: {**body, "messages": messages},
    withdraw=_withdraw,
    demands=demands_call,
    only=_only,
    reply=_reply,
    collector=CallPieces,
    text=_text,
    provider="openai",
)
