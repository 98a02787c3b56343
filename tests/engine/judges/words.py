"""Replay the texts of real agents, which a corpus has as hashes: the requests at which a policy would act."""

from __future__ import annotations

import gzip
import json
from typing import TYPE_CHECKING, Any, NamedTuple

from otel_loopguard import Policy
from otel_loopguard.engine.compiled import CompiledPolicy
from otel_loopguard.engine.history.conversation_texts import ConversationTexts
from otel_loopguard.engine.history.text_blocks import NO_BLOCKS, Blocks
from tests.engine.judges.corpus import CORPORA

if TYPE_CHECKING:
    from collections.abc import Iterator

    from otel_loopguard.engine.vocabulary import Trip

FILE = CORPORA / "words" / "words.jsonl.gz"


class TextRun(NamedTuple):
    """A run with the trips of its requests."""

    success: bool | None
    trips: list[Trip]


def runs() -> Iterator[TextRun]:
    """Replay each run of an agent."""
    compiled = CompiledPolicy(Policy())
    with gzip.open(FILE, "rt") as lines:
        for run in map(json.loads, lines):
            if run["corpus"] != "bfcl":  # single replies
                yield TextRun(run["success"], list(_trips(run["messages"], compiled)))


def _blocks(message: dict[str, Any]) -> Blocks:
    """The longest equal blocks of a text, also those after which it goes on."""
    runs = [Blocks(characters // length, characters) for _, length, characters, _ in message.get("rp", ())]
    return max(runs, key=lambda run: run.characters, default=NO_BLOCKS)


def _trips(messages: list[dict[str, Any]], compiled: CompiledPolicy) -> Iterator[Trip]:
    texts = ConversationTexts()
    for message in messages:
        role = message["r"]
        if role == "a":
            trip = compiled.trip_of_texts(texts)  # of the request that it answers
            if trip is not None:
                yield trip
                texts.judged()
            if "f" in message:
                texts.said(message["f"], message["n"], _blocks(message))
            for _ in message.get("c", ()):
                texts.called()
        elif role == "u" and "h" in message:
            texts.asked(message["h"])
        elif role == "t":
            texts.result(message["w"])
