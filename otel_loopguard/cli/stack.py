"""``otel-loopguard stack export DIR`` and ``stack check [DIR]``: the files of the stack, from the installed package."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import orjson

from otel_loopguard.errors import LoopGuardError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

# What belongs to the stack, relative to the repository, to the package's copy of it, and to an export alike: the files
# name one another by these paths.
PATTERNS = (
    "collector-config.yaml",
    "collector-config-tempo.yaml",
    "compose.yaml",
    "dashboards/alertmanager/*.yml",
    "dashboards/compose/*.y*ml",
    "dashboards/grafana/provisioning/*/*.yaml",
    "dashboards/json/*.json",
    "dashboards/prometheus/*.yml",
    "docs/stack.md",
    "docs/runbooks/*.md",
)
_PATIENCE_SECONDS = 120

_PACKAGE = Path(__file__).parents[1]


class Check(NamedTuple):
    """A program that can judge files of the stack; it starts nothing, serves nothing and writes nothing."""

    what: str
    programs: tuple[str, ...]
    arguments: tuple[str, ...]
    able: tuple[str, ...] = ()
    """Arguments with which the program succeeds if it can judge at all: docker is often there without its plugin."""


CHECKS = (
    Check("collector", ("otelcol-contrib", "otelcol-loopguard"), ("validate", "--config=collector-config.yaml")),
    Check(
        "collector with a trace back end",
        ("otelcol-contrib", "otelcol-loopguard"),
        ("validate", "--config=collector-config.yaml", "--config=collector-config-tempo.yaml"),
    ),
    Check("Prometheus", ("promtool",), ("check", "config", "dashboards/prometheus/prometheus.yml")),
    Check("alert rules", ("promtool",), ("test", "rules", "dashboards/prometheus/rules_test.yml")),
    Check("Alertmanager", ("amtool",), ("check-config", "dashboards/alertmanager/alertmanager.yml")),
    Check(
        "compose.yaml", ("docker",), ("compose", "--file", "compose.yaml", "config", "--quiet"), ("compose", "version")
    ),
)


def configure(parser: argparse.ArgumentParser) -> None:
    """The arguments of both."""
    subparsers = parser.add_subparsers(metavar="export|check", required=True)
    export = subparsers.add_parser("export", help="write the stack's files: collector, rules, dashboards, compose.yaml")
    export.add_argument("directory", metavar="DIR", type=Path)
    export.add_argument("--force", action="store_true", help="overwrite files that were changed")
    export.set_defaults(run=_export)
    check = subparsers.add_parser("check", help="judge the files with the programs that are installed; starts nothing")
    check.add_argument("directory", metavar="DIR", type=Path, nargs="?", help="an export; without it, what is shipped")
    check.add_argument("--collector", metavar="PROGRAM", help="a collector that is not on the PATH")
    check.set_defaults(run=_check)


def shipped() -> Path:
    """Where the files are: in the installed package, or around it in a checkout."""
    for place in (_PACKAGE / "_stack", _PACKAGE.parent):
        if (place / PATTERNS[0]).is_file():
            return place
    msg = "this installation has no stack files: install otel-loopguard from its wheel, or use a checkout"
    raise LoopGuardError(msg)


def files(place: Path) -> list[Path]:
    """The stack's files below a directory, relative to it."""
    return sorted(path.relative_to(place) for pattern in PATTERNS for path in place.glob(pattern))


def _export(asked: argparse.Namespace) -> int:
    source, target = shipped(), asked.directory
    changed = [path for path in files(source) if _differs(source / path, target / path)]
    if changed and not asked.force:
        names = "\n".join(f"  {path}" for path in changed)
        msg = f"these files in {target} were changed; --force overwrites them:\n{names}"
        raise LoopGuardError(msg)
    for path in files(source):
        (target / path).parent.mkdir(parents=True, exist_ok=True)
        (target / path).write_bytes((source / path).read_bytes())
    print(f"{len(files(source))} files in {target}. Next: `docker compose up --detach` there, or read docs/stack.md.")
    return 0


def _differs(source: Path, target: Path) -> bool:
    return target.exists() and target.read_bytes() != source.read_bytes()


def _check(asked: argparse.Namespace) -> int:
    place = asked.directory or shipped()
    failures = list(_missing(place)) + list(_unreadable(place))
    for failure in failures:
        print(f"failed   {failure}")
    results = [_judge(check, place, asked.collector) for check in CHECKS]
    return int(bool(failures) or not all(results))


def _missing(place: Path) -> Iterator[str]:
    present = set(files(place))
    return (f"{path} is missing" for path in files(shipped()) if path not in present)


def _unreadable(place: Path) -> Iterator[str]:
    for path in files(place):
        if path.suffix != ".json":
            continue
        try:
            orjson.loads((place / path).read_bytes())
        except orjson.JSONDecodeError as error:
            yield f"{path} is no JSON: {error}"


def _judge(check: Check, place: Path, collector: str | None) -> bool:
    """Whether nothing speaks against it: also where nobody can judge, which is said."""
    names = (collector,) if collector and check.what.startswith("collector") else check.programs
    program = next((found for name in names if (found := shutil.which(name))), None)
    if program is None or (check.able and _run(place, program, *check.able).returncode):
        print(f"skipped  {check.what}: {' or '.join(names)} cannot judge it or is not installed")
        return True
    result = _run(place, program, *check.arguments)
    print(f"{'failed  ' if result.returncode else 'ok      '} {check.what} ({Path(program).name})")
    if result.returncode:
        print(result.stdout + result.stderr, file=sys.stderr)
    return result.returncode == 0


def _run(place: Path, *command: str) -> subprocess.CompletedProcess[str]:
    # The program is one that the caller has installed, the arguments are ours.
    return subprocess.run(  # noqa: S603
        command, cwd=place, capture_output=True, text=True, timeout=_PATIENCE_SECONDS, check=False
    )
