"""The agent of ``mini-swe-agent``, which runs commands and asks its model through litellm."""

from __future__ import annotations

from minisweagent.agents.default import DefaultAgent
from minisweagent.environments.local import LocalEnvironment
from minisweagent.models.litellm_model import LitellmModel

from tests.models.programs import SYSTEM, Toolbox, main


def program(url: str, question: str, tools: Toolbox) -> object:
    """An agent that ends when a command prints a certain line."""
    agent = DefaultAgent(
        LitellmModel(
            model_name="openai/gpt-4.1",
            model_kwargs={"api_base": f"{url}/v1", "api_key": "local"},
            cost_tracking="ignore_errors",
        ),
        LocalEnvironment(),
        system_template=SYSTEM,
        instance_template="{{task}}",
        step_limit=60,
        cost_limit=0,
    )
    return agent.run(question)


if __name__ == "__main__":
    main(program)
