"""The equal blocks at the end of a text."""

from __future__ import annotations

import pytest

from otel_loopguard.engine.history.conversation_texts import folded
from otel_loopguard.engine.history.text_blocks import GrowingText, blocks_at_the_end

SENTENCES = "I looked at the file {} again, for the line that sets the flag may be there. " * 8
PARAGRAPH = SENTENCES.format(*"abcdefgh")
CHAPTER = "".join(f"I looked at the file {number} again, for the flag may be there. " for number in range(95))


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


def seen_at(text: str, copies: int, characters: int, size: int = 12) -> int | None:
    """The characters that are written when so many equal blocks are seen in a text that comes in pieces."""
    growing = GrowingText()
    for start in range(0, len(text), size):
        found = growing.add(text[start : start + size])
        if found.copies >= copies and found.characters >= characters:
            return start + size
    return None


@pytest.mark.parametrize(
    ("text", "observed", "cut"),
    [
        ((PARAGRAPH + "\n") * 458, 2_100, 6_200),
        ("<unk> " * 5_000, 800, 2_400),
        ("x" * 20_000, 800, 2_400),
        ("\n" * 20_000, 1_100, 2_100),
        ("the same line of text again\n" * 5_000, 800, 2_400),
        ("".join([PARAGRAPH, " and on. "] * 40), 2_400, 6_200),
        ((CHAPTER + "\n") * 9, 3 * 6_100, 8 * 6_100),
    ],
    ids=["paragraph", "word", "sign", "blanks", "line", "two in turn", "a block of which few are kept"],
)
@pytest.mark.parametrize("size", [1, 12, 300])
def test_equal_blocks_are_seen_while_they_are_written(text, observed, cut, size):
    """Soon after there are three of 500 characters, and eight of 2,000 together."""
    whole = "So this is how it is. " + text
    for limits, at in (((3, 500), observed), ((8, 2_000), cut)):
        found = seen_at(whole, *limits, size=size)
        assert found is not None
        assert found <= at + 22 + 256 + size


@pytest.mark.parametrize("size", [1, 12, 300])
def test_no_blocks_are_seen_in_other_texts(size):
    """Numbered lines, a table, and a text that goes on."""
    numbered = "".join(f"{n}. the line with the number {n} of the list\n" for n in range(400))
    assert seen_at(numbered, 3, 500, size) is None
    assert seen_at("".join(f"| {n} | {n * 7} |\n" for n in range(600)), 3, 500, size) is None


def test_a_growing_text_keeps_a_bounded_part():
    """A reply of a million characters takes no more than one of 16,384."""
    growing = GrowingText()
    for number in range(10_000):
        growing.add(f"the line {number} of a text that has no end, and says nothing twice in a row; ")
    assert len(growing._end) <= 16_384
