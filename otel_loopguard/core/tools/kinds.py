"""The kind of one call: by its tool's name, and by the arguments that tell more."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from otel_loopguard.core.model import Kind
from otel_loopguard.core.tools.commands import command_kind, sql_kind
from otel_loopguard.core.values import introspect

if TYPE_CHECKING:
    from collections.abc import Mapping

    from otel_loopguard.core.tools.lexicon import Lexicon

_ONE_WORD = re.compile(r"[A-Za-z_][\w-]*")
_ACTION_PARAMETERS = ("action", "operation", "method")
_COMMAND_PARAMETERS = ("command", "cmd", "script", "commands")
_SQL_PARAMETERS = ("sql", "query", "statement", "sql_query")
_LONGEST_ACTION = 64
_TELLING = frozenset((*_ACTION_PARAMETERS, *_COMMAND_PARAMETERS, *_SQL_PARAMETERS))
"""Parameters that may say more of a call than its tool's name; most calls have none of them."""


def kind_of_call(named: Kind, arguments: Any, words: Lexicon) -> Kind:
    """The kind of one call: its arguments may say more than the tool's name."""
    if type(arguments) is str:
        return command_kind(arguments) or named if named is Kind.SHELL else named
    if type(arguments) is not dict or _TELLING.isdisjoint(arguments):
        return named
    if not _ACTIONS.isdisjoint(arguments):
        told = _kind_of_action(named, arguments, words)
        if told is not None:
            return told
    if named in _MAY_RUN_COMMANDS and not _RUN.isdisjoint(arguments):
        run = [one for one in (_COMMAND_PARAMETERS if named is _SHELL else _COMMANDS) if one in arguments]
        if run:
            return _kind_of_commands(run, arguments) or _SHELL
    if named in _MAY_RUN_COMMANDS:
        for parameter in _SQL_PARAMETERS:
            if parameter in arguments and type(said := _said(arguments[parameter])) is str:
                return sql_kind(said, named) or (named if parameter == _A_QUESTION or named is not _READ else _WRITE)
    return named


def _kind_of_commands(parameters: list[str], arguments: Mapping[str, Any]) -> Kind | None:
    """What is run, all of it; ``commands`` are several, each a text."""
    kinds: set[Kind | None] = set()
    for parameter in parameters:
        said = _said(arguments[parameter])
        several = said if parameter == "commands" and type(said) is list else [said]
        kinds.update(command_kind(one) for one in several)
    if Kind.POLL in kinds and arguments.get("restart") is True:
        return None
    return kinds.pop() if len(kinds) == 1 else None


def _said(value: Any) -> Any:
    """A text, or a list of words; None of whatever else: a foreign object is not asked what it says."""
    if type(value) is str:
        return value
    value = introspect.as_builtin(value)
    if type(value) in (list, tuple):
        return [introspect.as_builtin(word) if introspect.is_a(word, str) else None for word in value]
    return value if type(value) is str else None


def _kind_of_action(named: Kind, arguments: Mapping[str, Any], words: Lexicon) -> Kind | None:
    """What an ``action`` says; an editor's ``command`` is its action, which is one word; a shell's is what it runs."""
    for parameter in _ACTION_PARAMETERS if named is _SHELL else (*_ACTION_PARAMETERS, "command"):
        action = _said(arguments.get(parameter))
        if type(action) is not str or len(action) > _LONGEST_ACTION:
            continue
        if parameter != "command" or _ONE_WORD.fullmatch(action):
            told = words.kind_of_name(action)
            if told not in (Kind.UNKNOWN, Kind.FINAL, Kind.HANDOFF):
                return told
    return None


_ACTIONS = frozenset((*_ACTION_PARAMETERS, "command"))
_SHELL = Kind.SHELL
_READ, _WRITE = Kind.READ, Kind.WRITE
_MAY_RUN_COMMANDS = frozenset({Kind.READ, Kind.UNKNOWN, Kind.SHELL})
_COMMANDS = ("command", "cmd")
_RUN = frozenset(_COMMAND_PARAMETERS)
_A_QUESTION = "query"
"""The one of the parameters for SQL that a search has, too."""
