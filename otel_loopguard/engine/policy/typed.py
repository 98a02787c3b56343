"""The settings of policies as types, for ``Policy``, ``ToolContract``, ``@tool`` and the tables of these.

Made by ``python -m tests.type_checking.settings``. Only type checkers and editors import this file.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal, TypeAlias, TypedDict

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from otel_loopguard.engine.detectors.row import Detector
    from otel_loopguard.engine.history.history import History
    from otel_loopguard.engine.policy.policy import ToolContract
    from otel_loopguard.engine.rule import Rule
    from otel_loopguard.engine.vocabulary import Action, ActionWord, Kind, Record, Trip
    from otel_loopguard.guard.ending import EndedTurn

Texts: TypeAlias = list[str] | tuple[str, ...] | set[str] | frozenset[str]
Route: TypeAlias = Mapping[str, str | Texts]


class RuleSettings(TypedDict, total=False):
    """The settings of a mode."""

    nudge: int | None
    """The run after which a sentence is added to the result."""
    block: int | None
    """The run that is refused."""
    action: Action | ActionWord | None
    """This mode's own ceiling; never above the policy's."""
    once: bool | None
    """This mode nudges once a turn, and not again at 2x and 4x."""
    min_interval: float | None
    """Of ``poll_no_progress``. The seconds between two runs from which time counts, for calls of every kind; shorter
    pauses are not added up."""
    min_interval_share: float | None
    """Of ``poll_no_progress``. The same interval as a share of the time for which the result has been the same."""
    block_if_slow: int | None
    """Of ``poll_no_progress``. The run that reaches the limit if a call that is refused at the third waits each
    time."""
    patience: float | None
    """Of ``poll_no_progress``. Seconds with equal results after which a poll is refused, however long it waits; 0 =
    never."""
    max_period: int | None
    """Of ``cycle``. The longest period that is searched for."""
    block_after_reads: int | None
    """Of ``generic_repeat``. The run that is refused if news from reading came in between."""
    block_if_transient: int | None
    """Of ``generic_repeat``. The run that is refused after a transient error."""
    block_if_acted: int | None
    """Of ``generic_repeat``. The run of a write that is refused if it succeeds with the same result each time."""
    block_if_acknowledged: int | None
    """Of ``generic_repeat``. The run that is refused if the tool moves a cursor or its kind is unknown, and the
    result is an acknowledgement of up to 80 bytes. Also of a lap with one acknowledgement for all its calls, of one
    call whose results go round, and of a call whose result changed by itself before."""
    fresh_after_news: int | None
    """Of ``generic_repeat``. The number of news since the last run from which a repeat is never refused."""
    nudge_after_changes: int | None
    """Of ``generic_repeat``. The run that is nudged (again at 2x, 4x), whatever came in between; twice that for
    short results."""
    abort: int | None
    """Of ``generic_repeat``. The call that ends the agent's run, if the policy's action is abort."""
    similarity: float | None
    """Of ``similar_query``. The similarity from which two queries count as similar (0 to 1)."""
    nudge_if_empty: int | None
    """Of ``same_answer``. The answer at which the model is told, if all of them say that nothing was found."""
    block_if_empty: int | None
    """Of ``same_answer``. The call that is refused, if all answers say that nothing was found; twice that each time
    that the model insists."""
    nudge_any_result: int | None
    """Of ``volatile_repeat``. Calls in a row, with any results, after which the model is nudged; 3 times that for
    calls that wait, 4 times for results that are new."""
    block_if_destructive: int | None
    """Of ``repeated_effect``. The run that is refused for a tool that its server marks as destructive."""
    turns: int | None
    """Of ``no_novelty``. With `scope = "conversation"`, turns in a row that made calls and brought the conversation
    nothing new, at which the next one is reported, without a word to the model; again at 2x, 4x."""
    nudge_at_share: float | None
    """Of ``retry_limit`` and ``global_circuit_breaker``. The share of the cap (retry_limit), or of `max_calls`
    (global_circuit_breaker, where calls are counted), at which the model is nudged."""
    no_news_nudge: int | None
    """Of ``global_circuit_breaker``. Calls without news in the turn, after which the model is nudged."""
    no_news_block: int | None
    """Of ``global_circuit_breaker``. Calls without news in the turn, after which repeats are refused."""
    hook_nudge: int | None
    """Of ``text_repeat``. How often the same user message comes, without a call, until the model is told."""
    hook_block: int | None
    """Of ``text_repeat``. How often it comes until the run is ended."""
    characters: int | None
    """Of ``text_run``. The characters that all equal blocks must have together."""
    cut_characters: int | None
    """Of ``text_run``. The same where a stream is cut: at `block` blocks, with `action = "abort"`."""


class ModeSettings(TypedDict, total=False):
    """The settings by mode."""

    unknown_tool_repeat: Rule | RuleSettings
    nested_repeat: Rule | RuleSettings
    poll_no_progress: Rule | RuleSettings
    ping_pong: Rule | RuleSettings
    cycle: Rule | RuleSettings
    generic_repeat: Rule | RuleSettings
    similar_query: Rule | RuleSettings
    error_repeat: Rule | RuleSettings
    same_answer: Rule | RuleSettings
    volatile_repeat: Rule | RuleSettings
    repeated_effect: Rule | RuleSettings
    no_novelty: Rule | RuleSettings
    retry_limit: Rule | RuleSettings
    global_circuit_breaker: Rule | RuleSettings
    text_repeat: Rule | RuleSettings
    text_run: Rule | RuleSettings
    context_loop: Rule | RuleSettings


class ToolSettings(TypedDict, total=False):
    """The settings of a tool."""

    kind: (
        Kind
        | Literal["read", "write", "shell", "poll", "wait", "agent", "think", "step", "final", "handoff", "unknown"]
        | None
    )
    query: str | None
    volatile: Texts
    target: str | None
    cap: int | None
    once: bool | None
    reuse: bool | None
    route: Route | None
    interval: float | None
    patience: float | None
    action: Action | ActionWord | None
    modes: ModeSettings | Mapping[str, Rule | RuleSettings]


class PolicySettings(TypedDict, total=False):
    """The settings of a policy."""

    action: Action | ActionWord
    conclude_after: int
    abort_after: int
    max_calls: int
    modes: ModeSettings | Mapping[str, Rule | RuleSettings]
    tools: Mapping[str, ToolContract | ToolSettings]
    words: Mapping[str, Texts]
    dangerous: Texts | None
    scope: Literal["turn", "conversation"]
    conversation_idle: float
    counting: Literal["results", "calls"]
    order: Texts
    window: float
    window_calls: int
    records: Literal["ran", "all"]
    arguments: Literal["identical", "normalised"]
    refusal: Literal["json", "mode", "text"]
    sentences: Mapping[str, str | Mapping[str, str]]
    mark: str | None
    cost_per_million_tokens: Mapping[str, Mapping[str, float]]
    currency: str | None
    budget: Mapping[str, Mapping[str, float] | Action | ActionWord]
    detectors: Sequence[Detector | Callable[[History, Record, Rule], Trip | None]]
    on_trip: Callable[[Trip], Action | str | Awaitable[Action | str | None] | None] | None
    on_end: Callable[[EndedTurn], object] | None
    hash_key: bytes | None
