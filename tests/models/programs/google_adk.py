"""An agent of Google's ``google-adk`` over ``litellm``."""

from __future__ import annotations

import asyncio

from google.adk.agents import LlmAgent
from google.adk.models.lite_llm import LiteLlm
from google.adk.runners import InMemoryRunner
from google.genai import types

from tests.models.programs import SYSTEM, Toolbox, main


def program(url: str, question: str, tools: Toolbox) -> object:
    """An agent with functions as tools, in a session that is kept in memory."""
    model = LiteLlm(model="openai/gpt-4.1", api_base=f"{url}/v1", api_key="local")
    agent = LlmAgent(name="helper", model=model, instruction=SYSTEM, tools=list(tools.functions().values()))
    runner = InMemoryRunner(agent, app_name="files")
    message = types.Content(role="user", parts=[types.Part(text=question)])

    async def run() -> object:
        session = await runner.session_service.create_session(app_name="files", user_id="ada")
        text = ""
        async for event in runner.run_async(user_id="ada", session_id=session.id, new_message=message):
            if event.is_final_response() and event.content:
                text = "".join(part.text or "" for part in event.content.parts)
        return text

    return asyncio.run(run())


if __name__ == "__main__":
    main(program)
