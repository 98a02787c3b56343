"""An agent of ``haystack-ai``."""

from __future__ import annotations

from haystack.components.agents import Agent
from haystack.components.generators.chat import OpenAIChatGenerator
from haystack.dataclasses import ChatMessage
from haystack.tools import create_tool_from_function
from haystack.utils import Secret

from tests.models.programs import SYSTEM, Toolbox, main


def program(url: str, question: str, tools: Toolbox) -> object:
    """An agent that ends with a text."""
    generator = OpenAIChatGenerator(Secret.from_token("local"), model="gpt-4.1", api_base_url=f"{url}/v1")
    agent = Agent(
        chat_generator=generator,
        tools=[create_tool_from_function(one) for one in tools.functions().values()],
        system_prompt=SYSTEM,
        max_agent_steps=60,
    )
    agent.warm_up()
    return agent.run(messages=[ChatMessage.from_user(question)])["last_message"].text


if __name__ == "__main__":
    main(program)
