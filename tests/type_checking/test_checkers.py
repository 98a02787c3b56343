"""mypy --strict and pyright: the programs of the docs have no error, and a mistake in a policy is one.

The checkers see our package and the standard library. Other packages have any type, whatever is installed.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import venv
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.docs.blocks import BLOCK, ROOT

PACKAGES = {"mypy": "mypy", "pyright": "basedpyright"}
"""By checker: its package. basedpyright is pyright with its own Node.js, so that nothing is downloaded in a test."""
REQUIRED = os.environ.get("LOOPGUARD_REQUIRE_CHECKERS") == "1"
ANY_IS_RIGHT = ("--allow-untyped-decorators", "--allow-subclassing-any", "--no-warn-return-any")
"""What mypy must not say of types of other packages."""
NO_TYPES = ("reportMissingImports", "reportMissingModuleSource", "reportFunctionMemberAccess")
"""What pyright says of packages that are not there, and of functions that they decorate."""
MISTAKES = [
    'Policy(acton="observe")',
    'Policy(action="obsrve")',
    'Policy(scope="conversations")',
    'Policy(counting="call")',
    'Policy(abort_after="9")',
    'Policy(order="cycle")',
    'Policy(modes={"generic_repeat": {"blok": 3}})',
    'Policy(modes={"generic_repeat": {"block": "3"}})',
    'Policy(modes={"cycle": {"action": "nudg"}})',
    'Policy(tools={"read_*": {"kindd": "read"}})',
    'Policy(tools={"read_*": {"kind": "reed"}})',
    'Policy(tools={"read_*": {"modes": {"cycle": {"blok": 3}}}})',
    'Policy(detectors=["own_detector:ROW"])',
    'ToolContract(kind="pol")',
    'ToolContract(volatile="nonce")',
    'Rule(action="obsrve")',
    'tool(kind="pol")',
    "tool(capp=3)",
    "tool(search)(1)",
    'call("search", {}, search).append("x")',
]


def programs():
    """Yield a name of a file, which others may import, and the text of each program that users are shown."""
    for path in sorted([*ROOT.glob("examples/*.py"), Path(__file__).with_name("kept.py")]):
        yield path.name, path.read_text("utf-8")
    pages = {page: page.read_text("utf-8") for page in [ROOT / "README.md", *sorted(ROOT.glob("docs/**/*.md"))]}
    imported = set(re.findall(r"^from (\w+) import", "\n".join(pages.values()), re.MULTILINE))
    for page, text in pages.items():
        name = re.sub(r"\W", "_", str(page.relative_to(ROOT).with_suffix("")))
        for found in BLOCK.finditer(text):
            if (found["kind"] or "").partition(" ")[0] == "python":
                own = (found["file"] or "").removesuffix(".py")
                line = text.count("\n", 0, found.start("text")) + 1
                yield f"{own if own in imported else f'{name}_line_{line}'}.py", found["text"]


@pytest.fixture(scope="module", params=PACKAGES)
def errors(request, tmp_path_factory):
    """By file and line: the errors of one run over all programs and mistakes."""
    if find_spec(PACKAGES[request.param]) is None:
        (pytest.fail if REQUIRED else pytest.skip)(f"{PACKAGES[request.param]} is not installed: make install")
    folder = tmp_path_factory.mktemp(request.param)
    (folder / "otel_loopguard").symlink_to(ROOT / "otel_loopguard")
    for name, text in programs():
        (folder / name).write_text(text, "utf-8")
    for number, mistake in enumerate(MISTAKES):
        text = f"from otel_loopguard import *\n\ndef search(customer: str) -> int:\n    return 1\n\n{mistake}\n"
        (folder / f"mistake_{number}.py").write_text(text)
    found: dict[str, list[str]] = {}
    for name, error in {"mypy": by_mypy, "pyright": by_pyright}[request.param](folder):
        found.setdefault(name, []).append(error)
    return found


def by_mypy(folder):
    options = ("--strict", "--python-version=3.10", "--no-site-packages", "--ignore-missing-imports", "--no-pretty",
               "--follow-imports=silent", "--cache-dir=cache", "--hide-error-context", "--no-error-summary",
               "--config-file=", *ANY_IS_RIGHT)  # fmt: skip
    for line in run("mypy", *options, *sorted(file.name for file in folder.glob("*.py")), folder=folder).splitlines():
        file, _, error = line.partition(":")
        if ": note: " not in error:
            yield file, error


def by_pyright(folder):
    venv.create(folder / "empty")
    settings = {"typeCheckingMode": "standard", "include": ["*.py"], "venvPath": ".", "venv": "empty",
                "pythonVersion": "3.10", **dict.fromkeys(NO_TYPES, False)}  # fmt: skip
    (folder / "pyrightconfig.json").write_text(json.dumps(settings))
    for one in json.loads(run("basedpyright", "--outputjson", folder=folder))["generalDiagnostics"]:
        if (
            one["severity"] == "error" and one["message"] != '"genai" is unknown import symbol'
        ):  # it knows part of google
            yield Path(one["file"]).name, f"{one['range']['start']['line'] + 1}: {one['message']}"


def run(module, *arguments, folder):
    environment = {name: value for name, value in os.environ.items() if name not in ("MYPYPATH", "VIRTUAL_ENV")}
    command = [sys.executable, "-m", module, *arguments]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stdout + done.stderr  # it has found the mistakes
    return done.stdout


def test_every_program_that_users_are_shown_has_no_error_of_a_type_checker(errors):
    """The README, all pages, the examples, and a program in which each type is asserted."""
    assert {name: found for name, found in errors.items() if not name.startswith("mistake_")} == {}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_type_checker_finds_the_mistake(errors, mistake):
    """It says so before the program runs."""
    found = errors.get(f"mistake_{MISTAKES.index(mistake)}.py", [])
    assert found
    assert all(error.startswith("6:") for error in found)


def test_the_programs_are_those_of_all_pages():
    """A page that is not read would have no errors."""
    names = {name for name, _ in programs()}
    assert {"own_detector.py", "test_agent.py", "kept.py"} <= names
    assert len(names) > 60
