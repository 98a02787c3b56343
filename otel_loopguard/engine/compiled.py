"""Prepare a policy once for all calls that it judges: its contracts, its fingerprinter and its detectors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from otel_loopguard.engine.detectors import DETECTORS
from otel_loopguard.engine.detectors.presets import COUNTED
from otel_loopguard.engine.detectors.presets.window import CallWindow
from otel_loopguard.engine.detectors.row import Detector
from otel_loopguard.engine.detectors.run_budget import budgets_of, rows_of
from otel_loopguard.engine.history.history import History
from otel_loopguard.engine.modes import ROWS, Mode
from otel_loopguard.engine.policy.prices import Prices
from otel_loopguard.engine.tools.contracts import Contracts
from otel_loopguard.engine.values.fingerprint import Fingerprinter
from otel_loopguard.engine.vocabulary import Action

if TYPE_CHECKING:
    from otel_loopguard.engine.detectors.row import Check, OncePer
    from otel_loopguard.engine.history.conversation_texts import ConversationTexts
    from otel_loopguard.engine.history.text_blocks import Blocks
    from otel_loopguard.engine.policy.policy import Policy
    from otel_loopguard.engine.rule import Rule
    from otel_loopguard.engine.tools.contracts import Tool
    from otel_loopguard.engine.tools.declared import DeclaredTools
    from otel_loopguard.engine.vocabulary import Trip

    Checks = tuple[tuple[Check, Rule], ...]

_OF_LOSSES = tuple(one for one in DETECTORS if one.judges_lost)
"""The detectors of calls whose result the model has lost. They run whatever the policy's ``order`` is."""


@dataclass(frozen=True, slots=True)  # its fields are read faster than those of a tuple
class ToolChecks:
    """The checks of one tool's calls, each with its rule, in the policy's order."""

    before: Checks
    before_untried: Checks
    """The part of ``before`` that also judges a call which has not run yet in this turn, as most calls have not."""
    after: Checks
    after_news: Checks
    """The part of ``after`` that also judges a first run which succeeded."""
    after_loss: Checks
    """The checks, in place of ``after``, of a run whose earlier result the model has lost."""


class CompiledPolicy:
    """A policy with its contracts, fingerprinter and detectors. A turn keeps the one that it began with."""

    __slots__ = (
        "_detectors", "at_reply", "at_request", "budgets", "contracts", "counts_conversations", "custom",
        "fingerprinter", "judges", "once_per", "over_turns", "policy", "prices", "remembers",
    )  # fmt: skip

    def __init__(
        self, policy: Policy, fingerprinter: Fingerprinter | None = None, declared: DeclaredTools | None = None
    ) -> None:
        self.policy = policy
        self.judges = policy.action is not Action.OFF
        """False if no call is judged."""
        self.over_turns = self.judges and policy.scope == "conversation" and Mode.NO_NOVELTY in (policy.order or Mode)
        """True if outcomes are remembered over the turns of a conversation."""
        self.counts_conversations = self.judges and "conversation" in policy.budget
        """True if what the turns of a conversation spent is."""
        self.remembers = self.over_turns or self.counts_conversations
        """True if either is."""
        self.fingerprinter = fingerprinter or Fingerprinter(policy.hash_key)
        self.contracts = Contracts(policy, self.fingerprinter, declared)
        self.prices = Prices(policy.cost_per_million_tokens, policy.currency)
        self._detectors = (*_detectors_of(policy), *rows_of(policy)) if self.judges else ()
        self.budgets = budgets_of(policy) if self.judges else ()
        self.custom = tuple(one for one in policy.detectors if self.judges and _is_active(one, policy))
        """The user's detectors that run: functions, and rows. They are asked outside of the turn's lock."""
        rows = [*self._detectors, *(one for one in self.custom if isinstance(one, Detector))]
        self.at_request = tuple((one.at_request, policy.rule(one.mode)) for one in rows if one.at_request)
        """The checks of texts, each with its rule, in the policy's order."""
        self.at_reply = tuple((one.at_reply, policy.rule(one.mode)) for one in rows if one.at_reply)
        """The checks of what is being written, each with its rule."""
        self.once_per: dict[str, OncePer] = {mode: row.once_per for mode, row in {**ROWS, **policy.more_rows}.items()}

    def checks_of(self, tool: Tool) -> ToolChecks:
        """Work out the checks of this tool's calls, keep them in ``tool.checks``, and return them."""
        concerned = [one for one in self._detectors if one.concerns is None or one.concerns(tool, self.policy)]
        tool.checks = checks = ToolChecks(
            before=tuple((one.before, tool.rules[one.mode]) for one in concerned if one.before),
            before_untried=tuple((one.before, tool.rules[one.mode]) for one in concerned if one.before and one.untried),
            after=tuple((one.after, tool.rules[one.mode]) for one in concerned if one.after),
            after_news=tuple((one.after, tool.rules[one.mode]) for one in concerned if one.after and one.judges_news),
            after_loss=tuple((one.after, tool.rules[one.mode]) for one in _OF_LOSSES if one.after),
        )
        return checks

    def trip_of_texts(self, texts: ConversationTexts) -> Trip | None:
        """Return the trip of a request by the texts of its conversation: the first one that acts, else the first."""
        trips = [trip for check, rule in self.at_request if (trip := check(texts, rule)) is not None]
        return max(trips, key=lambda trip: trip.action, default=None)

    def trip_of_blocks(self, blocks: Blocks) -> Trip | None:
        """Return the trip of a reply by the equal blocks that it ends in so far: the first one that is found."""
        return next(filter(None, (check(blocks, rule) for check, rule in self.at_reply)), None)

    def new_history(self) -> History:
        """Return the empty history of a turn that begins under this policy."""
        policy, window = self.policy, None
        if policy.counting == "calls":
            window = CallWindow(
                policy.window,
                policy.window_calls,
                counts_refused=policy.records == "all",
                has_poll_mode=Mode.POLL_NO_PROGRESS in (policy.order or Mode),
            )
        return History(policy.max_calls, window)


def _is_active(detector: Any, policy: Policy) -> bool:
    """Return True if a detector of the user runs: a function always, a row if ``order`` is empty or names its mode."""
    return not (isinstance(detector, Detector) and policy.order) or detector.mode in policy.order


def _detectors_of(policy: Policy) -> tuple[Detector, ...]:
    """Return the detectors that this policy runs, in its order."""
    detectors = COUNTED if policy.counting == "calls" else tuple(one for one in DETECTORS if not one.judges_lost)
    if not policy.order:
        return detectors
    named = (one for mode in policy.order for one in detectors if mode == one.mode or mode in one.runs_with)
    return tuple(dict.fromkeys(named))
