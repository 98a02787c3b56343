"""Every span, attribute, event and metric name, once, and what it means.

``python -m benchmarks.telemetry`` makes the tables of docs/telemetry.md from these docstrings. The last paragraph of an
attribute with a text, ``Holds: ...``, tells what the text can be.

The ``gen_ai.*`` names are copied from the OpenTelemetry GenAI conventions, version 0.1.0, instead of imported: the
Python constants are deprecated and may vanish, the strings are what backends know.
"""

from __future__ import annotations

from typing import Final

SCOPE: Final = "otel_loopguard"
SCHEMA_URL: Final = "https://opentelemetry.io/schemas/1.45.0"
"""The schema on which version 0.1.0 of the GenAI conventions builds."""

# --- spans -----------------------------------------------------------------------------------------------------
SPAN_EXECUTE_TOOL: Final = "execute_tool"
"""A tool call, with the tool's name; the framework's own span instead if that is open around the call."""
SPAN_LOOPGUARD: Final = "loopguard"
"""A tool call of which the framework makes its own ``execute_tool`` span, or of which only an ended span is known."""
SPAN_INVOKE_AGENT: Final = "invoke_agent"
"""An agent's run that no other span is around, with the agent's name: the calls of a turn are one trace. Also a turn of
``loopguard.turn()``, and one that is known by its model requests, if the agent has no span of others."""
UNKNOWN_TOOL: Final = "_unknown"
"""Replaces a tool name that is not registered: such a name is model output."""
OTHER_TOOL: Final = "_other"
"""Replaces tool names beyond the limit of metric labels."""
UNKNOWN_PROVIDER: Final = UNKNOWN_TOOL
UNKNOWN_MODEL: Final = UNKNOWN_TOOL
OTHER_MODEL: Final = OTHER_TOOL
"""The same for names of models that are no plain names, or beyond the limit."""

OPERATION_NAME: Final = "gen_ai.operation.name"
"""Absent on a span next to the framework's own ``execute_tool`` span.

Holds: ``execute_tool`` or ``invoke_agent``; on metrics of model requests ``chat`` or ``generate_content``.
"""
OPERATION_EXECUTE_TOOL: Final = SPAN_EXECUTE_TOOL
OPERATION_INVOKE_AGENT: Final = SPAN_INVOKE_AGENT
OPERATION_CHAT: Final = "chat"
OPERATION_GENERATE_CONTENT: Final = "generate_content"
TOOL_NAME: Final = "gen_ai.tool.name"
"""The tool; of a dispatcher, the tool that it calls.

Holds: a name of the program, else ``_unknown``.
"""
TOOL_TYPE: Final = "gen_ai.tool.type"
"""The tool's type in the conventions: ``extension`` for the tools of MCP servers, where that is known.

Holds: ``function`` or ``extension``.
"""
TYPE_FUNCTION: Final = "function"
TYPE_EXTENSION: Final = "extension"
TOOL_CALL_ID: Final = "gen_ai.tool.call.id"
"""The call, where it is known.

Holds: an id of the provider or the framework.
"""
AGENT_NAME: Final = "gen_ai.agent.name"
"""The agent, where it is known.

Holds: a name of the program.
"""
CONVERSATION_ID: Final = "gen_ai.conversation.id"
"""The conversation, where it is known.

Holds: an id of the program, a keyed hash of it, or nothing.
"""
ERROR_TYPE: Final = "error.type"
"""The error of the tool, or the exception that ended the run.

Holds: a class, ``tool_error`` for a result that is an error, ``tool_loop_detected`` for a refusal.
"""
ERROR_REFUSED: Final = "tool_loop_detected"
"""The ``error.type`` of a call that was refused: without one, dashboards of GenAI spans count it as a quick success."""

TOOL_KIND: Final = "loopguard.tool.kind"
"""The tool's effect: declared, hinted or inferred from its name.

Holds: ``read``, ``write``, ``shell``, ``poll``, ``wait``, ``agent``, ``think``, ``step``, ``final``, ``handoff`` or
``unknown``.
"""
TOOL_REGISTERED: Final = "loopguard.tool.registered"
"""The tool exists; absent where the registered tools are not known."""
TOOL_NAME_HASH: Final = "loopguard.tool.name_hash"
"""Tells tools that are not registered apart.

Holds: a keyed hash.
"""
TURN_ID: Final = "loopguard.turn.id"
"""One message of the user, and all that the agent does until it answers.

Holds: random digits with a number, the id of a run or a trace, or the ``turn_id`` of ``loopguard.turn()``.
"""
TURN_SOURCE: Final = "loopguard.turn.source"
"""The way in which the turn was found.

Holds: ``run``, ``explicit``, ``messages``, ``agent_span``, ``trace`` or another word.
"""
# ``gen_ai.agent.invocation.status`` is a proposal, with other words: ``RunSpan.end`` would write it beside this one.

