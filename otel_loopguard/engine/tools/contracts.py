"""Find a tool's contract and kind: declared in policy or code, else hinted by its server, else found by its name.

The tool of a name is made once and kept. The kind of a call depends on its arguments and is found each time.
"""

from __future__ import annotations

import itertools
import math
import re
from fnmatch import translate
from typing import TYPE_CHECKING, Any, NamedTuple

from otel_loopguard.engine.detectors import DETECTORS
from otel_loopguard.engine.modes import INSISTED_BY_TOOL, ROWS, Mode
from otel_loopguard.engine.rule import Rule
from otel_loopguard.engine.tools.declared import DeclaredTools
from otel_loopguard.engine.tools.kinds import DECISIVE_PARAMETERS, kind_of_call
from otel_loopguard.engine.tools.lexicon import Lexicon, word_lists
from otel_loopguard.engine.values import introspect
from otel_loopguard.engine.values.fingerprint import Fingerprinter
from otel_loopguard.engine.values.normalise import utf8
from otel_loopguard.engine.vocabulary import Action, Kind, KnownArguments
from otel_loopguard.interrupts import pass_interrupt

if TYPE_CHECKING:
    from collections.abc import Mapping

    from otel_loopguard.engine.detectors.row import Detector
    from otel_loopguard.engine.policy.policy import Policy, ToolContract
    from otel_loopguard.engine.vocabulary import Hints, ToolCall

_COUNTING = [row for row in DETECTORS if row.counts_calls]
_WITHOUT_CASE = frozenset({"url", "query"})
_MOST_NAMES = 4_096
_MOST_ARGUMENTS = 10_000
LONGEST_TOOL_NAME = 256
_LONGEST_TOLD_APART = 1_000_000
_unreadable_names = itertools.count()


class Tool:
    """One tool: its contract, its kind by name, and the rule and the ceiling of each mode."""

    __slots__ = (
        "ceilings", "checks", "contract", "counts_calls", "dangerous", "declared", "digest", "hints", "is_plain",
        "kind", "min_interval", "moves_cursor", "moves_money", "name", "refuses_second_run", "route", "rules",
        "takes_next",
    )  # fmt: skip

    insisted_by_tool = INSISTED_BY_TOOL
    """The modes of which the model insists by any new call of the tool."""

    def __init__(
        self,
        name: str,
        contract: ToolContract,
        words: Lexicon,
        policy: Policy,
        *,
        digest: int,
        hints: Hints | None,
    ) -> None:
        self.name = name
        self.digest = digest
        """The keyed fingerprint of the name: the same in every process with the same hash key."""
        self.contract = contract
        self.hints = hints
        self.declared = contract.kind is not None
        self.kind = (
            Kind(contract.kind) if contract.kind is not None else _kind_by_hints(hints, words.kind_of_name(name))
        )
        self.counts_calls = bool(policy.detectors) or any(
            row.concerns is None or row.concerns(self, policy) for row in _COUNTING
        )
        """True if the history counts its calls."""
        self.takes_next = words.takes_next(name)
        self.moves_cursor = words.moves_cursor(name)
        self.moves_money = self.kind is Kind.WRITE and words.moves_money(name)
        self.route = _route(name, contract)
        self.is_plain = self.route is None and contract.target is None and policy.counting != "calls"
        """True if no contract and no policy says which arguments its calls are compared by."""
        self.checks: Any = None
        """The ``ToolChecks`` of this tool; made at its first call."""
        self.rules: dict[str, Rule] = {}
        self.ceilings: dict[str, Action] = {}
        more_rows = policy.more_rows
        for mode, row in {**ROWS, **more_rows}.items() if more_rows else ROWS.items():
            self.rules[mode] = self._rule(mode, row, policy)
            self.ceilings[mode] = _lowest(policy.action, self.contract.action, self.rules[mode].action)
        self.min_interval = self.rules[Mode.POLL_NO_PROGRESS].min_interval or math.inf
        """The pause in seconds from which time counts; infinite if the policy turns it off."""
        repeat = self.rules[Mode.GENERIC_REPEAT]
        self.refuses_second_run = 2 in (repeat.block, repeat.abort)
        self.dangerous = words.dangerous if policy.dangerous is None else frozenset(policy.dangerous)

    def _rule(self, mode: str, row: Detector, policy: Policy) -> Rule:
        rule = policy.rule(mode)
        if row.declared is not None:
            rule = Rule(**row.declared(self.contract, policy)).over(rule)
        own = self.contract.modes.get(mode)
        return rule if own is None else own.over(rule)

    def ceiling(self, mode: str, policy: Policy) -> Action:
        """Return the strongest action that a trip of this mode may have."""
        ceiling = self.ceilings.get(mode)
        if ceiling is None:  # a mode of the policy's own detectors
            return _lowest(policy.action, self.contract.action, policy.rule(mode).action)
        return ceiling


