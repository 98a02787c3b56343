"""Google's Agent Development Kit: the function calls of its agents, and an invocation of a runner as the turn.

A sub-agent that is not told what others wrote has a turn of its own, an agent that runs as a tool a child turn. A call
is judged outside of the callbacks and plugins, and of the framework's own span.

A hand-over is a call of the tool ``transfer_to_agent``, which returns nothing. What an agent wrote before it is a part
of its result: a writer and a critic bring news.
"""

from __future__ import annotations

from contextlib import suppress
from contextvars import copy_context
from dataclasses import replace
from importlib import import_module
from itertools import takewhile
from typing import TYPE_CHECKING, Any, Final

from opentelemetry import trace

from otel_loopguard.engine.vocabulary import Outcome, ToolCall
from otel_loopguard.instrumentation.aborts import LoopAbort
from otel_loopguard.instrumentation.content import appended
from otel_loopguard.instrumentation.model_messages import calls_of_one_message, message_tick
from otel_loopguard.instrumentation.runtime import active_runtime
from otel_loopguard.instrumentation.targets import (
    MARK,
    CallStyle,
    CallTarget,
    Framework,
    Reading,
    RunTarget,
    ToolAdapter,
    ToolTarget,
)
from otel_loopguard.telemetry.call_span import NativeSpan
from otel_loopguard.turns.runs import RunInfo
from otel_loopguard.turns.scope import current_scope

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from otel_loopguard.instrumentation.targets import Original, Target

_NATIVE: Final = "gcp.vertex.agent"
_ANSWERS: Final = frozenset({"finish_task", "set_model_response"})
_EXIT: Final = "exit_loop"
"""The tool that ends a ``LoopAgent``. Its call says nothing but that, and a refused one would keep the loop running."""
_HAND_OVER: Final = "transfer_to_agent"
_KEY: Final = "loopguard"
"""The key of a sentence in a result that is an object."""

# --- a call ------------------------------------------------------------------------------------------------------


