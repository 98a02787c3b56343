"""Semantic Kernel: the framework's own features."""

from __future__ import annotations

import ast
import asyncio
import importlib
import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("semantic_kernel", reason="semantic-kernel is tested in an environment of its own")

import httpx
import semantic_kernel as kernel_package
from openai import AsyncOpenAI
from semantic_kernel import Kernel
from semantic_kernel.connectors.ai.function_choice_behavior import FunctionChoiceBehavior
from semantic_kernel.connectors.ai.prompt_execution_settings import PromptExecutionSettings
from semantic_kernel.contents import ChatHistory, FunctionCallContent
from semantic_kernel.filters import FilterTypes
from semantic_kernel.functions import KernelArguments, KernelFunctionFromPrompt

from otel_loopguard import Policy, ToolLoopError, semconv
from otel_loopguard.instrumentation.frameworks import semantic_kernel
from otel_loopguard.policy_files.load import load_preset
from otel_loopguard.testing import Ask, guarded
from tests.instrumentation.frameworks.looking import attribute, calls, look
from tests.scripted.semantic_kernel import (
    ATTEMPTS,
    WAYS,
    Script,
    agent_of,
    get_response,
    plugin_of,
)

pytestmark = pytest.mark.filterwarnings("ignore")
EACH_WAY = pytest.mark.parametrize("go", WAYS)


LOOK = {"look": look}


def script(*paths: str, name: str = "files-look", answer: str = "Done.") -> Script:
    return Script.of(calls(paths, name), answer)


@pytest.mark.parametrize("by_kernel", [True, False])
def test_an_abort_leaves_the_function_of_a_prompt(by_kernel: bool) -> None:
    """The kernel wraps each exception of its functions twice, and the caller still gets the abort."""
    service, plugin = script(*["a"] * 9), plugin_of({"look": look})
    behavior = FunctionChoiceBehavior.Auto(maximum_auto_invoke_attempts=ATTEMPTS)
    settings = PromptExecutionSettings(function_choice_behavior=behavior)
    arguments = KernelArguments(settings=settings)

    async def main() -> Any:
        kernel = Kernel(services=[service], plugins={plugin.name: plugin})
        if by_kernel:
            return await kernel.invoke_prompt("Go on.", arguments=arguments)
        function = KernelFunctionFromPrompt(function_name="ask", plugin_name="prompts", prompt="Go on.")
        return await function.invoke(kernel, arguments)

    with guarded(Policy(abort_after=1)) as recording:
        with pytest.raises(ToolLoopError):
            asyncio.run(main())
        assert recording.runtime.guard.live == 0


@EACH_WAY
def test_a_refusal_is_a_result_in_the_chat_history(go: Any) -> None:
    """The refusal is the result of its call, with the id of the call, and the program's result is as before."""
    model = script("a", "a", "a")
    with guarded() as recording:
        asyncio.run(go(model, plugin_of(LOOK)))
        calls = [item for message in model.seen[-1] for item in message.items if isinstance(item, FunctionCallContent)]
        assert [result.id for result in model.returned] == [call.id for call in calls]
        assert "tool_loop_detected" in model.read[2]
        assert recording.outcomes == ["executed", "nudged", "blocked"]
        assert recording.counted(semconv.METRIC_INTERNAL_ERRORS) == 0


def test_a_function_that_a_filter_leaves_out_is_unknown() -> None:
    """The model may call only the functions that its behavior offers."""
    behavior = FunctionChoiceBehavior.Auto(filters={"excluded_functions": ["files-look"]})
    with guarded() as recording:
        agent = agent_of(script("a"), [plugin_of(LOOK)], function_choice_behavior=behavior)
        asyncio.run(agent.get_response("Go on."))
        assert [span.name for span in recording.spans] == ["execute_tool _unknown"]


