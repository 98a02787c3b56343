"""The facts of each client, and the page that tells them."""

from __future__ import annotations

from pathlib import Path

import pytest

from otel_loopguard.instrumentation.models import CLIENTS, PATCHED_MODULES
from otel_loopguard.instrumentation.targets import CallTarget

PAGE = Path(__file__).resolve().parents[3] / "docs" / "models.md"


@pytest.mark.parametrize("client", CLIENTS, ids=lambda client: client.name)
def test_the_page_names_each_client_and_its_oldest_version(client):
    """docs/models.md has a row for it."""
    oldest = client.versions["oldest"][0].replace("==", " ")
    assert f"| {client.title} | {oldest} |" in PAGE.read_text()


@pytest.mark.parametrize("client", CLIENTS, ids=lambda client: client.name)
def test_the_targets_are_functions_of_the_client(client):
    """Each client patches modules of its own package, and the start knows all of them."""
    assert client.targets
    assert PATCHED_MODULES[client.name] == tuple(sorted({target.module for target in client.targets}))
    for target in client.targets:
        assert isinstance(target, CallTarget)
        assert target.module.startswith(client.modules[0])
