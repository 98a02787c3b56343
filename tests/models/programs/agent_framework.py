"""An agent of Microsoft's ``agent-framework``."""

from __future__ import annotations

import asyncio

from agent_framework import Agent, tool
from agent_framework.openai import OpenAIChatCompletionClient

from tests.models.programs import SYSTEM, Toolbox, main


def program(url: str, question: str, tools: Toolbox) -> object:
    """An agent with functions as tools, which need no approval."""
    client = OpenAIChatCompletionClient(model="gpt-4.1", base_url=f"{url}/v1", api_key="local")
    functions = [tool(one, approval_mode="never_require") for one in tools.functions().values()]
    agent = Agent(client, instructions=SYSTEM, tools=functions)

    async def run() -> object:
        return (await agent.run(question)).text

    return asyncio.run(run())


if __name__ == "__main__":
    main(program)
