"""A program full of secrets, each of which is a word that begins with SECRET; see test_secrets.py."""

from __future__ import annotations

import logging
from typing import Any

from langchain_core.tools import tool

import otel_loopguard as loopguard
from tests.scripted.langchain import ScriptedModel, own_graph

logging.basicConfig(level=logging.DEBUG)
logging.getLogger("urllib3").setLevel(logging.WARNING)


@tool
def read_file(path: str) -> str:
    """Read a file."""
    return f"SECRETRESULT of {path}"


@tool
def find(query: str) -> str:
    """Find something."""
    return "[]"


@tool
def fail(path: str) -> str:
    """Fail."""
    raise ValueError(f"SECRETEXCEPTION at {path}")


@loopguard.tool
def lookup(ssn: str) -> str:
    """A plain function."""
    return "SECRETROW"


def ask(name: str, **arguments: Any) -> list[Any]:
    """One step of the model's script."""
    from otel_loopguard.testing import Ask

    return [Ask(name, arguments)]


STEPS = [
    *[ask("read_file", path="SECRETPATH")] * 4,
    *[ask("find", query=f"SECRETQUERY number {number}") for number in range(7)],
    *[ask("fail", path=f"SECRETFAILING{number}") for number in range(7)],
    *[ask("SECRETTOOL with a payload", path="x")] * 4,
    *[ask("SECRETTOOLPLAIN", path="x")] * 3,
]


def main() -> None:
    """Cause a trip, a refusal, a fault and an abort with secrets in every value."""
    model = ScriptedModel(steps=STEPS, seen=[])
    graph = own_graph(model, [read_file, find, fail], handle_tool_errors=True)
    config: Any = {"configurable": {"thread_id": "SECRETTHREAD"}, "recursion_limit": 200}
    graph.invoke({"messages": [("user", "SECRETQUESTION")]}, config)
    with loopguard.turn(conversation_id="SECRETCONVERSATION"):
        loopguard.say("SECRETWORD", conversation_id="SECRETCONVERSATION")
        for _ in range(4):
            lookup("SECRETSSN")
        loopguard.say("SECRETSTOP", conversation_id="SECRETCONVERSATION", stop=True)
        lookup("SECRETSSN2")
        loopguard.call("SECRETMADEUP {x}", {"a": "SECRETARGUMENT"}, None, known_tools=["lookup"])
    try:
        last = "SECRETSSN3"  # the traceback that is logged below quotes source lines
        with loopguard.turn(conversation_id="SECRETLAST"):
            for _ in range(40):
                lookup(last)
    except loopguard.ToolLoopError:
        logging.getLogger("app").exception("the run was aborted")
    print("done", flush=True)


if __name__ == "__main__":
    main()
