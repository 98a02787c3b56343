"""A policy made ready for the hot path: contracts, fingerprints and the detectors in their order, worked out once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from otel_loopguard.core.contracts import Contracts
from otel_loopguard.core.detectors import DETECTORS
from otel_loopguard.core.detectors.counted import COUNTED
from otel_loopguard.core.fingerprint import Fingerprinter
from otel_loopguard.core.history import History
from otel_loopguard.core.model import Mode
from otel_loopguard.core.tally import Tally

if TYPE_CHECKING:
    from collections.abc import Callable

    from otel_loopguard.core.detectors.base import Check, Detector
    from otel_loopguard.core.policy import Policy


class Rules:
    """What a turn asks. A turn keeps the rules it began with."""

    __slots__ = (
        "after", "after_news", "before", "before_untried", "contracts", "fingerprinter", "own_detectors", "policy",
    )  # fmt: skip

    def __init__(self, policy: Policy, fingerprinter: Fingerprinter | None = None) -> None:
        self.policy = policy
        self.contracts = Contracts(policy)
        self.fingerprinter = fingerprinter or Fingerprinter(policy.hash_key)
        detectors = asked(policy)
        self.before: tuple[tuple[str, Check], ...] = tuple((one.mode, one.before) for one in detectors if one.before)
        self.before_untried: tuple[tuple[str, Check], ...] = tuple(
            (one.mode, one.before) for one in detectors if one.before and one.untried
        )
        self.after: tuple[tuple[str, Check], ...] = tuple((one.mode, one.after) for one in detectors if one.after)
        self.after_news: tuple[tuple[str, Check], ...] = tuple(
            (one.mode, one.after) for one in detectors if one.after and one.judges_news
        )
        self.own_detectors: tuple[Callable[..., Any], ...] = policy.detectors

    def history(self) -> History:
        """The memory of a turn that begins under this policy."""
        policy = self.policy
        history = History(policy.max_calls)
        if policy.counting == "calls":
            history.tally = Tally(policy.window, policy.window_calls)
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
