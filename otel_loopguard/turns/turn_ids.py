"""Derive the id of a turn from a request, so that all replicas of a gateway agree on it without asking each other."""

from __future__ import annotations

from typing import TYPE_CHECKING

from otel_loopguard.turns.messages import unmarked

if TYPE_CHECKING:
    from otel_loopguard.turns.message_lists import Request
    from otel_loopguard.turns.messages import WrittenCall


def turn_name(request: Request, place: int, call: WrittenCall) -> str:
    """Return a text that is equal for all requests of a turn, and for no other turn. It holds what users wrote.

    ``place`` is that of the turn's first result, ``call`` is the call of that result. The text is made of the caller,
    the entries up to the message of the user that began the turn, and the id of the call: conversations that begin
    with equal words are told apart by it. With the id of a conversation that message alone is enough, so that
    clients may cut their history.
    """
    caller = request.caller
    began = next((before for before in range(place - 1, -1, -1) if _begins(request, before)), -1)
    named = caller is not None and caller.conversation_id is not None
    entries = request.entries[max(0, began) if named else 0 : began + 1]
    return repr((caller, [unmarked(entry) for entry in entries], call.id, call.name))


def _begins(request: Request, place: int) -> bool:
    message = request.message(place)
    return message.by_user and not message.results
