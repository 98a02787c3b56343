"""A policy made ready for the hot path: contracts, fingerprints and the detectors in their order, worked out once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from otel_loopguard.core.contracts import Contracts
from otel_loopguard.core.detectors import DETECTORS
from otel_loopguard.core.fingerprint import Fingerprinter

if TYPE_CHECKING:
    from collections.abc import Callable

    from otel_loopguard.core.detectors.base import Check
    from otel_loopguard.core.policy import Policy


class Rules:
    """What a turn asks. A turn keeps the rules it began with."""

    __slots__ = ("after", "before", "before_untried", "contracts", "fingerprinter", "own_detectors", "policy")

    def __init__(self, policy: Policy, fingerprinter: Fingerprinter | None = None) -> None:
        self.policy = policy
        self.contracts = Contracts(policy)
        self.fingerprinter = fingerprinter or Fingerprinter(policy.hash_key)
        self.before: tuple[tuple[str, Check], ...] = tuple((one.mode, one.before) for one in DETECTORS if one.before)
        self.before_untried: tuple[tuple[str, Check], ...] = tuple(
            (one.mode, one.before) for one in DETECTORS if one.before and one.untried
        )
        self.after: tuple[tuple[str, Check], ...] = tuple((one.mode, one.after) for one in DETECTORS if one.after)
        self.own_detectors: tuple[Callable[..., Any], ...] = policy.detectors
