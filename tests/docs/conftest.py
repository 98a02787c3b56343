"""The site, built once for all tests of it."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.docs.blocks import ROOT


@pytest.fixture(scope="session")
def site(tmp_path_factory):
    """The folder of the built site; a warning is an error: a broken link, a page that is not in the navigation."""
    folder = tmp_path_factory.mktemp("site")
    command = [
        sys.executable,
        "-m",
        "mkdocs",
        "build",
        "--strict",
        "--site-dir",
        str(folder),
    ]  # --quiet hides warnings from --strict
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder
