"""The settings of a user: the frozen Policy, its Rules (one a mode) and ToolContracts (one a glob of tool names).

A rule's field that is None has its default, so that a policy holds only settings that differ. A policy in code is
checked like a policy file: mistakes are raised as one ``PolicyError`` that names all of them.

>>> from otel_loopguard.engine.policy.policy import Policy
>>> try:
...     Policy(action="blok", modes={"generic_repet": {"block": 3}})
... except Exception as error:
...     print(error)
Policy: 2 problems
  - action = 'blok': must be one of off, observe, nudge, reuse, block, conclude, abort; did you mean block?
  - modes.generic_repet: no such mode; did you mean generic_repeat?
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from otel_loopguard.engine.policy import schema
from otel_loopguard.engine.policy.check import Checker, explicit_settings
from otel_loopguard.engine.words import Action, Kind, Mode

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


@dataclass(frozen=True)
class Rule:
    """The limits of one mode. Numbers count equal runs, the first one included; 0 switches a step off."""

    nudge: int | None = None
    """The run after which a sentence is added to the result."""
    block: int | None = None
    """The run that is refused."""
    action: Action | None = None
    """This mode's own ceiling; never above the policy's."""
    block_after_reads: int | None = None
    """generic_repeat: the run that is refused if news from reading, or a write without news, came in between."""
    block_if_transient: int | None = None
    """The run, or the lap, that is refused after a transient error."""
    block_if_acted: int | None = None
    """generic_repeat: the run of a write that is refused if it succeeds with the same result each time."""
    block_if_acknowledged: int | None = None
    """generic_repeat: the run that is refused if the tool moves a cursor or its kind is unknown, and the result is an
    acknowledgement of up to 80 bytes. Also of a lap with one acknowledgement for all its calls, of one call whose
    results go round, and of a call whose result changed by itself before."""
    fresh_after_news: int | None = None
    """generic_repeat: the number of news since the last run from which a repeat is never refused."""
    nudge_after_changes: int | None = None
    """generic_repeat: the run that is nudged (again at 2x, 4x), whatever came in between; twice that for short
    results."""
    nudge_any_result: int | None = None
    """volatile_repeat: calls in a row, with any results, after which the model is nudged; 3 times that for calls that
    wait, 4 times for results that are new."""
    block_if_destructive: int | None = None
    """repeated_effect: the run that is refused for a tool that its server marks as destructive."""
    similarity: float | None = None
    """similar_query: the similarity from which two queries count as similar (0 to 1)."""
    max_period: int | None = None
    """cycle: the longest period that is searched for."""
    min_interval: float | None = None
    """poll_no_progress: the seconds between two runs from which time counts, for calls of every kind; shorter pauses
    are not added up."""
    min_interval_share: float | None = None
    """poll_no_progress: the same interval as a share of the time for which the result has been the same."""
    block_if_slow: int | None = None
    """poll_no_progress: the run that reaches the limit if a call that is refused at the third waits each time."""
    patience: float | None = None
    """poll_no_progress: seconds with equal results after which a poll is refused, however long it waits; 0 = never."""
    nudge_at_share: float | None = None
    """The share of the cap (retry_limit), or of ``max_calls`` (global_circuit_breaker, where calls are counted), at
    which the model is nudged."""
    no_news_nudge: int | None = None
    """global_circuit_breaker: calls without news in the turn, after which the model is nudged."""
    no_news_block: int | None = None
    """global_circuit_breaker: calls without news in the turn, after which repeats are refused."""
    abort: int | None = None
    """generic_repeat: the call that ends the agent's run, if the policy's action is abort."""
    turns: int | None = None
    """no_novelty: with ``scope = "conversation"``, turns in a row that made calls and brought the conversation nothing
    new, at which the next one is reported, without a word to the model; again at 2x, 4x."""
    once: bool | None = None
    """This mode nudges once a turn, and not again at 2x and 4x."""

    def __post_init__(self) -> None:
        # The policy or contract checks the rest, because the valid settings depend on the mode.
        action = schema.ACTION.parse(self.action)
        if action is not None:
            object.__setattr__(self, "action", action)

    def over(self, base: Rule) -> Rule:
        """Return this rule, with its open fields filled from ``base``."""
        return replace(base, **explicit_settings(self))


DEFAULT_RULES: Mapping[str, Rule] = MappingProxyType(
    {
        Mode.UNKNOWN_TOOL_REPEAT: Rule(nudge=2, block=3),
        Mode.POLL_NO_PROGRESS: Rule(
            nudge=10, block=20, min_interval=10.0, min_interval_share=0.03, block_if_slow=8, patience=0.0
        ),
        Mode.PING_PONG: Rule(nudge=2, block=3, block_if_transient=5),
        Mode.CYCLE: Rule(nudge=2, block=3, block_if_transient=5, max_period=8),
        Mode.GENERIC_REPEAT: Rule(
            nudge=2,
            block=3,
            block_after_reads=5,
            block_if_transient=6,
            block_if_acted=4,
            block_if_acknowledged=9,
            fresh_after_news=20,
            nudge_after_changes=6,
        ),
        Mode.SIMILAR_QUERY: Rule(nudge=3, block=4, similarity=0.75),
        Mode.ERROR_REPEAT: Rule(nudge=3, block=10),
        Mode.SAME_ANSWER: Rule(nudge=5, block=10),
        Mode.VOLATILE_REPEAT: Rule(nudge=5, block=20, nudge_any_result=8),
        Mode.REPEATED_EFFECT: Rule(nudge=2, block=2, block_if_destructive=5),
        Mode.NO_NOVELTY: Rule(nudge=5, block=8, turns=10),
        Mode.RETRY_LIMIT: Rule(nudge_at_share=0.75),
        Mode.GLOBAL_CIRCUIT_BREAKER: Rule(nudge=5, block=8, no_news_nudge=100, no_news_block=200),
    }
)


@dataclass(frozen=True)
class ToolContract:
    """The declaration of a tool. Fields that are left open are filled from the server's hints or the tool's name."""

    kind: Kind | str | None = None
    query: str | None = None
    """The parameter that holds a query, or "auto"; it switches ``similar_query`` on."""
    volatile: tuple[str, ...] = ()
    """Keys of the result that carry no information (a nonce, a request number)."""
    target: str | None = None
    """The only parameter that is compared; the others (a reason, a thought) are ignored."""
    cap: int | None = None
    """The calls of this tool that a turn may make."""
    once: bool | None = None
    """Its effect must not happen twice with the same arguments in a turn. False: it may, whatever the server's hints
    are."""
    reuse: bool | None = None
    """The model gets the earlier result instead of a refusal."""
    route: Mapping[str, str] | None = None
    """A gateway: ``{"tool": parameter with the tool's name, "args": parameter with its arguments}``."""
    interval: float | None = None
    """The seconds between two runs from which time counts: a repeat after that long is not refused at first."""
    patience: float | None = None
    """The seconds for which a poll may continue without progress, however long it waits between runs."""
    action: Action | None = None
    """This tool's own ceiling; never above the policy's."""
    modes: Mapping[str, Rule] = field(default_factory=dict)
    """Limits of single modes for this tool."""

    def __post_init__(self) -> None:
        table = explicit_settings(self)
        if table:
            checker = Checker()
            checker.contract((), table)
            _set_parsed(self, checker.tables("ToolContract"))

    def over(self, base: ToolContract) -> ToolContract:
        """Return this contract, with its open fields filled from ``base``."""
        own = explicit_settings(self)
        if base.modes and self.modes:
            joined = {mode: rule.over(base.modes.get(mode, Rule())) for mode, rule in self.modes.items()}
            own["modes"] = {**base.modes, **joined}
        return replace(base, **own)


@dataclass(frozen=True)
class Policy:
    """All settings. A policy holds only those that differ from the documented defaults."""

    action: Action = Action.BLOCK
    """The ceiling: the strongest action."""
    conclude_after: int = 7
    """Refusals without news in between, at which the model has to answer without tools, once a turn; 0 = never."""
    abort_after: int = schema.ABORT_AFTER
    """Refusals without news in between, after which the next one ends the run; 0 = never."""
    max_calls: int = 0
    """Calls that a turn may make in all; 0 = no limit."""
    modes: Mapping[str, Rule] = field(default_factory=dict)
    tools: Mapping[str, ToolContract] = field(default_factory=dict)
    """Contracts by glob of tool names. If several globs match, the most specific one wins, setting by setting."""
    words: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """More words for the lists of ``words.toml``, by kind."""
    dangerous: tuple[str, ...] | None = None
    """Words in which two similar queries must not differ; None = the list of ``words.toml``."""
    scope: str = "turn"
    """The reach of the memory: "turn", or "conversation" to report turns that only repeat each other, too. Refusals
    depend on the turn alone."""
    conversation_idle: float = 691_200.0
    """With ``scope = "conversation"``: the seconds without a call after which a conversation is forgotten."""
    counting: str = "results"
    """The measure of repetition: "results" (evidence, as documented) or "calls" (counted, whatever they return)."""
    order: tuple[str, ...] = ()
    """The active modes, in this order; empty: all of them, in the documented order."""
    window: float = 0.0
    """With ``counting = "calls"``: the seconds that a call counts; 0 = as long as the turn lasts."""
    window_calls: int = 0
    """With ``counting = "calls"``: the number of last calls that count; 0 = all, up to 1,024."""
    records: str = "ran"
    """With ``counting = "calls"``: "ran" counts only calls that ran, "all" counts refused ones, too."""
    refusal: str = "json"
    """The form of a refusal: "json", "mode" (JSON with only error and mode) or "text"."""
    sentences: Mapping[str, str] = field(default_factory=dict)
    """Replacements for the sentences that the model reads: of a refusal by mode, of a nudge by ``"MODE.nudge"``, of the
    exception that ends the run by ``"MODE.abort"``, of a request without tools by ``"conclude"``. ``{tool}``,
    ``{count}`` and ``{limit}`` are filled in."""
    mark: str | None = None
    """A word added to each refusal, for programs that search for it."""
    cost_per_million_tokens: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """Prices by glob of model names: ``{"input": ..., "output": ...}``, in any currency. If several globs match, the
    most specific one wins. ``"cached_input"`` is the price of input from the provider's cache; default: ``"input"``."""
    detectors: tuple[Callable[..., Any], ...] = ()
    """The user's detectors, ``fn(history, call, rule) -> Trip | None``, called before each tool call."""
    on_trip: Callable[..., Any] | None = None
    """``fn(trip) -> Action | None``, sync or async, called on each trip, outside of every lock."""
    hash_key: bytes | None = field(default=None, repr=False)
    """The key of the fingerprints; None = a random one for this process."""

    def __post_init__(self) -> None:
        table = explicit_settings(self)
        if table:
            checker = Checker()
            checker.policy(table)
            parsed = checker.tables("Policy")
            tools = parsed.get("tools", {})
            parsed["tools"] = {glob: ToolContract(**{**own, "modes": _rules(own)}) for glob, own in tools.items()}
            _set_parsed(self, parsed)

    def rule(self, mode: str) -> Rule:
        """Return the rule of a mode, with defaults filled in."""
        base = DEFAULT_RULES.get(mode, _NO_RULE)
        own = self.modes.get(mode)
        return base if own is None else own.over(base)


_NO_RULE = Rule()


def _set_parsed(one: Policy | ToolContract, parsed: dict[str, Any]) -> None:
    """Replace the fields by their parsed values: text has become an action, and a table a rule."""
    for name, value in {**parsed, "modes": _rules(parsed)}.items():
        object.__setattr__(one, name, value)


def _rules(parsed: Mapping[str, Any]) -> dict[str, Rule]:
    return {mode: Rule(**rule) for mode, rule in parsed.get("modes", {}).items()}