@EACH_WAY
def test_beside_its_own_spans_each_call_has_one(go: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each call has one ``execute_tool`` span, theirs or ours: run, refused, unknown or with wrong arguments."""
    paths = [{"path": "a"}, {"path": "a"}, {"path": "a"}, {"wrong": 1}, {}]
    model = Script.of([*[[Ask("files-look", arguments)] for arguments in paths], [Ask("nope", {})]])
    with guarded() as recording:
        scope = "semantic_kernel.functions.kernel_function"
        monkeypatch.setattr(sys.modules[scope], "tracer", recording.tracer_provider.get_tracer(scope))
        asyncio.run(go(model, plugin_of(LOOK)))
        finished = recording._spans.get_finished_spans()
        named = [span for span in finished if span.name.startswith("execute_tool ")]
        assert len(named) == 6
        assert len(recording.spans) == 6
        assert recording.outcomes == ["executed", "nudged", "blocked", "failed", "failed", "failed"]
        parents = {span.context.span_id for span in recording.spans}
        theirs = [span for span in named if span not in recording.spans]
        assert [span.parent.span_id in parents for span in theirs] == [True, True]
        assert [span.name.split()[0] for span in recording.spans] == ["loopguard"] * 2 + ["execute_tool"] * 4


def test_a_filter_that_ends_the_loop_still_does() -> None:
    """A filter around functions may end the loop with the result as the answer: our wrapper returns its context."""

    async def run() -> Any:
        agent = agent_of(script(*"aaaaa"), [plugin_of(LOOK)])

        @agent.kernel.filter(FilterTypes.AUTO_FUNCTION_INVOCATION)
        async def end(context: Any, next: Any) -> None:  # noqa: A002 - the kernel's name of it
            await next(context)
            context.terminate = context.request_sequence_index == 1

        return await agent.get_response("Go on.")

    with guarded() as recording:
        assert str(asyncio.run(run()).message.items[0]).startswith("there is a\n")
        assert recording.outcomes == ["executed", "nudged"]


def test_structured_results_stay_what_they_are() -> None:
    """No sentence is added to an object; it waits for the next text."""

    def fetch(path: str) -> dict[str, int]:
        """Fetch."""
        return {"rows": 2}

    model = Script.of([[Ask("files-fetch", {"path": "a"})]] * 2 + [[Ask("files-look", {"path": "b"})]])
    with guarded():
        asyncio.run(get_response(model, plugin_of({"fetch": fetch, **LOOK})))
        assert model.returned[1].result == {"rows": 2}
        assert model.read[2].startswith("there is b\n")
        assert "fetch" in model.read[2]


@EACH_WAY
def test_a_refusal_is_marked_in_the_metadata_of_its_result(go: Any) -> None:
    """The preset's mark is for the program; the model reads the sentence alone."""
    model = script("a", "a", "a", "a")
    with guarded(load_preset("repeat_hint").policy) as recording:
        asyncio.run(go(model, plugin_of(LOOK)))
        marks = [result.metadata.get("loopguard.mark") for result in model.returned]
        assert marks == [None, None, None, "loop-detected"]
        assert "loopguard.mark" not in json.dumps(model.returned[3].to_dict())
        assert recording.counted(semconv.METRIC_INTERNAL_ERRORS) == 0


class ResponsesApi:
    """A server of the Responses API: it makes the same call until the fifth request, and then answers."""

    def __init__(self) -> None:
        self.requests = 0
        self.results: list[str] = []
        """Those of the last request."""

    def respond(self, request: httpx.Request) -> httpx.Response:
        """Make the next response."""
        asked = json.loads(request.content)["input"]
        self.results = [item["output"] for item in asked if item.get("type") == "function_call_output"]
        self.requests = number = self.requests + 1
        call = {"type": "function_call", "name": "files-look", "arguments": '{"path": "a"}', "call_id": f"c{number}"}
        text = {"type": "output_text", "text": "Done.", "annotations": []}
        item = {"type": "message", "role": "assistant", "content": [text]} if number == 5 else call
        response = {"id": f"resp_{number}", "object": "response", "created_at": 1, "status": "completed"}
        response |= {"model": "script", "parallel_tool_calls": True, "tool_choice": "auto", "tools": []}
        response |= {"output": [{"id": f"item_{number}", "status": "completed", **item}]}
        return httpx.Response(200, json=response)

    async def ask(self) -> Any:
        """Run an agent of this server."""
        from semantic_kernel.agents import OpenAIResponsesAgent  # which warns at its import

        http = httpx.AsyncClient(transport=httpx.MockTransport(self.respond))
        client = AsyncOpenAI(api_key="local", base_url="http://local/v1", http_client=http)
        agent = OpenAIResponsesAgent(ai_model_id="script", client=client, name="helper", plugins=[plugin_of(LOOK)])
        return await agent.get_response("Go on.")


def test_an_agent_of_the_responses_api_is_guarded_too() -> None:
    """Other agents have loops of their own, and call functions through the kernel as well."""
    server = ResponsesApi()
    with guarded() as recording:
        assert str(asyncio.run(server.ask()).message) == "Done."
        assert recording.outcomes == ["executed", "nudged", "blocked", "blocked"]
        assert "tool_loop_detected" in server.results[-1]
        assert len(set(attribute(recording, semconv.TURN_ID))) == 1
        assert set(attribute(recording, semconv.AGENT_NAME)) == {"helper"}
        assert recording.runtime.guard.live == 0
    with guarded(Policy(abort_after=1)) as recording:
        with pytest.raises(ToolLoopError):
            asyncio.run(ResponsesApi().ask())
        assert recording.runtime.guard.live == 0


@pytest.mark.parametrize("way", ["get_response", "invoke", "invoke_stream"])
def test_an_agent_of_bedrock_is_guarded_too(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its calls belong to a run, so that they are refused and can end it."""
    errors = SimpleNamespace(ClientError=RuntimeError)
    for name, module in {
        "boto3": SimpleNamespace(),
        "botocore": SimpleNamespace(),
        "botocore.exceptions": errors,
    }.items():
        monkeypatch.setitem(sys.modules, name, module)
    given = [{"name": "path", "value": "a"}]
    use = {"functionInvocationInput": {"actionGroup": "own", "function": "files-look", "parameters": given}}

    def ask(**_: Any) -> Any:
        return {"completion": [{"returnControl": {"invocationId": "call-1", "invocationInputs": [use]}}]}

    runtime = SimpleNamespace(create_session=lambda **_: {"sessionId": "talk"}, invoke_agent=ask)

    async def main() -> Any:
        bedrock = importlib.import_module("semantic_kernel.agents.bedrock.bedrock_agent")
        agent = bedrock.BedrockAgent(
            {"agentId": "agent", "agentName": "helper", "foundationModel": "model"},
            bedrock_runtime_client=runtime,
            bedrock_client=SimpleNamespace(),
            function_choice_behavior=FunctionChoiceBehavior.Auto(maximum_auto_invoke_attempts=ATTEMPTS),
            plugins=[plugin_of({"look": look})],
        )
        if way == "get_response":
            return await agent.get_response("Go on.")
        return [item async for item in getattr(agent, way)("Go on.")]

    with guarded(Policy(abort_after=1)) as recording:
        with pytest.raises(ToolLoopError):
            asyncio.run(main())
        assert recording.outcomes == ["executed", "nudged", "blocked", "aborted"]


def test_the_agents_that_need_other_packages_are_where_they_are_patched() -> None:
    """Their modules cannot be imported here, so their source is read."""
    for module, agent in semantic_kernel._AGENTS:
        path = Path(kernel_package.__file__).parents[1] / f"{module.replace('.', '/')}.py"
        classes = [one for one in ast.walk(ast.parse(path.read_text("utf-8"))) if isinstance(one, ast.ClassDef)]
        (found,) = [one for one in classes if one.name == agent]
        functions = {one.name for one in found.body if isinstance(one, ast.AsyncFunctionDef)}
        assert {"get_response", "invoke", "invoke_stream"} <= functions


def test_a_call_that_the_program_makes_by_hand_is_read_too() -> None:
    """A loop that calls ``kernel.invoke_function_call`` itself has a weak turn: nothing is refused."""

    async def loop() -> ChatHistory:
        kernel, history = Kernel(plugins={"files": plugin_of(LOOK)}), ChatHistory()
        for number in range(4):
            call = FunctionCallContent(id=f"call-{number}", name="files-look", arguments='{"path": "a"}')
            assert await kernel.invoke_function_call(call, history) is None
        return history

    with guarded() as recording:
        results = [message.items[0].result for message in asyncio.run(loop()).messages]
        assert len(results) == 4
        assert recording.outcomes[0] == "executed"
        assert "blocked" not in recording.outcomes
