"""What GitHub shows to those who open an issue or a pull request: the forms, and the checks."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[1]
GITHUB = ROOT / ".github"
FORMS = [path for path in sorted(GITHUB.glob("ISSUE_TEMPLATE/*.yml")) if path.name != "config.yml"]


@pytest.mark.parametrize("path", FORMS, ids=lambda path: path.stem)
def test_a_form_is_one_that_github_takes(path):
    """It has a name and a description; each field an id of its own and a label. It asks to leave real values out."""
    form = yaml.safe_load(path.read_text("utf-8"))
    assert {"name", "description", "body"} == set(form)
    fields = [one for one in form["body"] if one["type"] != "markdown"]
    assert {one["type"] for one in fields} <= {"textarea", "dropdown"}
    assert all(one["attributes"]["label"] for one in fields)
    assert len({one["id"] for one in fields}) == len(fields)
    assert "Leave real arguments and results out." in str(form)


def test_links_of_the_forms_lead_to_files():
    """A page that is moved is moved there, too."""
    texts = "".join(path.read_text("utf-8") for path in FORMS)
    linked = re.findall(r"/blob/main/([\w./-]+)", texts)
    assert linked
    assert [path for path in linked if not (ROOT / path).exists()] == []


def test_pull_requests_are_checked_without_rights():
    """The checks run what a developer runs, may only read the commit, and never run on foreign code with secrets."""
    workflow = yaml.safe_load((GITHUB / "workflows" / "checks.yml").read_text("utf-8"))
    assert set(workflow[True]) == {"pull_request", "push"}  # YAML reads the key "on" as a boolean
    assert workflow["permissions"] == {}
    assert {str(job["permissions"]) for job in workflow["jobs"].values()} == {"{'contents': 'read'}"}
    commands = [step["run"] for job in workflow["jobs"].values() for step in job["steps"] if "run" in step]
    assert commands == ["make check", "make test"]
