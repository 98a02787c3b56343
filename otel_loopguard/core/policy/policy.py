"""What a user may say: the frozen Policy, its Rules (one a mode) and ToolContracts (one a glob of tool names).

A rule's field that is None means "as the default has it", so that a policy only says what differs. What is made in
code is held to the same as a policy file: mistakes are one ``PolicyError`` that names them all.

>>> from otel_loopguard.core.policy.policy import Policy
>>> try:
...     Policy(action="blok", modes={"generic_repet": {"block": 3}})
... except Exception as error:
...     print(error)
Policy: 2 problems
  - action = 'blok': must be one of off, observe, nudge, reuse, block, abort; did you mean block?
  - modes.generic_repet: no such mode; did you mean generic_repeat?
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from otel_loopguard.core.model import Action, Kind, Mode
from otel_loopguard.core.policy import schema
from otel_loopguard.core.policy.check import Checker, said

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


@dataclass(frozen=True)
class Rule:
    """The limits of one mode. Counts are of equal runs, the first one included; 0 switches that step off."""

    nudge: int | None = None
    """The run after which the model gets a sentence beside the result."""
    block: int | None = None
    """The run that is refused."""
    action: Action | None = None
    """This mode's own ceiling; never above the policy's."""
    block_after_reads: int | None = None
    """generic_repeat: the run that is refused where news from reading, or a write without news, came between."""
    block_if_transient: int | None = None
    """The run (lap) that is refused after a transient error."""
    nudge_after_changes: int | None = None
    """generic_repeat: the run that is nudged (again at 2x, 4x) where a change came between."""
    nudge_any_result: int | None = None
    """volatile_repeat: calls in a row, whatever they return, after which the model is nudged."""
    nudge_same_result: int | None = None
    """error_repeat: equal results of a reading tool for untried arguments, after which the model is nudged."""
    block_if_destructive: int | None = None
    """repeated_effect: the run that is refused of a tool whose server calls it destructive."""
    similarity: float | None = None
    """similar_query: from here on two queries are similar (0 to 1)."""
    max_period: int | None = None
    """cycle: the longest period that is looked for."""
    min_interval: float | None = None
    """poll_no_progress: runs this many seconds apart do not count."""
    patience: float | None = None
    """poll_no_progress: seconds since the first of the equal results, after which even patient polls are refused."""
    nudge_at_share: float | None = None
    """The share at which the model is nudged: of the cap (retry_limit), of ``max_calls`` (global_circuit_breaker, where
    calls are counted)."""
    no_news_nudge: int | None = None
    """global_circuit_breaker: calls without news in the turn, after which the model is nudged."""
    no_news_block: int | None = None
    """global_circuit_breaker: calls without news in the turn, from which on repeats are refused."""
    abort: int | None = None
    """generic_repeat: the run that ends the agent's run, if the policy's action is abort."""
    once: bool | None = None
    """The model is nudged once a turn by this mode, and not again at 2x and 4x."""

    def __post_init__(self) -> None:
        # The rest is checked where it is known of which mode it is the rule: in a policy or a contract.
        action = schema.ACTION.accept(self.action)
        if action is not None:
            object.__setattr__(self, "action", action)

    def over(self, base: Rule) -> Rule:
        """This rule, with what it leaves open taken from ``base``."""
        return replace(base, **said(self))


DEFAULT_RULES: Mapping[str, Rule] = MappingProxyType(
    {
        Mode.UNKNOWN_TOOL_REPEAT: Rule(nudge=2, block=3),
        Mode.POLL_NO_PROGRESS: Rule(nudge=10, block=20, min_interval=30.0, patience=7200.0),
        Mode.PING_PONG: Rule(nudge=2, block=3, block_if_transient=5),
        Mode.CYCLE: Rule(nudge=2, block=3, block_if_transient=5, max_period=8),
        Mode.GENERIC_REPEAT: Rule(nudge=2, block=3, block_after_reads=5, block_if_transient=6, nudge_after_changes=6),
        Mode.SIMILAR_QUERY: Rule(nudge=3, block=4, similarity=0.75),
        Mode.ERROR_REPEAT: Rule(nudge=3, block=6, nudge_same_result=5),
        Mode.VOLATILE_REPEAT: Rule(nudge=5, block=20, nudge_any_result=8),
        Mode.REPEATED_EFFECT: Rule(nudge=2, block=2, block_if_destructive=5),
        Mode.NO_NOVELTY: Rule(nudge=5, block=8),
        Mode.RETRY_LIMIT: Rule(nudge_at_share=0.75),
        Mode.GLOBAL_CIRCUIT_BREAKER: Rule(nudge=5, block=8, no_news_nudge=100, no_news_block=200),
    }
)


@dataclass(frozen=True)
class ToolContract:
    """What is known of a tool. Everything may be left open; the tool's server or its name decides then."""

    kind: Kind | str | None = None
    query: str | None = None
    """The parameter that holds a query, or "auto"; switches ``similar_query`` on."""
    volatile: tuple[str, ...] = ()
    """Keys of the result that say nothing about it (a nonce, a request's number)."""
    target: str | None = None
    """The parameter that alone tells calls apart; the others (a reason, a thought) are left out of the comparison."""
    cap: int | None = None
    """How many calls of this tool a turn may make."""
    once: bool | None = None
    """Its effect must not happen twice with the same arguments in a turn. False: it may, whatever its server hints."""
    reuse: bool | None = None
    """Instead of a refusal the model gets the earlier result again."""
    route: Mapping[str, str] | None = None
    """A gateway: ``{"tool": parameter with the tool's name, "args": parameter with its arguments}``."""
    interval: float | None = None
    """A poll's own pace in seconds: runs this far apart do not count."""
    patience: float | None = None
    """How long, in seconds, a poll that keeps its pace may go on without progress."""
    action: Action | None = None
    """This tool's own ceiling; never above the policy's."""
    modes: Mapping[str, Rule] = field(default_factory=dict)
    """This tool's own limits, by mode."""

    def __post_init__(self) -> None:
        table = said(self)
        if table:
            checker = Checker()
            checker.contract((), table)
            _settle(self, checker.tables("ToolContract"))

    def over(self, base: ToolContract) -> ToolContract:
        """This contract, with what it leaves open taken from ``base``."""
        own = said(self)
        if base.modes and self.modes:
            own["modes"] = {**base.modes, **self.modes}
        return replace(base, **own)


@dataclass(frozen=True)
class Policy:
    """All that can be set. The defaults are those of the documentation; a policy only says what differs."""

    action: Action = Action.BLOCK
    """The ceiling: the strongest thing that is done."""
    abort_after: int = 10
    """Refusals without news between, after which the next one ends the run; 0 = never."""
    max_calls: int = 0
    """Calls a turn may make in all; 0 = no limit."""
    modes: Mapping[str, Rule] = field(default_factory=dict)
    tools: Mapping[str, ToolContract] = field(default_factory=dict)
    """Contracts by glob of tool names; of several that match, the more specific one says more."""
    words: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """More words for the lists of ``words.toml``, by kind."""
    dangerous: tuple[str, ...] | None = None
    """Words in which two similar queries must not differ; None = the list of ``words.toml``."""
    counting: str = "results"
    """What repetition is judged by: "results" (evidence, as documented) or "calls" (counted, whatever they return)."""
    order: tuple[str, ...] = ()
    """The modes that are asked, in this order; empty: all of them, in the documented order."""
    window: float = 0.0
    """Where calls are counted: how many seconds a call counts; 0 = as long as the turn lasts."""
    window_calls: int = 0
    """Where calls are counted: how many of the last calls count; 0 = all, up to 1,024."""
    records: str = "ran"
    """Where calls are counted: which ones, "ran" (only those that ran) or "all" (refused ones, too)."""
    refusal: str = "json"
    """How a refusal is written: "json", "mode" (JSON with nothing but error and mode) or "text"."""
    sentences: Mapping[str, str] = field(default_factory=dict)
    """Sentences of one's own: of a refusal by mode, of a nudge by ``"MODE.nudge"``, of the exception that ends the run
    by ``"MODE.abort"``; ``{tool}``, ``{count}`` and ``{limit}`` are filled in."""
    mark: str | None = None
    """A word that refusals carry beside their text, for programs that look for one."""
    detectors: tuple[Callable[..., Any], ...] = ()
    """One's own detectors: ``fn(history, call, rule) -> Trip | None``, asked before each call."""
    on_trip: Callable[..., Any] | None = None
    """``fn(trip) -> Action | None``, sync or async, asked on each trip, outside every lock."""
    hash_key: bytes | None = field(default=None, repr=False)
    """The key of the fingerprints; None = a random one for this process."""

    def __post_init__(self) -> None:
        table = said(self)
        if table:
            checker = Checker()
            checker.policy(table)
            settled = checker.tables("Policy")
            tools = settled.get("tools", {})
            settled["tools"] = {glob: ToolContract(**{**own, "modes": _rules(own)}) for glob, own in tools.items()}
            _settle(self, settled)

    def rule(self, mode: str) -> Rule:
        """The rule of a mode, defaults filled in."""
        base = DEFAULT_RULES.get(mode, _NO_RULE)
        own = self.modes.get(mode)
        return base if own is None else own.over(base)


_NO_RULE = Rule()


def _settle(one: Policy | ToolContract, settled: dict[str, Any]) -> None:
    """What was said, as it is understood: text has become an action, a table a rule."""
    for name, value in {**settled, "modes": _rules(settled)}.items():
        object.__setattr__(one, name, value)


def _rules(settled: Mapping[str, Any]) -> dict[str, Rule]:
    return {mode: Rule(**rule) for mode, rule in settled.get("modes", {}).items()}
