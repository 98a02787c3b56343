"""A turn among others: nested in one, or with others in it; and what its user says meanwhile."""

from __future__ import annotations

from threading import Lock
from typing import TYPE_CHECKING

from otel_loopguard.core.model import Action
from otel_loopguard.core.turn.in_flight import CallsInFlight
from otel_loopguard.core.turn.nesting import ParentCall, TurnTree
from otel_loopguard.core.turn.user_messages import UserMessages

if TYPE_CHECKING:
    from typing_extensions import Self

    from otel_loopguard.core.guard import Guard
    from otel_loopguard.core.model import Decision, ToolCall
    from otel_loopguard.core.turn.compiled import CompiledPolicy
    from otel_loopguard.core.turn.user_messages import UserMessage


class Kin:
    """What a turn is beside a judge of calls: something that is opened, nested, spoken to and closed."""

    __slots__ = (
        "__weakref__",
        "_compiled",
        "_family",
        "_guard",
        "_history",
        "_lock",
        "_nest",
        "_pending",
        "_said",
        "_words",
        "enforced",
        "id",
        "source",
    )  # fmt: skip

    def __init__(self, guard: Guard, turn_id: str, source: str, *, enforced: bool, nest: ParentCall | None) -> None:
        self.id = turn_id
        self.source = source
        self.enforced = enforced
        """Whether more may be done than to observe."""
        self._guard = guard
        self._compiled: CompiledPolicy = guard.compiled
        self._history = guard.compiled.history()
        self._lock = Lock()
        self._pending = CallsInFlight()
        self._nest = nest
        self._family: TurnTree | None = None if nest is None else nest.family
        self._said: UserMessages | None = None if nest is None else nest.family.said
        self._words: dict[str, UserMessages] = {}
        """``_said``, where it comes into being: a dict needs no lock for that, and a signal handler could take none."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def child(self, call: ToolCall) -> Self:
        """The turn of a run that is nested inside a pending call: its own history; its news is news of that call."""
        said = self._spoken()
        with self._lock:
            family = self._family = self._family or TurnTree(said)
        nest = ParentCall(family, self._history, self._lock, self._pending.get(call), self._nest)
        return type(self)(self._guard, f"{self.id}/{family.number()}", self.source, enforced=self.enforced, nest=nest)

    def say(self, text: str, *, stop: bool = False) -> UserMessage:
        """The user's word: the model reads it with the next result; with ``stop`` further calls are refused with it.

        Nested turns hear it, too. It is not taken where the turn is over.
        """
        return self._spoken().add(text, stop=stop)

    def redeliver(self, decision: Decision) -> None:
        """There was no place for what a decision says: it comes with the next text, the user's words each by itself."""
        sentences = decision.said
        if decision.action is Action.NUDGE and sentences and isinstance(sentences[-1], str):
            about = f"About the earlier call of {decision.record.tool}: {sentences[-1]}"
            sentences = (*sentences[:-1], about)
        if sentences:
            self._spoken().put_back(sentences)

    def _spoken(self) -> UserMessages:
        if self._said is None:
            self._said = self._words.setdefault("said", UserMessages())
        return self._said

    def close(self) -> list[str]:
        """The turn is over. Gives back the words that were not delivered; those of a nested one wait on."""
        self._guard.forget(self)
        with self._lock:
            self._pending.clear()
        return [] if self._nest is not None else self._spoken().close()
