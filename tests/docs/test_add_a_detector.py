"""The page on detectors: its blocks run, and its example is the file in ``examples/``."""

from __future__ import annotations

import re
import sys

from otel_loopguard.engine.detectors import DETECTORS
from tests.docs.blocks import ROOT, blocks, page, run_page


def test_what_the_page_shows_is_what_happens(tmp_path, monkeypatch, capfd):
    """Each command prints the output on the page, and each piece of code runs, with the files that the page shows."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    try:
        run_page("add-a-detector", tmp_path, capfd)
    finally:
        sys.modules.pop("own_detector", None)


def test_the_example_is_the_file():
    """Who copies the block and who copies the file have the same detector."""
    shown = {found["file"]: found["text"] for found in blocks("add-a-detector", "python detector")}
    assert shown["own_detector.py"] == (ROOT / "examples" / "own_detector.py").read_text("utf-8")


def test_the_page_names_the_files_of_a_mode():
    """The files of the last section exist, and the modes of the package are in them."""
    last = page("add-a-detector").partition("## 9.")[2]
    folder = ROOT / "otel_loopguard" / "engine" / "detectors"
    for name in re.findall(r"`(\w+\.py)`", last):
        assert any(
            (place / name).exists() for place in (folder, ROOT / "tests/engine/detectors", ROOT / "tests/engine")
        )
    assert all((folder / f"{row.mode}.py").exists() for row in DETECTORS)