class ResolvedCall(NamedTuple):
    """A call as it is judged: tool, arguments and kind. A call of a dispatcher is a call of the tool behind it."""

    tool: Tool
    arguments: Any
    kind: Kind


class Contracts:
    """The tools of one policy: finds the tool, the arguments and the kind of each call."""

    def __init__(
        self, policy: Policy, fingerprinter: Fingerprinter | None = None, declared: DeclaredTools | None = None
    ) -> None:
        self._policy = policy
        self._declared = declared or DeclaredTools()
        self._fingerprinter = fingerprinter or Fingerprinter(policy.hash_key)
        self._words = Lexicon(policy.words)
        self.pending = self._words.pending
        """Finds the words of results that are not done yet."""
        self._patterns = sorted(
            ((re.compile(translate(glob)), contract) for glob, contract in policy.tools.items()),
            key=lambda pair: _letters(pair[0].pattern),
        )
        self._tools: dict[str, Tool] = {}
        self._hinted: dict[tuple[str, Hints], Tool] = {}
        self._counts_calls = policy.counting == "calls"
        self._meaningful = DECISIVE_PARAMETERS | self._words.may_be_silent

    def identify(self, call: ToolCall, fingerprinter: Fingerprinter | None = None) -> tuple[ResolvedCall, int]:
        """Resolve a call. Return it with the keyed fingerprint of the arguments that it is compared by.

        ``fingerprinter`` replaces that of the policy. The first branch is for nearly every call: its tool is known, and
        no argument decides about the kind or is left out.
        """
        name, arguments = call.tool, call.arguments
        fingerprinter = fingerprinter or self._fingerprinter
        if call.hints is None and type(name) is str and type(arguments) is dict:
            tool = self._tools.get(name)
            if tool is not None and tool.is_plain and (tool.declared or arguments.keys().isdisjoint(self._meaningful)):
                resolved = ResolvedCall(tool, arguments, tool.kind)
                return resolved, fingerprinter.arguments(arguments, fold_blanks=tool.kind is not Kind.WRITE)
        if type(arguments) is KnownArguments:
            return ResolvedCall(self.tool(name, call.hints), None, Kind(arguments.kind)), arguments.digest
        resolved = self.resolve(call)
        values, folds_blanks = self.compared(*resolved)
        return resolved, fingerprinter.arguments(values, fold_blanks=folds_blanks)

    def resolve(self, call: ToolCall) -> ResolvedCall:
        """Find the tool of a call, its arguments and its kind; behind a dispatcher, those of the call inside."""
        tool, arguments = self.tool(call.tool, call.hints), call.arguments
        if type(arguments) is not dict:
            arguments = introspect.as_builtin(arguments)
        if tool.route is not None:
            inner = _call_behind(arguments, tool.route)
            if inner is not None:
                tool, arguments = self.tool(inner[0], None), inner[1]
        kind = tool.kind
        if not tool.declared:
            try:
                kind = kind_of_call(kind, arguments, self._words)
            except Exception as error:  # noqa: BLE001 - arguments that cannot be read; the tool's name decides
                pass_interrupt(error)
                kind = tool.kind
        target = tool.contract.target
        if target is not None and type(arguments) is dict and target in arguments:
            arguments = {target: arguments[target]}
        return ResolvedCall(tool, arguments, kind)

    def compared(self, tool: Tool, arguments: Any, kind: Kind) -> tuple[Any, bool]:
        """Return the arguments that a call is compared by, and True if blanks in them are folded.

        Arguments that say nothing about what the call does (a reason, a request id) are left out, unless there are no
        others: who hands over is compared by whom. A policy that counts calls promises to compare all of them.
        """
        if self._counts_calls:
            if self._policy.arguments == "identical":
                return arguments, False
            return _without_case(arguments), kind is not Kind.WRITE
        if (
            type(arguments) is dict
            and not tool.declared
            and not arguments.keys().isdisjoint(self._words.may_be_silent)
            and len(arguments) <= _MOST_ARGUMENTS
        ):
            silent = self._words.silent_parameters(tool.name, kind)
            told = {name: value for name, value in arguments.items() if name not in silent}
            arguments = told if told or kind is Kind.HANDOFF else arguments
        return arguments, kind is not Kind.WRITE

    def tool(self, name: str, hints: Hints | None) -> Tool:
        """Return the tool of a name, made at its first call. Up to 4,096 are kept, because models make up names."""
        if type(name) is not str:
            name = introspect.name_text(name)
        if len(name) > LONGEST_TOOL_NAME:
            name = self._shortened(name)
        tool = self._tools.get(name) if hints is None else self._hinted.get((name, hints))
        return self._make(name, hints) if tool is None else tool

    def _shortened(self, name: str) -> str:
        """Cut a name that is too long, and append a hash of it; a number that no other has, if it is longer still.

        The hash is written as a number, because letters might be taken for a verb.
        """
        long = len(name) > _LONGEST_TOLD_APART
        number = next(_unreadable_names) if long else self._fingerprinter.of(utf8(name))
        return f"{name[: LONGEST_TOOL_NAME - 24]}...{number}"

    def _make(self, name: str, hints: Hints | None) -> Tool:
        declared = self._declared.get(name)
        contract = self._contract(name, declared)
        digest = self._fingerprinter.of(utf8(name))
        tool = Tool(name, contract, self._words, self._policy, digest=digest, hints=hints)
        kept: dict[Any, Tool] = self._tools if hints is None else self._hinted
        if len(kept) >= _MOST_NAMES:
            kept.clear()
        kept[name if hints is None else (name, hints)] = tool
        if self._declared.get(name) is not declared:  # another thread has just declared it
            self.forget(name)
        return tool

    def forget(self, name: str) -> None:
        """Make this tool again at its next call: its declared contract has changed."""
        self._tools.pop(name, None)
        for key in list(self._hinted):
            if key[0] == name:
                self._hinted.pop(key, None)

    def _contract(self, name: str, declared: ToolContract) -> ToolContract:
        """Join the contracts of a name, setting by setting: the policy's over that in code, specific over general."""
        contract = declared
        for pattern, of_policy in self._patterns:
            if pattern.match(name):
                contract = of_policy.over(contract)
        return contract


