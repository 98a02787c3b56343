"""An agent of ``strands-agents``."""

from __future__ import annotations

from strands import Agent, tool
from strands.models.openai import OpenAIModel

from tests.models.programs import SYSTEM, Toolbox, main


def program(url: str, question: str, tools: Toolbox) -> object:
    """An agent with functions as tools, which streams."""
    agent = Agent(
        model=OpenAIModel(client_args={"base_url": f"{url}/v1", "api_key": "local"}, model_id="gpt-4.1"),
        tools=[tool(one) for one in tools.functions().values()],
        system_prompt=SYSTEM,
        callback_handler=None,
    )
    return str(agent(question)).strip()


if __name__ == "__main__":
    main(program)
