"""The kind of a tool, by its name: the product's lists of words, read in the reference's own way."""

from __future__ import annotations

import functools
import re
import shlex
from typing import Any, NamedTuple

from tests.engine.reference.lists import WORDS
from tests.engine.reference.plain import parsed, words

COMMANDS: dict[str, Any] = WORDS["commands"]
PATIENT = {"poll", "final", "handoff", "wait"}
MAY_WRITE = {"write", "shell", "agent", "step", "unknown"}
SERVERS = ("server_name", "server")
ACTIONS = ("action", "operation", "method")
STATEMENTS = ("sql", "statement", "query")
ORDER = ("think", "agent", "shell", "read", "write", "cursor", "take")
NOUNS = (("read_nouns", "read"), ("think_nouns", "think"))


class Guess(NamedTuple):
    """The kind that a name shows, and the word that decided."""

    kind: str
    word: str = ""


def routed(tool: str, arguments: Any) -> tuple[str, Any]:
    """The inner tool and its arguments, if the tool is a dispatcher to others."""
    own = re.split(r"__|\.", tool)[-1]
    dispatcher = WORDS["dispatchers"].get(own)
    if dispatcher is None or not isinstance(arguments, dict):
        return tool, arguments
    inner = next((arguments[key] for key in dispatcher["tool"] if isinstance(arguments.get(key), str)), None)
    if inner is None:
        return tool, arguments
    server = next((arguments[key] for key in SERVERS if isinstance(arguments.get(key), str)), None)
    passed = next((arguments[key] for key in dispatcher["args"] if key in arguments), {})
    return (f"{server}__{inner}" if server else inner), parsed(passed) if isinstance(passed, str) else passed


def takes_the_next(tool: str) -> bool:
    """Return True if the tool takes the next thing, so that ids are the answer."""
    said = set(own_words(tool))
    return bool(said & set(WORDS["take"])) and not said & set(WORDS["take_nouns"])


def own_words(tool: str) -> list[str]:
    """The words of a tool's name without its server's prefix."""
    return words(re.split(r"__|\.", tool)[-1])


def prefix_words(tool: str) -> list[str]:
    """The words of the server's prefix."""
    parts = re.split(r"__|\.", tool)
    return [word for part in parts[:-1] for word in words(part)]


def kind_of(tool: str, arguments: Any) -> str:
    """Infer the kind from the name and the arguments."""
    own = own_words(tool)
    if " ".join(own) in WORDS["final"]:
        return "final"
    if any(f" {phrase} " in f" {' '.join(own)} " for phrase in WORDS["handoff"]):
        return "handoff"
    return _by_arguments(_guess(tool, arguments).kind, own, arguments)


def moves_a_cursor(tool: str, arguments: Any) -> bool:
    """Return True if the word that decides on the kind moves a cursor or a session."""
    guess = _guess(tool, arguments)
    return guess.kind == "write" and guess.word in WORDS["cursor"]


def _guess(tool: str, arguments: Any) -> Guess:
    own, acting = own_words(tool), action_words(arguments)
    guess = by_words((*acting, *own))
    alone = by_words(tuple(own))
    if acting and guess.kind in ("poll", "wait") and alone.kind == "write":
        return alone
    if guess.kind != "unknown" or guess.word:
        return guess
    served = by_words(tuple(prefix_words(tool)))
    return guess if served.kind == "write" else served  # a server named "store" is no verb


def action_words(arguments: Any) -> list[str]:
    """The words of an argument that names the action."""
    if not isinstance(arguments, dict):
        return []
    return [word for key in ACTIONS if isinstance(arguments.get(key), str) for word in words(arguments[key])]


@functools.cache
def by_words(said: tuple[str, ...]) -> Guess:
    """Infer the kind from words in their order: waiting words first, unless a word that writes is before them."""
    meant = list(_meanings(said))
    nouns = {kind for word in said for name, kind in NOUNS if word in WORDS[name]}
    if said and said[0] in WORDS["write_or_noun"] and not {"read", "poll", "wait"} & {*nouns, *(m.kind for m in meant)}:
        meant.insert(0, Guess("write", said[0]))
    for place, guess in enumerate(meant):
        if guess.kind in ("poll", "wait") and not any(earlier.kind == "write" for earlier in meant[:place]):
            return guess
    for guess in meant:
        if guess.kind not in ("poll", "wait"):
            return guess
    for word in said:
        for nouns, kind in NOUNS:
            if word in WORDS[nouns]:
                return Guess(kind, word)
    return Guess("unknown")


