"""The pages on policy, presets, replay and calibrate: every setting has its default, and every example works."""

from __future__ import annotations

import pytest

from otel_loopguard.engine.policy import schema
from otel_loopguard.engine.settings import PLACEHOLDERS
from otel_loopguard.policy_files.load import load_text, preset_names
from tests.docs.blocks import blocks, page, run_page
from tests.docs.mode_tables import TAKES

PAGES = ("policy", "presets", "replay", "calibrate")


def rows(name):
    """The rows of all tables, by the word in their first cell."""
    found = {}
    for line in page(name).splitlines():
        if line.startswith("| `"):
            cells = [cell.strip() for cell in line.replace("\\|", "/").strip("|").split("|")]
            found.setdefault(cells[0].strip("`"), []).append(cells[1:])
    return found


def test_every_setting_has_a_meaning():
    """``mode_tables`` makes the other cells of these tables, and what each word in them stands for is on the page."""
    text, found = " ".join(page("policy").split()), rows("policy")
    for name in (*schema.POLICY, *schema.CONTRACT, *schema.PRICE):
        assert all(len(cells) > 1 and len(cells[-1].split()) > 2 for cells in found[name]), name
    assert [description for description, word in TAKES.items() if f"*{word}*: {description}" not in text] == []
    assert all(f"{name}" in text for name in (*schema.WORDS, *PLACEHOLDERS))


def test_every_preset_is_documented():
    """Every preset is on the page."""
    assert set(rows("presets")) == set(preset_names())


@pytest.mark.parametrize("name", PAGES)
def test_policies_in_the_pages_have_no_mistakes(name):
    """Each policy shown loads."""
    for found in blocks(name, "toml"):
        assert load_text(found["text"]).problems == ()


@pytest.mark.parametrize("name", PAGES)
def test_what_the_pages_show_is_what_happens(name, tmp_path, monkeypatch, capfd):
    """Each command prints the output on the page, and each piece of code runs, with the files that the page shows."""
    monkeypatch.chdir(tmp_path)
    run_page(name, tmp_path, capfd)
