"""A policy made ready for the hot path: contracts, fingerprints and the detectors in their order, worked out once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from otel_loopguard.core.detectors import DETECTORS
from otel_loopguard.core.detectors.counted import COUNTED
from otel_loopguard.core.history.update import History
from otel_loopguard.core.history.window import CallWindow
from otel_loopguard.core.model import Action, Mode
from otel_loopguard.core.tools.contracts import Contracts
from otel_loopguard.core.values.fingerprint import Fingerprinter

if TYPE_CHECKING:
    from collections.abc import Callable

    from otel_loopguard.core.detectors.base import Check, Detector
    from otel_loopguard.core.policy.policy import Policy, Rule
    from otel_loopguard.core.tools.contracts import Tool


class Checks(NamedTuple):
    """The questions that are asked about the calls of one tool, each with its rule, in the policy's order."""

    before: tuple[tuple[Check, Rule], ...]
    before_untried: tuple[tuple[Check, Rule], ...]
    """Those that have something to say of a call that never ran, as most never did."""
    after: tuple[tuple[Check, Rule], ...]
    after_news: tuple[tuple[Check, Rule], ...]
    """Those that have something to say of a first run that succeeded."""


class CompiledPolicy:
    """What a turn asks. A turn keeps the rules it began with."""

    __slots__ = ("_detectors", "contracts", "fingerprinter", "judges", "own_detectors", "policy")

    def __init__(self, policy: Policy, fingerprinter: Fingerprinter | None = None) -> None:
        self.policy = policy
        self.judges = policy.action is not Action.OFF
        self.contracts = Contracts(policy)
        self.fingerprinter = fingerprinter or Fingerprinter(policy.hash_key)
        self.own_detectors: tuple[Callable[..., Any], ...] = policy.detectors
        self._detectors = asked(policy)

    def checks_of(self, tool: Tool) -> Checks:
        """What is asked about this tool's calls: worked out at the first of them, and kept with the tool."""
        mine = [one for one in self._detectors if one.concerns is None or one.concerns(tool)]
        tool.checks = checks = Checks(
            before=tuple((one.before, tool.rules[one.mode]) for one in mine if one.before),
            before_untried=tuple((one.before, tool.rules[one.mode]) for one in mine if one.before and one.untried),
            after=tuple((one.after, tool.rules[one.mode]) for one in mine if one.after),
            after_news=tuple((one.after, tool.rules[one.mode]) for one in mine if one.after and one.judges_news),
        )
        return checks

    def history(self) -> History:
        """The memory of a turn that begins under this policy."""
        policy = self.policy
        history = History(policy.max_calls)
        if policy.counting == "calls":
            history.tally = CallWindow(policy.window, policy.window_calls)
            history.counts_refused = policy.records == "all"
            history.polls_apart = Mode.POLL_NO_PROGRESS in (policy.order or Mode)
        return history


def asked(policy: Policy) -> tuple[Detector, ...]:
    """The detectors that this policy asks, in its order."""
    detectors = COUNTED if policy.counting == "calls" else DETECTORS
    if not policy.order:
        return detectors
    by_mode = {str(one.mode): one for one in detectors}
    if policy.counting == "results":
        by_mode[Mode.PING_PONG.value] = by_mode[Mode.CYCLE.value]  # one detector finds both
    return tuple(dict.fromkeys(by_mode[mode] for mode in policy.order if mode in by_mode))
