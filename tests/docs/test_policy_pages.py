"""The pages on policy, presets, replay and calibrate: every setting has its default, and every example works."""

from __future__ import annotations

import pytest

from otel_loopguard.engine.policy import schema
from otel_loopguard.engine.policy.policy import Policy
from otel_loopguard.engine.settings import PLACEHOLDERS
from otel_loopguard.policy_files.load import load_text, preset_names
from tests.docs.blocks import blocks, page, run_page

PAGES = ("policy", "presets", "replay", "calibrate")


def rows(name):
    """The rows of all tables, by the word in their first cell."""
    found = {}
    for line in page(name).splitlines():
        if line.startswith("| `"):
            cells = [cell.strip() for cell in line.replace("\\|", "/").strip("|").split("|")]
            found.setdefault(cells[0].strip("`"), []).append(cells[1:])
    return found


def test_every_setting_of_the_policy_is_documented_with_its_default():
    """Every setting is on the page, with its current default."""
    found, default = rows("policy"), Policy()
    for name in schema.POLICY:
        value = getattr(default, name)
        shown = (
            "-"
            if value in (None, ())
            else f'`"{value}"`'
            if isinstance(value, str) or name == "action"
            else f"`{value}`"
        )
        assert shown in [cells[0] for cells in found[name]], name


def test_everything_that_a_tool_can_be_declared_is_documented():
    """Each setting of a tool, with what it takes."""
    found = rows("policy")
    for name, setting in schema.CONTRACT.items():
        assert setting.description in [cells[0] for cells in found[name]], name
    assert all(f"{name}" in page("policy") for name in (*schema.WORDS, *PLACEHOLDERS))


def test_every_price_is_documented():
    """Each price that a model can have, with what it takes."""
    found = rows("policy")
    for name, setting in schema.PRICE.items():
        assert setting.description in [cells[0] for cells in found[name]], name


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
