"""The doctor's facts of the clients of model providers."""

from __future__ import annotations

import os
import warnings
from dataclasses import replace
from importlib import import_module
from importlib.metadata import PackageNotFoundError

import pytest

from otel_loopguard.cli.doctor import facts
from otel_loopguard.cli.doctor.findings import _of_frameworks
from otel_loopguard.instrumentation.models import CLIENTS
from otel_loopguard.testing import guarded

os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")  # litellm would fetch it when it is imported


@pytest.mark.parametrize("client", CLIENTS, ids=lambda client: client.name)
def test_an_installed_client_is_named_with_its_patches(client):
    """Each place that this version has is patched, and a lost patch is a finding."""
    pytest.importorskip(client.modules[0], reason="the clients are tested in environments of their own")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import_module(client.targets[0].module)
    with guarded():
        (found,) = (one for one in facts.clients() if one["name"] == client.name)
    bare = next(one for one in facts.clients() if one["name"] == client.name)
    assert found["imported"]
    assert {target["state"] for target in found["targets"]} <= {"held", "absent"}
    assert {target["subject"] for target in found["targets"]} == {"requests"}
    found["newer"] = bare["newer"] = []  # the newest version here may be newer than the newest that was tested
    report = {"frameworks": [], "clients": [found], "on": True}
    assert list(_of_frameworks(report)) == []
    assert {one.code for one in _of_frameworks({**report, "clients": [bare]})} == {"patch-lost"}


def test_the_methods_that_a_client_would_call_are_examined(monkeypatch):
    """A replaced ``request`` is no loss while ``post`` is patched above it; without both, the class is named."""
    openai = pytest.importorskip("openai")
    with guarded():
        monkeypatch.setattr(facts, "CLIENTS", [replace(one, tested={}) for one in CLIENTS if one.name == "openai"])
        monkeypatch.setattr(openai.OpenAI, "request", lambda *_: None)
        (found,) = facts.clients()
        report = {"frameworks": [], "clients": [found], "on": True}
        assert list(_of_frameworks(report)) == []
        monkeypatch.setattr(openai.OpenAI, "post", lambda *_: None)
        report["clients"] = list(facts.clients())
        assert [one.text.partition(": ")[2].partition(" is")[0] for one in _of_frameworks(report)] == [
            "openai:OpenAI.post", "openai:OpenAI.request",
        ]  # fmt: skip


def test_a_version_beyond_the_tested_ones_is_named(monkeypatch):
    """It is guarded all the same, and the doctor says that nobody has tested it."""
    openai = pytest.importorskip("openai")
    client = next(one for one in CLIENTS if one.name == "openai")
    with guarded():
        tested = replace(client, tested={"openai": "1.2"})
        monkeypatch.setattr(facts, "CLIENTS", [tested])
        report = {"frameworks": [], "clients": list(facts.clients()), "on": True}
    (one,) = _of_frameworks(report)
    assert one.text == f"openai {openai.__version__} is newer than 1.2, the newest that was tested."


def test_another_package_of_google_is_no_framework(monkeypatch):
    """Google's packages share their first module: ``google-adk`` is listed only where it is installed itself."""
    installed = {"google-genai": "3.4.0"}

    def version(package):
        if package in installed:
            return installed[package]
        raise PackageNotFoundError(package)

    monkeypatch.setattr(facts, "version", version)
    assert list(facts.frameworks()) == []
    installed["google-adk"] = "2.13.0"
    assert [(one["name"], one["versions"]) for one in facts.frameworks()] == [("google_adk", {"google-adk": "2.13.0"})]
