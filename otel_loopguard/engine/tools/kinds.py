"""Find the kind of one call: its arguments may be more specific than its tool's name."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from otel_loopguard.engine.tools.shell_commands import LONGEST_COMMAND, command_kind, sql_kind
from otel_loopguard.engine.values import introspect
from otel_loopguard.engine.vocabulary import Kind

if TYPE_CHECKING:
    from collections.abc import Mapping

    from otel_loopguard.engine.tools.lexicon import Lexicon

_SHELL, _READ, _WRITE, _UNKNOWN = Kind.SHELL, Kind.READ, Kind.WRITE, Kind.UNKNOWN
_MAY_RUN_COMMANDS = frozenset({Kind.READ, Kind.UNKNOWN, Kind.SHELL})

_ONE_WORD = re.compile(r"[A-Za-z_][\w-]*")
_LONGEST_ACTION = 64
_ACTION_PARAMETERS = ("action", "operation", "method")
_ACTIONS = frozenset((*_ACTION_PARAMETERS, "command"))
_COMMAND_PARAMETERS = ("command", "cmd", "script", "commands")
_COMMANDS = frozenset(_COMMAND_PARAMETERS)
_COMMAND_PARAMETERS_OF_OTHERS = ("command", "cmd")
"""The parameters that have a command line, in tools whose name does not say that they are a shell."""
_SQL_PARAMETERS = ("sql", "query", "statement", "sql_query")
_QUESTION_PARAMETER = "query"
"""The one SQL parameter that searches have, too."""
_THOUGHT = "thought"
"""The parameter of a tool that thinks, whatever its name is, if its others only tell the thought's place."""
DECISIVE_PARAMETERS = frozenset((*_ACTION_PARAMETERS, *_COMMAND_PARAMETERS, *_SQL_PARAMETERS, _THOUGHT))
"""Parameters that may decide the kind; most calls have none of them, and many have a question."""
_DECISIVE_BUT_QUESTION = DECISIVE_PARAMETERS - {_QUESTION_PARAMETER}


def kind_of_call(named: Kind, arguments: Any, words: Lexicon) -> Kind:
    """Return the kind of a call. ``named``: the kind by the tool's name. ``words`` knows the kinds of actions."""
    if type(arguments) is str:
        return command_kind(arguments) or named if named is Kind.SHELL else named
    if type(arguments) is not dict:
        return named
    if arguments.keys().isdisjoint(_DECISIVE_BUT_QUESTION):
        question = arguments.get(_QUESTION_PARAMETER)
        if question is None:
            return named
        if type(question) is str and named in _MAY_RUN_COMMANDS:
            return sql_kind(question, named) or named
    if not arguments.keys().isdisjoint(_ACTIONS):
        kind = _kind_of_action(named, arguments, words)
        if kind is not None:
            return kind
    if named is _UNKNOWN and _THOUGHT in arguments and arguments.keys() <= {_THOUGHT, *words.places_of_thoughts}:
        return Kind.THINK
    if named not in _MAY_RUN_COMMANDS:
        return named
    if not arguments.keys().isdisjoint(_COMMANDS):
        possible = _COMMAND_PARAMETERS if named is _SHELL else _COMMAND_PARAMETERS_OF_OTHERS
        given = [parameter for parameter in possible if parameter in arguments]
        if given:
            return _kind_of_commands(given, arguments) or _SHELL
    return _kind_of_sql(named, arguments) or named


def _kind_of_sql(named: Kind, arguments: Mapping[str, Any]) -> Kind | None:
    """Return the kind of the first SQL statement, if there is one."""
    for parameter in _SQL_PARAMETERS:
        if parameter in arguments and type(statement := _builtin_text(arguments[parameter])) is str:
            kind = sql_kind(statement, named)
            if kind is None and named is _READ and parameter != _QUESTION_PARAMETER:
                return _WRITE  # SQL that is not known to read
            return kind
    return None


def _kind_of_commands(parameters: list[str], arguments: Mapping[str, Any]) -> Kind | None:
    """Return the kind that all shell commands have in common; None if there is none. ``commands`` may hold a list."""
    commands: list[Any] = []
    for parameter in parameters:
        value = _builtin_text(arguments[parameter])
        commands += value if parameter == "commands" and type(value) is list else [value]
    if sum(len(one) for one in commands if type(one) is str) > LONGEST_COMMAND:
        return None
    kinds = {command_kind(one) for one in commands}
    if Kind.POLL in kinds and arguments.get("restart") is True:
        return None
    return kinds.pop() if len(kinds) == 1 else None


def _builtin_text(value: Any) -> Any:
    """Return a text, or a list of words, as builtin objects; None for any other value. No foreign code is run."""
    if type(value) is str:
        return value
    value = introspect.as_builtin(value)
    if type(value) in (list, tuple):
        if len(value) > LONGEST_COMMAND:
            return None
        return [introspect.as_builtin(word) if introspect.is_a(word, str) else None for word in value]
    return value if type(value) is str else None


def _kind_of_action(named: Kind, arguments: Mapping[str, Any], words: Lexicon) -> Kind | None:
    """Return the kind of an ``action``. An editor's ``command`` is one word, its action; a shell's is what it runs."""
    for parameter in _ACTION_PARAMETERS if named is _SHELL else (*_ACTION_PARAMETERS, "command"):
        action = _builtin_text(arguments.get(parameter))
        if type(action) is not str or len(action) > _LONGEST_ACTION:
            continue
        if parameter != "command" or _ONE_WORD.fullmatch(action):
            kind = words.kind_of_name(action)
            if named is _WRITE and kind.polls:
                continue  # a message whose action is "poll" opens a poll
            if kind not in (Kind.UNKNOWN, Kind.FINAL, Kind.HANDOFF):
                return kind
    return None
