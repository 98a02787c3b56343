"""The collector's build: what the builder itself does not compare."""

from __future__ import annotations

import re
from typing import Any

import pytest
import yaml

from .harness.collector import CONFIG, page_configs
from .harness.programs import ROOT

COLLECTOR = ROOT / "deploy" / "collector"


def manifest() -> dict[str, Any]:
    document: dict[str, Any] = yaml.safe_load((COLLECTOR / "manifest.yaml").read_text())
    return document


def components() -> list[tuple[str, str]]:
    kinds = ("receivers", "processors", "connectors", "exporters", "extensions", "providers")
    return [tuple(each["gomod"].split()) for kind in kinds for each in manifest()[kind]]


@pytest.mark.parametrize(("module", "version"), components())
def test_manifest_and_go_mod_name_the_same_version(module: str, version: str) -> None:
    """A component is built in the version the manifest names: with --skip-get-modules only go.mod decides."""
    required = dict(re.findall(r"^\s+(\S+) (v\S+)", (COLLECTOR / "go.mod").read_text(), re.MULTILINE))

    assert required.get(module) == version


def test_builder_and_collector_have_the_same_version() -> None:
    """The builder writes code against its own version of the collector."""
    builder = re.search(r"builder_version=v(\S+)", (COLLECTOR / "build").read_text())

    assert builder is not None
    assert builder[1] == manifest()["dist"]["version"]


def test_configs_use_exactly_the_components_that_are_built() -> None:
    """A component in a config but not in the manifest would not start; the other way round it is dead weight."""
    used: set[str] = set()
    texts = [path.read_text() for path in (CONFIG, *ROOT.glob("deploy/collector-config-*.yaml"))]
    # A page has the other side of CONFIG_KAFKA.
    texts += page_configs()
    for text in texts:
        config = yaml.safe_load(text)
        for kind in ("receivers", "processors", "connectors", "exporters", "extensions"):
            used |= {name.split("/")[0].replace("_", "") for name in config.get(kind, {})}
    built = {module.rsplit("/", 1)[1] for module, _ in components() if "/provider/" not in module}

    # otlp_grpc lives in the module otlpexporter, file_storage in filestorage.
    shortened = {re.sub(r"(receiver|processor|connector|exporter|extension)$", "", name) for name in built}
    # nop ends a pipeline that a user adds for a signal to be dropped.
    assert {name.replace("otlpgrpc", "otlp") for name in used} | {"nop"} == shortened
