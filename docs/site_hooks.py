"""Hooks of mkdocs.yml: what is generated from the code and the README, and links to files outside of docs/."""

from __future__ import annotations

import argparse
import ast
import inspect
import itertools
import os
import posixpath
import re
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import otel_loopguard
from otel_loopguard import environment_variables, testing
from otel_loopguard.cli.main import COMMANDS

if TYPE_CHECKING:
    from collections.abc import Iterator

_MARK = re.compile(r"<!-- generated: (\w+) -->(?:\n> .*)*")
"""A place for a generated part, with a quote that tells readers of the repository where to find it."""
_VARIABLE_HEADING = re.compile(r"^## OTEL_PYTHON_LOOPGUARD_(\w+).*$", re.MULTILINE)
"""The sections of environment variables: the list of a page's contents has no room for the prefix."""
_BOOSTS = {"docs/how-to": 2, "docs/runbooks": 0.5}
_LINK = re.compile(r"\]\((\.\./[^)\s]+)\)")
_README = Path(__file__).parents[1] / "README.md"
_OF_REPOSITORY = re.compile(r"\]\((?!https?:)(?:docs/)?([^)\s]+)\)")


def on_page_markdown(markdown: str, page: Any, config: Any, **_: Any) -> str:
    """Insert the generated parts of a page, and let links that leave docs/ go to the repository.

    The search prefers the pages that answer a question to those that only name its words.
    """
    folder = posixpath.dirname(f"docs/{page.file.src_uri}")
    page.meta.setdefault("search", {"boost": _BOOSTS.get(folder, 1)})

    def from_site(link: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(folder, link[1]))
        return link[0] if target.startswith("docs/") else f"]({config.repo_url.rstrip('/')}/blob/main/{target})"

    text = _MARK.sub(lambda mark: _GENERATED[mark[1]](), markdown)
    return _LINK.sub(from_site, _VARIABLE_HEADING.sub(r'\g<0> { data-toc-label="\g<1>" }', text))


def first_screen() -> str:
    """Return the README from its title to its first heading, without its badges, which other servers draw."""
    text = _README.read_text("utf-8").partition("\n")[2].partition("\n## ")[0]
    return _OF_REPOSITORY.sub(r"](\1)", re.sub(r"^\[!.*\n", "", text, flags=re.MULTILINE)).strip()


def commands() -> str:
    """Return the help of each command and sub-command."""
    os.environ.update(COLUMNS="100", NO_COLOR="1")
    return "\n".join(
        f"{'##' if parser.prog.count(' ') == 1 else '###'} {parser.prog}\n\n```text\n{parser.format_help()}```\n"
        for parser in _parsers()
    )


def _parsers() -> Iterator[argparse.ArgumentParser]:
    for command in COMMANDS:
        parser = argparse.ArgumentParser(prog=f"otel-loopguard {command.name}", description=command.help)
        import_module(f"otel_loopguard.cli.{command.module}").configure(parser)
        yield parser
        for action in parser._actions:
            if isinstance(action, argparse._SubParsersAction):
                yield from action.choices.values()


def environment() -> str:
    """Return a section for each environment variable that ``opentelemetry-instrument`` lists."""
    body = ast.parse(inspect.getsource(environment_variables)).body[1:]
    return "\n".join(
        f"## {name.targets[0].id}\n\n{text.value.value}\n"
        for name, text in itertools.pairwise(body)
        if isinstance(name, ast.Assign)
        and isinstance(name.targets[0], ast.Name)
        and isinstance(text, ast.Expr)
        and isinstance(text.value, ast.Constant)
    )


def api() -> str:
    """Return a directive for each public name of the package and of its test kit, functions first."""
    return "\n\n".join([*_directives(otel_loopguard), "## The test kit", *_directives(testing)])


def _directives(module: Any) -> Iterator[str]:
    """Return a directive for each public name of a module, at the module that defines it."""
    for name in sorted(module.__all__, key=lambda name: (not name.islower(), name)):
        if not name.startswith("_") and not name.isupper():
            yield f"::: {getattr(module, name).__module__}.{name}" + _WITHOUT_MEMBERS.get(name, "")


# What a detector reads of the history is no promise, so that it is not listed.
_WITHOUT_MEMBERS = {"History": "\n    options:\n      members: false"}
_GENERATED = {"first_screen": first_screen, "commands": commands, "environment": environment, "api": api}
