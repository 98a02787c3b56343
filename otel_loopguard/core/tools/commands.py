"""Shell commands and SQL that only read, by the program's (the statement's) first words."""

from __future__ import annotations

import re
import shlex
from functools import cache
from typing import TYPE_CHECKING, Any

from otel_loopguard.core.model import Kind
from otel_loopguard.core.tools.lexicon import word_lists

if TYPE_CHECKING:
    from collections.abc import Mapping

_LONGEST_COMMAND = 4_096
_LONGEST_FIRST_WORD = 24
_SEPARATORS = re.compile(r"&&|\|\||[;|\n]")
_HARMLESS_REDIRECTIONS = re.compile(r"(?:[0-9]|&)?>{1,2}\s*(?:/dev/null|NUL)(?![\w./])|[0-9]?>&[0-9](?!\w)")
_RUNS_OR_WRITES = re.compile(r"[<>`]|\$\(|(?<!&)&(?!&)")
_QUOTED = re.compile(r"'[^']*'|\"(?:[^\"\\$`]|\\.)*\"")
_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=")
_WRITES_IN_SCRIPT = {
    "awk": re.compile(r">|\||\bsystem\b"),
    "sed": re.compile(r"(?:^|[;{}\s\d$/,!])[wW]\s+\S|[/|#,][gpiIm0-9]*[we](?:\s|;|$)|(?:^|[;{}\d$/!])e(?:\s|$)"),
    "less": re.compile(r"^\+"),
    "more": re.compile(r"^\+"),
}
"""What in the arguments of a program with a language of its own writes or runs something."""
_SYSTEM = re.compile(r"/(?:usr/)?(?:local/)?s?bin/|/opt/homebrew/bin/")
"""Where a program is the one that its name says; `./test` may be anything."""
_SHELLS = frozenset({"bash", "sh", "zsh", "dash"})
_SHELL_COMMAND = ("-c", "-lc")
_TAKES_NO_VALUE = re.compile(r"--no-|--\w[\w-]*=|-[vqpP]$|--(?:verbose|quiet|paginate)$")
_SLEEPS = frozenset({"sleep", "timeout", "wait"})
_FIRST_WORD = re.compile(r"(?:\s|--[^\n]*\n|/\*.*?\*/|\()*([A-Za-z]+)", re.DOTALL)
_THINGS = "(?:table|index|view|schema|database|user|role|function|procedure|sequence|trigger|type|extension|policy)"
_WRITING_SQL = (
    r"(?:insert\s+into|update\s+(?:only\s+)?[\w.\"`\[\]]+(?:\s+(?:as\s+)?\w+)?\s+set|delete\s+from|merge\s+into"
    rf"|(?:drop|alter|create)\s+{_THINGS}|truncate\s+\w+|grant\s+\w+\s+(?:on|to))\b"
)
_SQL_TEXT = re.compile(r"'(?:[^']|'')*'")
_NEVER_WRITE = frozenset({"show", "describe", "desc"})
_WRITES_ALL_THE_SAME = (
    r"^\s*(?:select\b[^;]*?\binto\s+(?:outfile|dumpfile|[\w.#\"`]+(?:\s+from|\s*;))|pragma\s+[\w.]+\s*="
    rf"|select\s+\*\s+into\s|explain\s+analy[sz]e\s+{_WRITING_SQL})"
)
_WRITES_WITHIN = re.compile(rf"\b{_WRITING_SQL}|{_WRITES_ALL_THE_SAME}", re.IGNORECASE)
_WRITES_NEXT = re.compile(rf"[;()]\s*{_WRITING_SQL}|{_WRITES_ALL_THE_SAME}", re.IGNORECASE)
"""The same for a tool that searches: its query may be a question about SQL, so it must be a statement of its own."""


@cache
def _sql_words() -> frozenset[str]:
    return frozenset((*word_lists()["sql"]["read"], *word_lists()["sql"]["write"]))


def command_kind(command: Any) -> Kind | None:
    """READ for a command of reading programs only, WAIT for a sleep, POLL for a sleep and a look; else None."""
    if isinstance(command, (list, tuple)):
        return _kind_of_parts([list(command)]) if command and all(isinstance(word, str) for word in command) else None
    if not isinstance(command, str) or len(command) > _LONGEST_COMMAND:
        return None
    if not command.strip():
        return Kind.POLL  # nothing is run: it looks whether the last command has said more
    command = _HARMLESS_REDIRECTIONS.sub(" ", command)
    bare = _QUOTED.sub("''", command)
    if _RUNS_OR_WRITES.search(bare) or "\\'" in command or '\\"' in bare:
        return None
    return _kind_of_parts([words for part in _split(command) if (words := _words(part))])


def _split(command: str) -> list[str]:
    """The commands between the separators that stand outside of quotes."""
    holes = [match.span() for match in _QUOTED.finditer(command)]
    parts, start = [], 0
    for match in _SEPARATORS.finditer(command):
        if not any(begin < match.start() < end for begin, end in holes):
            parts.append(command[start : match.start()])
            start = match.end()
    return [*parts, command[start:]]


def _words(part: str) -> list[str]:
    try:
        words = shlex.split(part, comments=True)
    except ValueError:
        return ["?"]
    while words and _ASSIGNMENT.match(words[0]):
        words.pop(0)
    return words


def _kind_of_parts(parts: list[list[str]]) -> Kind | None:
    sleeps = [words for words in parts if words[0] in _SLEEPS and len(words) < 3]
    looks = [words for words in parts if words not in sleeps]
    if not parts or not all(_only_reads(words) for words in looks):
        return None
    if all(words[0] == "cd" for words in parts):
        return None  # moves the session: what is read next depends on it
    if sleeps:
        return Kind.POLL if any(words[0] not in ("echo", "true", "cd") for words in looks) else Kind.WAIT
    return Kind.READ


