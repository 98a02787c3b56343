"""What the guard was not shown in this process, for the line at exit and for the doctor."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator


class Sentence(NamedTuple):
    """What was not seen, and the remedy."""

    text: str
    """With places such as ``{names}`` for the values."""
    remedy: str


CLIENTS: Final = Sentence(
    "Requests to a model through these clients are not read: {names}.",
    "If an agent makes them, guard its tools with @otel_loopguard.tool, or send them through the gateway: "
    "docs/how-to/gateway.md",
)


class Unseen(NamedTuple):
    """The facts of this process. The defaults say nothing."""

    clients: tuple[str, ...] = ()
    """The clients of model providers in use that are not read, with their versions."""

    def sentences(self, calls: int) -> Iterator[str]:
        """Yield a sentence with its remedy for each fact that matters in a process with so many calls."""
        if self.clients and not calls:
            yield _sentence(CLIENTS, names=", ".join(self.clients))


def _sentence(sentence: Sentence, **values: object) -> str:
    return f"{sentence.text.format(**values)} {sentence.remedy}".removesuffix(".") + "."
