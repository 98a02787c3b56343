"""A tool calling agent of ``smolagents``."""

from __future__ import annotations

from smolagents import OpenAIServerModel, ToolCallingAgent, tool

from tests.models.programs import Toolbox, main


def program(url: str, question: str, tools: Toolbox) -> object:
    """An agent that ends with the tool ``final_answer``, and hands results back as the user's text."""
    agent = ToolCallingAgent(
        tools=[tool(one) for one in tools.functions().values()],
        model=OpenAIServerModel("gpt-4.1", api_base=f"{url}/v1", api_key="local"),
        max_steps=60,
        verbosity_level=0,
    )
    return agent.run(question)


if __name__ == "__main__":
    main(program)
