"""A loop by hand over a chat API, no framework: guarded by ``loopguard.turn`` and ``loopguard.call``.

    python examples/plain_functions.py

The model is a script: it polls a job that never ends, calls a tool that does not exist, and the user interrupts it.
"""

from __future__ import annotations

import json
from typing import Any

import otel_loopguard as loopguard


@loopguard.tool(kind="poll")
def job_status(job: str) -> str:
    """Report the status of a job."""
    return json.dumps({"job": job, "status": "queued"})


def read_file(path: str) -> str:
    """Read a file."""
    return f"the text of {path}"


TOOLS = {"job_status": job_status, "read_file": read_file}


def model_answers(script: list[tuple[str, dict[str, Any]]]) -> Any:
    """Yield tool calls as a chat API sends them, with the arguments as JSON text."""
    for number, (name, arguments) in enumerate(script):
        yield {"id": f"call-{number}", "name": name, "arguments": json.dumps(arguments)}


def run(script: list[tuple[str, dict[str, Any]]], *, say: str | None = None) -> None:
    """Run one message of a user."""
    with loopguard.turn(conversation_id="example") as turn:
        try:
            for number, asked in enumerate(model_answers(script)):
                if say and number == 2:
                    loopguard.say(say, conversation_id="example", stop=True)
                result = loopguard.call(
                    asked["name"],
                    asked["arguments"],
                    TOOLS.get(asked["name"]),
                    call_id=asked["id"],
                    known_tools=TOOLS,
                )
                print(f"  {number + 1:2}. {asked['name']}: {str(result)[:110]!r}")
        except loopguard.ToolLoopError as error:
            print(f"  the run was ended: {error}")
        print(f"  {turn.calls} calls ran")


def main() -> None:
    """Run three messages of a user."""
    print("A poll without progress:")
    run([("job_status", {"job": "17"})] * 22)
    print("A tool that does not exist:")
    run([("read_files", {"path": "a.txt"})] * 4)
    print("A user who changes their mind:")
    run([("read_file", {"path": name}) for name in ("a", "b", "c", "d")], say="stop, I found it myself")


if __name__ == "__main__":
    main()
