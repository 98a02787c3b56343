"""The collector's configuration, as it stands in the repository."""

from __future__ import annotations

import re
import subprocess

import pytest

from .harness.collector import CONFIG, CONFIG_TEMPO, Collector
from .harness.programs import ROOT, need

DOCS = ROOT / "docs" / "stack.md"
VARIABLES = sorted(set(re.findall(r"\$\{env:(LOOPGUARD_\w+):-", CONFIG.read_text())))
NUMBERS = [name for name in VARIABLES if re.search(r"\+\$\{env:" + name, CONFIG.read_text())]


def validate(**environment: str) -> subprocess.CompletedProcess[str]:
    command = [need("collector"), "validate", f"--config={CONFIG}"]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=30, check=False)


def test_config_is_valid_without_any_setting() -> None:
    """The file runs as it stands: every variable has a default."""
    result = validate()

    assert result.returncode == 0, result.stderr


@pytest.mark.parametrize("name", NUMBERS)
def test_an_empty_number_is_refused(name: str) -> None:
    """A variable that is set but empty stops the collector: read as 0 it would keep no trace, or wait for none."""
    result = validate(**{name: ""})

    assert result.returncode != 0


def test_every_number_and_duration_is_guarded() -> None:
    """The plus sign stands before every variable that is a number or a duration."""
    defaults = dict(re.findall(r"\$\{env:(LOOPGUARD_\w+):-([^}]*)\}", CONFIG.read_text()))
    numeric = {name for name, value in defaults.items() if re.fullmatch(r"\d+(\.\d+)?(ms|s|m|h)?", value)}

    assert numeric == set(NUMBERS)


@pytest.mark.parametrize("value", ["0.5", "1", "100"])
def test_a_share_may_be_whole_or_not(value: str) -> None:
    """The guard against emptiness refuses no real percentage."""
    result = validate(LOOPGUARD_SAMPLING_PERCENTAGE=value)

    assert result.returncode == 0, result.stderr


def test_collector_starts_without_a_complaint(make_collector: type[Collector]) -> None:
    """Validation does not look into tail sampling's conditions, a start does; and no name in the file is deprecated."""
    collector = make_collector()

    complaints = [line for line in collector.log().splitlines() if re.search(r"\t(warn|error)\t", line)]
    assert complaints == []


def test_every_setting_is_documented_with_its_default() -> None:
    """The table in docs/stack.md and the two configurations say the same."""
    both = CONFIG.read_text() + CONFIG_TEMPO.read_text()
    used = dict(re.findall(r"\$\{env:(LOOPGUARD_\w+):-([^}]*)\}", both))
    documented = dict(re.findall(r"^\| `(LOOPGUARD_\w+)` \| `([^`]*)`", DOCS.read_text(), re.MULTILINE))

    assert documented == used