TURN_END: Final = "loopguard.turn.end"
"""How the turn ended: ``concluded`` if it answered after the guard had withdrawn its tools, ``aborted`` by
``RunStopped``, ``failed`` by another exception, ``cancelled`` if it was broken off or left without an answer.

Holds: ``answered``, ``concluded``, ``aborted``, ``cancelled`` or ``failed``.
"""
TURN_REQUESTS: Final = "loopguard.turn.requests"
"""The requests to models that the turn and its nested turns sent; as the next six, once the turn has ended."""
TURN_INPUT_TOKENS: Final = "loopguard.turn.input_tokens"
"""The tokens of their input; absent, as the next three, if no reply told any."""
TURN_CACHED_TOKENS: Final = "loopguard.turn.cached_tokens"
"""The part of it from the provider's cache."""
TURN_OUTPUT_TOKENS: Final = "loopguard.turn.output_tokens"
"""The tokens of the replies."""
TURN_COST: Final = "loopguard.turn.cost"
"""Their cost, in the currency of the policy's prices; absent without a price."""
TURN_UNMETERED: Final = "loopguard.turn.unmetered"
"""The requests whose tokens are not known; absent if all are."""
TURN_CHILDREN: Final = "loopguard.turn.children"
"""The agents that were started inside of a call; absent if none was."""
TURN_DEPTH: Final = "loopguard.turn.depth"
"""The levels of such agents; absent if there was none."""
TURN_COMPACTIONS: Final = "loopguard.turn.compactions"
"""The requests in which something shorter takes the place of the history's beginning; absent if there was none."""
TURN_LOOP_CALLS: Final = "loopguard.turn.loop_calls"
"""The tool calls that were refused, or would have been, or that ran in vain; absent if there was none."""
TURN_LOOP_TOKENS: Final = "loopguard.turn.loop_tokens"
"""The tokens of the requests whose reply wrote no other calls than these; absent if none are known."""
TURN_SECONDS: Final = "loopguard.turn.seconds"
"""The seconds from the turn's first step to its last."""
TURN_MODEL_SECONDS: Final = "loopguard.turn.model_seconds"
"""The part of them in which a model was asked, and no call ran; absent if it is not known."""
TURN_TOOL_SECONDS: Final = "loopguard.turn.tool_seconds"
"""The part of them in which a call ran; absent if none did."""
CALL_INDEX: Final = "loopguard.turn.call_index"
"""The call's position in its turn, from 0, refused ones included."""
STEP: Final = "loopguard.turn.step"
"""Equal for the calls of one message of the model, where the framework tells."""
THOUGHT: Final = "loopguard.thought"
"""The seconds in which the model thought before the call, since a call of the turn last began or ended; absent if none
are known."""
ARGUMENTS_HASH: Final = "loopguard.arguments_hash"
"""Equal for equal arguments.

Holds: a keyed hash.
"""
RESULT_HASH: Final = "loopguard.result_hash"
"""Equal for equal results.

Holds: a keyed hash.
"""
RESULT_SAMENESS: Final = "loopguard.result_sameness"
"""The result, beside that of the last equal call.

Holds: ``first``, ``same``, ``progress``, ``alike`` or ``different``.
"""
RESULT_PENDING: Final = "loopguard.result_pending"
"""The result of a repeated call says that work is not done yet."""
RESULT_BRIEF: Final = "loopguard.result_brief"
"""The result has up to 80 bytes."""
RESULT_TRANSIENT: Final = "loopguard.result_transient"
"""The result of a repeated call tells of an outage that may pass."""
RESULT_OVER: Final = "loopguard.result_over"
"""The result of a repeated call says that nothing is left to wait for."""
RETRY_AFTER: Final = "loopguard.retry_after"
"""The seconds after which the result, or the error, asks to be tried again."""
RESULT_ACTED: Final = "loopguard.result_acted"
"""The result of a repeated call is that of the last one with another id: it has acted again."""
RESULT_EMPTY: Final = "loopguard.result_empty"
"""The result says nothing, or says that nothing was found.

Holds: ``void`` or ``nothing``.
"""
NO_NEWS: Final = "loopguard.no_news"
"""The call brought no outcome that it had not brought before."""
EQUAL_IN_ROW: Final = "loopguard.tool.equal_in_row"
"""Calls of the tool with new arguments, in a row, with this error or answer; absent if it is 1."""
ERROR_HASH: Final = "loopguard.error_hash"
"""Equal for equal errors; instead of a result's.

Holds: a keyed hash.
"""
ERROR_TRANSIENT: Final = "loopguard.error_transient"
"""The error may pass, as a timeout."""
TURNS_WITHOUT_NEWS: Final = "loopguard.conversation.turns_without_news"
"""Turns in a row, before this one, that made calls and brought nothing new; with ``scope = "conversation"``."""
OUTCOME: Final = "loopguard.outcome"
"""The end of the call. ``nudged``: it worked, and its result carries a sentence of the guard, about it or an earlier
call. A failed one is ``failed`` with a sentence, too.

Holds: ``executed``, ``nudged``, ``failed``, ``cancelled``, ``reused``, ``blocked`` or ``aborted``.
"""
REFUSED_OUTCOMES: Final = frozenset({"reused", "blocked", "aborted"})
"""The outcomes of calls that did not run."""
HAS_RUN: Final = "loopguard.has_run"
"""The call was read in a model request, with its result: it cannot be refused."""
OWN_TRACE: Final = "loopguard.own_trace"
"""The trace is that of an agent's run that no other span is around."""
UNDELIVERED: Final = "loopguard.undelivered"
"""The result has no place for the guard's sentence, which goes with the next request or text for the model."""
MODEL_NAME: Final = "loopguard.model.name"
"""The model of the request that wrote the call; on the request's first call only, as the next three.

Holds: a plain name, else ``_unknown``.
"""
# Not the ``gen_ai.usage.*`` of the conventions: the request's own span has those, and a backend would count it twice.

