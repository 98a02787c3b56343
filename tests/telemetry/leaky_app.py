"""A program with a word in each value that must not leave it. Those who start it search all that it writes and exports.

test_secrets.py takes the words that begin with SECRET; benchmarks/reliability/canaries.py draws its own.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
from typing import Any

from langchain_core.tools import tool

import otel_loopguard as loopguard
from otel_loopguard.testing import Ask
from tests.scripted.langchain import ScriptedModel, own_graph

logging.basicConfig(level=logging.DEBUG)
logging.getLogger("urllib3").setLevel(logging.WARNING)


class Words(dict[str, str]):
    """The words by what they stand for: those that are given, else SECRET and the name."""

    def __missing__(self, name: str) -> str:
        return "SECRET" + "".join(filter(str.isalpha, name)).upper()


WORDS = Words(json.loads(os.environ.get("CANARIES", "{}")))


@tool
def read_file(path: str) -> str:
    """Read a file."""
    return f"{WORDS['result']} of {path}"


@tool
def fetch(query: str, options: dict[str, Any]) -> str:
    """Fetch something."""
    return json.dumps({WORDS["result key"]: [WORDS["nested result"], {"n": WORDS["deep result"]}]})


@tool
def find(query: str) -> str:
    """Find nothing."""
    return "[]"


@tool
def fail(path: str) -> str:
    """Fail."""
    raise ValueError(f"{WORDS['exception']} at {path}")


@loopguard.tool
def lookup(ssn: str, *more: Any, **options: Any) -> str:
    """Look a person up."""
    return WORDS["row"]


@loopguard.tool
async def alookup(ssn: str) -> bytes:
    """Look a person up, as bytes."""
    return WORDS["bytes"].encode()


class Row:
    """A result with fields."""

    def __init__(self) -> None:
        self.field = WORDS["field"]


STEPS = [
    *[[Ask("read_file", {"path": WORDS["path"]})]] * 5,
    *[
        [Ask("fetch", {"query": f"{WORDS['query']} {n}", "options": {WORDS["key"]: {"deep": [WORDS["nested"]]}}})]
        for n in range(7)
    ],
    *[[Ask("find", {"query": f"{WORDS['query']} number {n}"})] for n in range(7)],
    *[[Ask("fail", {"path": f"{WORDS['failing path']}{n}"})] for n in range(7)],
    *[[Ask(f"{WORDS['made-up tool']} with blanks", {"path": "x"})]] * 4,
    *[[Ask(WORDS["plain made-up tool"], {"path": "x"})]] * 3,
    *[[Ask("read_file", {WORDS["argument name"]: "x"})]] * 3,
]


def main() -> None:
    """Cause trips, refusals, failures and an abort with a word in every value."""
    graph = own_graph(ScriptedModel(steps=STEPS, seen=[]), [read_file, fetch, find, fail], handle_tool_errors=True)
    config: Any = {"configurable": {"thread_id": "thread"}, "recursion_limit": 300}
    graph.invoke({"messages": [("user", WORDS["question"])]}, config)
    with loopguard.turn(conversation_id=WORDS["conversation"]):
        loopguard.say(WORDS["user"], conversation_id=WORDS["conversation"])
        for _ in range(4):
            lookup(WORDS["number"], WORDS["positional"], **{WORDS["keyword"]: 1})
            asyncio.run(alookup(WORDS["async number"]))
            loopguard.call("row", {"x": WORDS["by hand"]}, lambda x: Row())
        for _ in range(3):
            loopguard.call(
                f"{WORDS['unknown tool']} {{x}}", {"a": WORDS["unknown argument"]}, None, known_tools=["lookup"]
            )
        for n in range(6):
            loopguard.call(
                "run_command", {"command": f"mysql -p{WORDS['password']} -e 'select {n}'"}, lambda command: ""
            )
        loopguard.say(WORDS["stop"], conversation_id=WORDS["conversation"], stop=True)
        lookup(WORDS["after stop"])
    try:
        with loopguard.turn():
            for _ in range(40):
                loopguard.call("read", {"path": WORDS["aborted"]}, lambda path: WORDS["aborted result"])
    except loopguard.ToolLoopError as error:
        logging.getLogger("app").exception("the run was aborted")  # the traceback quotes source lines
        print(f"aborted: {error} {error!r} {vars(error)}", flush=True)
    print("done", flush=True)


if __name__ == "__main__":
    main()
