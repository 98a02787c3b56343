"""The facts that the guard was not shown in this process, in sentences for the line at exit and for the doctor."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from otel_loopguard.errors import DOCS

if TYPE_CHECKING:
    from collections.abc import Iterator


class Sentence(NamedTuple):
    """The sentence about a fact that was not seen, and its remedy."""

    text: str
    """With places such as ``{names}`` for the values."""
    remedy: str


CLIENTS: Final = Sentence(
    "Requests to a model through these clients are not read: {names}.",
    "If an agent makes them, guard its tools with @otel_loopguard.tool, or send them through the gateway: "
    f"{DOCS}/how-to/gateway.md",
)
_GUARD_THE_TOOLS: Final = f"Guard the functions of its tools with @otel_loopguard.tool: {DOCS}/how-to/any-code.md"
REPLIES: Final = Sentence(
    "{replies} asked for tool calls, and no request brought their results: what the program writes into its own "
    "prompts is not seen.",
    _GUARD_THE_TOOLS,
)
TEXT: Final = Sentence(
    "No request to a model had tools ({requests} read): calls in plain text are not seen.",
    f"If it is an agent: {_GUARD_THE_TOOLS[0].lower()}{_GUARD_THE_TOOLS[1:]}",
)
FEW_REPLIES: Final = 2
"""So many are not told of: a program may also ask the same question again."""
TURNS: Final = Sentence(
    "{turns} turns in a row made the same calls and got the same results, and calls are not compared across turns.",
    "Nothing, if they are of several users. If they are steps of one task, open one otel_loopguard.turn() around it; "
    f'if a scheduler wakes the agent, set scope = "conversation": {DOCS}/how-to/heartbeats.md',
)
FEW_TURNS: Final = 9
"""So many are not told of, as with ``no_novelty.turns`` in a conversation that is remembered."""


class Unseen(NamedTuple):
    """The facts of this process. The defaults say nothing."""

    clients: tuple[str, ...] = ()
    """The clients of model providers in use that are not read, with their versions."""
    replies: int = 0
    """The replies that asked for calls whose results did not come."""
    requests: int = 0
    """The requests to a model that were read, if none of them had tools; else 0."""

    turns: int = 0
    """The turns in a row that made the same calls and got the same results."""

    def sentences(self, calls: int) -> Iterator[str]:
        """Yield a sentence with its remedy for each fact that matters in a process with so many calls."""
        if self.clients and not calls:
            yield _sentence(CLIENTS, names=", ".join(self.clients))
        if self.replies > FEW_REPLIES:
            yield _sentence(REPLIES, replies=f"{self.replies} replies")
        if self.turns > FEW_TURNS:
            yield _sentence(TURNS, turns=self.turns)
        if self.requests and not calls:
            yield _sentence(TEXT, requests=f"{self.requests} request{'s' if self.requests > 1 else ''}")


def _sentence(sentence: Sentence, **values: object) -> str:
    told = f"{sentence.text.format(**values)} {sentence.remedy}"
    return told if told.endswith(".md") else told.removesuffix(".") + "."
