"""``otel-loopguard policy check FILE`` lists the mistakes of a policy file; ``policy show`` shows a policy."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import orjson

from otel_loopguard.cli.ineffective import ineffective
from otel_loopguard.cli.output import counted
from otel_loopguard.engine.policy import schema
from otel_loopguard.engine.policy.check import dotted
from otel_loopguard.engine.vocabulary import Action
from otel_loopguard.errors import LoopGuardError, PolicyError
from otel_loopguard.policy_files.files import UnreadableError, read_bytes
from otel_loopguard.policy_files.load import LoadedPolicy, load_environment, load_file, load_preset, preset_names
from otel_loopguard.store.settings import store_from_environment

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from otel_loopguard.engine.policy.toml_lines import Path
    from otel_loopguard.engine.rule import Rule

_ORDER = (
    "Each value and where it comes from. A later source wins, setting by setting:\n"
    "default < declared in code (@loopguard.tool) < preset < policy file < environment.\n"
    "A Policy that code hands to instrument() or Guard is taken as it is, instead of all these."
)


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``policy check`` and ``policy show``."""
    subparsers = parser.add_subparsers(metavar="check|show", required=True)
    check = subparsers.add_parser(
        "check",
        help="list every mistake in a policy file",
        description="Lists every mistake in a policy file, with its line; in a file without a mistake, the limits and "
        "actions that have no effect.",
        epilog="Exit status: 0 nothing to list; 1 there is something; 2 wrong use, or the file cannot be read.",
    )
    check.add_argument("file", metavar="FILE", help="a policy file (TOML)")
    check.set_defaults(run=_check)
    show = subparsers.add_parser(
        "show",
        help="show a policy; without arguments, the policy of the environment",
        description="Shows each setting of a policy, and where its value comes from.",
        epilog="Exit status: 0 the policy was shown; 1 the policy of the environment has mistakes; 2 wrong use, or a "
        "preset or file with mistakes.",
    )
    show.add_argument("--preset", metavar="NAME", help=f"show this preset: {', '.join(preset_names())}")
    show.add_argument("--file", metavar="FILE", help="show this policy file, with --preset on top of the preset")
    show.add_argument("--json", action="store_true", help="write JSON instead of lines")
    show.set_defaults(run=_show)


def _check(options: argparse.Namespace) -> int:
    try:
        read_bytes(options.file)
    except UnreadableError as error:
        raise LoopGuardError(f"{options.file}: the policy file cannot be read: {error}") from error
    loaded = load_file(options.file)
    problems = loaded.problems or tuple(ineffective(loaded))
    for problem in problems:
        print(problem, file=sys.stderr)
    if not problems:
        print(f"{options.file}: no mistakes, {counted(len(loaded.origins), 'setting')}")
    return bool(problems)


def _show(options: argparse.Namespace) -> int:
    loaded = chosen_policy(options.preset, options.file)
    of_environment = options.preset is None and options.file is None
    of_store = store_from_environment(os.environ, loaded.policy.hash_key)[1] if of_environment else []
    for problem in (*loaded.problems, *loaded.notes, *of_store):
        print(problem, file=sys.stderr)
    rows = list(settings_of(loaded))
    if options.json:
        found = {dotted(path): {"value": value, "from": origin} for path, value, origin in rows}
        print(orjson.dumps(found, option=orjson.OPT_INDENT_2).decode())
        return bool(loaded.problems)
    print(_ORDER + "\n")
    names = [dotted(path) for path, _, _ in rows]
    values = [orjson.dumps(value).decode() for _, value, _ in rows]
    widths = max(map(len, names)), min(40, max(map(len, values)))
    for name, value, (_, _, origin) in zip(names, values, rows, strict=True):
        print(f"{name:<{widths[0]}} = {value:<{widths[1]}}  # {origin}")
    return bool(loaded.problems)


def chosen_policy(preset: str | None, file: str | None) -> LoadedPolicy:
    """Load the policy of a preset, of a file (over the preset, if both are given), or of the environment if none is.

    Raise ``PolicyError`` for a preset that does not exist, and for a file with mistakes. Mistakes of the environment
    are in the ``problems`` of the returned policy.
    """
    if file is not None:
        if preset is not None:
            load_preset(preset)
        loaded = load_file(file, preset)
        if loaded.problems:
            raise PolicyError([str(problem) for problem in loaded.problems], source=file)
        return loaded
    return load_preset(preset) if preset is not None else load_environment(os.environ)


def variable_of(preset: str | None, file: str | None) -> dict[str, str]:
    """Return the variable that gives a program this preset or policy file; none of both is the environment's policy.

    Raise ``PolicyError`` as ``chosen_policy`` does.
    """
    if preset is None and file is None:
        return {}
    chosen_policy(preset, file)
    if file is None:
        return {"OTEL_PYTHON_LOOPGUARD_PRESET": str(preset)}
    return {"OTEL_PYTHON_LOOPGUARD_CONFIG": os.path.abspath(file)}


def settings_of(loaded: LoadedPolicy) -> Iterator[tuple[Path, Any, str]]:
    """Yield the path, the value and the source of every setting. The source of one that is not set is ``default``."""
    policy, origins = loaded.policy, loaded.origins
    for name in schema.POLICY:
        yield (name,), json_value(getattr(policy, name)), origins.get((name,), "default")
    if policy.own_rows:
        yield ("detectors",), list(policy.own_rows), origins.get(("detectors",), "default")
    for mode in policy.default_rules:
        yield from _rule(("modes", str(mode)), policy.rule(mode), origins)
    for glob, contract in policy.tools.items():
        for name in schema.CONTRACT:
            path = ("tools", glob, name)
            if path in origins:
                yield path, json_value(getattr(contract, name)), origins[path]
        for mode, rule in contract.modes.items():
            inner = ("tools", glob, "modes", mode)
            yield from (row for row in _rule(inner, rule, origins) if row[0] in origins)
    for table in ("words", "sentences"):
        for name, value in getattr(policy, table).items():
            yield (table, name), json_value(value), origins.get((table, name), "default")
    for table in ("cost_per_million_tokens", "budget"):
        for leaf, value in _leaves((table,), getattr(policy, table)):
            yield leaf, json_value(value), origins.get(leaf, "default")
    yield ("hash_key",), "set" if policy.hash_key else "random", origins.get(("hash_key",), "default")


def _leaves(path: Path, table: Mapping[str, Any]) -> Iterator[tuple[Path, Any]]:
    for name, value in table.items():
        if isinstance(value, Mapping):
            yield from _leaves((*path, name), value)
        else:
            yield (*path, name), value


def _rule(path: Path, rule: Rule, origins: Any) -> Iterator[tuple[Path, Any, str]]:
    for name, value in vars(rule).items():
        inner = (*path, name)
        if value is not None or inner in origins:
            yield inner, json_value(value), origins.get(inner, "default")


def json_value(value: Any) -> Any:
    """Return the value of a setting as TOML and JSON write it: an action as text, a tuple as a list."""
    if isinstance(value, Action):
        return str(value)
    if isinstance(value, tuple):
        return list(value)
    return value
