"""Find shell commands and SQL statements that only read, by their first words."""

from __future__ import annotations

import re
import shlex
from functools import cache
from typing import TYPE_CHECKING, Any

from otel_loopguard.engine.tools.lexicon import word_lists
from otel_loopguard.engine.vocabulary import Kind
from otel_loopguard.interrupts import pass_interrupt

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

LONGEST_COMMAND = 4_096
"""A longer command, list of words or SQL statement is not read to its end: it may do anything."""
_MOST_PARTS = 100
_LONGEST_FIRST_WORD = 24
_LONGEST_START = 3
_SEPARATORS = re.compile(r"&&|\|\||[;|\n]")
_HARMLESS_REDIRECTIONS = re.compile(r"(?:[0-9]|&)?>{1,2}\s*(?:/dev/null|NUL)(?![\w./])|[0-9]?>&[0-9](?!\w)")
_RUNS_OR_WRITES = re.compile(r"[<>`]|\$\(|(?<!&)&(?!&)")
_QUOTE = re.compile("['\"]")
_DOUBLE_QUOTED = re.compile(r"(?:[^\"\\$`]|\\.)*")
_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=")
_WRITES_IN_SCRIPT = {
    "awk": re.compile(r">|\||\bsystem\b"),
    "sed": re.compile(r"(?:^|[;{}\s\d$/,!])[wW]\s+\S|[/|#,][gpiIm0-9]*[we](?:\s|;|$)|(?:^|[;{}\d$/!])e(?:\s|$)"),
    "less": re.compile(r"^\+"),
    "more": re.compile(r"^\+"),
}
"""By program: patterns of arguments that write or run something, where the program has its own script language."""
_SYSTEM_FOLDER = re.compile(r"/(?:usr/)?(?:local/)?s?bin/|/opt/homebrew/bin/")
"""Here, programs are what their names promise; `./test` may be anything."""
_SHELLS = frozenset({"bash", "sh", "zsh", "dash"})
_SHELL_COMMAND = ("-c", "-lc")
_TAKES_NO_VALUE = re.compile(r"--no-|--\w[\w-]*=|-[vqpP]$|--(?:verbose|quiet|paginate)$")
_SLEEPS = frozenset({"sleep", "timeout", "wait"})
_FIRST_WORD = re.compile(r"(?:\s|--[^\n]*\n|/\*(?:(?!\*/).)*\*/|\()*([A-Za-z]+)", re.DOTALL)
_SQL_OBJECTS = (
    "(?:table|index|view|schema|database|user|role|function|procedure|sequence|trigger|type|extension|policy)"
)
_WRITING_SQL = (
    r"(?:insert\s+into|update\s+(?:only\s+)?[\w.\"`\[\]]+(?:\s+(?:as\s+)?\w+)?\s+set|delete\s+from|merge\s+into"
    rf"|(?:drop|alter|create)\s+{_SQL_OBJECTS}|truncate\s+\w+|grant\s+\w+\s+(?:on|to))\b"
)
_SQL_TEXT = re.compile(r"'(?:[^']|'')*'")
_NEVER_WRITE = frozenset({"show", "describe", "desc"})
_SQL_READS_THAT_WRITE = (
    r"^\s*(?:select\b[^;]*?\binto\s+(?:outfile|dumpfile|[\w.#\"`]+(?:\s+from|\s*;))|pragma\s+[\w.]+\s*="
    rf"|select\s+\*\s+into\s|explain\s+analy[sz]e\s+{_WRITING_SQL})"
)
_WRITES_ANYWHERE = re.compile(rf"\b{_WRITING_SQL}|{_SQL_READS_THAT_WRITE}", re.IGNORECASE)
_WRITES_AS_STATEMENT = re.compile(rf"[;()]\s*{_WRITING_SQL}|{_SQL_READS_THAT_WRITE}", re.IGNORECASE)
"""For a tool that searches: its query may be a question about SQL, so only a separate statement counts."""


@cache
def _sql_words() -> frozenset[str]:
    return frozenset((*word_lists()["sql"]["read"], *word_lists()["sql"]["write"]))


@cache
def _sql_starts() -> frozenset[str]:
    return frozenset(word[:_LONGEST_START] for word in _sql_words())


def command_kind(command: Any) -> Kind | None:
    """Return READ for a command of reading programs only, WAIT for a sleep, POLL for a sleep and a read; else None."""
    if isinstance(command, (list, tuple)):
        return _kind_of_parts([list(command)]) if _are_words(command) else None
    if not isinstance(command, str) or len(command) > LONGEST_COMMAND:
        return None
    if not command.strip():
        return Kind.POLL  # no command: it reads new output of the last one
    command = _HARMLESS_REDIRECTIONS.sub(" ", command)
    without_quotes = _blank_quotes(command)
    if _RUNS_OR_WRITES.search(without_quotes) or "\\'" in command or '\\"' in without_quotes:
        return None
    separators = [match.span() for match in _SEPARATORS.finditer(without_quotes)]
    if len(separators) >= _MOST_PARTS:
        return None
    starts, ends = (0, *(end for _, end in separators)), (*(start for start, _ in separators), len(command))
    parts = [command[start:end] for start, end in zip(starts, ends, strict=True)]
    return _kind_of_parts([words for part in parts if (words := _words(part))])


def _are_words(command: Sequence[Any]) -> bool:
    """Return True for a list of texts that is no longer than a command may be."""
    if not 0 < len(command) <= LONGEST_COMMAND or not all(isinstance(word, str) for word in command):
        return False
    return sum(map(len, command)) <= LONGEST_COMMAND