def _only_reads(words: list[str]) -> bool:
    words = _behind_runners(words)
    if not words:
        return True
    program, rest = _SYSTEM.sub("", words[0], count=1), words[1:]
    lists = word_lists()["commands"]
    if _has_writing_flag(program, rest, lists["writing_flags"]):
        return False
    if program in lists["reading_subcommands"]:
        return _reads_by_subcommand(program, rest, lists)
    if program in _SHELLS:
        return len(rest) > 1 and rest[0] in _SHELL_COMMAND and command_kind(rest[1]) is Kind.READ
    if program not in lists["read"]:
        return False
    writes = _WRITES_IN_SCRIPT.get(program)
    if writes is not None and any(writes.search(word.removeprefix("--expression=")) for word in rest):
        return False
    operands = sum(not word.startswith(("-", "+")) for word in rest)
    return bool(operands <= lists["most_operands"].get(program, operands))


def _behind_runners(words: list[str]) -> list[str]:
    """What is run in the end: ``env`` and its like pass on what follows their flags and assignments."""
    runners = word_lists()["commands"]["runners"]
    while words and words[0] in runners:
        flags, words = runners[words[0]], words[1:]
        while words and (words[0].startswith("-") or _ASSIGNMENT.match(words[0])):
            if words[0].startswith("-") and words[0] not in flags:
                return ["?"]  # who knows what that flag takes
            words = words[2:] if flags.get(words[0]) else words[1:]
    return words


def _has_writing_flag(program: str, rest: list[str], writing: Mapping[str, Any]) -> bool:
    return any(word == flag or _means(word, flag) for word in rest for flag in writing.get(program, ()))


def _reads_by_subcommand(program: str, rest: list[str], lists: Mapping[str, Any]) -> bool:
    with_value = lists["flags_with_value"].get(program, ())
    while rest and rest[0].startswith("-"):
        if rest[0] not in with_value and not _TAKES_NO_VALUE.match(rest[0]):
            return False
        rest = rest[2:] if rest[0] in with_value else rest[1:]
    if not rest:
        return False
    reading = lists["reading_subcommands"][program]
    if rest[0] in reading or " ".join(rest[:2]) in reading:
        return True
    return rest[0] in lists["reading_alone"].get(program, ()) and all(word.startswith("-") for word in rest[1:])


def _means(word: str, flag: str) -> bool:
    """``-i.bak`` and ``--in-place=.bak`` mean ``-i`` and ``--in-place``; ``-ni`` means ``-i``, too."""
    if flag.startswith("--"):
        return word.startswith(flag + "=")
    if len(flag) > 2:
        return False
    return word.startswith("-") and not word.startswith("--") and flag[1] in word[1:]


def sql_kind(statement: str, named: Kind) -> Kind | None:
    """READ for SQL that only reads, WRITE for SQL that writes; None for text that is no SQL."""
    word = statement[:_LONGEST_FIRST_WORD].partition(" ")[0].lower()
    if word.isalpha():
        if word not in _sql_words():  # most queries are questions
            return None
    else:  # a blank, a comment or a parenthesis comes first, or a line break next
        first = _FIRST_WORD.match(statement[:_LONGEST_COMMAND])
        word = first.group(1).lower() if first else ""
    lists = word_lists()["sql"]
    if word in lists["read"]:
        return Kind.WRITE if _writes_besides(word, statement[:_LONGEST_COMMAND], named) else Kind.READ
    if word in lists["write"] and _looks_like_sql(word, statement[:_LONGEST_COMMAND]):
        return Kind.WRITE
    return None


def _writes_besides(word: str, statement: str, named: Kind) -> bool:
    """Whether what begins like a look writes all the same; what stands in quotes is text."""
    writes = _WRITES_NEXT if named is Kind.READ or word in _NEVER_WRITE else _WRITES_WITHIN
    return writes.search(_SQL_TEXT.sub("''", statement)) is not None


def _looks_like_sql(word: str, statement: str) -> bool:
    """Whether a statement's second word is one that SQL has there: "update my address" is a search, not SQL."""
    second = _SQL_SECOND.get(word)
    return second is None or re.search(rf"\b{word}(?:\s+|(?=;)|$)(?:{second})", statement, re.IGNORECASE) is not None


_SQL_SECOND = {
    "insert": r"(?:into|ignore|or)\b",
    "update": r"(?:[^;]{1,120}?)\sset\s",
    "delete": r"(?:\w+\s+)?from\b",
    "create": rf"(?:{_THINGS}|unique|temp|temporary|or\s+replace|materialized)\b",
    "drop": rf"(?:{_THINGS}|column|materialized)\b",
    "alter": rf"(?:{_THINGS}|system)\b",
    "truncate": r"table|\S+\s*;?\s*$",
    "merge": r"into\b",
    "replace": r"into\b",
    "grant": r"[\w, ]+\s(?:on|to)\b",
    "revoke": r"[\w, ]+\s(?:on|from)\b",
    "copy": r"\S+\s+(?:from|to)\b",
    "call": r"\S+\s*\(",
    "begin": r"(?:transaction|work|;|$)",
    "commit": r"(?:transaction|work|;|$)",
    "rollback": r"(?:transaction|work|to|;|$)",
    "vacuum": r"(?:full|analyze|verbose|;|\(|$)",
    "upsert": r"into\b",
}
