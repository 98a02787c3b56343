"""An agent of ``agno``."""

from __future__ import annotations

from agno.agent import Agent
from agno.models.openai import OpenAIChat

from tests.models.programs import SYSTEM, Toolbox, main


def program(url: str, question: str, tools: Toolbox) -> object:
    """An agent with functions as tools."""
    agent = Agent(
        model=OpenAIChat("gpt-4.1", base_url=f"{url}/v1", api_key="local"),
        tools=list(tools.functions().values()),
        instructions=SYSTEM,
        telemetry=False,
    )
    return agent.run(question).content


if __name__ == "__main__":
    main(program)
