"""``otel-loopguard stack export DIR`` writes the files of the stack; ``stack check [DIR]`` validates them.

The stack is what receives and shows the telemetry: collector, Prometheus, Alertmanager and Grafana.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import orjson

from otel_loopguard.errors import LoopGuardError

if TYPE_CHECKING:
    from collections.abc import Iterator

# The files of the stack. They refer to each other by path, so the paths are the same in the repository, in the copy in
# the package and in an export.
PATTERNS = (
    "collector-config.yaml",
    "deploy/collector-config-tempo.yaml",
    "deploy/collector-config-balancer.yaml",
    "deploy/collector-config-kafka.yaml",
    "deploy/collector-config-watch.yaml",
    "deploy/compose.yaml",
    "dashboards/alertmanager/*.yml",
    "dashboards/compose/*.y*ml",
    "dashboards/grafana/provisioning/*/*.yaml",
    "dashboards/json/*.json",
    "dashboards/prometheus/*.yml",
    "docs/stack.md",
    "docs/telemetry.md",
    "docs/runbooks/*.md",
)
GRAFANA_URL = "http://127.0.0.1:3000"
"""The address of Grafana in the links of the shipped rules."""

_PLAIN = re.compile(r"[A-Za-z0-9._~:/?#@!&()*+,;=%\[\]-]+")
"""The characters of an address, without quotes, which end a text of YAML, and $, which begins a variable of Grafana."""
_TIMEOUT_SECONDS = 300  # the unit tests of the rules take 30 s of processor time

_PACKAGE = Path(__file__).parents[1]


class Check(NamedTuple):
    """A check of some files by the program that reads them. It starts no service, and writes nothing."""

    subject: str
    """What is checked, for the output."""
    programs: tuple[str, ...]
    """The names of the program; the first one that is installed is run."""
    arguments: tuple[str, ...]
    probe: tuple[str, ...] = ()
    """Arguments with which the program succeeds if it can do the check: docker may lack its plugin compose."""


def _of_collector(subject: str, *configurations: str) -> Check:
    arguments = ("validate", *(f"--config={name}" for name in configurations))
    return Check(subject, ("otelcol-contrib", "otelcol-loopguard"), arguments)


_MAIN = PATTERNS[0]
CHECKS = (
    _of_collector("collector", _MAIN),
    _of_collector("collector with a trace back end", _MAIN, "deploy/collector-config-tempo.yaml"),
    _of_collector("collector with a watcher", _MAIN, "deploy/collector-config-watch.yaml"),
    _of_collector("collector that reads from Kafka", "deploy/collector-config-kafka.yaml"),
    _of_collector("collector that spreads the load", "deploy/collector-config-balancer.yaml"),
    Check("Prometheus", ("promtool",), ("check", "config", "dashboards/prometheus/prometheus.yml")),
    Check("alert rules", ("promtool",), ("test", "rules", "dashboards/prometheus/rules_test.yml")),
    Check("Alertmanager", ("amtool",), ("check-config", "dashboards/alertmanager/alertmanager.yml")),
    Check(
        "compose.yaml",
        ("docker",),
        ("compose", "--file", "deploy/compose.yaml", "config", "--quiet"),
        ("compose", "version"),
    ),
)


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``stack export`` and ``stack check``."""
    subparsers = parser.add_subparsers(metavar="export|check", required=True)
    export = subparsers.add_parser(
        "export",
        help="write the stack's files: collector, rules, dashboards, compose.yaml",
        description="Writes the configuration of the collector, the rules, the dashboards and compose.yaml.",
        epilog="Exit status: 0 the files were written; 2 wrong use, or a file was changed and --force is missing.",
    )
    export.add_argument("directory", metavar="DIR", type=Path, help="the folder for the files; a new one is made")
    export.add_argument("--force", action="store_true", help="overwrite files in DIR that were changed")
    export.add_argument(
        "--grafana-url",
        metavar="URL",
        type=_url,
        default=GRAFANA_URL,
        help="the address of Grafana in the links of alerts (default: %(default)s)",
    )
    export.set_defaults(run=_export)
    check = subparsers.add_parser(
        "check",
        help="validate the files with the installed programs; starts nothing",
        description="Validates the files with the programs that read them. A program that is not installed is skipped.",
        epilog="Exit status: 0 no fault was found; 1 a program found one, or a file is missing or broken; 2 wrong use.",
    )
    check.add_argument(
        "directory",
        metavar="DIR",
        type=Path,
        nargs="?",
        help="a folder that `stack export` wrote (default: the files in the package)",
    )
    check.add_argument("--collector", metavar="PROGRAM", help="the program of the collector, if it is not on the PATH")
    check.set_defaults(run=_check)


