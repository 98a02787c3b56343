"""How a turn ended: what its caller and its user are told instead of "done"."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal, NamedTuple, get_args

from otel_loopguard.engine.ledger import NOTHING_SPENT, Ledger
from otel_loopguard.errors import RunStopped

if TYPE_CHECKING:
    from typing import TypeAlias

    from otel_loopguard.engine.history.history import History

End: TypeAlias = Literal["answered", "concluded", "aborted", "cancelled", "failed"]
ANSWERED: Final = "answered"
"""The model's last reply has no calls, or the run has returned."""
CONCLUDED: Final = "concluded"
"""The same, after the guard has withdrawn its tools and nothing new has come since."""
ABORTED: Final = "aborted"
"""The guard ended the run with ``RunStopped``, and the model answered nothing after that, whoever caught it."""
CANCELLED: Final = "cancelled"
"""It was broken off: by a cancelled task, Ctrl-C, a closed stream, or a program that left it without an answer."""
FAILED: Final = "failed"
"""Another exception ended it."""


ENDS: Final[tuple[str, ...]] = get_args(End)


class EndedTurn(NamedTuple):
    """A turn that is over."""

    id: str
    ended_as: End
    """"answered", "concluded", "aborted", "cancelled" or "failed"."""
    calls: int
    """The number of tool calls that ran, those of nested turns included."""
    conversation_id: str | None = None
    """The conversation's id if the program gave one, else None."""
    ledger: Ledger = NOTHING_SPENT
    """The ledger, with its nested turns: requests, tokens, cost, agents."""


class Ending:
    """The place where the end of a turn is written. It outlives the turn, and holds nothing else of it."""

    __slots__ = ("moved_to", "turn")

    def __init__(self) -> None:
        self.moved_to: Ending | None = None
        """The ending of the turn that this one turned out to be a part of, or None."""
        self.turn: EndedTurn | None = None
        """None while the turn goes on."""


def ending_of(error: BaseException | None, history: History, *, is_aborted: bool) -> End:
    """Return how a turn with this history has ended.

    ``error``: the exception that left its code, or None. ``is_aborted``: the guard's last decision was to end the run.
    """
    kind = type(error)  # not isinstance(): it asks the object
    if is_aborted or issubclass(kind, RunStopped):
        return "aborted"
    if error is not None:
        return "failed" if issubclass(kind, Exception) else "cancelled"
    return "concluded" if 0 <= history.concluded_at == history.news else "answered"
