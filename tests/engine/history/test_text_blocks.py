"""The equal blocks at the end of a text."""

from __future__ import annotations

import pytest

from otel_loopguard.engine.history.conversation_texts import folded
from otel_loopguard.engine.history.text_blocks import blocks_at_the_end

SENTENCES = "I looked at the file {} again, for the line that sets the flag may be there. " * 8
PARAGRAPH = SENTENCES.format(*"abcdefgh")


def blocks(text: str) -> tuple[int, int]:
    """The copies at the end of a text, and their characters."""
    return blocks_at_the_end(text, folded(text))[:2]


@pytest.mark.parametrize(
    ("text", "copies"),
    [
        ("So: " + "the same line of text again\n" * 40, 40),
        ("\n\n".join([PARAGRAPH] * 3), 3),
        ("<unk>" * 400, 400),
        ("}" * 2_000, 2_000),
        ("Well. " + "\n" * 3_000, 3_000),
        ("One paragraph that is rather long, and another one.\nA second one that differs from it.\n" * 9, 8),
        ("ab" * 300 + "Z" + "the end of a block that was cut of" * 12 + "the end of", 11),
    ],
    ids=["lines", "paragraphs", "tokens", "signs", "blanks", "two in turn", "cut off"],
)
def test_equal_blocks_are_counted(text, copies):
    """Of any length; the last one may be cut off."""
    found = blocks(text)
    assert found[0] in (copies, copies + 1)
    assert found[1] >= 350


@pytest.mark.parametrize(
    "text",
    [
        "Done.",
        "".join(f"{n}. the line with the number {n} of the list\n" for n in range(200)),
        "| a | b |\n|---|---|\n" + "".join(f"| {n} | {n * 7} |\n" for n in range(99)),
        PARAGRAPH + "So I am done with it now, and that is all there is to say.",
    ],
    ids=["short", "numbered", "table", "an end after it"],
)
def test_other_texts_end_in_no_blocks(text):
    """Numbers make a difference, and a text that goes on after its blocks was not stuck."""
    assert blocks(text)[0] < 3


def test_a_paragraph_of_hours_is_counted():
    """600 characters, 458 times, as in one report."""
    text = (PARAGRAPH + "\n") * 458
    assert blocks(text)[0] >= 457