MODEL_INPUT_TOKENS: Final = "loopguard.model.input_tokens"
"""The tokens of the request's input."""
MODEL_CACHED_TOKENS: Final = "loopguard.model.cached_tokens"
"""The part of it from the provider's cache."""
MODEL_OUTPUT_TOKENS: Final = "loopguard.model.output_tokens"
"""The tokens of the response."""

# --- event -----------------------------------------------------------------------------------------------------
EVENT_TRIP: Final = "tool_loop_detected"
"""The event of a trip on the span of its call."""
LOG_TRIP: Final = "loopguard.tool_loop_detected"
"""The name of the log record. Event names of log records are global, so it has a namespace."""

MODE: Final = "loopguard.mode"
"""The shape of the loop.

Holds: a mode of the page "How it decides", ``user_stop``, ``run_budget``, or the name of a custom detector.
"""
VERDICT: Final = "loopguard.verdict"
"""The action that the rules want.

Holds: ``nudge``, ``reuse``, ``block``, ``conclude`` or ``abort``.
"""
ACTION: Final = "loopguard.action"
"""The action that was taken, under the policy's ceiling; of a turn that has ended the strongest one.

Holds: ``observe``, ``nudge``, ``reuse``, ``block``, ``conclude`` or ``abort``; ``none`` for a turn without a loop.
"""
NO_ACTION: Final = "none"
COUNT: Final = "loopguard.count"
"""The count of the mode, with this call."""
LIMIT: Final = "loopguard.limit"
"""The count at which the verdict is given."""
LIMIT_REASON: Final = "loopguard.limit_reason"
"""The reason for the limit, if a rule of repeats gives it.

Holds: ``repeat`` (no other applies), ``transient``, ``acted``, ``acknowledged``, ``empty``, ``moves`` or
``patient``.
"""
BUDGET_ACCOUNT: Final = "loopguard.budget.account"
"""The budget that is spent, on trips of ``run_budget``: count of limit; of a cost both are in millionths.

Holds: ``turn`` or ``tree`` with an account of the policy, such as ``tree.tokens``.
"""
PERIOD: Final = "loopguard.period"
"""The number of calls in a lap; 1 for a single call."""
FIRST_SEEN_INDEX: Final = "loopguard.first_seen_index"
"""The position of the loop's first call in its turn."""
TRIP_SCOPE: Final = "loopguard.trip.scope"
"""Turns of the conversation repeat each other; absent if calls of one turn do.

Holds: ``conversation``.
"""
TURN_FIRST: Final = "loopguard.turn.first"
"""To count turns from events: the trip is its turn's first with its action, or with its mode and action.

Holds: ``action``, ``mode`` (also the first of a user's stop), or ``no``.
"""

