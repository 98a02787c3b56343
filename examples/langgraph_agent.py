"""An agent that is stuck, or one that works: an ordinary LangGraph program. Nothing of otel_loopguard is in it.

    opentelemetry-instrument python examples/langgraph_agent.py            # a stuck agent
    opentelemetry-instrument python examples/langgraph_agent.py --working  # one that works

The model is a script, so this needs no network and no key. Its stuck version reads the same file until a result is a
refusal, or 12 times. The script is in this file, so that the program is complete.
"""

from __future__ import annotations

import argparse
from textwrap import shorten
from typing import Any

from langchain.agents import create_agent
from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import tool

READS = {"count": 0}
FILES = {
    "config.yaml": "retries: 3\ntimeout: 20\n",
    "main.py": "print('hello')\n",
    "notes.txt": "Ask Ada about the timeout.\n",
}


@tool
def read_file(path: str) -> str:
    """Read a file of the project."""
    READS["count"] += 1
    return FILES.get(path, "no such file")


class ScriptedModel(BaseChatModel):
    """A model that follows a list of files to read; it gives up when a tool result is a refusal."""

    files: list[str]
    stubborn: bool = False

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, *_: Any, **__: Any) -> ScriptedModel:
        """Ignore the tools: the script names them."""
        return self

    def _generate(self, messages: list[BaseMessage], *_: Any, **__: Any) -> ChatResult:
        results = [message for message in messages if isinstance(message, ToolMessage)]
        for number, result in enumerate(results[-1:], start=len(results)):
            print(f"  {number:2}. the model reads: {shorten(str(result.content), 150, placeholder=' ...')}")
        refused = bool(results) and "tool_loop_detected" in str(results[-1].content)
        step = len(results)
        if step >= len(self.files) or (refused and not self.stubborn):
            answer = AIMessage("I already know what the file says." if refused else "Done.")
        else:
            call = {"name": "read_file", "args": {"path": self.files[step]}, "id": f"call-{step}"}
            answer = AIMessage("", tool_calls=[call])
        return ChatResult(generations=[ChatGeneration(message=answer)])


def main() -> None:
    """Run the agent once and print what happened."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--working", action="store_true", help="an agent that makes progress: it reads each file once")
    parser.add_argument("--stubborn", action="store_true", help="a stuck agent that ignores refusals")
    parser.add_argument("--reads", type=int, metavar="N", help="how often the stuck model asks")
    options = parser.parse_args()
    asked = options.reads or (30 if options.stubborn else 12)
    files = list(FILES) if options.working else ["config.yaml"] * asked
    agent = create_agent(ScriptedModel(files=files, stubborn=options.stubborn), [read_file])
    print(f"The model asks to read: {', '.join(files[:3])}, ...")
    try:
        answer = agent.invoke({"messages": [("user", "What is the timeout?")]})["messages"][-1].content
    except Exception as error:  # noqa: BLE001 - this program shows any exception that ends the run
        answer = f"(no answer: {type(error).__name__}: {error})"
    print(f"The agent answers: {answer}")
    print(f"The file was read {READS['count']} times.")


if __name__ == "__main__":
    main()
