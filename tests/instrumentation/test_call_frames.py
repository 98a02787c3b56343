"""The path of one tool call stays short: its files and frames are counted."""

from __future__ import annotations

import pytest

pytest.importorskip("langgraph")

from benchmarks.call_frames import count

MOST_FILES = 30
MOST_FRAMES = 128


def test_an_everyday_call_visits_few_files_and_frames() -> None:
    """``python -m benchmarks.call_frames --files --frames`` lists them."""
    frames = count()
    assert 10 < len(frames.files) <= MOST_FILES
    assert 40 < len(frames.seen) <= MOST_FRAMES