def shipped() -> Path:
    """Return the folder of the stack's files: in the installed package, or, in a checkout, the folder around it."""
    for place in (_PACKAGE / "_stack", _PACKAGE.parent):
        if (place / _MAIN).is_file():
            return place
    msg = "this installation has no stack files: install otel-loopguard from its wheel, or use a checkout"
    raise LoopGuardError(msg)


def files(place: Path) -> list[Path]:
    """Return the paths of the stack's files that are in a folder, relative to it."""
    return sorted(path.relative_to(place) for pattern in PATTERNS for path in place.glob(pattern))


def _export(options: argparse.Namespace) -> int:
    source, target = shipped(), options.directory
    contents = {path: _content(source, path, options.grafana_url) for path in files(source)}
    linked = sorted({str(link) for path in contents for link in _links(target, path)})
    if linked:
        names = "\n".join(f"  {link}" for link in linked)
        msg = f"nothing was written to {target}, because these are symbolic links; remove them:\n{names}"
        raise LoopGuardError(msg)
    changed = [path for path, content in contents.items() if _differs(target / path, content)]
    if changed and not options.force:
        names = "\n".join(f"  {path}" for path in changed)
        msg = f"nothing was written to {target}, because these files were changed; --force overwrites them:\n{names}"
        raise LoopGuardError(msg)
    for path, content in contents.items():
        (target / path).parent.mkdir(parents=True, exist_ok=True)
        (target / path).write_bytes(content)
    print(f"{len(contents)} files in {target}. Next: `docker compose up --detach` in deploy/, or read docs/stack.md.")
    return 0


def _links(target: Path, path: Path) -> Iterator[Path]:
    """Yield the parts of a path that are symbolic links in the target. The target itself may be one."""
    return (part for part in (path, *path.parents[:-1]) if (target / part).is_symlink())


def _url(text: str) -> str:
    if not text.startswith(("http://", "https://")):
        raise argparse.ArgumentTypeError(f"{text!r} must begin with http:// or https://, such as {GRAFANA_URL}")
    if not _PLAIN.fullmatch(text):
        remedy = "write line breaks, blanks, quotes and letters beyond ASCII as %XX, and in the host's name as xn--"
        raise argparse.ArgumentTypeError(f"{text!r} has characters that may not stand in an address: {remedy}")
    return text.rstrip("/")


def _content(source: Path, path: Path, grafana_url: str) -> bytes:
    """Return a file with this address of Grafana in its links. compose.yaml keeps the address that it publishes."""
    content = (source / path).read_bytes()
    return content.replace(GRAFANA_URL.encode(), grafana_url.encode()) if path.parts[0] == "dashboards" else content


def _differs(target: Path, content: bytes) -> bool:
    return target.exists() and target.read_bytes() != content


def _check(options: argparse.Namespace) -> int:
    place = options.directory or shipped()
    failures = list(_missing(place)) + list(_unreadable(place))
    for failure in failures:
        print(f"failed   {failure}")
    results = [_passes(check, place, options.collector) for check in CHECKS]
    if None in results:
        print(f"{results.count(None)} of {len(CHECKS)} checks were skipped: their files may have faults.")
    return int(bool(failures) or False in results)


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


def _passes(check: Check, place: Path, collector: str | None) -> bool | None:
    """Run a check, and print its result. Return False if the program found a fault, None if the check was skipped."""
    names = (collector,) if collector and check.subject.startswith("collector") else check.programs
    program = next((found for name in names if (found := shutil.which(name))), None)
    if program is None:
        print(f"skipped  {check.subject}: no {' or '.join(names)} is installed")
        return None
    if check.probe and _run(place, program, *check.probe).returncode:
        print(f"skipped  {check.subject}: {Path(program).name} has no {' '.join(check.probe)}")
        return None
    result = _run(place, program, *check.arguments)
    print(f"{'failed  ' if result.returncode else 'ok      '} {check.subject} ({Path(program).name})")
    if result.returncode:
        print(result.stdout + result.stderr, file=sys.stderr)
    return result.returncode == 0


def _run(place: Path, *command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(  # noqa: S603 - the program is one that the caller has installed, the arguments are ours
        command, cwd=place, capture_output=True, text=True, timeout=_TIMEOUT_SECONDS, check=False
    )
