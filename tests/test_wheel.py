"""The distribution: built twice to the same bytes, and installed as a user does, with nothing of this checkout.

With LOOPGUARD_DISTRIBUTION it is the files of that folder that are tested: `make release` sets it.
"""

from __future__ import annotations

import base64
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from otel_loopguard import __version__
from tests.telemetry.otlp import receiver as receiving

ROOT = Path(__file__).resolve().parents[1]
APP = """
import otel_loopguard as loopguard

@loopguard.tool
def read_file(path):
    return "the same old text"

with loopguard.turn():
    print([str(read_file("a")) for _ in range(3)][-1])
"""
OPENTELEMETRY = {
    "oldest": ("opentelemetry-sdk==1.28.0", "opentelemetry-instrumentation==0.49b0", "opentelemetry-distro==0.49b0"),
    "newest": (),
}
"""The oldest version is that of pyproject.toml."""


def run(*command: object, **more):
    """Run a command that must succeed, and return its output."""
    done = subprocess.run(
        [str(part) for part in command], capture_output=True, text=True, timeout=300, check=False, **more
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def repository_files() -> set[str]:
    """Name the files of the repository, also those that are not committed yet."""
    names = run("git", "-C", ROOT, "ls-files", "-coz", "--exclude-standard").split("\0")
    return {name for name in names if name and (ROOT / name).exists()}


def built(copy: Path, *flags: str, umask: int, **environment: str) -> Path:
    """Copy the files of the repository, build the distribution from them, and return its folder."""
    for name in repository_files():
        (copy / name).parent.mkdir(parents=True, exist_ok=True, mode=0o777 & ~umask)
        shutil.copyfile(ROOT / name, copy / name)
        (copy / name).chmod(0o777 & ~umask if os.access(ROOT / name, os.X_OK) else 0o666 & ~umask)
    run("uv", "build", *flags, "--python", sys.executable, copy, env={**os.environ, **environment}, umask=umask)
    return copy / "dist"


@pytest.fixture(scope="module")
def distribution(tmp_path_factory):
    """The folder with the wheel and the source distribution; the wheel is built from the source distribution."""
    given = os.environ.get("LOOPGUARD_DISTRIBUTION")
    return Path(given) if given else built(tmp_path_factory.mktemp("built") / "here", umask=0o022)


@pytest.fixture(scope="module")
def wheel(distribution):
    """The built wheel."""
    return next(distribution.glob("*.whl"))


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory):
    """The programs' folder of a fresh environment in which pip has installed the wheel and the distro, as in README."""
    folder = tmp_path_factory.mktemp("installed") / "venv"
    run("uv", "venv", "-q", "--seed", "--python", sys.executable, folder)
    pip = (folder / "bin" / "python", "-m", "pip", "--disable-pip-version-check", "-q")
    run(*pip, "install", "--no-compile", wheel, "opentelemetry-distro")
    return folder / "bin"


@pytest.fixture(scope="module")
def alone(wheel, tmp_path_factory):
    """The programs' folder of an environment with the package and what it requires, and no distro."""
    folder = tmp_path_factory.mktemp("alone") / "venv"
    run("uv", "venv", "-q", "--python", sys.executable, folder)
    run("uv", "pip", "install", "-q", "--python", folder / "bin" / "python", wheel)
    return folder / "bin"


@pytest.fixture(scope="module")
def without_grpc(wheel, tmp_path_factory):
    """The same with one exporter, over HTTP, as docs/design.md has it."""
    folder = tmp_path_factory.mktemp("lean") / "venv"
    run("uv", "venv", "--python", sys.executable, folder)
    install = ("uv", "pip", "install", "--python", folder / "bin" / "python")
    run(*install, "opentelemetry-distro", "opentelemetry-exporter-otlp-proto-http", "wrapt", "rapidfuzz", "orjson")
    run(*install, "--no-deps", wheel)
    return folder / "bin"


def test_a_second_build_has_the_same_bytes(distribution, tmp_path):
    """Folder, time of the files, umask, time zone and hash seed leave no trace, nor does the way over the source."""
    odd = {"TZ": "Asia/Tokyo", "LC_ALL": "C", "PYTHONHASHSEED": "1"}
    again = built(tmp_path / "a longer name", "--sdist", "--wheel", umask=0o077, **odd)
    files = {path.name: path.read_bytes() for path in distribution.iterdir() if path.suffix in (".whl", ".gz")}
    assert {path.suffix for path in map(Path, files)} == {".whl", ".gz"}
    assert files == {name: (again / name).read_bytes() for name in files}


def test_the_source_holds_the_repository(distribution):
    """The source distribution has each file of the repository and its metadata, and no other."""
    with tarfile.open(next(distribution.glob("*.tar.gz"))) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert names == {*repository_files(), "PKG-INFO"}


@pytest.mark.parametrize(("tool", "arguments"), [("twine", ("check", "--strict")), ("check-wheel-contents", ())])
def test_the_index_takes_the_files(tool, arguments, distribution):
    """The metadata and the README are what PyPI takes, and the wheel has no stray, empty or doubled file."""
    files = distribution.glob("*.whl" if tool == "check-wheel-contents" else "otel_loopguard-*")
    run("uv", "tool", "run", "-q", tool, *arguments, *files)


