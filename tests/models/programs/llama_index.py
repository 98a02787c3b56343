"""An agent of ``llama-index-core``."""

from __future__ import annotations

import asyncio

from llama_index.core.agent.workflow import FunctionAgent
from llama_index.llms.openai import OpenAI

from tests.models.programs import SYSTEM, Toolbox, main


async def ask(url: str, question: str, tools: Toolbox) -> object:
    """A function agent, which streams."""
    agent = FunctionAgent(
        tools=list(tools.functions().values()),
        llm=OpenAI(model="gpt-4.1", api_base=f"{url}/v1", api_key="local"),
        system_prompt=SYSTEM,
    )
    return str(await agent.run(question, max_iterations=60))


def program(url: str, question: str, tools: Toolbox) -> object:
    """Run the agent."""
    return asyncio.run(ask(url, question, tools))


if __name__ == "__main__":
    main(program)
