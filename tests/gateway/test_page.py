"""The page about the gateway, run in the environment of the proxy."""

from __future__ import annotations

import os

from tests.environments import ROOT, captured
from tests.gateway.proxy import python


def test_what_the_page_shows_is_what_happens():
    """Its proxy starts, its agent ends, and its answers are those on the page."""
    command = [str(python()), "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/docs/test_how_to.py"]
    ended = captured([*command, "-k", "gateway"], cwd=ROOT, env=dict(os.environ), timeout=400)
    assert ended.returncode == 0, ended.stdout
    assert "2 passed" in ended.stdout
