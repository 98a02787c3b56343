"""The contracts of tools that the program declares in code, by exact name: ``@loopguard.tool(kind="poll")``.

They are apart from the policy, because a program may declare tools at any time: a name costs the same whether it is the
first or the thousandth.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from otel_loopguard.engine.policy.policy import ToolContract

if TYPE_CHECKING:
    from collections.abc import Iterator

MOST_NAMES = 4_096
_NO_CONTRACT = ToolContract()
_TOO_MANY = (
    f"More than {MOST_NAMES} names of tools were declared: the contracts of further names are ignored. If names are "
    'made at run time ("lookup_" and a number), give all these tools one name, or declare them in the policy: '
    '[tools."lookup_*"].'
)


class DeclaredTools:
    """Contracts by name, for the first ``MOST_NAMES`` names. A tool of any later name is judged as undeclared.

    The last names would be the wrong ones to keep: a tool that must run ``once``, declared when its module is imported,
    must not be forgotten because of names that requests add later.
    """

    __slots__ = ("_contracts", "_is_full")

    def __init__(self) -> None:
        self._contracts: dict[str, ToolContract] = {}
        self._is_full = False

    def __iter__(self) -> Iterator[ToolContract]:
        return iter(list(self._contracts.values()))

    def items(self) -> list[tuple[str, ToolContract]]:
        """Return each name with its contract."""
        return list(self._contracts.items())

    def add(self, name: str, contract: ToolContract) -> str | None:
        """Add the contract of a tool, or replace it. Return a warning at the first name beyond the bound, else None."""
        if name in self._contracts or len(self._contracts) < MOST_NAMES:
            self._contracts[name] = contract
            return None
        if self._is_full:
            return None
        self._is_full = True
        return _TOO_MANY

    def get(self, name: str) -> ToolContract:
        """Return the contract of a tool, an empty one if there is none."""
        return self._contracts.get(name, _NO_CONTRACT)
