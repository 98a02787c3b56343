"""The settings of a user: the frozen Policy, with Rules (one a mode) and ToolContracts (one a glob of tool names).

A setting that is None has its default. A policy in code is checked like a policy file: one ``PolicyError`` names all
mistakes.

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

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from otel_loopguard.engine.detectors.row import Detector
from otel_loopguard.engine.detectors.run_budget import rows_of
from otel_loopguard.engine.modes import COUNTED_ROWS, DEFAULT_RULES, ROWS, joined
from otel_loopguard.engine.policy import schema
from otel_loopguard.engine.policy.check import Checker, explicit_settings
from otel_loopguard.engine.rule import Rule
from otel_loopguard.engine.vocabulary import Action, Kind

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from typing_extensions import Unpack

    from otel_loopguard.engine.policy.typed import PolicySettings, ToolSettings


@dataclass(frozen=True)
class ToolContract:
    """The declaration of a tool. Fields that are left open are filled from the server's hints or the tool's name."""

    kind: Kind | None = None
    """What the tool does, such as "read" or "poll"; None: found by the server's hints, the name and the arguments."""
    query: str | None = None
    """The parameter that holds a query, or "auto"; it switches ``similar_query`` on."""
    volatile: tuple[str, ...] = ()
    """Keys of the result whose values carry no information (a nonce, a request number)."""
    target: str | None = None
    """The only parameter that is compared; the others (a reason, a thought) are ignored."""
    cap: int | None = None
    """The number of calls of this tool that a turn may make; None: any number."""
    once: bool | None = None
    """True: the effect must not happen twice with the same arguments in a turn. False: it may, whatever the server's
    hints are. None: the hints decide."""
    reuse: bool | None = None
    """True: the model gets the earlier result of the call instead of a refusal."""
    route: Mapping[str, str] | None = None
    """For a dispatcher, which takes another tool's name and arguments: ``{"tool": parameter with the name, "args":
    parameter with the arguments}``. Its calls are judged as calls of that tool."""
    interval: float | None = None
    """The seconds that a repeat has to wait so that it is not refused; each run in vain doubles them."""
    patience: float | None = None
    """The seconds for which a poll may continue without progress, however long it waits between runs."""
    action: Action | None = None
    """This tool's own ceiling; never above the policy's."""
    modes: Mapping[str, Rule] = field(default_factory=dict)
    """Limits of single modes for this tool."""

    if TYPE_CHECKING:  # the fields have what the words and tables are parsed to

        def __init__(self, **settings: Unpack[ToolSettings]) -> None: ...

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
        return _checked(ToolContract(), {**vars(base), **own})