def _read(_: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Reading | None:
    context, prepared = args[0], args[1]
    return _reading(context, prepared.function_call, prepared.tools_dict, has_span=True)


def _read_older(_: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Reading | None:
    """Read a call of an older version, where a name that does not exist has no span, and its exception ends the run."""
    context, call, tools = args[0], args[1], args[2]
    return _reading(context, call, tools, has_span=call.name in tools)


def _reading(context: Any, call: Any, tools: Mapping[str, Any], *, has_span: bool) -> Reading | None:
    if call.name in _ANSWERS or call.name == _EXIT:
        return None
    session = context.session
    return Reading(
        ToolCall(call.name or "", call.args, call.id, tools, written=message_tick()),
        conversation_id=_conversation(session.app_name, session.user_id, session.id),
        agent_name=getattr(context.agent, "name", None),
        native_span=NativeSpan.INNER if has_span and _is_traced() else NativeSpan.NONE,
        note=(context, call),
    )


def _conversation(app: Any, user: Any, session: Any) -> str | None:
    """Return the id of a conversation: that of a session is only unique for one user of one app, which stay hidden."""
    runtime = active_runtime.instrumented
    return None if session is None or runtime is None else f"{session}/{runtime.hash(f'{app}/{user}')}"


def _is_traced() -> bool:
    """Return True if the framework makes spans: then the current one is its span of the request to the model."""
    scope = getattr(trace.get_current_span(), "instrumentation_scope", None)
    return getattr(scope, "name", None) == _NATIVE


def _answer(reading: Reading, content: Any, error: bool) -> Any:
    """Make the event of a function's response. Refusals have the key that the framework uses for errors."""
    context, call = reading.note
    types = import_module("google.genai.types")
    response = {"error": content} if error else content if isinstance(content, dict) else {"result": content}
    part = types.Part(function_response=types.FunctionResponse(id=call.id, name=call.name, response=response))
    return import_module("google.adk.events.event").Event(
        invocation_id=context.invocation_id,
        author=getattr(context.agent, "name", None),
        branch=context.branch,
        content=types.Content(role="user", parts=[part]),
    )


def _response(event: Any) -> Any:
    return event.content.parts[0].function_response


def _outcome(reading: Reading, event: Any) -> Outcome:
    """Read a response. A call without one, or one that waits for a person, has no outcome yet."""
    if event is None or _waits(event.actions, reading.call.call_id):
        return Outcome(cancelled=True)
    response = _response(event).response
    failed = bool(response.get("error") or response.get("isError"))
    result = response["result"] if set(response) == {"result"} else response
    if reading.call.tool == _HAND_OVER:
        result = [result, _written(reading.note[0])]
    return Outcome(result=result, is_error=failed or None)


def _written(context: Any) -> list[str]:
    """Return the texts that the agent has written since another one, or the user, wrote something."""
    latest = takewhile(lambda event: event.author == context.agent.name, reversed(context.session.events))
    parts = [part for event in latest for part in getattr(event.content, "parts", None) or ()]
    return [part.text for part in parts if part.text and not part.thought]


def _waits(actions: Any, call_id: str | None) -> bool:
    asked = ("requested_tool_confirmations", "requested_auth_configs")
    return any(call_id in (getattr(actions, name, None) or ()) for name in asked)


def _annotate(reading: Reading, event: Any, text: str) -> Any:
    """Append to a text; an object, which is for models only, gets one more key. A result may be the user's answer."""
    response = None if event is None or event.actions.skip_summarization else _response(event)
    if response is None or _KEY in response.response:
        return None
    longer = appended(response.response.get("result"), text) if set(response.response) == {"result"} else None
    response.response = {**response.response, _KEY: text} if longer is None else {"result": longer}
    return event


def _mark(reading: Reading, event: Any, mark: str) -> Any:
    event.custom_metadata = {**(event.custom_metadata or {}), MARK: mark}
    return event


CALL = ToolAdapter(read=_read, answer=_answer, outcome=_outcome, annotate=_annotate, mark=_mark)
OLDER_CALL = replace(CALL, read=_read_older)


# --- a run -------------------------------------------------------------------------------------------------------


def _read_run(instance: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> RunInfo:
    parts = getattr(kwargs.get("new_message"), "parts", None) or ()
    answers = any(getattr(part, "function_response", None) for part in parts)
    resumes = answers or kwargs.get("invocation_id") is not None
    conversation_id = _conversation(instance.app_name, kwargs.get("user_id"), kwargs.get("session_id"))
    return RunInfo(conversation_id, resumes=resumes, can_continue=False)


def _read_node(_: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> RunInfo:
    return RunInfo(agent_name=getattr(args[0] if args else None, "name", None), can_continue=False)


def _read_agent(instance: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> RunInfo | None:
    """Read the run of an agent that is not told what others wrote. Any other one is a part of the run around it."""
    if getattr(instance, "include_contents", None) != "none":
        return None
    context, scope = args[0] if args else kwargs["parent_context"], current_scope()
    is_first = context.agent is instance and "/" not in (getattr(context, "node_path", None) or "")
    if is_first or (scope is not None and scope.agent_name == instance.name):  # it has the turn of its runner, or node
        return None
    return RunInfo(agent_name=instance.name, can_continue=False, apart=True)


def _unfinished(event: Any) -> bool:
    """Return True for an event with a call that waits for a person or another program."""
    return bool(getattr(event, "long_running_tool_ids", None))


def _create_thread(original: Original) -> Callable[..., Any]:
    """Give the thread of ``Runner.run`` the turn of its caller. Its run raises the error of an abort to the caller."""

    def create_thread(target: Any, *args: Any, **kwargs: Any) -> Any:
        def in_turn(*args: Any, **kwargs: Any) -> None:
            with suppress(LoopAbort):
                target(*args, **kwargs)

        return original.function(copy_context().run, in_turn, *args, **kwargs)

    return create_thread


_TOOLS: Final = "google.adk.flows.llm_flows"
_TARGETS: tuple[Target, ...] = (
    *(
        ToolTarget(f"{_TOOLS}.{module}", "_execute_single_prepared_call_async", CALL, CallStyle.ASYNC)
        for module in (
            "tools._caller",
            "tools._batch_executor",
            "_tool_caller",  # before 2.11
            "_batch_tool_executor",
        )
    ),
    ToolTarget(  # before 2.8
        f"{_TOOLS}.functions", "_execute_single_function_call_async", OLDER_CALL, CallStyle.ASYNC, optional=True
    ),
    *(
        CallTarget(f"{_TOOLS}.{module}", "handle_function_call_list_async", calls_of_one_message)
        for module in ("functions", "tools._functions")
    ),
    RunTarget("google.adk.runners", "Runner.run_async", _read_run, CallStyle.ASYNC_GENERATOR, _unfinished),
    RunTarget("google.adk.runners", "Runner.run", _read_run, CallStyle.GENERATOR, _unfinished),
    CallTarget("google.adk.runners", "create_thread", _create_thread),
    CallTarget("google.adk.platform.thread", "create_thread", _create_thread),
    RunTarget("google.adk.agents.context", "Context.run_node", _read_node, CallStyle.ASYNC, optional=True),
    RunTarget("google.adk.agents.base_agent", "BaseAgent.run_async", _read_agent, CallStyle.ASYNC_GENERATOR),
)

FRAMEWORK = Framework(
    "google_adk",
    _TARGETS,
    native_scopes=(_NATIVE,),
    title="Google ADK",
    notes=(
        "`Runner.run_async` and `Runner.run`; not `run_live`, whose one run is a whole conversation; a sub-agent with "
        '`include_contents="none"` has a turn of its own; the id of a conversation is that of the session '
        "with a hash of app and user"
    ),
    answer_tools=_ANSWERS,
    modules=("google.adk",),
    versions={"oldest": ("google-adk==1.19.0",), "newest": ("google-adk",)},
    tested={"google-adk": "2.13.0"},
)
