"""The Makefile's way to packages: uv with pip's settings, and what it says before the tests."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests import needs

ROOT = Path(__file__).resolve().parents[1]
SETTINGS = """
[global]
index-url = https://ada:p$w@one.example.org/simple
cert = /etc/of-the-proxy.pem
[install]
index-url = https://two.example.org/simple
extra-index-url =
    https://three.example.org/
    https://four.example.org/
[freeze]
timeout = 10
"""
PRINT = "import os; [print(name, os.environ.get(name)) for name in {!r}]"
NAMES = ("UV_DEFAULT_INDEX", "UV_INDEX", "SSL_CERT_FILE", "UV_SYSTEM_CERTS")


def as_pip(tmp_path, settings, **environment):
    """Return what a command that .ci/as-pip runs has in its environment, by name."""
    (tmp_path / "pip.conf").write_text(settings)
    plain = {name: value for name, value in os.environ.items() if not name.startswith(("PIP_", "UV_", "SSL_"))}
    command = [ROOT / ".ci" / "as-pip", sys.executable, "-c", PRINT.format(NAMES)]
    # An environment that uv has made has no pip, and would be the first on PATH.
    path = os.pathsep.join((str(Path(sys._base_executable).parent), plain["PATH"]))
    more = {"PIP_CONFIG_FILE": str(tmp_path / "pip.conf"), "HOME": str(tmp_path), "PATH": path, **environment}
    printed = subprocess.run(command, env={**plain, **more}, capture_output=True, text=True, check=True).stdout
    return dict(line.split(" ", 1) for line in printed.splitlines())


def test_uv_asks_the_index_and_trusts_the_certificates_of_pip(tmp_path):
    """What is set for `pip install` alone wins over what is set for all of pip, as in pip; two values are two."""
    assert as_pip(tmp_path, SETTINGS) == {
        "UV_DEFAULT_INDEX": "https://two.example.org/simple",
        "UV_INDEX": "https://three.example.org/ https://four.example.org/",
        "SSL_CERT_FILE": "/etc/of-the-proxy.pem",
        "UV_SYSTEM_CERTS": "1",
    }


def test_a_variable_of_pip_wins_over_its_file(tmp_path):
    """PIP_INDEX_URL is stronger than pip.conf, as in pip. A dollar sign stays one."""
    index = "https://ada:p$w@five.example.org/simple"
    assert as_pip(tmp_path, SETTINGS, PIP_INDEX_URL=index)["UV_DEFAULT_INDEX"] == index


def test_what_is_set_for_uv_stays(tmp_path):
    """Who has set up uv is not overruled."""
    index = "https://six.example.org/simple"
    assert as_pip(tmp_path, SETTINGS, UV_DEFAULT_INDEX=index)["UV_DEFAULT_INDEX"] == index


@pytest.mark.parametrize("settings", ["", "no settings of pip"])
def test_without_readable_settings_uv_trusts_the_system(tmp_path, settings):
    """No file, or a broken one: only the certificates are those of the system, as pip's are."""
    found = as_pip(tmp_path, settings)
    assert (found["UV_SYSTEM_CERTS"], found["UV_DEFAULT_INDEX"]) == ("1", "None")


def test_a_status_is_handed_on():
    """A command that fails fails the target."""
    command = [ROOT / ".ci" / "as-pip", sys.executable, "-c", "raise SystemExit(7)"]
    assert subprocess.run(command, check=False).returncode == 7


def test_missing_programs_are_named_before_the_tests(monkeypatch):
    """Who starts the tests reads which folder is skipped, what it lacks and what installs it."""
    monkeypatch.setattr(needs, "is_there", lambda program: program != "chromium")
    assert needs.lines() == ["  tests/report: without chromium; .ci/browser installs it"]


def test_nothing_is_said_of_what_is_there(monkeypatch):
    """A machine with everything skips nothing for want of a program."""
    monkeypatch.setattr(needs, "is_there", lambda program: True)
    assert needs.lines() == []


def test_the_files_of_the_core_exist():
    """A file that is moved is moved in the Makefile, too."""
    dry = subprocess.run(["make", "-n", "core"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    named = [word for word in dry.split() if word.startswith("tests/")]
    assert len(named) > 5
    assert [path for path in named if not (ROOT / path).exists()] == []


def test_what_is_named_exists():
    """Folders and scripts are where the lines say."""
    for folder, (scripts, _) in needs.NEEDS.items():
        assert all((ROOT / name).exists() for name in (folder, *scripts.split(" and ")))