def _meanings(said: tuple[str, ...]) -> Any:
    """The words and phrases that mean something, in their order."""
    place = 0
    while place < len(said):
        phrase = " ".join(said[place : place + 2])
        kind = next((kind for kind, phrases in WORDS["phrases"].items() if phrase in phrases), None)
        if kind:
            yield Guess(kind, phrase)
            place += 2
            continue
        kind = _meaning(said[place])
        if kind:
            yield Guess(kind, said[place])
        place += 1


def _meaning(word: str) -> str | None:
    for kind in ("poll", "wait", *ORDER):
        if word in WORDS[kind]:
            return {"cursor": "write", "take": "unknown"}.get(kind, kind)
    return None


def _by_arguments(kind: str, own: list[str], arguments: Any) -> str:
    if not isinstance(arguments, dict):
        return kind
    if kind == "shell":
        command = arguments.get("command", arguments.get("cmd"))
        if isinstance(command, str):
            return shell_kind(command)
    for key in STATEMENTS:
        text = arguments.get(key)
        free_text = key == "query" and kind == "read" and not {"sql", "database", "db"} & set(own) and own != ["query"]
        if isinstance(text, str) and text.strip() and not free_text:
            first = text.split(None, 1)[0].lower().strip("(;")
            for found in ("read", "write"):
                if first in WORDS["sql"][found]:
                    return found
    return kind


def shell_kind(command: str) -> str:
    """Infer the kind of a command: one made only of reading programs reads; one that sleeps waits."""
    if re.fullmatch(r"\s*sleep\s+[\d.]+[smhd]?\s*", command):
        return "wait"
    harmless = re.sub(r"(?:\d|&)?>>?\s*(?:/dev/null|&\d)", " ", command)
    if re.search(r"[<>`]|\$\(", harmless):
        return "shell"
    parts = [part for part in re.split(r"\|\||&&|[|;\n]", harmless) if part.strip()]
    return "read" if parts and all(_reads(part) for part in parts) else "shell"


def _reads(part: str) -> bool:
    try:
        said = shlex.split(part)
    except ValueError:
        return False
    if not said or "&" in said:
        return False
    program, rest = said[0].rsplit("/", 1)[-1], said[1:]
    if program in COMMANDS["runners"]:
        flags = COMMANDS["runners"][program]
        while rest and (rest[0] in flags or "=" in rest[0]):
            rest = rest[2:] if flags.get(rest[0]) else rest[1:]
        return not rest or _reads(shlex.join(rest))
    if program in COMMANDS["reading_subcommands"]:
        return _subcommand_reads(program, rest)
    if program not in COMMANDS["read"] or _writes_by_flag(program, rest):
        return False
    operands = [word for word in rest if not word.startswith(("-", "+"))]
    return len(operands) <= COMMANDS["most_operands"].get(program, len(operands))


def _writes_by_flag(program: str, rest: list[str]) -> bool:
    flags = COMMANDS["writing_flags"].get(program, ())
    long = tuple(flag for flag in flags if flag.startswith("--"))
    short = tuple(flag for flag in flags if not flag.startswith("--"))
    return any(
        word in flags or word.split("=")[0] in long or (word.startswith(short) and not word.startswith("--"))
        for word in rest
    )


def _subcommand_reads(program: str, rest: list[str]) -> bool:
    with_value = COMMANDS["flags_with_value"].get(program, ())
    while rest and rest[0].startswith("-"):
        rest = rest[2:] if rest[0] in with_value else rest[1:]
    if not rest or _writes_by_flag(program, rest):
        return False
    reading = COMMANDS["reading_subcommands"][program]
    if rest[0] in reading or " ".join(rest[:2]) in reading:
        return True
    alone = COMMANDS["reading_alone"].get(program, ())
    return rest[0] in alone and not [word for word in rest[1:] if not word.startswith("-")]
