"""How many calls it takes, none of them a repeat, until a mode may have something to say: by tool, worked out once."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from otel_loopguard.core.model import Mode
from otel_loopguard.core.policy.policy import Rule

if TYPE_CHECKING:
    from otel_loopguard.core.policy.policy import Policy
    from otel_loopguard.core.tools.contracts import Tool

_MOST_TOOLS = 4_096
_NEVER = 1 << 30


class Tools:
    """The tools that were called so far, with their limits under one policy."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self._limits: dict[Tool, Limits] = {}
        self.simple: dict[str, Limits] = {}
        """By the name of the call: tools that are what their calls say, no gateway, and no target to look for."""
        self.calls = self.errors = self.equal = self.row = self.turn = _NEVER
        """The least limits of any of them; ``row`` is that of ``barren``, too."""

    def limits(self, name: str, tool: Tool) -> Limits:
        """The limits of a tool that was called by this name; kept, within a bound, because models make names up."""
        limits = self._limits.get(tool)
        if limits is None:
            if len(self._limits) >= _MOST_TOOLS:
                self._limits.clear()
                self.simple.clear()
            limits = self._limits[tool] = limits_of(tool, self._policy)
            self.calls = min(self.calls, limits.calls)
            self.errors = min(self.errors, limits.errors)
            self.equal = min(self.equal, limits.equal)
            self.row = min(self.row, limits.row, limits.barren)
            self.turn = min(self.turn, limits.turn)
        if tool.name == name and tool.route is None and tool.contract.target is None:
            self.simple[name] = limits
        return limits


class Limits(NamedTuple):
    """A tool, and how many calls that are no repeats it takes until a mode may trip on one of its own."""

    name: str
    tool: Tool
    once: int
    """Calls in a turn that calls each tool only once."""
    calls: int
    """Calls of this tool."""
    errors: int
    """Errors of this tool since it last succeeded."""
    equal: int
    """Equal results of this tool in a row."""
    row: int
    """Calls in a row, of any tools, that failed or only thought."""
    barren: int
    """Such calls in the turn."""
    turn: int
    """Calls in the turn."""


def limits_of(tool: Tool, policy: Policy) -> Limits:
    """What the policy says of a tool."""
    calls, errors, equal, row, barren, turn = (_counted if policy.counting == "calls" else _judged)(tool, policy)
    query = _rule(tool, Mode.SIMILAR_QUERY, policy)
    calls = min(calls, _cap(tool, policy), _NEVER if tool.contract.query is None else _least(query.nudge, query.block))
    once = 1 if min(calls, errors, equal) <= 1 else min(row, barren, turn)
    return Limits(tool.name, tool, once, calls, errors, equal, row, barren, turn)


def _judged(tool: Tool, policy: Policy) -> tuple[int, ...]:
    errors, novelty = _rule(tool, Mode.ERROR_REPEAT, policy), _rule(tool, Mode.NO_NOVELTY, policy)
    breaker = _rule(tool, Mode.GLOBAL_CIRCUIT_BREAKER, policy)
    return (
        1 if errors.block == 1 else _NEVER,
        _least(errors.nudge, (errors.block or _NEVER) - 1),
        _least(errors.nudge_same_result),
        _least(novelty.nudge, breaker.nudge),
        _least(breaker.no_news_nudge),
        policy.max_calls + 1 if policy.max_calls else _NEVER,
    )


def _counted(tool: Tool, policy: Policy) -> tuple[int, ...]:
    counts = [_rule(tool, mode, policy) for mode in (Mode.GENERIC_REPEAT, Mode.POLL_NO_PROGRESS, Mode.PING_PONG)]
    least = min(_least(rule.nudge, rule.block, rule.abort) for rule in counts)  # 1: without any repeat
    breaker, most = _rule(tool, Mode.GLOBAL_CIRCUIT_BREAKER, policy), policy.max_calls
    turn = _least(breaker.block, most and most + 1, most and math.ceil(most * (breaker.nudge_at_share or 0)))
    return 1 if least == 1 else _NEVER, _NEVER, _NEVER, _NEVER, _NEVER, turn


def _cap(tool: Tool, policy: Policy) -> int:
    cap, rule = tool.contract.cap, _rule(tool, Mode.RETRY_LIMIT, policy)
    return _NEVER if cap is None else min(cap + 1, _least(math.ceil(cap * (rule.nudge_at_share or 0))))


def _rule(tool: Tool, mode: Mode, policy: Policy) -> Rule:
    return tool.rules[mode] if not policy.order or mode in policy.order else _SILENT


_SILENT = Rule()


def _least(*limits: int | None) -> int:
    return min((limit for limit in limits if limit), default=_NEVER)