def test_the_page_at_the_index_leads_to_the_tag(wheel):
    """Each link and picture is absolute and names a file of this version; the command installs the release."""
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        page = archive.read(name).decode().partition("\n\n")[2]
    links = re.findall(r"\]\(([^)]*)\)", page)
    own = [re.fullmatch(rf"https://\S+/otel-loopguard/(?:blob/)?v{__version__}/([^#]+)(#.*)?", link) for link in links]
    assert [link for link in links if not link.startswith("https://")] == []
    assert len([one for one in own if one and (ROOT / one[1]).exists()]) == len([one for one in own if one]) > 30
    pictures = re.findall(r"!\[[^]]*\]\((\S+)\)", page)
    assert len([one for one in pictures if one.startswith("https://raw.githubusercontent.com/")]) == 2
    assert "pip install otel-loopguard\n" in page


def test_the_wheel_names_what_it_holds_of_others(wheel):
    """Its bill of materials names the locked packages, with version and checksum, and no others."""
    with zipfile.ZipFile(wheel) as archive:
        (bill,) = (name for name in archive.namelist() if ".dist-info/sboms/" in name)
        components = json.loads(archive.read(bill))["components"]
    lock = json.loads((ROOT / "otel_loopguard/report/npm/package-lock.json").read_text("utf-8"))["packages"]
    locked = {path.removeprefix("node_modules/"): facts for path, facts in lock.items() if path}
    assert {one["name"]: one["version"] for one in components} == {"uplot": locked["uplot"]["version"]}
    for one in components:
        (checksum,) = (bytes.fromhex(hash_["content"]) for hash_ in one["hashes"])
        assert locked[one["name"]]["integrity"] == f"sha512-{base64.b64encode(checksum).decode()}"
    assert locked.keys() == {"uplot"}


def test_what_fetches_the_library_is_not_in_the_wheel(wheel):
    """The wheel holds the library, not the programs that copy it from npm."""
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    assert "otel_loopguard/report/assets/vendor/uPlot.iife.min.js" in names
    assert [name for name in names if name.startswith("otel_loopguard/report/npm/")] == []


@pytest.mark.parametrize("programs", ["installed", "without_grpc"])
def test_a_span_arrives_and_the_loop_is_stopped(programs, request, tmp_path):
    """``opentelemetry-instrument python app.py`` exports the guarded calls, and the third equal one is refused."""
    programs = request.getfixturevalue(programs)
    app = tmp_path / "app.py"
    app.write_text(APP)
    with receiving() as receiver:
        environment = {**os.environ, **receiver.environment, "PYTHONPATH": ""}
        told = run(programs / "opentelemetry-instrument", programs / "python", app, env=environment, cwd=tmp_path)
        assert "tool_loop_detected" in told
        assert [span.name for span in receiver.spans] == ["execute_tool read_file"] * 3


@pytest.mark.parametrize(
    ("command", "told"),
    [
        ("run", "otel-loopguard: 3 tool calls, 1 loop.\n  read_file x3: 2 ran, 1 refused\n"),
        ("watch", "1 of 1 turn looped: 1 of 3 calls would have been refused."),
        ("doctor", "Loops are stopped here, in the calls that are counted above."),
    ],
)
def test_the_package_alone_runs_programs(command, told, alone, tmp_path):
    """``otel-loopguard run app.py`` needs no distro and no variable; nor do watch and doctor."""
    app = tmp_path / "app.py"
    app.write_text(APP)
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("OTEL_", "PYTHON"))}
    done = subprocess.run(
        [alone / "otel-loopguard", command, app],
        capture_output=True, text=True, timeout=300, check=False, env=environment, cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert told in done.stderr


@pytest.mark.parametrize("version", OPENTELEMETRY)
def test_an_unchanged_program_is_stopped(version, wheel, tmp_path):
    """In a bare environment the example of LangGraph reads the file 12 times, and twice under the guard."""
    run("uv", "venv", "-q", "--python", sys.executable, tmp_path / "venv")
    programs = tmp_path / "venv" / "bin"
    agent = ("opentelemetry-distro", "langchain", "langgraph")
    run("uv", "pip", "install", "-q", "--python", programs / "python", wheel, *agent, *OPENTELEMETRY[version])
    app = shutil.copy(ROOT / "examples" / "langgraph_agent.py", tmp_path)
    unheard = {f"OTEL_{signal}_EXPORTER": "none" for signal in ("TRACES", "METRICS", "LOGS")}
    options = {"env": {**os.environ, **unheard, "PYTHONPATH": ""}, "cwd": tmp_path}
    alone = run(programs / "python", app, **options)
    guarded = run(programs / "opentelemetry-instrument", programs / "python", app, **options)
    assert "The file was read 12 times." in alone
    assert "The file was read 2 times." in guarded
    assert "The agent answers: I already know what the file says." in guarded


def test_grpc_may_be_left_out(without_grpc):
    """The installation over HTTP is one without grpc."""
    run(without_grpc / "python", "-c", "import importlib.util as u; assert u.find_spec('grpc') is None")


def test_the_command_line_comes_with_it(installed, tmp_path):
    """The console script runs, knows the presets and has the stack's files."""
    assert run(installed / "otel-loopguard", "--version") == f"otel-loopguard {__version__}\n"
    assert "repeat_hint" in run(installed / "otel-loopguard", "policy", "show", "--preset", "repeat_hint")
    run(installed / "otel-loopguard", "stack", "export", tmp_path / "stack")
    assert (tmp_path / "stack" / "collector-config.yaml").exists()
