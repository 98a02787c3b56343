"""The tool runner of OpenAI's client, ``ResponsesToolRunner``: its functions, and the run as the turn.

The runner ends at the first exception, of a function or for a name that does not exist, with an error of its own that
has no cause. So an abort is carried past it. Its client is patched, too: see ``anthropic_runner.py``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from otel_loopguard.engine.vocabulary import Outcome, ToolCall
from otel_loopguard.instrumentation.content import appended, arguments_of
from otel_loopguard.instrumentation.targets import (
    CallStyle,
    Framework,
    Reading,
    RunTarget,
    ToolAdapter,
    ToolTarget,
)
from otel_loopguard.turns.runs import RunInfo
from otel_loopguard.turns.scope import current_scope

if TYPE_CHECKING:
    from collections.abc import Mapping

    from otel_loopguard.instrumentation.targets import Target

_STEP: Final = "_loopguard_step"
"""The attribute of a run that keeps the items of its last reply, and the turn's tick when the model wrote it."""

# --- a call ------------------------------------------------------------------------------------------------------


def _read(runner: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Reading:
    run, item = args
    return Reading(ToolCall(item.name, arguments_of(item.arguments), item.call_id, (item.name,), written=_written(run)))


def _written(run: Any) -> int | None:
    """Return the turn's tick when the model wrote the call: at the first call of its reply."""
    scope = current_scope()
    if scope is None:
        return None
    known = getattr(run, _STEP, None)
    if known is None or known[0] is not run.items:  # a list of each reply
        known = (run.items, scope.turn.tick)
        setattr(run, _STEP, known)
    tick: int = known[1]
    return tick


def _answer(reading: Reading, content: Any, error: bool) -> Any:
    """Make the output of a call. The API has no flag for errors."""
    return {"type": "function_call_output", "call_id": reading.call.call_id, "output": content}


def _outcome(reading: Reading, result: Any) -> Outcome:
    return Outcome(result=result["output"])


def _annotate(reading: Reading, result: Any, text: str) -> Any:
    """Append to a text, or to a list of parts. Models read the parts as one; a text that is JSON becomes a part."""
    output = result["output"]
    longer = appended(output, text) if isinstance(output, str) else None
    parts = [{"type": "input_text", "text": output}] if isinstance(output, str) else output
    return {**result, "output": longer or [*parts, {"type": "input_text", "text": text}]}


CALL = ToolAdapter(read=_read, answer=_answer, outcome=_outcome, annotate=_annotate)

# --- a name that does not exist, which ends the run --------------------------------------------------------------


def _read_unknown(run: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Reading | None:
    item = args[0]
    if item.type != "function_call" or item.name in run.function_names:
        return None
    return Reading(ToolCall(item.name, arguments_of(item.arguments), item.call_id, run.function_names))


UNKNOWN = ToolAdapter(read=_read_unknown, answer=_answer)

# --- a run -------------------------------------------------------------------------------------------------------


def _read_run(runner: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> RunInfo:
    return RunInfo(can_continue=False)


_MODULE: Final = "openai.lib.responses_tool_runner"

_TARGETS: tuple[Target, ...] = (
    ToolTarget(_MODULE, "ResponsesToolRunner._execute_function", CALL),
    ToolTarget(_MODULE, "AsyncResponsesToolRunner._execute_function", CALL, CallStyle.ASYNC),
    ToolTarget(_MODULE, "_Run.validate", UNKNOWN, fatal=True),
    RunTarget(_MODULE, "ResponsesToolRunner.iterate", _read_run, CallStyle.GENERATOR),
    RunTarget(_MODULE, "AsyncResponsesToolRunner.iterate", _read_run, CallStyle.ASYNC_GENERATOR),
)

FRAMEWORK = Framework(
    "openai_runner",
    _TARGETS,
    title="OpenAI Responses tool runner",
    notes="a name that does not exist, and a function that fails, end the run as before; "
    "browser and computer tools are not covered",
    modules=(_MODULE,),
    versions={
        "oldest": ("openai==3.31.0",),  # the first with the runner
        "newest": ("openai",),
    },
    tested={"openai": "3.57.0"},
)
