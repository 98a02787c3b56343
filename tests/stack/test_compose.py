"""compose.yaml, as far as it can be tested without containers."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from .harness.collector import CONFIG, CONFIG_TEMPO
from .harness.programs import ROOT, need

FILE = ROOT / "deploy" / "compose.yaml"
COMPOSE = yaml.safe_load(FILE.read_text())
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
PROVISIONING = ROOT / "dashboards" / "grafana" / "provisioning"


def environment(service: str) -> dict[str, str]:
    """A service's variables with compose's own defaults filled in."""
    given = SERVICES[service]["environment"]
    return {name: re.sub(r"\$\{\w+:-([^}]*)\}", r"\1", str(value)) for name, value in given.items()}


@pytest.mark.parametrize("service", SERVICES)
def test_images_are_pinned(service: str) -> None:
    """Every image has a full version: the same stack today and next year."""
    assert re.fullmatch(r"[\w./-]+:v?\d+\.\d+\.\d+", SERVICES[service]["image"])


def test_the_collector_is_the_release_that_is_tested() -> None:
    """Tests build it from the manifest, compose runs the official image of the same version."""
    manifest = yaml.safe_load((ROOT / "deploy" / "collector" / "manifest.yaml").read_text())

    assert SERVICES["collector"]["image"].endswith(f":{manifest['dist']['version']}")


@pytest.mark.parametrize("service", [name for name in SERVICES if "ports" in SERVICES[name]])
def test_ports_are_open_to_this_machine_only(service: str) -> None:
    """Ports are bound to the loopback address, because telemetry is private."""
    assert all(str(port).startswith("127.0.0.1:") for port in SERVICES[service]["ports"])


@pytest.mark.parametrize("service", SERVICES)
def test_mounted_files_exist(service: str) -> None:
    """A file that lacks would be mounted as an empty directory."""
    for mount in SERVICES[service].get("volumes", []):
        source = mount.split(":")[0]
        assert (FILE.parent / source).exists() if source.startswith(".") else source in COMPOSE["volumes"]


def test_everything_that_serves_has_a_health_check() -> None:
    """Each service has a health check of its own, or is checked by another one if its image has no shell."""
    checked = {name for name, service in SERVICES.items() if "healthcheck" in service}
    seen_from_outside = {name for name in SERVICES if f"//{name}:" in str(SERVICES["ready"]["healthcheck"]["test"])}

    assert checked | seen_from_outside == set(SERVICES) - {"collector-volume"}


def test_no_variable_is_passed_on_empty() -> None:
    """`${X:-}` would hand the collector a variable that is set but empty, which it refuses."""
    assert "${" in FILE.read_text()
    assert not re.search(r"^[^#\n]*\$\{\w+(:-)?\}", FILE.read_text(), re.MULTILINE)


def test_the_collector_accepts_its_configuration(tmp_path: Path) -> None:
    """Both files together, with the variables of the container, and no variable that the files do not know."""
    variables = environment("collector")
    known = CONFIG.read_text() + CONFIG_TEMPO.read_text()
    command = [need("collector"), "validate", f"--config={CONFIG}", f"--config={CONFIG_TEMPO}"]
    result = subprocess.run(
        command, env=variables, cwd=tmp_path, capture_output=True, text=True, timeout=30, check=False
    )

    assert result.returncode == 0, result.stderr
    assert [name for name in variables if f"${{env:{name}:-" not in known] == []


def test_prometheus_and_alertmanager_accept_theirs(tmp_path: Path) -> None:
    """The tools of Prometheus accept the files with the containers' addresses, in one directory with the rules."""
    home = ROOT / "dashboards"
    for source in ("compose/prometheus.yml", "compose/alertmanager.yml", "prometheus/rules.yml"):
        (tmp_path / source.split("/")[1]).write_text((home / source).read_text())
    checks = (
        [need("promtool"), "check", "config", "prometheus.yml"],
        [need("amtool"), "check-config", "alertmanager.yml"],
    )
    for check in checks:
        result = subprocess.run(check, cwd=tmp_path, capture_output=True, text=True, timeout=30, check=False)
        assert result.returncode == 0, result.stderr

    assert "127.0.0.1" not in (tmp_path / "prometheus.yml").read_text()


def test_grafana_has_no_password_to_guess() -> None:
    """Grafana creates no administrator and has no login form."""
    grafana = environment("grafana")

    assert grafana["GF_SECURITY_DISABLE_INITIAL_ADMIN_CREATION"] == "true"
    assert grafana["GF_AUTH_DISABLE_LOGIN_FORM"] == "true"
    assert not any("PASSWORD" in name for name in grafana)


def test_grafana_finds_what_is_provisioned() -> None:
    """Addresses, uids and paths that one file names and another defines."""
    sources = yaml.safe_load((PROVISIONING / "datasources" / "loopguard.yaml").read_text())["datasources"]
    uids = {source["uid"] for source in sources}
    rules = yaml.safe_load((PROVISIONING / "alerting" / "loopguard.yaml").read_text())["groups"][0]["rules"]

    assert {source["url"].strip("${}") for source in sources} <= set(environment("grafana"))
    assert {query["datasourceUid"] for rule in rules for query in rule["data"]} <= uids | {"__expr__"}
    assert sources[0]["jsonData"]["exemplarTraceIdDestinations"][0]["datasourceUid"] in uids


def test_grafana_finds_the_dashboards_in_a_container_and_outside() -> None:
    """The folder that LOOPGUARD_STACK names has the dashboards: in the container by a mount, outside in an export."""
    (provider,) = yaml.safe_load((PROVISIONING / "dashboards" / "loopguard.yaml").read_text())["providers"]
    path = provider["options"]["path"]
    mounts = dict(mount.split(":")[1::-1] for mount in SERVICES["grafana"]["volumes"])

    assert mounts[path.replace("${LOOPGUARD_STACK}", environment("grafana")["LOOPGUARD_STACK"])] == "../dashboards/json"
    assert list(Path(path.replace("${LOOPGUARD_STACK}", str(ROOT))).glob("overview.json"))


def test_every_variable_of_the_provisioning_is_documented() -> None:
    """docs/stack.md starts Grafana with all variables that its files read: Grafana would put in an empty text."""
    read = {name for path in PROVISIONING.glob("*/*.yaml") for name in re.findall(r"\$\{([A-Z_]+)\}", path.read_text())}
    documented = re.findall(r"\b([A-Z_]+)=", (ROOT / "docs" / "stack.md").read_text())

    assert read == {"LOOPGUARD_STACK", "PROMETHEUS_URL", "TEMPO_URL", "ALERTMANAGER_URL"}
    assert read <= set(environment("grafana")) & set(documented)


def test_grafana_lets_everybody_follow_a_trip_and_save_nothing() -> None:
    """Anonymous users are viewers, as Grafana 12 wants, and viewers may open Explore, which shows traces."""
    grafana = environment("grafana")

    assert grafana["GF_AUTH_ANONYMOUS_ORG_ROLE"] == "Viewer"
    assert grafana["GF_USERS_VIEWERS_CAN_EDIT"] == "true"
