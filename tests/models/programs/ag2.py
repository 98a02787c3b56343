"""An agent of ``ag2``."""

from __future__ import annotations

import asyncio

from ag2 import Agent
from ag2.config import OpenAIConfig

from tests.models.programs import SYSTEM, Toolbox, main


def program(url: str, question: str, tools: Toolbox) -> object:
    """An agent with functions as tools."""
    config = OpenAIConfig(model="gpt-4.1", base_url=f"{url}/v1", api_key="local")
    agent = Agent("helper", prompt=SYSTEM, config=config, tools=list(tools.functions().values()))

    async def run() -> object:
        return (await agent.ask(question)).body

    return asyncio.run(run())


if __name__ == "__main__":
    main(program)
