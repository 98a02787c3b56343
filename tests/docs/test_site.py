"""The documentation builds as a site without a warning, and its references are complete."""

from __future__ import annotations

import re

import otel_loopguard
from otel_loopguard import environment_variables, testing
from otel_loopguard.cli.main import COMMANDS


def ids(site, page):
    """The anchors of a page."""
    return set(re.findall(r'id="([^"]+)"', (site / page / "index.html").read_text("utf-8")))


def test_the_api_reference_has_every_public_name(site):
    """A name of ``__all__`` is an anchor of the page, and so is each member of an enumeration."""
    found = {anchor.rpartition(".")[2] for anchor in ids(site, "reference/api")}
    names = {*otel_loopguard.__all__, *testing.__all__} - {"__version__", "SCENARIOS"}
    assert names | {*otel_loopguard.Action.__members__} <= found


def test_the_reference_of_commands_has_every_command(site):
    """Each command has a section."""
    assert {f"otel-loopguard-{command.name}" for command in COMMANDS} <= ids(site, "reference/commands")


def test_the_reference_of_the_environment_has_every_variable(site):
    """Each variable has a section, with a meaning."""
    text = (site / "reference" / "environment" / "index.html").read_text("utf-8")
    names = {name for name in vars(environment_variables) if name.startswith("OTEL_")}
    assert names <= set(re.findall(r"<h2[^>]*>(\w+)<a.*</h2>\s*<p>\w", text))


def test_the_contents_of_the_environment_name_variables_without_their_prefix(site):
    """The column of the contents is narrow, and all of them begin alike."""
    text = (site / "reference" / "environment" / "index.html").read_text("utf-8")
    entries = re.findall(r'href="#otel_python_loopguard_(\w+)"[^>]*>\s*(?:<span[^>]*>)?\s*(\w+)', text)
    assert ("abort_after", "ABORT_AFTER") in entries
    assert all(not label.startswith("OTEL_") for _, label in entries)


def test_the_site_asks_no_other_server(site):
    """No page loads a script, a style or a font from elsewhere."""
    pages = [page.read_text("utf-8") for page in site.rglob("*.html")]
    loaded = [
        url
        for page in pages
        for url in re.findall(r'<(?:script|link rel="stylesheet")[^>]*(?:src|href)="(http[^"]*)', page)
    ]
    assert loaded == []


def test_the_first_page_is_the_first_screen_of_the_readme(site):
    """It has the command and the picture, and no picture of another server."""
    text = (site / "index.html").read_text("utf-8")
    assert "otel-loopguard run -- python app.py" in re.sub(r"<[^>]*>", "", text)
    assert '<img alt="Alone the program reads a file' in text
    assert not re.search(r'<img[^>]*src="http', text)
