"""A sentence for the model is added to text, and not to content that a program may parse."""

from __future__ import annotations

from typing import Any

import pytest

from otel_loopguard.instrumentation.content import appended


@pytest.mark.parametrize(
    "content",
    ["7", " -2.5e3\n", "null", "true", "false", '"a word"', '"with \\"quotes\\" in it"', '{"rows": 2}', "[1]", "NaN"],
)
def test_json_stays_json(content: str) -> None:
    """No text is added to JSON: an object, a list or a single value."""
    assert appended(content, "a sentence") is None


@pytest.mark.parametrize(
    "content", ["", "seven", "7 files", "none", "nothing", "truely", '"quoted" and not', '"a" or "b"', "1.2.3", "-"]
)
def test_text_is_written_to(content: str) -> None:
    """Text is added to a word or a sentence, whatever it begins with."""
    assert appended(content, "a sentence") == f"{content}\n\na sentence"


def test_blocks_get_one_more() -> None:
    """A list of content blocks gets a block; a list of anything else is left alone."""
    block: dict[str, Any] = {"type": "text", "text": "a sentence"}
    assert appended(["text", {"type": "text", "text": "more"}], "a sentence")[2] == block
    assert appended([1, 2], "a sentence") is None
