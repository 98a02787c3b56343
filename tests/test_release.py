"""`make release`: what it refuses to build, and the changelog and the workflow that belong to a release."""

from __future__ import annotations

import re
import shutil
import subprocess
from datetime import date
from itertools import pairwise
from pathlib import Path

import pytest
import yaml

from otel_loopguard import __version__

ROOT = Path(__file__).resolve().parents[1]
CHANGELOG = (ROOT / "CHANGELOG.md").read_text("utf-8")
WORKFLOW = ROOT / ".github" / "workflows" / "release.yml"
GROUPS = ["Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"]
READY = f"## [{__version__}] - 2026-11-22\n\n[{__version__}]: https://example.org/\n"


def git(folder, *arguments):
    subprocess.run(["git", "-C", folder, *arguments], check=True, capture_output=True)


def commit(folder):
    git(folder, "add", "--all")
    git(folder, "-c", "user.name=Ada", "-c", "user.email=ada@example.org", "commit", "-qm", "A change")


@pytest.fixture
def repository(tmp_path):
    """A repository with what the checks read, all of it ready for a release."""
    for name in (".ci/release", "otel_loopguard/version.py"):
        (tmp_path / name).parent.mkdir()
        shutil.copy(ROOT / name, tmp_path / name)
    (tmp_path / "CHANGELOG.md").write_text(READY)
    git(tmp_path, "init", "-q")
    commit(tmp_path)
    return tmp_path


def refused(repository) -> list[str]:
    """Run the script, which must build nothing, and return the problems that it names."""
    ended = subprocess.run([repository / ".ci" / "release"], capture_output=True, text=True, timeout=60, check=False)
    assert (ended.returncode, ended.stdout) == (1, "")
    first, *problems = ended.stderr.splitlines()
    assert first == "No release was built."
    assert not (repository / "dist").exists()
    return problems


def test_a_change_that_is_not_committed_is_named(repository):
    """A stray file stops the release: it would be in the folder, and not in what is built."""
    (repository / "stray.py").touch()
    assert refused(repository) == [
        "  - The folder has changes that are not committed (git status). Commit them, or put them away."
    ]


def test_a_changelog_without_version_and_date_is_named(repository):
    """The remedy is the heading to write."""
    (repository / "CHANGELOG.md").write_text(READY.replace(f"[{__version__}] - 2026-11-22", "Unreleased"))
    commit(repository)
    (problem,) = refused(repository)
    assert problem.startswith(f'  - CHANGELOG.md begins with "## Unreleased". Write "## [{__version__}] - 20')


def test_a_version_that_is_tagged_is_named(repository):
    """A tag on an earlier commit means that this version is out."""
    git(repository, "tag", f"v{__version__}")
    (repository / "more.py").touch()
    commit(repository)
    (problem,) = refused(repository)
    assert problem.endswith(f"{__version__} is released. Raise the version in otel_loopguard/version.py.")


def test_all_problems_are_named_at_once(repository):
    """Nobody has to start it four times."""
    git(repository, "tag", f"v{__version__}")
    (repository / "CHANGELOG.md").write_text("# Changes\n")
    commit(repository)
    (repository / "stray.py").touch()
    assert len(refused(repository)) == 4


def test_the_changelog_has_versions_dates_and_groups():
    """Sections are versions with dates, newest first, and have the groups of Keep a Changelog in their order."""
    sections = re.split(r"^## ", CHANGELOG, flags=re.MULTILINE)[1:]
    headings = [re.fullmatch(r"(Unreleased)|\[?([\d.]+)\]? - (\S+)", section.splitlines()[0]) for section in sections]
    assert all(headings)
    versions = [tuple(map(int, one[2].split("."))) for one in headings if one and one[2]]
    assert all(newer > older for newer, older in pairwise(versions))
    assert [date.fromisoformat(one[3]) for one in headings if one and one[3]]
    for section in sections:
        groups = re.findall(r"^### (.+)$", section, flags=re.MULTILINE)
        assert groups == [name for name in GROUPS if name in groups]


def test_a_version_is_a_screen_or_two():
    """A version has a list of at most 60 lines."""
    sections = re.split(r"^## ", CHANGELOG, flags=re.MULTILINE)[1:]
    lists = [[line for line in section.splitlines() if re.match(r"- |  \S", line)] for section in sections]
    assert max(map(len, lists)) <= 60


def test_the_changelog_begins_with_this_version():
    """The first version with a date is the one that the package states."""
    (newest, *_) = re.findall(r"^## \[([\d.]+)\] - ", CHANGELOG, flags=re.MULTILINE)
    assert newest == __version__


def test_only_one_job_may_publish():
    """The workflow runs for tags only; no job but the one that uploads has the right to, and it runs no other code."""
    workflow = yaml.safe_load(WORKFLOW.read_text("utf-8"))
    assert workflow[True] == {"push": {"tags": ["v*"]}}  # YAML reads the key "on" as a boolean
    assert workflow["permissions"] == {}
    rights = {name: job["permissions"] for name, job in workflow["jobs"].items()}
    assert rights == {"build": {"contents": "read"}, "publish": {"id-token": "write"}}
    publish = workflow["jobs"]["publish"]
    assert publish["environment"]["name"] == "pypi"
    assert not any("run" in step and "sha256sum" not in step["run"] for step in publish["steps"])


@pytest.mark.parametrize("workflow", sorted(WORKFLOW.parent.glob("*.yml")), ids=lambda path: path.stem)
def test_actions_are_pinned_by_hash(workflow):
    """A tag of an action can be moved, a hash cannot."""
    used = re.findall(r"uses: (\S+)", workflow.read_text("utf-8"))
    assert used
    assert [one for one in used if not re.fullmatch(r"[\w./-]+@[0-9a-f]{40}", one)] == []
