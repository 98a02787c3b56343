"""The facts of a framework are in its own file; the doctor, the matrix and the docs agree with them."""

from __future__ import annotations

import runpy
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import pytest

from otel_loopguard.instrumentation import frameworks
from otel_loopguard.instrumentation.frameworks import FRAMEWORKS
from tests.environments import environment_of

ROOT = Path(__file__).resolve().parents[3]
SUPPORTED = [framework for framework in FRAMEWORKS if framework.versions]
EACH = pytest.mark.parametrize("framework", SUPPORTED, ids=lambda framework: framework.name)


def test_every_file_is_in_the_table():
    """A file or folder of the room is one framework, which has its name."""
    room = Path(frameworks.__file__).parent
    found = {path.stem for path in room.iterdir() if not path.name.startswith("__")}
    assert found == {framework.name for framework in FRAMEWORKS}


@pytest.mark.parametrize("framework", FRAMEWORKS, ids=lambda framework: framework.name)
def test_the_start_knows_the_modules_of_its_targets(framework):
    """Its file is imported when the program imports one of these, so none may be missing."""
    assert frameworks.PATCHED_MODULES[framework.name] == tuple(sorted({one.module for one in framework.targets}))


@EACH
def test_it_is_tested_with_its_oldest_and_its_newest_version(framework):
    """The matrix has an environment for each version, and its tests exist."""
    matrix = runpy.run_path(str(ROOT / "tests/run_matrix"))["MATRIX"]
    assert list(framework.versions)[0] == "oldest"  # noqa: RUF015 - the order is tested
    assert list(framework.versions)[-1] == "newest"
    for version, requirements in framework.versions.items():
        required, tests = matrix[environment_of(framework, version)]
        assert {*requirements} <= {*required}
        assert any(Path(test).stem.removeprefix("test_") == framework.name for test in tests)
    paths = [test for _, tests in matrix.values() for test in tests if not test.startswith("-k")]
    assert [path for path in paths if not (ROOT / path).exists()] == []


@EACH
def test_it_has_a_scripted_model(framework):
    """The tests and the campaign of docs/reliability.md run its agents."""
    assert find_spec(f"tests.scripted.{framework.name}")


def test_its_own_limits_name_functions():
    """The doctor patches them as any other target; those of installed frameworks exist."""
    pytest.importorskip("langchain")
    for limit in frameworks.langchain.FRAMEWORK.limits:
        found = import_module(limit.module)
        for name in limit.path.split("."):
            found = getattr(found, name)
