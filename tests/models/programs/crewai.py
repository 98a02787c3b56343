"""A crew of ``crewai`` with one agent and one task."""

from __future__ import annotations

from crewai import LLM, Agent, Crew, Task
from crewai.tools import tool

from tests.models.programs import SYSTEM, Toolbox, main


def program(url: str, question: str, tools: Toolbox) -> object:
    """A task that an agent with tools does."""
    reader = Agent(
        role="Reader",
        goal="Answer questions about files",
        backstory=SYSTEM,
        llm=LLM(model="openai/gpt-4.1", base_url=f"{url}/v1", api_key="local"),
        tools=[tool(name)(one) for name, one in tools.functions().items()],
        max_iter=60,
    )
    task = Task(description=question, expected_output="The owner.", agent=reader)
    return Crew(agents=[reader], tasks=[task]).kickoff()


if __name__ == "__main__":
    main(program)
