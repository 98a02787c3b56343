"""A ``dspy.ReAct`` module, whose model writes its calls as text."""

from __future__ import annotations

import dspy

from tests.models.programs import Toolbox, main


def program(url: str, question: str, tools: Toolbox) -> object:
    """An agent that reasons and acts."""
    dspy.configure(lm=dspy.LM("openai/gpt-4.1", api_base=f"{url}/v1", api_key="local", cache=False))
    agent = dspy.ReAct("question -> answer", tools=list(tools.functions().values()), max_iters=60)
    return agent(question=question).answer


if __name__ == "__main__":
    main(program)