# --- metrics ---------------------------------------------------------------------------------------------------
METRIC_TRIPS: Final = "loopguard.trips"
METRIC_TURNS_TRIPPED: Final = "loopguard.turns.tripped"
METRIC_TURNS_LOOPING: Final = "loopguard.turns.looping"
METRIC_EXECUTE_TOOL_DURATION: Final = "gen_ai.execute_tool.duration"
METRIC_INVOKE_AGENT_DURATION: Final = "gen_ai.invoke_agent.duration"
METRIC_INVOKE_AGENT_TOOL_CALLS: Final = "gen_ai.invoke_agent.tool_calls"
METRIC_INVOKE_AGENT_INFERENCE_CALLS: Final = "gen_ai.invoke_agent.inference_calls"
METRIC_INPUT_TOKENS: Final = "gen_ai.client.inference.usage.input_tokens"
METRIC_OUTPUT_TOKENS: Final = "gen_ai.client.inference.usage.output_tokens"
METRIC_CACHE_READ_TOKENS: Final = "gen_ai.client.inference.usage.cache_read.input_tokens"
METRIC_LOOPS_OPEN: Final = "loopguard.loops.open"
METRIC_LOOPS_OPEN_AGE: Final = "loopguard.loops.open.age"
METRIC_LOOPS_OPEN_STEPS: Final = "loopguard.loops.open.steps"
METRIC_RECOVERIES: Final = "loopguard.recoveries"
METRIC_TOOL_TRIPS: Final = "loopguard.tool.trips"
METRIC_TOOL_CALLS: Final = "loopguard.tool_calls"
METRIC_TURN_TOOL_CALLS: Final = "loopguard.turn.tool_calls"
METRIC_TURN_TOKENS: Final = "loopguard.turn.tokens"
METRIC_TURN_COST: Final = "loopguard.turn.cost"
METRIC_TURN_CHILDREN: Final = "loopguard.turn.children"
METRIC_CHECK_DURATION: Final = "loopguard.check.duration"
METRIC_TURNS_ENDED: Final = "loopguard.turns.ended"
METRIC_STARTED: Final = "loopguard.started"
METRIC_TURNS_LIVE: Final = "loopguard.turns.live"
METRIC_INTERNAL_ERRORS: Final = "loopguard.internal_errors"
METRIC_STORE_FAILURES: Final = "loopguard.store.failures"
SITE: Final = "loopguard.site"
"""The place in the code where a fault was caught.

Holds: a word of this package.
"""
METRIC_WATCH_SPANS: Final = "loopguard.watch.spans"
METRIC_WATCH_TOOL_SPANS: Final = "loopguard.watch.tool_spans"
METRIC_WATCH_REFUSED: Final = "loopguard.watch.refused"
METRIC_WATCH_QUEUE: Final = "loopguard.watch.queue"
METRIC_WATCH_WAITING: Final = "loopguard.watch.waiting"
WATCH_FATE: Final = "loopguard.watch.fate"
"""The fate of a tool span that ``otel-loopguard watch`` received. ``late`` ones are among the ``judged`` ones.

Holds: ``judged``, ``late``, ``duplicate``, ``inner`` (of a call with another span), ``guarded`` (of a guarded program)
or ``dropped`` (after a fault).
"""
WATCH_REASON: Final = "loopguard.watch.reason"
"""Why a message was not taken.

Holds: ``full`` (no room for it), ``slow`` (it came too slowly), ``large`` (there can never be room), ``malformed`` or
``closed``.
"""
METRIC_MODEL_TOKENS: Final = "loopguard.model.tokens"
METRIC_MODEL_REQUESTS: Final = "loopguard.model.requests"
METRIC_MODEL_COST: Final = "loopguard.model.cost"
LOOP_OR_WORK: Final = "loopguard.step"
"""``loop`` if all calls that the request wrote were refused, or were repeats without news.

Holds: ``loop`` or ``work``.
"""
USAGE: Final = "loopguard.usage"
"""``known`` if the response had the numbers of its tokens.

Holds: ``known`` or ``unknown``.
"""
REQUEST_MODEL: Final = "gen_ai.request.model"
"""The model of the request.

Holds: a plain name, else ``_unknown``; ``_other`` beyond the first 50.
"""
CURRENCY: Final = "loopguard.currency"
"""The currency of the prices, if the policy names it.

Holds: a code of ISO 4217, such as ``USD``.
"""
TOKEN_TYPE: Final = "loopguard.token.type"  # noqa: S105 - no password
"""``cached`` are those of the input that came from the provider's cache, ``input`` the others: all three add up.

Holds: ``input``, ``cached`` or ``output``.
"""
TOKEN_MODALITY: Final = "gen_ai.token.modality"  # noqa: S105 - no password
"""The modality of the tokens, by which they are not split here.

Holds: ``unknown``.
"""
UNKNOWN_MODALITY: Final = "unknown"
PROVIDER_NAME: Final = "gen_ai.provider.name"
"""The provider whose API the request speaks; another one may answer it.

Holds: ``openai``, ``anthropic`` or ``gcp.gen_ai``, else ``_unknown``.
"""


def __dir__() -> list[str]:
    return sorted(name for name in globals() if name.isupper())
