"""Every span, attribute, event and metric name, once.

The ``gen_ai.*`` names are copied from the OpenTelemetry GenAI conventions instead of imported: the Python
constants are deprecated and may vanish, the strings are what backends know.
"""

from __future__ import annotations

from typing import Final

SCOPE: Final = "otel_loopguard"
SCHEMA_URL: Final = "https://opentelemetry.io/schemas/1.44.0"
"""The newest published schema. The GenAI conventions build on it, and have no release of their own yet."""

# --- spans -----------------------------------------------------------------------------------------------------
SPAN_EXECUTE_TOOL: Final = "execute_tool"
SPAN_LOOPGUARD: Final = "loopguard"
"""The first word of our span's name if the framework makes its own ``execute_tool`` span."""
UNKNOWN_TOOL: Final = "_unknown"
"""Replaces a tool name that is not registered: such a name is model output."""
OTHER_TOOL: Final = "_other"
"""Replaces tool names beyond the limit of metric labels."""
UNKNOWN_MODEL: Final = UNKNOWN_TOOL
OTHER_MODEL: Final = OTHER_TOOL
"""The same for names of models that are no plain names, or beyond the limit."""

OPERATION_NAME: Final = "gen_ai.operation.name"
OPERATION_EXECUTE_TOOL: Final = "execute_tool"
OPERATION_INVOKE_AGENT: Final = "invoke_agent"
TOOL_NAME: Final = "gen_ai.tool.name"
TOOL_TYPE: Final = "gen_ai.tool.type"
TOOL_CALL_ID: Final = "gen_ai.tool.call.id"
AGENT_NAME: Final = "gen_ai.agent.name"
CONVERSATION_ID: Final = "gen_ai.conversation.id"
ERROR_TYPE: Final = "error.type"
ERROR_REFUSED: Final = "tool_loop_detected"
"""The ``error.type`` of a call that was refused: without one, dashboards of GenAI spans count it as a quick success."""

TOOL_KIND: Final = "loopguard.tool.kind"
TOOL_REGISTERED: Final = "loopguard.tool.registered"
TOOL_NAME_HASH: Final = "loopguard.tool.name_hash"
TURN_ID: Final = "loopguard.turn.id"
TURN_SOURCE: Final = "loopguard.turn.source"
CALL_INDEX: Final = "loopguard.turn.call_index"
STEP: Final = "loopguard.turn.step"
"""Equal for the calls of one message of the model, where the framework tells."""
ARGUMENTS_HASH: Final = "loopguard.arguments_hash"
RESULT_HASH: Final = "loopguard.result_hash"
RESULT_SAMENESS: Final = "loopguard.result_sameness"
RESULT_PENDING: Final = "loopguard.result_pending"
RESULT_BRIEF: Final = "loopguard.result_brief"
"""True if the result has up to 80 bytes, else absent; so with the next two."""
RESULT_TRANSIENT: Final = "loopguard.result_transient"
NO_NEWS: Final = "loopguard.no_news"
EQUAL_IN_ROW: Final = "loopguard.tool.equal_in_row"
"""The number of untried calls of the tool, in a row, with this error or this answer; absent if it is 1."""
ERROR_HASH: Final = "loopguard.error_hash"
ERROR_TRANSIENT: Final = "loopguard.error_transient"
OUTCOME: Final = "loopguard.outcome"
"""``executed``, ``failed``, ``cancelled``, ``reused``, ``blocked``, ``aborted``; or ``nudged``: the call ran, and its
result carries a sentence of the guard, about this call or an earlier one."""
REFUSED_OUTCOMES: Final = frozenset({"reused", "blocked", "aborted"})
"""The outcomes of calls that did not run."""
OWN_TRACE: Final = "loopguard.own_trace"
"""True on the spans of an agent's run that no other span is around: the root of their trace is the run's span."""
UNDELIVERED: Final = "loopguard.undelivered"
"""True on the span of a nudge if the result has no place for the sentence. It goes with the next text for the model."""
MODEL_NAME: Final = "loopguard.model.name"
"""This and the next three are on the span of the first call that a model request wrote. They are not the
``gen_ai.usage.*`` of the conventions: a backend would count the request twice, because its own span has those."""
MODEL_INPUT_TOKENS: Final = "loopguard.model.input_tokens"
MODEL_CACHED_TOKENS: Final = "loopguard.model.cached_tokens"
MODEL_OUTPUT_TOKENS: Final = "loopguard.model.output_tokens"

# --- event -----------------------------------------------------------------------------------------------------
EVENT_TRIP: Final = "tool_loop_detected"
LOG_TRIP: Final = "loopguard.tool_loop_detected"
"""The name of the log record. Event names of log records are global, so it has a namespace."""

MODE: Final = "loopguard.mode"
VERDICT: Final = "loopguard.verdict"
ACTION: Final = "loopguard.action"
COUNT: Final = "loopguard.count"
LIMIT: Final = "loopguard.limit"
PERIOD: Final = "loopguard.period"
FIRST_SEEN_INDEX: Final = "loopguard.first_seen_index"
TURN_FIRST: Final = "loopguard.turn.first"
"""``action`` on the first trip of its turn with this action; ``mode`` on a further one that is the first with this mode
and action, and on the first that the user's request to stop makes with its action; ``no`` on all others."""

# --- metrics ---------------------------------------------------------------------------------------------------
METRIC_TRIPS: Final = "loopguard.trips"
METRIC_TURNS_TRIPPED: Final = "loopguard.turns.tripped"
METRIC_TURNS_LOOPING: Final = "loopguard.turns.looping"
METRIC_RECOVERIES: Final = "loopguard.recoveries"
METRIC_TOOL_TRIPS: Final = "loopguard.tool.trips"
METRIC_TOOL_CALLS: Final = "loopguard.tool_calls"
METRIC_TURN_TOOL_CALLS: Final = "loopguard.turn.tool_calls"
METRIC_CHECK_DURATION: Final = "loopguard.check.duration"
METRIC_TURNS_LIVE: Final = "loopguard.turns.live"
METRIC_INTERNAL_ERRORS: Final = "loopguard.internal_errors"
SITE: Final = "loopguard.site"
METRIC_MODEL_TOKENS: Final = "loopguard.model.tokens"
METRIC_MODEL_REQUESTS: Final = "loopguard.model.requests"
METRIC_MODEL_COST: Final = "loopguard.model.cost"
LOOP_OR_WORK: Final = "loopguard.step"
"""``loop`` if all calls that the request wrote were refused or were repeats without news, else ``work``."""
USAGE: Final = "loopguard.usage"
"""``known`` if the response had the numbers of its tokens, else ``unknown``."""
REQUEST_MODEL: Final = "gen_ai.request.model"
TOKEN_TYPE: Final = "gen_ai.token.type"  # noqa: S105 - no password
"""``input`` or ``output``, as on ``gen_ai.client.token.usage`` of the conventions."""