def specificity(glob: str) -> int:
    """Return the rank of a glob by its letters: if several match a name, the settings of the highest one win."""
    return _letters(translate(glob))


def _letters(pattern: str) -> int:
    return len(re.sub(r"[^\w]", "", pattern))


def _without_case(arguments: Any) -> Any:
    """Return the arguments with those texts in lower case whose case seldom means anything."""
    if type(arguments) is not dict or arguments.keys().isdisjoint(_WITHOUT_CASE):
        return arguments
    return {
        name: value.lower() if name in _WITHOUT_CASE and type(value) is str else value
        for name, value in arguments.items()
    }


def _lowest(*actions: Action | None) -> Action:
    return min(action for action in actions if action is not None)


def _kind_by_hints(hints: Hints | None, named: Kind) -> Kind:
    """Return the kind by the server's hints; of a tool that only reads, the kind by name is more specific."""
    if hints is None:
        return named
    if hints.read_only is True:
        return Kind.READ if named.writes else named
    if hints.destructive is True or hints.read_only is False:
        return Kind.WRITE if named in (Kind.READ, Kind.UNKNOWN) else named
    return named


def _route(name: str, contract: ToolContract) -> Mapping[str, Any] | None:
    if contract.route is not None:
        return {key: (value,) if isinstance(value, str) else tuple(value) for key, value in contract.route.items()}
    shipped: Mapping[str, Mapping[str, Any]] = word_lists()["dispatchers"]
    for dispatcher, route in shipped.items():
        if name == dispatcher or name.endswith(("__" + dispatcher, "." + dispatcher)):
            return route
    return None


def _call_behind(arguments: Any, route: Mapping[str, Any]) -> tuple[str, Any] | None:
    """Return name and arguments of the tool behind a dispatcher; None if the dispatcher's arguments have no name."""
    if type(arguments) is not dict:
        return None
    for parameter in route["tool"]:
        name = introspect.as_builtin(arguments.get(parameter))
        if type(name) is str and name:
            for candidate in route.get("args", ()):
                if candidate in arguments:
                    return name, _with_other_parameters(arguments, parameter, candidate)
            return name, {key: value for key, value in arguments.items() if key != parameter}
    return None


def _with_other_parameters(arguments: Mapping[str, Any], tool: str, args: str) -> Any:
    """Return the inner arguments, together with the dispatcher's other parameters if it has some (a server's name)."""
    rest = {key: value for key, value in arguments.items() if key not in (tool, args)}
    return [rest, arguments[args]] if rest else arguments[args]
