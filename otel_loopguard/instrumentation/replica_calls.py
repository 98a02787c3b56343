"""Share the calls of replies among the replicas of a gateway, for conversations that the provider keeps.

Such a request has the results of calls, but of the calls only the id of the reply that they came in. The replica that
passes a reply on notes its calls in the shared store: tool, fingerprint of the arguments, and turn. No value is noted.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import orjson

from otel_loopguard.engine.vocabulary import KnownArguments, ToolCall
from otel_loopguard.interrupts import pass_interrupt
from otel_loopguard.store import background
from otel_loopguard.store.store import READ_ONLY, VERSION_SIZE, Newer
from otel_loopguard.turns.messages import WrittenCall

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import TypeAlias

    from otel_loopguard.guard.guard import Guard
    from otel_loopguard.store.store import Store
    from otel_loopguard.turns.message_lists import Caller, Delta, MessageList, Request

    Note: TypeAlias = "tuple[str, bytes]"
    """The name of a cell, which is written once, and what is in it."""


def turn_id(guard: Guard, caller: Caller | None, first: WrittenCall) -> str:
    """Return the id of a turn that begins with this call, in all replicas of a gateway."""
    return guard.compiled.fingerprinter.name(repr((caller, first.id, first.name)))


def notes_of(guard: Guard, one: MessageList, caller: Caller | None, calls: Sequence[WrittenCall]) -> list[Note]:
    """Return a note of each call of a reply, for the other replicas. There are none without a store."""
    compiled = guard.compiled
    named = [call for call in calls if call.id is not None]
    if guard.store is None or not named:
        return []
    notes: list[Note] = []
    if one.kept_turn is None:
        of_turn = one.turn.id if one.turn is not None and one.turn.is_shared else None
        one.kept_turn = of_turn or turn_id(guard, caller, named[0])
    for call in named:
        resolved, arguments = compiled.contracts.identify(ToolCall(call.name, call.arguments))
        data = orjson.dumps([resolved.tool.name, arguments, str(resolved.kind), one.kept_turn])
        notes.append((_key(guard, caller, call.id), data))
    return notes


async def write(store: Store, notes: Sequence[Note]) -> None:
    """Write the notes that are not in the store yet. Must run on the background loop."""
    for key, data in notes:
        await store.swap(key, b"", os.urandom(VERSION_SIZE), data)


async def recall(guard: Guard, request: Request, one: MessageList, delta: Delta, now: float) -> None:
    """Add to ``delta`` the results in a request whose calls another replica has noted, and join their turn."""
    store = guard.store
    if store is None:
        return
    known = {new.result.id for new in delta.new}
    for place in range(len(request.entries)):
        for result in request.message(place).results:
            if result.id is None or result.id in known:
                continue
            reply = await background.on_loop(store.swap(_key(guard, request.caller, result.id), READ_ONLY, b"", b""))
            noted = _read(reply.state) if isinstance(reply, Newer) else None
            if noted is None:
                continue
            tool, arguments, kind, one.kept_turn = noted
            call = WrittenCall(result.id, tool, KnownArguments(arguments, kind))
            new = one.answer_late(call, result, now)
            if new is not None:
                delta.new.append(new)


def _read(data: bytes) -> tuple[str, int, str, str] | None:
    try:
        tool, arguments, kind, turn = orjson.loads(data)
    except (ValueError, TypeError) as error:
        pass_interrupt(error)
        return None
    return tool, arguments, kind, turn


def _key(guard: Guard, caller: Caller | None, call_id: Any) -> str:
    return guard.compiled.fingerprinter.name(repr(("call", caller, call_id)))