def _blank_quotes(command: str) -> str:
    """Replace each quoted part with as many quotes, in linear time.

    A double quote that is not closed before ``end`` has only escaped quotes up to there. Those are not closed either.
    """
    parts: list[str] = []
    done = at = end = 0
    while (found := _QUOTE.search(command, at)) is not None:
        start, at = found.start(), found.end()
        if command[start] == "'":
            closing = command.find("'", at)
        elif start < end:
            continue
        else:
            end = _DOUBLE_QUOTED.match(command, at).end()  # type: ignore[union-attr]  # it matches nothing, too
            closing = end if command[end : end + 1] == '"' else -1
        if closing > 0:
            at = closing + 1
            parts += (command[done:start], "'" * (at - start))
            done = at
    return "".join((*parts, command[done:]))


def _words(part: str) -> list[str]:
    try:
        words = shlex.split(part, comments=True)
    except ValueError as error:
        pass_interrupt(error)
        return ["?"]
    while words and _ASSIGNMENT.match(words[0]):
        words.pop(0)
    return words


def _kind_of_parts(parts: list[list[str]]) -> Kind | None:
    sleeps = [words for words in parts if words[0] in _SLEEPS and len(words) < 3]
    reads = [words for words in parts if words not in sleeps]
    if not parts or not all(_only_reads(words) for words in reads):
        return None
    if all(words[0] == "cd" for words in parts):
        return None  # it moves the session, and later results depend on that
    if sleeps:
        return Kind.POLL if any(words[0] not in ("echo", "true", "cd") for words in reads) else Kind.WAIT
    return Kind.READ


def _only_reads(words: list[str]) -> bool:
    words = _without_runners(words)
    if not words:
        return True
    program, rest = _SYSTEM_FOLDER.sub("", words[0], count=1), words[1:]
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


def _without_runners(words: list[str]) -> list[str]:
    """Remove programs such as ``env``, which run the command after their own flags and assignments."""
    runners = word_lists()["commands"]["runners"]
    while words and words[0] in runners:
        flags, words = runners[words[0]], words[1:]
        while words and (words[0].startswith("-") or _ASSIGNMENT.match(words[0])):
            if words[0].startswith("-") and words[0] not in flags:
                return ["?"]  # an unknown flag: it may have a value
            words = words[2:] if flags.get(words[0]) else words[1:]
    return words


def _has_writing_flag(program: str, rest: list[str], writing: Mapping[str, Any]) -> bool:
    return any(word == flag or _matches(word, flag) for word in rest for flag in writing.get(program, ()))


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


def _matches(word: str, flag: str) -> bool:
    """Match ``-i`` with ``-i.bak`` and ``-ni``, and ``--in-place`` with ``--in-place=.bak``."""
    if flag.startswith("--"):
        return word.startswith(flag + "=")
    if len(flag) > 2:
        return False
    return word.startswith("-") and not word.startswith("--") and flag[1] in word[1:]


def sql_kind(statement: str, named: Kind) -> Kind | None:
    """Return READ for SQL that only reads, WRITE for SQL that writes, None for any other text.

    ``named``: the kind by the tool's name. The query of a tool that reads may be a question about SQL.
    """
    start = statement[:_LONGEST_START].lower()
    if start.isalpha() and start not in _sql_starts():  # most queries are questions
        return None
    beginning = statement[:LONGEST_COMMAND]
    word = statement[:_LONGEST_FIRST_WORD].partition(" ")[0].lower()
    if word.isalpha():
        if word not in _sql_words():
            return None
    else:  # there is a blank, a comment or a parenthesis before it, or a line break after it
        first = _FIRST_WORD.match(beginning)
        word = first.group(1).lower() if first else ""
    lists = word_lists()["sql"]
    if word in lists["read"]:
        return Kind.WRITE if len(statement) > LONGEST_COMMAND or _also_writes(word, statement, named) else Kind.READ
    if word in lists["write"] and _looks_like_sql(word, beginning):
        return Kind.WRITE
    return None


def _also_writes(word: str, statement: str, named: Kind) -> bool:
    """Return True if a statement writes though it begins with a word that reads. Text in quotes is ignored."""
    writes = _WRITES_AS_STATEMENT if named is Kind.READ or word in _NEVER_WRITE else _WRITES_ANYWHERE
    return writes.search(_SQL_TEXT.sub("''", statement)) is not None


def _looks_like_sql(word: str, statement: str) -> bool:
    """Return True if SQL has this second word after ``word``: "update my address" is a search, not SQL."""
    second = _SECOND_WORDS.get(word)
    return second is None or re.search(rf"\b{word}(?:\s+|(?=;)|$)(?:{second})", statement, re.IGNORECASE) is not None


_SECOND_WORDS = {
    "insert": r"(?:into|ignore|or)\b",
    "update": r"(?:[^;]{1,120}?)\sset\s",
    "delete": r"(?:\w+\s+)?from\b",
    "create": rf"(?:{_SQL_OBJECTS}|unique|temp|temporary|or\s+replace|materialized)\b",
    "drop": rf"(?:{_SQL_OBJECTS}|column|materialized)\b",
    "alter": rf"(?:{_SQL_OBJECTS}|system)\b",
    "truncate": r"table|\S+\s*(?:;\s*)?$",
    "merge": r"into\b",
    "replace": r"into\b",
    "grant": r"[\w, ]{1,200}\s(?:on|to)\b",
    "revoke": r"[\w, ]{1,200}\s(?:on|from)\b",
    "copy": r"\S+\s+(?:from|to)\b",
    "call": r"\S+\s*\(",
    "begin": r"(?:transaction|work|;|$)",
    "commit": r"(?:transaction|work|;|$)",
    "rollback": r"(?:transaction|work|to|;|$)",
    "vacuum": r"(?:full|analyze|verbose|;|\(|$)",
    "upsert": r"into\b",
}
