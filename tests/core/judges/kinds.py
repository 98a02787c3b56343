"""The kind of a tool, by its name: the reference's own small word lists, taken from the design."""

from __future__ import annotations

import re
import shlex
from typing import Any

from tests.core.judges.plain import parsed, words


def listed(text: str) -> frozenset[str]:
    """The words of a text as a set."""
    return frozenset(text.split())


POLL = listed("poll status progress monitor watch")
WAIT = listed("wait sleep delay pause")
THINK = listed("think thinking thought plan note reflect")
AGENT = listed("agent subagent delegate")
SHELL = listed("bash shell sh exec execute run terminal command cmd console python")
READ = listed(
    """
    read get list ls search find fetch lookup look view show cat grep glob query describe inspect retrieve load
    count calculate analyze extract check verify validate diff head tail stat screenshot snapshot info details
    explain scan peek resolve summarize observe route discover suggest recommend match browse
    """
)
WRITE = listed(
    """
    write edit create update delete remove insert add set put post patch send move rename copy save upload append
    replace apply commit push merge cancel book order buy pay modify exchange return install deploy start stop
    restart kill open goto navigate cd scroll select click type login refresh press fill drop publish reply assign
    close enable disable mkdir place rewrite transfer back forward
    """
)
TAKES = listed("next claim pop dequeue receive take consume")
FINAL = {"final_answer", "finalanswer", "finish", "submit", "final"}
READING = listed(
    """
    ls cat grep rg head tail wc pwd echo which file stat tree du df sort uniq cut awk diff less more printenv
    whoami date ps jq nl basename dirname realpath type true cd test
    """
)
GIT_READING = {"status", "diff", "log", "show", "branch", "blame", "grep", "ls-files", "rev-parse"}


GATEWAYS = {"call_tool", "execute_tool", "invoke_tool", "use_mcp_tool", "composio_execute", "mcp_call_tool"}
SERVERS = ("server_name", "server")
INNER_NAMES = ("tool_name", "tool", "name", "tool_slug")
INNER_ARGUMENTS = ("arguments", "params", "args", "parameters", "input")


def routed(tool: str, arguments: Any) -> tuple[str, Any]:
    """The inner tool and its arguments, if the tool is a gateway to others."""
    if "_".join(words(tool)) not in GATEWAYS or not isinstance(arguments, dict):
        return tool, arguments
    inner = next((arguments[key] for key in INNER_NAMES if isinstance(arguments.get(key), str)), None)
    if inner is None:
        return tool, arguments
    server = next((arguments[key] for key in SERVERS if isinstance(arguments.get(key), str)), None)
    passed = next((arguments[key] for key in INNER_ARGUMENTS if key in arguments), {})
    return (f"{server}__{inner}" if server else inner), parsed(passed) if isinstance(passed, str) else passed


def takes_the_next(tool: str) -> bool:
    """Return True if the tool takes the next thing, so that ids are the answer."""
    return bool(TAKES & set(words(tool)))


def ordered_words(tool: str, arguments: Any) -> list[str]:
    """The words of the action first, then the tool's own, its server's prefix last."""
    prefix, _, own = tool.rpartition("__")
    if not prefix:
        prefix, _, own = tool.rpartition(".")
    said = []
    if isinstance(arguments, dict):
        for key in ("action", "operation", "method"):
            if isinstance(arguments.get(key), str):
                said += words(arguments[key])
    return said + words(own) + words(prefix)


def kind_of(tool: str, arguments: Any) -> str:
    """Infer the kind from the name and the arguments."""
    if "_".join(words(tool)) in FINAL:
        return "final"
    said = ordered_words(tool, arguments)
    if "handoff" in said or ("transfer" in said and "to" in said) or ("hand" in said and "off" in said):
        return "handoff"
    kind = _by_words(said)
    return _by_arguments(kind, arguments)


def _by_words(said: list[str]) -> str:
    for word in said:
        if word in POLL:
            return "poll"
        if word in WAIT:
            return "wait"
    table = (("think", THINK), ("agent", AGENT), ("shell", SHELL), ("read", READ), ("write", WRITE))
    for word in said:
        for kind, known in table:
            if word in known:
                return kind
    return "unknown"


def _by_arguments(kind: str, arguments: Any) -> str:
    if not isinstance(arguments, dict):
        return kind
    if kind == "shell":
        command = arguments.get("command", arguments.get("cmd"))
        if isinstance(command, str):
            return shell_kind(command)
    for key in ("sql", "query", "statement"):
        text = arguments.get(key)
        if isinstance(text, str):
            first = text.split(None, 1)[0].lower() if text.strip() else ""
            if first in ("select", "show", "explain"):
                return "read"
            if first in ("insert", "update", "delete", "drop", "alter", "create", "truncate"):
                return "write"
    return kind


def shell_kind(command: str) -> str:
    """Infer the kind of a command: one made only of reading programs reads; one that sleeps waits."""
    if re.fullmatch(r"\s*sleep\s+[\d.]+[smh]?\s*", command):
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
    program = said[0].rsplit("/", 1)[-1]
    if program == "find":
        return not {"-delete", "-exec", "-execdir", "-ok", "-okdir"} & set(said)
    if program == "sed":
        return not any(word.startswith(("-i", "--in-place")) for word in said)
    if program == "git":
        return len(said) > 1 and said[1] in GIT_READING
    return program in READING
