"""The limits of one mode, as a row of ``detectors`` has them by default and as a policy changes them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from otel_loopguard.engine.settings import ACTION, Setting

if TYPE_CHECKING:
    from collections.abc import Mapping

    from otel_loopguard.engine.vocabulary import Action, ActionWord

OF_EVERY_MODE: Mapping[str, Setting] = {
    "nudge": Setting.count("The run after which a sentence is added to the result."),
    "block": Setting.count("The run that is refused."),
    "action": replace(ACTION, meaning="This mode's own ceiling; never above the policy's."),
    "once": Setting.flag("This mode nudges once a turn, and not again at 2x and 4x."),
}


class Rule:
    """The limits of one mode. ``Rule(nudge=2, block=3)``: the 2nd equal run is told, the 3rd refused; 0 = never.

    Settings that only some modes have, such as ``block_after_reads``, are keywords and attributes, too: the page on
    policies lists them. A setting that is left open is None, and has its default.
    """

    nudge: int | None
    block: int | None
    action: Action | None
    once: bool | None

    def __init__(
        self,
        nudge: int | None = None,
        block: int | None = None,
        action: Action | ActionWord | None = None,
        *,
        once: bool | None = None,
        **own: Any,
    ) -> None:
        # The policy or contract checks the values, because the valid settings depend on the mode.
        parsed = ACTION.parse(action)
        vars(self).update(nudge=nudge, block=block, action=action if parsed is None else parsed, **own, once=once)

    @property
    def settings(self) -> dict[str, Any]:
        """The settings that are not None, by name."""
        return {name: value for name, value in vars(self).items() if value is not None}

    def over(self, base: Rule) -> Rule:
        """Return this rule, with its open settings filled from ``base``."""
        return Rule(**{**vars(base), **self.settings})

    if TYPE_CHECKING:  # the settings of a mode are in its row, which no type checker sees

        def __getattr__(self, name: str) -> Any: ...

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"a Rule cannot be changed: make a new one, Rule({name}={value!r})")

    def __eq__(self, other: object) -> bool:
        return self.settings == other.settings if isinstance(other, Rule) else NotImplemented

    def __hash__(self) -> int:
        return hash(frozenset(self.settings.items()))

    def __repr__(self) -> str:
        return f"Rule({', '.join(f'{name}={value!r}' for name, value in self.settings.items())})"