@dataclass(frozen=True)
class Policy:
    """All settings of the guard. What is not given has its documented default."""

    action: Action = Action.BLOCK
    """The ceiling: no mode and no tool may act more strongly."""
    conclude_after: int = 7
    """The number of refusals, without news in between, at which the model has to answer without tools, once a turn;
    0 = never."""
    abort_after: int = schema.ABORT_AFTER
    """The number of refusals, without news in between, after which the next one ends the run; 0 = never."""
    max_calls: int = 0
    """The number of calls that a turn may make in all; 0 = any number."""
    modes: Mapping[str, Rule] = field(default_factory=dict)
    """Limits by mode, for all tools."""
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
    arguments: str = "identical"
    """With ``counting = "calls"``: "identical" compares arguments in every character, "normalised" without blanks at
    their ends and runs of blanks (but those of writes), and a ``url`` and a ``query`` without upper case."""
    refusal: str = "json"
    """The form of a refusal: "json", "mode" (JSON with only error and mode) or "text"."""
    sentences: Mapping[str, str] = field(default_factory=dict)
    """Replacements for the sentences that the model reads: of a refusal by mode, of a nudge by ``"MODE.nudge"``, of the
    exception that ends the run by ``"MODE.abort"``, of a request without tools by ``"conclude"``. ``{tool}``,
    ``{count}`` and ``{limit}`` are filled in."""
    mark: str | None = None
    """A word added to each refusal, for programs that search for it."""
    cost_per_million_tokens: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """Prices by glob of model names: ``{"input": ..., "output": ...}``, in ``currency``. If several globs match, the
    most specific one wins. ``"cached_input"`` is the price of input from the provider's cache; default: ``"input"``."""
    currency: str | None = None
    """The currency of the prices, such as "USD", for dashboards and reports."""
    budget: Mapping[str, Any] = field(default_factory=dict)
    """The limits of a ``"turn"``, of its ``"tree"`` (with all agents that were started for it) and of its
    ``"conversation"`` (with the turns before it), each a table with limits of ``requests``, ``calls``, ``tokens``,
    ``input_tokens``, ``output_tokens``, ``cost``, ``seconds`` and ``children``; of a tree also ``depth``. ``"action"``
    is the strongest action of all budgets."""
    detectors: tuple[Callable[..., Any] | Detector, ...] = ()
    """The user's detectors: rows of modes of their own, or ``fn(history, record, rule) -> Trip | None``, called before
    each tool call."""
    on_trip: Callable[..., Any] | None = None
    """``fn(trip) -> Action | None``, sync or async, called on each trip, outside of every lock. The action that it
    returns is taken; None keeps that of the trip."""
    on_end: Callable[..., Any] | None = None
    """``fn(ended)``, sync, called once with the ``EndedTurn`` when a turn ends, outside of every lock. A turn
    that goes on after its end, as after a failure, ends again."""
    hash_key: bytes | None = field(default=None, repr=False)
    """The key of the fingerprints; None = that of the environment, or a random one for this process."""

    if TYPE_CHECKING:

        def __init__(self, **settings: Unpack[PolicySettings]) -> None: ...

    def __post_init__(self) -> None:
        table = explicit_settings(self)
        if table:
            checker = Checker()
            checker.policy(table)
            parsed = checker.tables("Policy")
            tools = parsed.get("tools", {})
            parsed["tools"] = {
                glob: _checked(ToolContract(), {**own, "modes": _rules(own)}) for glob, own in tools.items()
            }
            _set_parsed(self, parsed)

    @property
    def own_rows(self) -> dict[str, Detector]:
        """The rows of the user's detectors, by their modes."""
        return {one.mode: one for one in self.detectors if isinstance(one, Detector)}

    @property
    def more_rows(self) -> dict[str, Detector]:
        """The rows that are in no table of the package, by their modes: the user's, and that of the budgets."""
        rows = rows_of(self)
        return {**self.own_rows, **({rows[0].mode: joined(rows)} if rows else {})}

    @property
    def default_rules(self) -> dict[str, Rule]:
        """The default limits of each mode, in the order of precedence."""
        return {**DEFAULT_RULES, **{mode: row.default for mode, row in self.own_rows.items()}}

    def row(self, mode: str) -> Detector | None:
        """Return the row with the sentences of a mode; None if there is no such mode."""
        found = COUNTED_ROWS.get(mode) if self.counting == "calls" else None
        return found or ROWS.get(mode) or self.more_rows.get(mode)

    def title(self, mode: str) -> str:
        """Return a few words about the loops of a mode; an empty text if there are none."""
        rows = (self.row(mode), ROWS.get(mode))
        words = (one.title or (one.about.title if one.about else "") for one in rows if one is not None)
        return next(filter(None, words), "")

    def rule(self, mode: str) -> Rule:
        """Return the rule of a mode, with defaults filled in; an empty rule if there is no such mode."""
        base = DEFAULT_RULES.get(mode)
        if base is None:
            base = self.default_rules.get(mode, _NO_RULE)
        own = self.modes.get(mode)
        return base if own is None else own.over(base)


_NO_RULE = Rule()


def _checked(contract: ToolContract, values: Mapping[str, Any]) -> ToolContract:
    """Set the fields of a new contract without a check: only its policy knows the modes of the user's detectors."""
    for name, value in values.items():
        object.__setattr__(contract, name, value)
    return contract


def _set_parsed(one: Policy | ToolContract, parsed: dict[str, Any]) -> None:
    """Replace the fields by their parsed values: text has become an action, and a table a rule."""
    for name, value in {**parsed, "modes": _rules(parsed)}.items():
        object.__setattr__(one, name, value)


def _rules(parsed: Mapping[str, Any]) -> dict[str, Rule]:
    return {mode: Rule(**rule) for mode, rule in parsed.get("modes", {}).items()}
