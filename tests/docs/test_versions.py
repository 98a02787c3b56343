"""The page of versions names those that the matrix tests."""

from __future__ import annotations

import re
from importlib.metadata import distributions
from importlib.util import find_spec

import pytest
import tomllib
from packaging.version import Version

from tests.docs.blocks import ROOT, page

ROWS = re.findall(r"^\| `?([\w-]+)`?[^|]* \| ([\d.]+) \| ([\d.]+) \|$", page("reference/versions"), re.MULTILINE)


def test_the_pythons_are_those_of_the_package():
    """The first and the last Python are the first and the last of the classifiers."""
    classifiers = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["classifiers"]
    minors = [int(one.rpartition(".")[2]) for one in classifiers if re.search(r":: 3\.\d+$", one)]
    assert ("Python", f"3.{min(minors)}", f"3.{max(minors)}") in ROWS


@pytest.mark.skipif(find_spec("celery") is None, reason="runs in the environment how-tos of the matrix")
def test_no_version_is_named_that_is_newer_than_the_tested_one():
    """The environment has the newest version of each package in it: a table that promises more is wrong."""
    installed = {one.name: one.version for one in distributions()}
    newest = {name: newest for name, _, newest in ROWS if name in installed}
    assert len(newest) > 8
    assert {name for name, named in newest.items() if Version(named) > Version(installed[name])} == set()
