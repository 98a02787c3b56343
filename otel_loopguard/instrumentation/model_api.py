"""The description of an API and of a client: how requests and replies are read, and how a request is changed."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol
from urllib.parse import urlsplit

from otel_loopguard import semconv

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from otel_loopguard.instrumentation.targets import Target
    from otel_loopguard.shield import Shield
    from otel_loopguard.turns.messages import Message, Reply

    Body = Mapping[str, Any]
    """A request as the client sends it. It is never changed: a changed request is a copy."""


class Collector(Protocol):
    """Puts the chunks of a streamed reply together. Text is not kept."""

    def add(self, chunk: Any) -> None:
        """Take one chunk, as the client's stream yields it."""

    def reply(self) -> Reply:
        """Return the reply of all chunks. A call that is not whole is left out."""


@dataclass(frozen=True)
class Dialect:
    """One API. The functions may raise: the caller holds the shield. None of them keeps a text."""

    messages: Callable[[Body], Sequence[Any]]
    """Return the entries of the request, oldest first. Instructions that are no entry of it are left out."""
    marks: Callable[[Sequence[Any]], list[int]]
    """Return a number for each entry, which is equal for equal entries in this process. All entries of each request are
    marked, so this must be fast: for a call and a result the hash of its id and its text, for others ``mark_of``."""
    read: Callable[[Any], Message]
    """Read one entry. It is called for new entries only."""
    tools: Callable[[Body], frozenset[str] | None]
    """Return the names of the declared tools; an empty set if none is declared, None if a name cannot be read."""
    previous: Callable[[Body], str | None]
    """Return the id of the conversation or reply at the provider that the request continues.
    None if all messages are in the request."""
    annotate: Callable[[Any, Mapping[int, str]], Any]
    """Return a copy of an entry with a sentence appended to some of its results, which are counted from 0 as ``read``
    returns them. In an entry without results 0 is the user's text. Return the entry itself if it takes no text."""
    replace: Callable[[Body, list[Any]], Body]
    """Return a copy of the request with these entries."""
    withdraw: Callable[[Body], Body]
    """Return a copy of the request in which the model must not call tools. They stay declared."""
    demands: Callable[[Body], bool]
    """Return True if the request demands a call: its program takes a text for a mistake."""
    only: Callable[[Body, str], Body]
    """Return a copy of a request that demands a call, in which the model must call this tool."""
    reply: Callable[[Any], Reply | None]
    """Read a whole reply, as the client returns it. Return None for another type."""
    collector: Callable[[], Collector]
    """Make the collector of a streamed reply."""
    text: Callable[[Any], str] = lambda _: ""
    """Return the text, or the thought, in a whole reply or in a chunk of one. It is looked at, and not kept."""
    is_kept: bool = False
    """The provider may keep the conversation: a request has the id of the last reply in place of its calls."""
    operation: str = semconv.OPERATION_CHAT
    """The name of the request in the GenAI conventions."""
    provider: str = semconv.UNKNOWN_PROVIDER
    """The name of the provider in the GenAI conventions."""


class Listener(Protocol):
    """Gets the reply of a request: whole, or chunk by chunk. Its methods may fail: the caller holds the shield."""

    @property
    def shield(self) -> Shield:
        """The fault barrier."""

    def whole(self, reply: Any) -> None:
        """Take a whole reply."""

    def chunk(self, chunk: Any) -> None:
        """Take a chunk of a streamed reply."""

    def over(self) -> None:
        """Note that a streamed reply is complete."""

    def failed(self) -> None:
        """Note that the reading of a streamed reply has raised, so that no more of it comes."""


class Sent(NamedTuple):
    """A request as the client's method gets it."""

    dialect: Dialect
    body: Body
    model: str
    arguments: Callable[[Body], tuple[tuple[Any, ...], dict[str, Any]]]
    """Return the arguments and keywords of the client's method for a changed request."""
    listen: Callable[[Any, Listener], Any]
    """Pass the reply in the client's return value to the listener, now or as a stream is read. Return the value for the
    program, of the same type."""
    judged: Callable[[Any, Any], tuple[Any, Any]] | None = None
    """Add the header ``JUDGED`` to the arguments and keywords of the client's method. None if the request goes to a
    provider's own address: providers get nothing that the program did not send."""
    run_id: str | None = None
    """The framework's own id of the run that makes the request, where the run is not known by the context."""


def as_body(
    names: Sequence[str], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[Body, Callable[[Body], tuple[tuple[Any, ...], dict[str, Any]]]]:
    """Return the request of a method that takes its parts as parameters, and ``Sent.arguments`` for it.

    ``names``: of the first parameters, which may be given by their place.
    """

    def arguments(changed: Body) -> tuple[tuple[Any, ...], dict[str, Any]]:
        left = dict(changed)
        named = [left.pop(name) for name in names[: len(args)]]
        return (*named, *args[len(names) :]), left

    return {**dict(zip(names, args, strict=False)), **kwargs}, arguments


JUDGED: Final = "x-loopguard-judged"
"""The header of a request whose calls were judged in the process that sends it: a gateway judges none of them."""

_PROVIDERS: Final = ("openai.com", "anthropic.com", "azure.com", "amazonaws.com", "googleapis.com")
"""The domains of the providers whose clients are patched."""


def may_be_proxy(address: str) -> bool:
    """Return True if the address of a client is not that of a provider."""
    host = urlsplit(address).hostname or ""
    return bool(host) and not any(host == domain or host.endswith(f".{domain}") for domain in _PROVIDERS)


@dataclass(frozen=True)
class ModelClient:
    """The facts of one client. Each client's module exports one, as ``CLIENT``."""

    name: str
    title: str
    targets: tuple[Target, ...]
    modules: tuple[str, ...]
    """The modules that a program with this client imports."""
    versions: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """The pip requirements of each tested environment, ``oldest`` first, ``newest`` last."""
    tested: Mapping[str, str] = field(default_factory=dict)
    """The newest version of each package that was tested."""
